"""`nan_to_num` leaves every number as it is: a branch behind it is as large as one without; what was infinite in front of it is no small number."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH = 32


class Block(nn.Module):
    """Attention, times one condition, to a norm that another scales, perhaps guarded; or some entries of which are −∞ before the guard."""

    def __init__(self, guard: str) -> None:
        super().__init__()
        self.guard, self.norm = guard, nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o, self.scale, self.share = (nn.Linear(WIDTH, WIDTH) for _ in range(6))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        h = self.norm(x) * (1 + self.scale(c))
        made = (self.q(h) @ self.k(h).mT * WIDTH**-0.5).softmax(-1) @ self.v(h)
        if self.guard == "infinite":
            return x + torch.nan_to_num(torch.tanh(made).masked_fill(torch.arange(WIDTH) < 4, -math.inf))
        return x + self.share(c) * self.o(torch.nan_to_num(made) if self.guard == "guarded" else made)


class Stack(nn.Module):
    def __init__(self, guard: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(guard) for _ in range(3))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, c)
        return x


def read(guard: str) -> Report:
    return screen.check(Stack(guard), example_inputs=(torch.randn(2, 7, WIDTH), torch.randn(2, 7, WIDTH)), spot_check=False)


def test_a_guard_changes_no_number() -> None:
    plain, guarded = ([(f.code, f.outcome, f.message) for f in read(g).findings if f.code in ("R201", "R301", "R401")] for g in ("none", "guarded"))
    assert plain == guarded


def test_what_was_infinite_is_not_bounded() -> None:
    (sub,) = read("infinite").streams[0].kinds[0].sublayers
    assert sub.output_set.bounded != "yes"
