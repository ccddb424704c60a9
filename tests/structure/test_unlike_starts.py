"""Blocks that run one program and start otherwise: what one of them starts as is not said of the others, of many of them either."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

example_inputs = (torch.randn(2, 8, 32),)


class Block(nn.Module):
    """No norm. x: [2, 8, 32]."""

    def __init__(self, std: float | None) -> None:
        super().__init__()
        self.up, self.down, self.scale = nn.Linear(32, 64), nn.Linear(64, 32), nn.Parameter(torch.ones(32))
        if std is not None:
            nn.init.normal_(self.down.weight, std=std)
            nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(x)))
        return x + self.scale * out


class Model(nn.Module):
    """All alike."""

    layers = 24

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(map(self.block, range(self.layers))), nn.LayerNorm(32)

    def block(self, layer: int) -> nn.Module:
        return Block(None)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.norm(x)
        return out


class FirstSilent(Model):
    """The first block starts at zero."""

    def block(self, layer: int) -> nn.Module:
        return Block(0.0 if layer == 0 else 0.2)


class FirstSmall(Model):
    def block(self, layer: int) -> nn.Module:
        return Block(1e-4 if layer == 0 else 0.2)


class LastSilent(Model):
    def block(self, layer: int) -> nn.Module:
        return Block(0.0 if layer == self.layers - 1 else 0.2)


class ThirdSilent(Model):
    """Each third block starts at zero."""

    def block(self, layer: int) -> nn.Module:
        return Block(0.0 if layer % 3 == 0 else 0.2)


class FirstScaled(Model):
    """The scale of the first block's branch starts at zero."""

    def block(self, layer: int) -> nn.Module:
        made = Block(0.2)
        if layer == 0:
            nn.init.zeros_(made.scale)
        return made


class Long(FirstSilent):
    """More blocks than are all traced."""

    layers = 60


class LongMiddle(Model):
    """One in the middle starts at zero."""

    layers = 60

    def block(self, layer: int) -> nn.Module:
        return Block(0.0 if layer == 31 else 0.2)


class EachItsOwn(Model):
    """Each block starts smaller than the one before it."""

    def block(self, layer: int) -> nn.Module:
        return Block(0.2 / (layer + 1))


class EachLarger(Model):
    """Each block starts larger than the one before it."""

    def block(self, layer: int) -> nn.Module:
        return Block(0.01 * (layer + 1))


class BalancedBlock(Block):
    """What it adds is mixed by a matrix whose rows and columns are brought to one in turn, each time by two uses of it."""

    def __init__(self) -> None:
        super().__init__(None)
        self.scores = nn.Parameter(torch.randn(32, 32))

    def forward(self, x: Tensor) -> Tensor:
        mix = self.scores.exp()
        for step in range(40):
            mix = mix / mix.sum(step % 2, keepdim=True)
        out: Tensor = self.down(F.gelu(self.up(x)))
        return x + out @ mix


class Balanced(Model):
    layers = 4

    def block(self, layer: int) -> nn.Module:
        return BalancedBlock()


def test_weights_that_are_used_twice_again_and_again_are_followed_once() -> None:
    report = screen.check(f"{__file__}::Balanced", isolate=False, spot_check=False)
    [stream] = report.streams
    assert [kind.count for kind in stream.kinds] == [4]


@pytest.mark.parametrize(
    ("model", "counts"),
    [
        ("Model", [24]),
        ("FirstSilent", [1, 23]),
        ("FirstSmall", [1, 23]),
        ("LastSilent", [23, 1]),
        ("ThirdSilent", [8, 16]),
        ("FirstScaled", [1, 23]),
        ("Long", [1, 59]),
        ("LongMiddle", [59, 1]),
        ("EachItsOwn", [24]),
        ("EachLarger", [24]),
    ],
)
def test_kinds(model: str, counts: list[int]) -> None:
    report = screen.check(f"{__file__}::{model}", isolate=False, spot_check=False)
    [stream] = report.streams
    assert [kind.count for kind in stream.kinds] == counts and stream.depth == sum(counts)
    said = next(f for f in report.findings if f.code == "R101")
    assert "every branch is zero" not in said.message
    if model != "EachItsOwn":
        assert said.outcome == "violated" and report.verdict == "unstable"
    if "Silent" in model or "Long" in model or model == "FirstScaled":
        assert "not every branch starts at zero" in said.message


def test_the_first_block_is_no_measure_of_the_size_at_the_start() -> None:
    report = screen.check(f"{__file__}::FirstSmall", isolate=False)
    [ratio] = [c for c in report.claims if c.claim == "rms_ratio"]
    assert ratio.measured is not None and ratio.measured.agrees is True
