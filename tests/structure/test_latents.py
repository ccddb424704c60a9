"""Learned latents that read the argument of forward in one branch alone: it is a memory that they read, and no map of the branch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen

WIDTH = 16


class Latents(nn.Module):
    """Two blocks over eight latents; the first one alone reads what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(8, WIDTH) * 0.02)
        self.query, self.pair, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(5, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        z = self.latents.expand(len(x), -1, -1)
        k, v = self.pair(x).chunk(2, -1)
        z = z + self.out(torch.softmax(self.query(self.norms[0](z)) @ k.mT / 4.0, -1) @ v)
        for norm, net in zip(self.norms[1:], self.nets, strict=False):
            z = z + net(norm(z))
        return self.norms[-1](z)


def test_what_comes_in_is_a_memory() -> None:
    report = screen.check(Latents(), example_inputs=torch.randn(2, 7, 5))
    first = report.streams[0].kinds[0].sublayers[0]
    assert first.role == "cross_attention" and first.m is not None
    assert not [f for f in report.findings if f.code == "D301" and f.outcome == "cannot_tell"]
