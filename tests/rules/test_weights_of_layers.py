"""Which weights a block has for itself: rows of one parameter are each layer's own; maps that several layers use are not drawn for each anew."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import FindingPart, Report

WIDTH, DEPTH = 16, 6
example_inputs = torch.zeros(2, 9, WIDTH)
"""Of the classes below as targets of this file."""


class Rows(nn.Module):
    """Scales of all layers in one parameter, of which each layer reads its row, by an index or by one and a slice."""

    shared = False

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((DEPTH, WIDTH), 0.5))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(DEPTH + 1))
        self.ups = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH) for _ in range(DEPTH))
        self.downs = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(DEPTH))

    def row(self, layer: int) -> Tensor:
        return self.scale[layer]

    def forward(self, x: Tensor) -> Tensor:
        for layer in range(DEPTH):
            own = 0 if self.shared else layer
            x = x + self.row(layer) * self.downs[own](F.gelu(self.ups[own](self.norms[layer](x))))
        out: Tensor = self.norms[-1](x)
        return out


class Sliced(Rows):
    def row(self, layer: int) -> Tensor:
        return self.scale[layer - DEPTH, :]


class OneRow(Rows):
    """Near miss: all layers read the same row."""

    def row(self, layer: int) -> Tensor:
        return self.scale[0]


class Overlapping(Rows):
    """Near miss: each layer reads the mean of its row and of those before."""

    def row(self, layer: int) -> Tensor:
        return self.scale[: layer + 1].mean(0)


class SameMaps(Rows):
    """Near miss: rows of their own, and the same maps in every layer."""

    shared = True


class OnSums(Rows):
    """Rows of one parameter are gains of norms on the sums."""

    def forward(self, x: Tensor) -> Tensor:
        for layer, (up, down) in enumerate(zip(self.ups, self.downs, strict=True)):
            x = F.layer_norm(x + down(F.gelu(up(x))), (WIDTH,), self.row(layer))
        return x


class OneBlock(SameMaps, OneRow):
    """Near miss: all is the same in every layer."""


class Reader(nn.Module):
    """The same reader of what is told in front of each layer's own map."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.write = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * DEPTH + 1))
        self.maps = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)) for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        for layer, own in enumerate(self.maps):
            x = x + self.write(torch.relu(self.read(self.norms[2 * layer](x))))
            x = x + own(self.norms[2 * layer + 1](x))
        out: Tensor = self.norms[-1](x)
        return out


class Gated(nn.Module):
    """u · (W n(v) + 1) over tokens, W at zero: u goes on from the first step (gMLP). Without the 1 nothing does."""

    one = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner, self.gate = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, self.one)

    def forward(self, x: Tensor) -> Tensor:
        u, v = F.gelu(self.up(self.norm(x))).chunk(2, -1)
        return x + self.down(u * self.gate(self.inner(v)))


class Shut(Gated):
    one = 0.0


class GatedNet(nn.Sequential):
    block: type[Gated] = Gated

    def __init__(self) -> None:
        super().__init__(*(self.block() for _ in range(DEPTH)), nn.LayerNorm(WIDTH))


class ShutNet(GatedNet):
    block = Shut


def report_on(model: type[nn.Module]) -> Report:
    """On a class of this file, whose initialisers are recorded."""
    return screen.check(f"{__file__}::{model.__name__}", spot_check=False)


def of(report: Report, code: str) -> FindingPart:
    return next(f for f in report.findings if f.code == code)


def is_derived(report: Report) -> bool:
    """Whether numbers at the start are derived, and not of one draw."""
    return next(c for c in report.claims if c.claim == "rms_ratio").status == "proved"


@pytest.mark.parametrize("model", [Rows, Sliced])
def test_rows_of_one_parameter_are_each_layers_own(model: type[Rows]) -> None:
    report = report_on(model)
    assert "power of depth" in of(report, "D202").message and is_derived(report)


@pytest.mark.parametrize("model", [OneRow, Overlapping])
def test_rows_that_several_layers_read_are_not(model: type[Rows]) -> None:
    assert not is_derived(report_on(model))


def test_blocks_of_the_same_maps_are_told_so() -> None:
    assert "its blocks have the same weights" in of(report_on(OneBlock), "D202").message


def test_of_maps_that_some_branches_share_no_law_of_depth_is_told() -> None:
    assert "some weights serve in several of its branches" in of(report_on(SameMaps), "D202").message
    report = report_on(Reader)
    assert "some of its blocks have the same weights" in of(report, "D202").message
    assert "that are drawn for each branch anew, which some here are not: they ask for (b))" in of(report, "D301").message


def test_a_product_that_starts_at_zero_is_no_branch_that_does() -> None:
    assert "What it adds starts at zero" in of(report_on(ShutNet), "D301").message
    found = of(report_on(GatedNet), "D301")
    assert "a map of that product starts at zero, and that what the branch adds does so too is not shown" in found.message
    assert found.outcome == "holds"


def test_a_gain_that_is_a_row_has_the_name_of_its_parameter() -> None:
    assert "the gain `scale` of the norm on the sum does not start at zero" in of(report_on(OnSums), "I204").message
