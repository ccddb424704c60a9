"""Streams whose gates and candidates come from one map, and sums of slopes that each are made of the one before."""

from __future__ import annotations

import pytest
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


class Judged(nn.Module):
    """Its gate compares what came in with what it made of it, `difference` among it, and leaves one less its share of the first."""

    def __init__(self, difference: bool) -> None:
        super().__init__()
        self.norm, self.net = nn.RMSNorm(WIDTH), nn.Sequential(nn.Linear(WIDTH, 48), nn.SiLU(), nn.Linear(48, WIDTH))
        self.judge, self.difference = nn.Linear(2 * WIDTH, 1), difference

    def forward(self, x: Tensor) -> Tensor:
        made = self.net(self.norm(x))
        kept = torch.sigmoid(self.judge(torch.cat((made, x - made if self.difference else x), -1)))
        out: Tensor = kept * x + (1 - kept) * made
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


@pytest.mark.parametrize("difference", [False, True])
def test_a_gate_may_read_the_branch_that_it_lets_in(difference: bool) -> None:
    """What is carried has passed nothing of the branch, though its gate has; and the difference that the gate reads is no stream of its own."""
    blocks = nn.Sequential(nn.Linear(WIDTH, WIDTH), *(Judged(difference) for _ in range(3)))
    report = screen.check(blocks, example_inputs=torch.randn(2, 16, WIDTH))
    (stream,) = report.streams
    assert stream.depth == 3 and stream.width == WIDTH
    assert [(one.role, one.placement) for kind in stream.kinds for one in kind.sublayers] == [("ffn", "pre")] * len(stream.kinds)
    assert told(report, "identity_gain", "start") is None and not report.spot_check.refuted


@pytest.mark.parametrize("scaled", [False, True])
def test_the_share_of_a_branch_along_the_state_is_no_gate(scaled: bool) -> None:
    """x + f − x̂·(f·x̂): what is taken off is multiplied by a number that reads the branch, and is normed; the branch is read in front of that."""

    class Aside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
            self.gain = nn.Parameter(torch.full((WIDTH,), 0.5)) if scaled else None

        def forward(self, x: Tensor) -> Tensor:
            branch = self.down(self.up(self.norm(x)).relu())
            branch = branch if self.gain is None else branch * self.gain
            unit = nn.functional.normalize(x, dim=-1)
            return x + (branch - (branch * unit).sum(-1, keepdim=True) * unit)

    report = screen.check(nn.Sequential(nn.Linear(WIDTH, WIDTH), *(Aside() for _ in range(3))), example_inputs=torch.randn(2, 16, WIDTH))
    (stream,) = report.streams
    assert stream.depth == 3 and [(s.role, s.placement) for kind in stream.kinds for s in kind.sublayers] == [("ffn", "pre")] * len(stream.kinds)
