"""Logits that are cut so far out that one key gets all long before, and the words for what makes logits large."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import Report

WIDTH = 32


class Block(nn.Module):
    """Attention whose logits a function cuts; perhaps with norms on queries and keys."""

    def __init__(self, cap: float, normed: bool = False) -> None:
        super().__init__()
        self.norm, self.cap = nn.LayerNorm(WIDTH), cap
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)] if normed else [nn.Identity(), nn.Identity()])

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        logits = self.norms[0](self.q(h)) @ self.norms[1](self.k(h)).mT * WIDTH**-0.5
        return x + self.o(logits.clamp(-self.cap, self.cap).softmax(-1) @ self.v(h))


class Biased(nn.Module):
    """Attention to a norm that a condition scales by at most 1 and shifts: not every map lifts its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Linear(8, WIDTH), nn.Linear(8, WIDTH, bias=False)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        h = F.layer_norm(x, (WIDTH,)) * self.scale(F.layer_norm(c, (8,))).sigmoid() + self.shift(F.layer_norm(c, (8,)))
        return x + self.o((self.q(h) @ self.k(h).mT * WIDTH**-0.5).softmax(-1) @ self.v(h))


class Stack(nn.Module):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.embed, self.blocks, self.norm = nn.Embedding(20, WIDTH), nn.ModuleList(blocks), nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor, *given: Tensor) -> Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, *given)
        out: Tensor = self.norm(x)
        return out


def read(model: nn.Module, *given: Tensor) -> Report:
    return screen.check(model, example_inputs=(torch.zeros(2, 7, dtype=torch.long), *given), spot_check=False)


@pytest.mark.parametrize(("cap", "normed", "outcome"), [(5e4, False, "conditional"), (50.0, False, "holds"), (5e4, True, "holds")])
def test_a_cap_that_is_never_met_in_time_bounds_nothing(cap: float, normed: bool, outcome: str) -> None:
    report = read(Stack(*(Block(cap, normed) for _ in range(3))))
    (found,) = {(f.outcome, "cut at 5e+04" in f.message) for f in report.findings if f.code == "L201"}
    assert found == (outcome, outcome == "conditional")
    assert next(c for c in report.channels if c.id == "L").state == ("conditional" if outcome == "conditional" else "closed")


def test_both_maps_of_a_product_lift_its_logits() -> None:
    report = read(Stack(*(Biased() for _ in range(3))), torch.zeros(2, 1, 8))
    (message,) = {f.message for f in report.findings if f.code == "L201"}
    assert all(f"blocks.0.{name}.weight" in message for name in ("shift", "q", "k"))
    assert "scale.weight" not in message


class Two(nn.Module):
    """Logits that are products of heads of two sizes, summed."""

    def __init__(self, other: int) -> None:
        super().__init__()
        self.norm, self.other = nn.LayerNorm(WIDTH), other
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.p, self.r = nn.Linear(WIDTH, other), nn.Linear(WIDTH, other)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        logits = self.q(h) @ self.k(h).mT * WIDTH**-0.5 + self.p(h) @ self.r(h).mT * self.other**-0.5
        return x + self.o(logits.softmax(-1) @ self.v(h))


@pytest.mark.parametrize(("other", "told"), [(8, False), (WIDTH, True)])
def test_a_size_of_norms_is_proposed_where_all_queries_have_it(other: int, told: bool) -> None:
    report = read(Stack(*(Two(other) for _ in range(3))))
    (remedy,) = {f.remedy for f in report.findings if f.code == "L201"}
    assert ("nn.RMSNorm(" in remedy) is told
