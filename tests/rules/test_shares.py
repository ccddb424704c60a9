"""Softmaxes of trained numbers, which read no data, beside routers, which do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH, PLACES = 32, 8


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))


class Paths(nn.Module):
    """Two nets of one norm, each with a share: of trained numbers, of a trained table of places, or of a map of what they read."""

    def __init__(self, by: str) -> None:
        super().__init__()
        self.by, self.norm, self.one, self.two = by, nn.LayerNorm(WIDTH), net(), net()
        self.mix, self.table, self.map = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(PLACES, 2)), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        shares = F.softmax(self.map(h) if self.by == "data" else self.mix if self.by == "numbers" else self.table, -1)
        return x + shares[..., :1] * self.one(h) + shares[..., 1:] * self.two(h)


class Places(nn.Module):
    """Places are weighed by a softmax of a trained table."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.value, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.table = nn.Parameter(torch.zeros(PLACES, PLACES))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.out(self.table.softmax(-1) @ self.value(self.norm(x)))


def _said(block: nn.Module, other: nn.Module, code: str) -> list[tuple[str, str]]:
    report = screen.check(nn.Sequential(block, other), example_inputs=torch.randn(2, PLACES, WIDTH))
    return [(f.outcome, f.message) for f in report.findings if f.code == code]


@pytest.mark.parametrize("by", ["numbers", "table"])
def test_shares_of_paths_by_trained_numbers_are_no_router(by: str) -> None:
    [(outcome, message)] = _said(Paths(by), Paths(by), "L201")
    assert outcome == "not_applicable" and "made of data" in message


def test_a_trained_table_of_places_is_named_and_no_map() -> None:
    [(outcome, message)] = _said(Places(), Places(), "L201")
    assert outcome == "conditional" and "`0.table` alone" in message and "map that makes" not in message


def test_a_router_that_both_nets_share_reads_what_is_normed() -> None:
    """The logits of the second net are those of the first one: made of a norm, whatever has been added to the stream between."""
    x, block = torch.randn(2, PLACES, WIDTH, dtype=torch.float64), Paths("data").double()
    small, large = (block.map(block.norm(c * x)).abs().amax() for c in (1.0, 1e6))
    assert float(large) == pytest.approx(float(small), rel=1e-3)
    for code in ("L201", "L202"):
        assert {o for o, _ in _said(Paths("data"), Paths("data"), code)} == {"conditional" if code == "L201" else "holds"}
