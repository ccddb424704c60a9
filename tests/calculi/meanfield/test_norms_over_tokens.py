"""Norms whose statistic runs over tokens and samples (batch, group and instance norms, a norm of whole images): the start that is derived, and that
of a draw of the weights."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.transfer import Normalise
from screen.report.schema import Report

WIDTH = 64
START = {"rms_ratio": 1.12, "gradient_ratio": 1.3}
"""What is derived -> how many times larger or smaller it may be in one draw."""


class Images(nn.Module):
    """x: [1, 64, 16, 16]."""

    shape: tuple[int, ...] = (1, WIDTH, 16, 16)

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(self.norm() for _ in range(2))
        self.maps = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))
        for m in self.maps:
            nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
            nn.init.zeros_(m.bias)

    def norm(self) -> nn.Module:
        return nn.BatchNorm2d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = x
        for norm, one in zip(self.norms, self.maps, strict=True):
            h = one(F.relu(norm(h)))
        return x + h


class Groups(Images):
    def norm(self) -> nn.Module:
        return nn.GroupNorm(8, WIDTH)


class OfEach(Images):
    def norm(self) -> nn.Module:
        return nn.InstanceNorm2d(WIDTH, affine=True)


class Whole(Images):
    def norm(self) -> nn.Module:
        return nn.LayerNorm((WIDTH, 16, 16))


class Last(Images):
    """What each branch adds is normed."""

    def forward(self, x: Tensor) -> Tensor:
        h = x
        for norm, one in zip(self.norms, self.maps, strict=True):
            h = norm(one(F.relu(h)))
        return x + h


class Series(nn.Module):
    """A filter over time and a batch norm behind it, as a conformer has. x: [4, 32, 64]."""

    shape: tuple[int, ...] = (4, 32, WIDTH)

    def __init__(self) -> None:
        super().__init__()
        self.first, self.up, self.down = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, 2 * WIDTH, 1, bias=False), nn.Conv1d(WIDTH, WIDTH, 1, bias=False)
        self.filter, self.norm = nn.Conv1d(WIDTH, WIDTH, 15, padding=7, groups=WIDTH, bias=False), nn.BatchNorm1d(WIDTH)
        for m in (self.up, self.filter, self.down):
            nn.init.kaiming_normal_(m.weight, nonlinearity="linear")

    def forward(self, x: Tensor) -> Tensor:
        h = self.filter(F.glu(self.up(self.first(x).transpose(1, 2)), 1))
        return x + self.down(F.silu(self.norm(h))).transpose(1, 2)


class Samples(nn.Module):
    """x: [64, 64]."""

    shape: tuple[int, ...] = (64, WIDTH)

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        for m in (self.up, self.down):
            nn.init.kaiming_normal_(m.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.relu(self.up(self.norm(x))))


def _check(block: type[nn.Module]) -> Report:
    torch.manual_seed(0)
    return screen.check(block(), depth=24, example_inputs=torch.randn(block.shape))  # type: ignore[arg-type]


@pytest.mark.parametrize("block", [Images, Groups, OfEach, Whole, Last, Series, Samples])
def test_the_start_is_that_of_a_draw(block: type[nn.Module]) -> None:
    claims = {c.claim: c for c in _check(block).claims if c.weights == "start"}
    for name, times in START.items():
        claim = claims[name]
        assert claim.status == "proved" and claim.measured is not None
        assert isinstance(claim.value, float) and isinstance(claim.measured.value, float)
        assert abs(math.log(claim.value / claim.measured.value)) < math.log(times), (name, claim.value, claim.measured.value)
    apart = claims["one_minus_cos"]
    assert apart.measured is not None and isinstance(apart.value, float) and isinstance(apart.measured.value, float)
    assert abs(apart.value - apart.measured.value) < 0.2


def test_a_mean_over_tokens_takes_away_what_they_share() -> None:
    """Tokens of one direction come out apart, by any N of them: 1 − cos = N/(N − 1)."""
    slots = [Moments(1.0, 0.1), Moments(0.0, 0.0)]
    Normalise(0, 1, True, 0.0, 1.0, 1.0, 16.0).forward(slots)
    assert slots[1].power == pytest.approx(1.0) and slots[1].gap == pytest.approx(16 / 15)
    x = math.sqrt(0.9) * torch.randn(1, 4096, dtype=torch.float64) + math.sqrt(0.1) * torch.randn(16, 4096, dtype=torch.float64)
    y = F.batch_norm(x, None, None, training=True)
    assert float((y[0] * y[1]).mean()) == pytest.approx(1 - 16 / 15, abs=0.03)
