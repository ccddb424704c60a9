"""A context that is made once, of what a stream begins with, and read by several of its branches: no state of the stream. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH = 16


class Layer(nn.Module):
    """Attention of N(x), its queries from a context where there is one, and a feed-forward."""

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.reads, self.first, self.second = reads, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        y = self.first(x)
        q = context if self.reads else self.q(y)
        x = x + self.o(torch.softmax(q @ self.k(y).mT * WIDTH**-0.5, -1) @ self.v(y))
        return x + self.feed(self.second(x))


class Shared(nn.Module):
    """Every second layer, or the last one alone, reads a filtered image of the first state."""

    def __init__(self, readers: tuple[bool, ...], kept: bool) -> None:
        super().__init__()
        self.kept = kept
        self.patch, self.context = nn.Conv1d(8, WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.layers = nn.ModuleList([Layer(r) for r in readers])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        context = (torch.relu(self.context(x)) + (x if self.kept else 0.0)).mT
        x = x.mT
        for layer in self.layers:
            x = layer(x, context)
        return x


def said(*readers: bool, kept: bool = False) -> list[list[str]]:
    report = screen.check(Shared(readers, kept), example_inputs=torch.zeros(2, 8, 11))
    return [[f"{s.role}:{s.placement}" for s in k.sublayers] for k in report.streams[0].kinds for _ in range(k.count)]


@pytest.mark.parametrize("kept", [False, True])
def test_a_context_that_several_branches_read_is_made_before_all_of_them(kept: bool) -> None:
    """The first branch that read it was told to read the stream without a norm; the others were not."""
    assert said(False, True, False, True, False, True, kept=kept) == [["attention:pre", "ffn:pre"]] * 6
