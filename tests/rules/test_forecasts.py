"""What a gradient ratio would be at more blocks is told where they are wide, and not where sizes that norms divide by differ from draw to draw."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from tests.gradients import first_over_last

DEPTH = 8


class Wide(nn.Module):
    """Half of the squares of the stream are a normed gated net of it."""

    width, inner = 128, 256

    def __init__(self) -> None:
        super().__init__()
        w, n = self.width, self.inner
        self.first, self.second = nn.RMSNorm(w), nn.RMSNorm(w)
        self.gate, self.up, self.down = nn.Linear(w, n, bias=False), nn.Linear(w, n, bias=False), nn.Linear(n, w, bias=False)
        for linear in (self.gate, self.up, self.down):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        out: Tensor = 0.5**0.5 * x + 0.5**0.5 * self.second(self.down(F.silu(self.gate(y)) * self.up(y)))
        return out


class Narrow(Wide):
    """The same, narrow."""

    width, inner = 32, 64


class Bottleneck(Wide):
    """The same through a few features."""

    inner = 6


def said(block: type[Wide]) -> tuple[str, float]:
    """What D202 says of the ratio, and the ratio."""
    report = screen.check(block(), example_inputs=torch.zeros(2, 8, block.width), depth=DEPTH, spot_check=False)
    ratio = next(c.value for c in report.claims if c.claim == "gradient_ratio")
    assert isinstance(ratio, float)
    return next(f.message for f in report.findings if f.code == "D202"), ratio


def test_a_ratio_at_more_blocks_is_told_where_they_are_wide() -> None:
    message, _ = said(Wide)
    assert "would be about" in message and f"at {4 * DEPTH} of them" in message


@pytest.mark.parametrize(("block", "features"), [(Narrow, 32), (Bottleneck, 6)])
def test_a_ratio_at_more_blocks_is_not_told_where_they_are_narrow(block: type[Wide], features: int) -> None:
    message, _ = said(block)
    assert "would be about" not in message
    assert f"what it is at more of them is not told, as their maps sum over no more than {features} features" in message


def measured(block: type[Wide], depth: int) -> float:
    """Logarithm of first over last gradient of all weights, float64, in the mean over draws."""
    found = []
    for seed in range(4):
        torch.manual_seed(seed)
        blocks = [block().double() for _ in range(depth)]
        x = torch.randn(2, 16, block.width, dtype=torch.float64)
        found.append(math.log(first_over_last(blocks, x)))
    return statistics.fmean(found)


def test_what_is_told_is_measured_and_what_is_not_told_would_be_too_small() -> None:
    told = math.log(float(said(Wide)[0].partition("would be about ")[2].split()[0]))
    assert abs(measured(Wide, 4 * DEPTH) - told) < math.log(2)
    assert measured(Bottleneck, 4 * DEPTH) - told > math.log(4)
