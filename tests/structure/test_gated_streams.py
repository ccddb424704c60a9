"""Streams whose gates and candidates come from one map, and sums of slopes that each are made of the one before."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH = 32


class Cell(nn.Module):
    """Reset, candidate and update from one normed map: a mean of a hyperbolic tangent and of what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.norm = nn.Linear(WIDTH, 3 * WIDTH), nn.LayerNorm(3 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        reset, candidate, update = self.norm(self.map(x)).chunk(3, -1)
        update = torch.sigmoid(update - 1)
        out: Tensor = update * torch.tanh(torch.sigmoid(reset) * candidate) + (1 - update) * x
        return out


class Highway(nn.Module):
    """Both halves of one raw map: what is added grows with what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        made, gate = self.map(x).chunk(2, -1)
        out: Tensor = torch.sigmoid(gate) * F.relu(made) + (1 - torch.sigmoid(gate)) * x
        return out


class RungeKutta(nn.Module):
    """One step of the classical method for a normed net."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Tanh(), nn.Linear(64, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        one = self.net(x)
        two = self.net(x + 0.25 * one)
        three = self.net(x + 0.25 * two)
        four = self.net(x + 0.5 * three)
        out: Tensor = x + (one + 2 * two + 2 * three + four) / 12
        return out


def read(block: nn.Module) -> Report:
    return screen.check(block, example_inputs=torch.zeros(2, 16, WIDTH), depth=12)


def told(report: Report, claim: str, weights: str) -> object:
    return next(c.value for c in report.claims if c.claim == claim and c.weights == weights)


def test_a_gate_brings_no_branch_that_the_candidate_has_not() -> None:
    report = read(Cell())
    assert report.target.depth == 12 and len(report.streams) == 1
    assert told(report, "growth", "all") in ("bounded", "linear") and told(report, "output_bounded", "all") is True
    assert told(report, "identity_gain", "start") is None


def test_a_raw_one_is_not_bounded() -> None:
    report = read(Highway())
    assert told(report, "output_bounded", "all") is False and told(report, "growth", "all") is None


def test_slopes_of_one_step_are_no_stream() -> None:
    report = read(RungeKutta())
    assert told(report, "identity_gain", "start") == 1.0
    assert report.streams[0].depth == 12
