"""A chain that begins with a norm and carries it on, with a skip around all of it: the identity path leads past, and it is no post-norm in disguise.
And what a block does once is told once, however often it is stacked."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH = 16


class Refined(nn.Module):
    """Two nets refine what the norm gave; both, and that itself, are added to the stream."""

    def __init__(self, around: bool = True) -> None:
        super().__init__()
        one = lambda: nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))  # noqa: E731
        self.norm, self.nets, self.around = nn.LayerNorm(WIDTH), nn.ModuleList(one() for _ in range(2)), around

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        for net in self.nets:
            h = h + net(h)
        return x + h if self.around else h


class OneGain(Refined):
    """One norm for both nets."""

    def forward(self, x: Tensor) -> Tensor:
        for net in self.nets:
            x = x + net(self.norm(x))
        return x


def report_of(block: nn.Module) -> Report:
    torch.manual_seed(0)
    return screen.check(block, example_inputs=torch.randn(2, 5, WIDTH), depth=8)


def test_a_skip_around_a_chain_that_begins_with_a_norm_is_one() -> None:
    kept, lost = ({(f.code, f.outcome) for f in report_of(Refined(around)).findings} for around in (True, False))
    assert ("D101", "holds") in kept and ("G101", "violated") not in kept
    assert ("G101", "violated") in lost


def test_one_gain_is_told_once_of_a_block_that_is_stacked() -> None:
    assert len([f for f in report_of(OneGain()).findings if f.code == "G125" and f.outcome == "violated"]) == 1
