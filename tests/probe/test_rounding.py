"""Where rounding decides what a program gives, two runs of it may differ and be one program; what is small explains no large difference."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.probe.measure.rounding import DRAWS, explains, shaken


@pytest.mark.parametrize(
    ("moved", "apart", "is_explained"),
    [
        ([0.5], 1.0, True),
        ([None, 1e-4, 0.2], 1.0, True),
        ([0.05] * 4, 1.0, False),
        ([5e-4], 1e-3, False),
        ([2e-3], 5e-3, True),
        ([None], 1.0, False),
        ([], 1.0, False),
        ([2e-3], math.inf, True),
    ],
)
def test_a_difference_is_explained_by_one_of_its_size(moved: list[float | None], apart: float, is_explained: bool) -> None:
    assert explains(moved, apart, 1e-3) is is_explained


def test_weights_are_shaken_by_roundings_and_numbers_of_other_types_are_not() -> None:
    weights = {0: torch.ones(1000), 1: torch.arange(3)}
    draws = list(shaken(weights, 0))
    assert len(draws) == DRAWS and len({float(d[0][0]) for d in draws}) == DRAWS
    assert all(0 < float((d[0] - 1).abs().max()) < 1e-5 and d[1] is weights[1] for d in draws)


class Sharp(nn.Module):
    """Each block multiplies small differences. x: [2, 8, 32]."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(3.0 * self.map(x))


def test_a_stack_that_multiplies_roundings_is_judged() -> None:
    assert screen.check(f"{__file__}::Sharp", depth=64).verdict == "unstable"


example_inputs = (torch.randn(2, 8, 32),)
