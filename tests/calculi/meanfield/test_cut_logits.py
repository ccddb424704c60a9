"""Logits that are cut off at numbers, in every spelling: so far out that none gets there, or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH, TOKENS = 32, 8
LOW = torch.finfo(torch.float32).min


class Block(nn.Module):
    def __init__(self, cut: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.norm, self.cut = nn.LayerNorm(WIDTH), cut

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        u = self.q(y) @ self.k(y).transpose(-1, -2) / WIDTH**0.5
        return x + self.o(self.cut(u).softmax(-1) @ self.v(y))


def read(cut: Callable[[Tensor], Tensor]) -> Report:
    torch.manual_seed(0)
    return screen.check(Block(cut), example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=4, spot_check=False)


def told(report: Report, claim: str) -> object:
    return next(c.value for c in report.claims if c.claim == claim)


FAR: dict[str, Callable[[Tensor], Tensor]] = {
    "maximum": lambda u: torch.maximum(u, torch.tensor(LOW)),
    "max": lambda u: torch.max(u, torch.full((), LOW)),
    "filled": lambda u: torch.maximum(torch.full_like(u, LOW), u),
    "minimum": lambda u: torch.minimum(u, torch.tensor(1e4)),
    "clamp": lambda u: u.clamp(min=-1e4),
    "tensor": lambda u: u.clamp(min=torch.tensor(-1e4)),
}
BOTH: dict[str, Callable[[Tensor], Tensor]] = {
    "clamp": lambda u: u.clamp(-50.0, 50.0),
    "one after the other": lambda u: torch.maximum(torch.minimum(u, torch.tensor(50.0)), torch.tensor(-50.0)),
}


@pytest.mark.by_the_day
@pytest.mark.parametrize("cut", list(FAR.values()), ids=list(FAR))
def test_at_one_end_they_grow_and_start_as_without(cut: Callable[[Tensor], Tensor]) -> None:
    report, plain = read(cut), read(lambda u: u)
    assert told(report, "logits_bounded") is False
    assert told(report, "one_minus_cos") == told(plain, "one_minus_cos") is not None


@pytest.mark.parametrize("cut", list(BOTH.values()), ids=list(BOTH))
def test_at_both_ends_they_are_bounded(cut: Callable[[Tensor], Tensor]) -> None:
    report, plain = read(cut), read(lambda u: u)
    assert told(report, "logits_bounded") is True
    assert told(report, "one_minus_cos") == told(plain, "one_minus_cos") is not None


def test_what_they_reach_is_unknown() -> None:
    """Beside a mask an end of −5 lets through what the mask leaves out."""
    assert told(read(lambda u: u.clamp(-0.5, 0.5)), "one_minus_cos") is None
    assert told(read(lambda u: torch.maximum(u, torch.tensor(0.0))), "one_minus_cos") is None
    triangle = torch.full((TOKENS, TOKENS), LOW).triu(1)
    assert told(read(lambda u: (u + triangle).clamp(min=-5.0)), "one_minus_cos") is None
    assert told(read(lambda u: torch.maximum(u + triangle, torch.tensor(LOW))), "one_minus_cos") is not None


@pytest.mark.by_the_day
@pytest.mark.parametrize("claim", ["one_minus_cos", "gradient_ratio"])
def test_queries_and_keys_that_are_cut_off_far_out_start_as_without_under_a_causal_mask(claim: str) -> None:
    class Causal(Block):
        def forward(self, x: Tensor) -> Tensor:
            y = self.norm(x)
            q, k, v = (self.cut(line(y)) for line in (self.q, self.k, self.v))
            return x + self.o(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))

    def read(cut: Callable[[Tensor], Tensor]) -> Report:
        torch.manual_seed(0)
        return screen.check(Causal(cut), example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=4, spot_check=False)

    plain = told(read(lambda u: u), claim)
    assert plain is not None and told(read(lambda u: u.clamp(-8.0, 8.0)), claim) == plain
    assert told(read(lambda u: u.clamp(-0.5, 0.5)), claim) is None
