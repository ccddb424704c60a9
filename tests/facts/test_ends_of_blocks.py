"""A norm at the end of each block bounds what it hands on, whatever stands inside; gains behind all of a branch are gains."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH = 32


def net() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))


class Around(nn.Module):
    """Post-norm around two pre-norm branches, by hand in a loop; `ends`: the norm is there."""

    def __init__(self, ends: bool) -> None:
        super().__init__()
        self.ones, self.twos = (nn.ModuleList(net() for _ in range(6)) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) if ends else nn.Identity() for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        for one, two, norm in zip(self.ones, self.twos, self.norms, strict=True):
            y = x + one(x)
            x = norm(2 * x + (y + two(y)))
        return x


class Gained(nn.Module):
    """A gate of a group norm's halves, times a number for each channel; `mapped`: a map stands behind."""

    def __init__(self, mapped: bool) -> None:
        super().__init__()
        self.up, self.norm, self.scale = nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.GroupNorm(1, 2 * WIDTH), nn.Parameter(torch.full((WIDTH, 1), 1e-3))
        self.down = nn.Conv1d(WIDTH, WIDTH, 1) if mapped else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + (self.scale * self.down(F.glu(self.norm(self.up(x.mT)), dim=1))).mT
        return out


def read(model: nn.Module, depth: int | None = None) -> Report:
    return screen.check(model, example_inputs=torch.zeros(2, 16, WIDTH), depth=depth)


def test_a_norm_at_the_end_of_a_block_bounds_the_stream() -> None:
    report = read(Around(True))
    law = next(c for c in report.claims if c.claim == "growth" and c.weights == "all")
    assert law.value == "bounded" and law.measured is not None and law.measured.agrees is not False
    assert next(c.state for c in report.channels if c.id == "R") == "closed"


def test_without_it_nothing_does() -> None:
    report = read(Around(False))
    assert next(c for c in report.claims if c.claim == "growth" and c.weights == "all").value in (None, "exponential")
    assert next(c.state for c in report.channels if c.id == "R") != "closed"


def test_a_gain_behind_all_of_a_branch_is_held() -> None:
    held, free = read(Gained(False), 4), read(Gained(True), 4)
    assert [next(c.value for c in r.claims if c.claim == "output_bounded") for r in (held, free)] == [True, False]
