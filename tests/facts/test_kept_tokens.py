"""Tokens that are kept aside while a branch adds to the others: what was cut from the stream is the stream again where it is joined."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen

Join = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(the stream [batch, tokens, width], its other tokens, what the branch adds to them) -> the stream."""
WIDTH = 32


class Block(nn.Module):
    def __init__(self, join: Join, cut: slice) -> None:
        super().__init__()
        self.join, self.cut = join, cut
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.conv, self.up, self.down = nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        others = x[:, self.cut]
        x = self.join(x, others, self.conv(self.n1(others).transpose(1, 2)).transpose(1, 2))
        return x + self.down(torch.relu(self.up(self.n2(x))))


class Model(nn.Module):
    def __init__(self, join: Join, cut: slice) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block(join, cut) for _ in range(6)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def _gain(join: Join, cut: slice) -> tuple[object, str]:
    torch.manual_seed(0)
    report = screen.check(Model(join, cut), example_inputs=torch.zeros(2, 9, WIDTH))
    claim = next(c for c in report.claims if (c.claim, c.weights) == ("identity_gain", "start"))
    return claim.value, claim.status


KEPT: dict[str, tuple[Join, slice]] = {
    "the first": (lambda x, o, f: torch.cat([x[:, :1], o + f], 1), slice(1, None)),
    "the last two": (lambda x, o, f: torch.cat([o + f, x[:, -2:]], 1), slice(None, -2)),
}
OTHERWISE: dict[str, tuple[Join, slice]] = {
    "in another order": (lambda x, o, f: torch.cat([o + f, x[:, :1]], 1), slice(1, None)),
    "one twice": (lambda x, o, f: torch.cat([x[:, :1], o + f], 1), slice(None, -1)),
    "one doubled": (lambda x, o, f: torch.cat([2 * x[:, :1], o + f], 1), slice(1, None)),
}


@pytest.mark.parametrize("name", KEPT)
def test_tokens_that_are_kept(name: str) -> None:
    assert _gain(*KEPT[name]) == (1.0, "proved")


@pytest.mark.parametrize("name", OTHERWISE)
def test_tokens_that_are_not_put_back(name: str) -> None:
    value, status = _gain(*OTHERWISE[name])
    assert (value, status) != (1.0, "proved"), name
