"""A matrix that nobody trains on the stream: what is carried on is measured, and said so in one way everywhere."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH, TOKENS, DEPTH = 16, 6, 16


class Mixed(nn.Module):
    """A net behind a norm, then a step along a stored matrix: x + step · (P x − x), with P a mean over neighbours."""

    def __init__(self, step: float, trained: bool = False) -> None:
        super().__init__()
        near = (torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)).abs() <= 1
        degree = near.sum(1).rsqrt()
        self.step, matrix = step, degree[:, None] * near * degree
        if trained:
            self.p = nn.Parameter(matrix)
        else:
            self.register_buffer("p", matrix)
        self.norm, self.net = nn.LayerNorm(WIDTH), nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.net(self.norm(x))
        return x + self.step * (self.p @ x - x)  # type: ignore[no-any-return]


def report_on(step: float, *, trained: bool = False, spot: bool = True) -> Report:
    torch.manual_seed(0)
    model = nn.Sequential(*(Mixed(step, trained) for _ in range(DEPTH)))
    return screen.check(model, example_inputs=torch.randn(2, TOKENS, WIDTH), spot_check=spot)


def truth(step: float) -> float:
    """The largest gain over all blocks, in float64."""
    p = Mixed(step).p.double()
    one = torch.eye(TOKENS, dtype=torch.float64) + step * (p - torch.eye(TOKENS))
    return float(torch.linalg.matrix_norm(torch.linalg.matrix_power(one, DEPTH), 2))


@pytest.mark.parametrize("step", [0.5, -1.0])
def test_the_measured_gain_of_a_stored_matrix_is_told_everywhere(step: float) -> None:
    report = report_on(step)
    found = {f.code: f for f in report.findings}
    told = report.streams[0].identity_path
    assert told.exists and told.gain is not None and told.gain.endswith(" (measured)")
    assert math.log(float(told.gain.split()[0])) == pytest.approx(math.log(truth(step)), abs=0.7)
    for code in ("D101", "G110"):
        assert found[code].outcome == "conditional" and "measured" in found[code].message and "unknown" not in found[code].message
    assert report.verdict == ("conditional" if step > 0 else "unstable")


def test_without_a_measurement_it_is_not_known() -> None:
    report = report_on(0.5, spot=False)
    assert {f.outcome for f in report.findings if f.code in ("D101", "G110")} == {"cannot_tell"}
    assert report.streams[0].identity_path.exists is None and report.verdict == "unknown"


def test_a_matrix_that_is_trained_is_not_called_fixed() -> None:
    [found] = [f for f in report_on(0.5, trained=True).findings if f.code == "G110"]
    assert "nobody trains" not in found.message
