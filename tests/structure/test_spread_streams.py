"""Streams that pass by linear ops which spread their entries, or by a choice; asked where no other stream is found."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

DEPTH = 12


class Base(nn.Module):
    """An MLP behind a norm. x: [2, 16, 32]."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))


class Transformed(Base):
    """A Hartley transform over 16 tokens, without a scale: 4 times as large."""

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.fft(x, dim=1)
        out: Tensor = (spectrum.real - spectrum.imag) + self.net(x)
        return out


class Smoothed(Base):
    """A mean of neighbours on a ring; the ones stay as they are."""

    def forward(self, x: Tensor) -> Tensor:
        ring = F.pad(x.mT, (1, 1), mode="circular")
        out: Tensor = F.avg_pool1d(ring, 3, 1).mT + self.net(x)
        return out


class Chosen(Base):
    """Two of three tokens are replaced by what the branch makes of them."""

    def forward(self, x: Tensor) -> Tensor:
        keep = (torch.arange(16) % 3 == 0).view(1, 16, 1)
        return torch.where(keep, x, self.net(x))


class Pooled(nn.Module):
    """No skip anywhere: maps, pooling, and a table that is added."""

    def __init__(self) -> None:
        super().__init__()
        self.maps, self.table = nn.ModuleList(nn.Linear(32, 32) for _ in range(4)), nn.Parameter(torch.randn(16, 32))

    def forward(self, x: Tensor) -> Tensor:
        for m in self.maps:
            x = F.avg_pool1d(F.relu(m(x)).mT, 3, 1, 1).mT + self.table
        return x


@pytest.mark.by_the_day
@pytest.mark.parametrize(
    ("block", "gain", "growth"), [("Transformed", 4.0**DEPTH, "exponential"), ("Smoothed", 1.0, "linear"), ("Chosen", 1.0, "bounded")]
)
def test_a_stream_that_some_linear_op_spreads_is_one(block: str, gain: float, growth: str) -> None:
    report = screen.check(f"{__file__}::{block}", depth=DEPTH, isolate=False)
    assert [s.depth for s in report.streams] == [DEPTH]
    told = {(c.claim, c.weights): c for c in report.claims if c.sublayer is None}
    value = told["identity_gain", "start"].value
    assert isinstance(value, float) and abs(value - gain) < 1e-3 * gain
    assert told["growth", "fixed"].value == growth


def test_a_model_without_a_skip_has_no_stream() -> None:
    assert not screen.check(f"{__file__}::Pooled", isolate=False).streams
