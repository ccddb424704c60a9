"""Where a stream ends, what is written into it, and quotients that are no softmax; each beside its near miss."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH = 16


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 4, WIDTH),)


class Merged(nn.Module):
    """Every second layer takes the mean with the state of two layers ago; the last factor stands behind the last sum."""

    factor = 0.5

    def __init__(self, n: int = 8) -> None:
        super().__init__()
        one = lambda: nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))  # noqa: E731
        self.blocks = nn.ModuleList(one() for _ in range(n))

    def forward(self, x: Tensor) -> Tensor:
        saved = x
        for i, block in enumerate(self.blocks):
            x = x + block(x)
            if i % 2:
                saved = x = self.factor * (x + saved)
        return x


class MergedSum(Merged):
    """Their sum: doubled four times."""

    factor = 1.0


class MiddleAgain(Merged):
    """The state in the middle is added again at the end: what the first half adds is carried on twice, what the second half adds once."""

    def __init__(self) -> None:
        super().__init__(12)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks[:6]:
            x = x + block(x)
        middle = x
        for block in self.blocks[6:]:
            x = x + block(x)
        return x + middle


class StatesAgain(MiddleAgain):
    """The states of the first half are added again one by one: the block before the middle is carried on twice, the first one seven times."""

    def forward(self, x: Tensor) -> Tensor:
        states = []
        for block in self.blocks[:6]:
            x = x + block(x)
            states.append(x)
        for block in self.blocks[6:]:
            x = x + states.pop()
            x = x + block(x)
        return x


class Radial(nn.Module):
    """Radial functions of the stream, divided by a number in every block."""

    def __init__(self) -> None:
        super().__init__()
        self.spline = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.register_buffer("grid", torch.linspace(-1.0, 1.0, 4))

    def basis(self, x: Tensor) -> Tensor:
        return torch.exp(-(((x[..., None] - self.grid) / 0.5) ** 2))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.spline(self.basis(x).flatten(-2))
        return out


class RadialShares(Radial):
    """Divided by their sum: a softmax."""

    def basis(self, x: Tensor) -> Tensor:
        found = super().basis(x)
        return found / found.sum(-1, keepdim=True)


class DoubledInPlace(nn.Module):
    """The first half of a clone is added to itself, with a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH // 2)

    def forward(self, x: Tensor) -> Tensor:
        y, h = F.gelu(self.map(self.norm(x))), x.clone()
        h[..., : WIDTH // 2] += y + h[..., : WIDTH // 2]
        return h


def report(name: str, depth: int | None = None) -> Report:
    return screen.check(f"{__file__}::{name}", depth=depth, isolate=False)


@pytest.mark.parametrize(("name", "gain"), [("Merged", 1.0), ("MergedSum", 16.0)])
def test_a_stream_ends_at_the_output_of_the_model(name: str, gain: float) -> None:
    assert max(c.value for c in report(name).claims if c.claim == "identity_gain" and isinstance(c.value, float)) == pytest.approx(gain)


@pytest.mark.parametrize(("name", "law"), [("MiddleAgain", None), ("StatesAgain", "polynomial")])
def test_one_step_is_no_law(name: str, law: str | None) -> None:
    assert [c.value for c in report(name).claims if (c.claim, c.weights) == ("growth", "fixed")] == [law]


def test_a_quotient_by_a_number_is_no_softmax() -> None:
    said = [next(c.value for c in report(n, 4).claims if c.claim == "softmax" and c.sublayer is None) for n in ("Radial", "RadialShares")]
    assert said == [False, True]


def test_what_is_written_with_the_stream_in_it_is_not_measured_as_nothing() -> None:
    gain = next(c for c in report("DoubledInPlace", 8).claims if c.claim == "identity_gain")
    assert gain.value is None
