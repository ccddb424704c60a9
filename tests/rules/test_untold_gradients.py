"""Gradients of streams whose branches saturate: the exponential of a root of the depth, which is no power and not closed."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import ClaimPart, FindingPart
from tests.gradients import first_over_last

WIDTH = 32


class Unit(nn.Module):
    """A net of the raw stream, and a norm of what it adds."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(WIDTH, 128, bias=False), nn.Linear(128, WIDTH, bias=False), nn.RMSNorm(WIDTH)
        nn.init.normal_(self.up.weight, std=WIDTH**-0.5)
        nn.init.normal_(self.down.weight, std=128**-0.5)

    def act(self, h: Tensor) -> Tensor:
        return torch.tanh(h)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.norm(self.down(self.act(self.up(x))))
        return out


class Leaky(Unit):
    """Of degree one inside, so that the norm behind makes it free of the size of the stream."""

    def act(self, h: Tensor) -> Tensor:
        return F.leaky_relu(h, 0.2)


class Recurrent(nn.Module):
    """A layer of the library of the raw stream, a map, and a norm of what it adds: no recursion over depth is derived of it."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out, self.norm = nn.LSTM(WIDTH, WIDTH, batch_first=True), nn.Linear(WIDTH, WIDTH, bias=False), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.norm(self.out(self.rnn(x)[0]))
        return out


def told(block: type[nn.Module]) -> tuple[FindingPart, ClaimPart]:
    """What D202 says of 24 blocks, and the law of their gradients."""
    torch.manual_seed(2)
    report = screen.check(block(), example_inputs=torch.randn(2, 8, WIDTH), depth=24)
    return next(f for f in report.findings if f.code == "D202"), next(c for c in report.claims if c.claim == "gradient_law")


def test_a_slope_that_saturates_is_a_condition() -> None:
    found, law = told(Unit)
    assert found.outcome == "conditional" and "no law that is told" in found.message
    assert law.status == "unknown" and "no law that is told" in law.reason


@pytest.mark.by_the_day
def test_what_saturates_and_is_not_derived_has_no_measured_power() -> None:
    found, law = told(Recurrent)
    assert (found.outcome, law.value) == ("conditional", None)


def test_what_is_free_of_the_size_of_the_stream_has_a_power() -> None:
    found, law = told(Leaky)
    assert (found.outcome, law.value) == ("holds", "power")


@pytest.mark.parametrize("block", [Unit, Recurrent])
def test_each_doubling_of_the_depth_adds_more(block: type[nn.Module]) -> None:
    """Logarithms of first over last gradient of all weights, float64: a power would add the same each time."""
    logs = []
    for depth in (24, 48, 96):
        torch.manual_seed(0)
        blocks = [block().double() for _ in range(depth)]
        x = torch.randn(4, 8, WIDTH, dtype=torch.float64)
        logs.append(math.log(first_over_last(blocks, x)))
    assert logs[2] - logs[1] > 1.2 * (logs[1] - logs[0]) > 0
