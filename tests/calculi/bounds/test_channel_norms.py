"""Batch and instance norms: n entries of a channel have squares that sum to no more than n, with the statistics of a batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, TOKENS = 32, 16


class Block(nn.Module):
    """A filter and a norm of its channels, as nodes [rows, channels] or as [samples, channels, places]."""

    def __init__(self, norm: nn.Module, end: Callable[[Block, Tensor], Tensor]) -> None:
        super().__init__()
        self.map, self.norm, self.end = nn.Linear(WIDTH, WIDTH), norm, end

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self, x)


ROWS: dict[str, tuple[nn.Module, Callable[[Block, Tensor], Tensor]]] = {
    "nodes": (nn.BatchNorm1d(WIDTH), lambda m, x: F.relu(m.norm(m.map(x).flatten(0, 1))).view_as(x)),
    "places": (nn.BatchNorm1d(WIDTH), lambda m, x: m.norm(m.map(x).mT).mT),
    "no gain": (nn.BatchNorm1d(WIDTH, affine=False), lambda m, x: m.norm(m.map(x).mT).mT),
    "instance": (nn.InstanceNorm1d(WIDTH, affine=True), lambda m, x: m.norm(m.map(x).mT).mT),
}


@pytest.mark.parametrize(("norm", "branch"), list(ROWS.values()), ids=list(ROWS))
def test_behind_one_a_branch_is_bounded(norm: nn.Module, branch: Callable[[Block, Tensor], Tensor]) -> None:
    block = Block(norm, lambda m, x: x + branch(m, x))
    x = torch.randn(2, TOKENS, WIDTH)
    x[0, 0] *= 1e4
    assert branch(block.train(), x).detach().abs().max() <= (2 * TOKENS) ** 0.5
    report = screen.check(block, example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=4)
    assert next(c.value for c in report.claims if c.claim == "output_bounded") is True
    assert next(c.value for c in report.claims if c.claim == "growth" and c.weights == "all") == "linear"


def test_a_map_behind_it_is_not() -> None:
    block = Block(nn.BatchNorm1d(WIDTH), lambda m, x: x + m.map(m.norm(x.mT).mT))
    report = screen.check(block, example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=4)
    assert next(c.value for c in report.claims if c.claim == "output_bounded") is False
