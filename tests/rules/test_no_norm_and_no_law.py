"""Streams without a norm of which no law is known: exponential growth is told where a branch was shown to grow with them, and else not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH = 32


class Mixed(nn.Module):
    """A gated cell that reads the stream where its input belongs; its state is a net of the stream's norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.net, self.cell = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        state = self.net(self.norm(x)).flatten(0, 1)
        return self.cell(x.flatten(0, 1), state).view_as(x)  # type: ignore[no-any-return]


class Swing(nn.Module):
    """Places and momenta, a step of Störmer and Verlet with a force that is bounded, or linear."""

    def __init__(self, bounded: bool) -> None:
        super().__init__()
        self.w, self.bounded = nn.Parameter(torch.randn(WIDTH // 2, WIDTH // 2) / 2), bounded

    def force(self, q: Tensor) -> Tensor:
        pushed = q @ self.w.mT
        return (torch.atan(pushed) if self.bounded else pushed) @ self.w

    def forward(self, x: Tensor) -> Tensor:
        q, p = x.chunk(2, dim=-1)
        p = p + 0.25 * self.force(q)
        q = q + p
        return torch.cat((q, p + 0.25 * self.force(q)), dim=-1)


def judged(block: nn.Module) -> Report:
    return screen.check(block, example_inputs=torch.zeros(2, 8, WIDTH), depth=12, spot_check=False)


@pytest.mark.parametrize("block", [Mixed(), Swing(True)], ids=["gate", "steps"])
def test_what_no_branch_makes_grow_is_not_told_to_grow_exponentially(block: nn.Module) -> None:
    report = judged(block)
    (found,) = [f for f in report.findings if f.code == "R101"]
    assert found.outcome == "cannot_tell" and "it grows exponentially" not in found.message
    assert report.verdict == "unknown"


def test_a_branch_that_grows_with_its_stream_makes_it_grow() -> None:
    found = [f for f in judged(Swing(False)).findings if f.code == "R101"]
    assert [f.outcome for f in found] == ["violated"]


class Transformed(nn.Module):
    """A branch that transforms over tokens, each feature times a weight, or a number."""

    def __init__(self, gain: bool) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((WIDTH,), 0.1)) if gain else 0.1

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.fft.fft(self.gain * x, dim=1).real


@pytest.mark.parametrize(("gain", "said"), [(True, "no branch holds a matrix"), (False, "no branch holds a weight")])
def test_a_weight_for_each_feature_is_one(gain: bool, said: str) -> None:
    report = screen.check(nn.Sequential(*(Transformed(gain) for _ in range(4)), nn.Linear(WIDTH, 5)), example_inputs=torch.randn(2, 6, WIDTH))
    [found] = [f for f in report.findings if f.code == "R101"]
    assert said in found.message, found.message
