"""A stream of one or two branches without a norm, beside the stream of the model, makes no depth: nothing of it is a slip."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 32


def net(norm: bool) -> nn.Sequential:
    up, down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
    for layer in (up, down):
        nn.init.normal_(layer.weight, std=(2 / layer.in_features) ** 0.5)
    return nn.Sequential(nn.LayerNorm(WIDTH) if norm else nn.Identity(), up, nn.ReLU(), down)


class Trunk(nn.Module):
    """Six pre-norm blocks, a map, and a head of so many residual units without a norm."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList(net(True) for _ in range(6)), nn.ModuleList(net(False) for _ in range(units))
        self.norm, self.across = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        x = self.across(self.norm(x))
        for unit in self.head:
            x = x + unit(x)
        return x


HEADS = [(1, "holds", "conditional"), (2, "conditional", "conditional"), (4, "violated", "violated")]
"""(units, R101, R201)."""


@pytest.mark.parametrize(("units", "placed", "bounded"), HEADS)
def test_a_head_of_few_units(units: int, placed: str, bounded: str) -> None:
    torch.manual_seed(0)
    report = screen.check(Trunk(units), example_inputs=torch.randn(2, 8, WIDTH))
    assert [s.depth for s in report.streams] == [6, units]
    found = {f.code: f.outcome for f in report.findings if f.code in ("R101", "R201") and f.stream == report.streams[1].name}
    assert found == {"R101": placed, "R201": bounded}


class Stage(nn.Module):
    """A stage of a pyramid: a map, and so many residual units that end in a norm."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.across = nn.Linear(WIDTH, WIDTH)
        self.units = nn.ModuleList(nn.Sequential(net(False), nn.LayerNorm(WIDTH)) for _ in range(units))

    def forward(self, x: Tensor) -> Tensor:
        x = self.across(x)
        for unit in self.units:
            x = x + unit(x)
        return x


@pytest.mark.parametrize(("units", "expected"), [(2, "not_applicable"), (4, "violated")])
def test_the_last_stage_of_a_pyramid_has_no_growth_to_hide(units: int, expected: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Stage(4), Stage(units), nn.Linear(WIDTH, 10))
    report = screen.check(model, example_inputs=torch.randn(2, 8, WIDTH))
    assert [s.depth for s in report.streams] == [4, units]
    assert [f.outcome for f in report.findings if f.code == "G103" and f.stream == report.streams[1].name] == [expected]


def test_alone_it_is_the_model() -> None:
    torch.manual_seed(0)
    report = screen.check(nn.Sequential(*(Unit() for _ in range(2))), example_inputs=torch.randn(2, 8, WIDTH))
    assert {f.outcome for f in report.findings if f.code == "R201"} == {"violated"}


class Unit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = net(False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.net(x)
        return out
