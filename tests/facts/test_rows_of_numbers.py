"""Multipliers that start as a row of numbers of the program (`lambdas = nn.Parameter(torch.tensor([1.0, 0.0]))`), each number with its own place."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.schema import ClaimPart, Report

DEPTH = 12


class Shares(nn.Module):
    """The stream and what the first block read, by trained shares. x, first: [2, 8, 32]."""

    start: tuple[float, ...] = (1.0, 0.0)

    def __init__(self) -> None:
        super().__init__()
        self.lambdas = nn.Parameter(torch.tensor(list(self.start)))
        self.norm, self.up, self.down = nn.RMSNorm(32), nn.Linear(32, 64, bias=False), nn.Linear(64, 32, bias=False)

    def shares(self) -> Tensor:
        return self.lambdas

    def forward(self, x: Tensor, first: Tensor) -> Tensor:
        one, other = self.shares()
        x = one * x + other * first
        out: Tensor = self.down(F.relu(self.up(self.norm(x))).square())
        return x + out


class Larger(Shares):
    start = (1.25, 0.5)


class Turned(Shares):
    start = (0.0, 1.0)

    def shares(self) -> Tensor:
        return torch.stack((self.lambdas[-1], self.lambdas[0]))


class Half(Shares):
    start = (2.0, 0.5)

    def shares(self) -> Tensor:
        return 0.5 * self.lambdas


class Sharpened(Shares):
    """A softmax over them."""

    start = (9.0, 0.0)

    def shares(self) -> Tensor:
        return torch.softmax(self.lambdas, -1)


class Model(nn.Module):
    """ids: [2, 8]."""

    block: type[Shares] = Shares

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.blocks, self.norm = nn.Embedding(50, 32), nn.ModuleList(self.block() for _ in range(DEPTH)), nn.RMSNorm(32)

    def forward(self, ids: Tensor) -> Tensor:
        x = first = self.embed(ids)
        for block in self.blocks:
            x = block(x, first)
        out: Tensor = self.norm(x)
        return out


class LargerModel(Model):
    block = Larger


def example_inputs() -> tuple[Tensor]:
    return (torch.zeros(2, 8, dtype=torch.long),)


def _claim(report: Report, name: str, weights: str) -> ClaimPart:
    return next(c for c in report.claims if (c.claim, c.weights) == (name, weights))


GAINS = {Shares: 1.0, Larger: 1.25**DEPTH, Turned: 1.0, Half: 1.0, Sharpened: (1 / (1 + math.exp(-9.0))) ** DEPTH}


@pytest.mark.parametrize("block", GAINS)
def test_a_block_by_its_class_and_by_itself(block: type[Shares]) -> None:
    value = torch.randn(2, 8, 32), torch.randn(2, 8, 32)
    report = screen.check(block(), depth=DEPTH, example_inputs=value)
    gain = _claim(report, "identity_gain", "start")
    assert gain.value == pytest.approx(GAINS[block], rel=1e-5) and len(report.streams) == 1
    if block in (Shares, Turned, Half):
        assert _claim(report, "growth", "fixed").value == "linear"
    assert _claim(report, "growth", "all").value != "linear"


def test_models_that_are_built_from_their_class() -> None:
    report = screen.check(f"{__file__}::Model", isolate=False)
    assert (_claim(report, "identity_gain", "start").value, _claim(report, "growth", "fixed").value) == (1.0, "linear")
    larger = screen.check(f"{__file__}::LargerModel", isolate=False)
    gain = _claim(larger, "identity_gain", "start").value
    x = 1.0
    for _ in range(DEPTH):
        x = 1.25 * x + 0.5
    assert gain == pytest.approx(x, rel=1e-5) and _claim(larger, "growth", "fixed").value in (None, "exponential")


def test_a_draw_is_no_row_of_numbers() -> None:
    """Of a live module small parameters are numbers of the program only where they have few decimals."""
    block = Shares()
    nn.init.normal_(block.lambdas)
    report = screen.check(block, depth=DEPTH, example_inputs=(torch.randn(2, 8, 32), torch.randn(2, 8, 32)))
    assert _claim(report, "identity_gain", "start").status != "proved"


class Rising(Model):
    """Each block keeps more of the stream than the one before it, and the first keeps all."""

    def __init__(self) -> None:
        super().__init__()
        for layer, block in enumerate(self.blocks):
            block.lambdas = nn.Parameter(torch.tensor([1.0 + 0.1 * layer, 0.0]))


class Falling(nn.Module):
    """Each block keeps less of the stream than the one before it, the last all of it. x, first: [2, 8, 32]."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Shares() for _ in range(DEPTH))
        for layer, block in enumerate(self.blocks):
            block.lambdas = nn.Parameter(torch.tensor([1.0 + 0.1 * (DEPTH - 1 - layer), 0.5]))

    def forward(self, x: Tensor, first: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, first)
        return x


@pytest.mark.parametrize("model", [Rising, Falling])
def test_no_block_stands_for_others_that_start_larger(model: type[nn.Module]) -> None:
    value = example_inputs() if model is Rising else (torch.randn(2, 8, 32), torch.randn(2, 8, 32))
    report = screen.check(model(), example_inputs=value, spot_check=False)
    assert _claim(report, "growth", "fixed").value in (None, "exponential")


class Depths(nn.Module):
    """Behind each block a sum of all states so far, each times a trained number."""

    ones, depth = False, 8

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(16) for _ in range(self.depth))
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(self.depth))
        self.alphas = nn.ParameterList(self.row(i + 2) for i in range(self.depth))

    def row(self, count: int) -> Tensor:
        return torch.tensor([1.0 if self.ones else 0.0] * (count - 1) + [1.0])

    def mixed(self, row: Tensor, states: list[Tensor]) -> Tensor:
        return sum(w * s for w, s in zip(row, states, strict=True))  # type: ignore[return-value]

    def forward(self, x: Tensor) -> Tensor:
        states = [x]
        for norm, net, row in zip(self.norms, self.nets, self.alphas, strict=True):
            states.append(x + net(norm(x)))
            x = self.mixed(row, states)
        return x


class DepthsStacked(Depths):
    def mixed(self, row: Tensor, states: list[Tensor]) -> Tensor:
        return (row.view(-1, 1, 1, 1) * torch.stack(states)).sum(0)


class DepthsWritten(Depths):
    """The last entry of zeros is written."""

    def row(self, count: int) -> Tensor:
        row = torch.zeros(count)
        row[-1] = 1.0
        return row


class DepthsOfOnes(DepthsStacked):
    ones = True


@pytest.mark.parametrize(
    ("model", "gain", "law"), [(Depths, 1.0, "linear"), (DepthsStacked, 1.0, "linear"), (DepthsWritten, 1.0, "linear"), (DepthsOfOnes, 256.0, None)]
)
def test_sums_of_all_states_start_as_their_numbers_say(model: type[Depths], gain: float, law: str | None) -> None:
    """Of ones each sum is twice the one before: 2⁸ behind the last of them."""
    report = screen.check(f"{__file__}::{model.__name__}", example_inputs="x=float32[2,9,16]", isolate=False)
    found = {(c.claim, c.weights): c for c in report.claims if c.sublayer is None}
    assert law is None or found["growth", "fixed"].value == law
    gains = [c for c in report.claims if c.claim == "identity_gain"]
    assert all(c.status == "proved" for c in gains) and gains[-1].value == gain
