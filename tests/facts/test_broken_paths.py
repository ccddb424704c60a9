"""Streams on which something stands that is no norm: no law of gradients is derived, and what was measured at the start is told beside that."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, DEPTH = 24, 12


class Rectified(nn.Module):
    """Images: filters of what batch norms give, a leaky rectifier of the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.Conv2d(WIDTH, WIDTH, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(WIDTH) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norms[0](self.one(x)))
        return nn.functional.leaky_relu(x + self.norms[1](self.two(h)), 0.1)


class Mapped(nn.Module):
    """Each block maps the stream, what tokens have in common is added to that, and a norm follows."""

    def __init__(self, share: float = 0.05) -> None:
        super().__init__()
        self.inner, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norm, self.share = nn.LayerNorm(WIDTH), share

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        w = torch.softmax(h @ h.mT / WIDTH**0.5, -1)
        h = h + self.share * (w @ self.value(h))
        return self.norm(h + torch.tanh(self.out(h)))


class MappedAlike(Mapped):
    def __init__(self) -> None:
        super().__init__(4.0)


class MappedLate(Mapped):
    """The map stands behind the norm: what a block hands on is as large as the map makes it."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(self.norm(x + torch.tanh(self.out(x))))
        return out


class MappedBare(Mapped):
    """No norm."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        return h + torch.tanh(self.out(h))


def _report(block: nn.Module, *shape: int, **options: Any) -> Any:
    torch.manual_seed(0)
    return screen.check(block, example_inputs=torch.randn(*shape), depth=DEPTH, **options)


def _channel(report: Any) -> Any:
    return next(c for c in report.channels if c.id == "D")


def test_a_function_of_the_sum() -> None:
    """Its numbers at the start are told, and that nothing is derived; without a measurement it stays unknown."""
    told = _channel(_report(Rectified(), 2, WIDTH, 8, 8))
    assert told.state == "conditional" and "not derived; at the start first over last gradient is" in told.reason
    assert _channel(_report(Rectified(), 2, WIDTH, 8, 8, spot_check=False)).state == "unknown"


@pytest.mark.parametrize(("block", "state"), [(Mapped, "conditional"), (MappedAlike, "open")])
def test_a_map_on_the_stream(block: type[nn.Module], state: str) -> None:
    """The loop is run at two depths though no linear part of it is known: tokens stay apart, or become alike."""
    report = screen.check(f"{__file__}::{block.__name__}", example_inputs=f"x=float32[2,8,{WIDTH}]", depth=DEPTH, isolate=False)
    assert any(c.claim == "gradient_ratio" and c.status == "measured" for c in report.claims)
    assert _channel(report).state == state


@pytest.mark.parametrize(("block", "fixed", "every"), [(Mapped, "bounded", "bounded"), (MappedLate, None, None), (MappedBare, None, None)])
def test_what_the_last_copy_gives_is_bounded_by_its_norm(block: type[nn.Module], fixed: str | None, every: str | None) -> None:
    laws = {c.weights: c.value for c in _report(block(), 2, 8, WIDTH).claims if c.claim == "growth"}
    assert laws == {"fixed": fixed, "all": every}


class OfOneLength(nn.Module):
    """`norm(x + f(x))` with the RMSNorm of `normalize`, √n and a gain."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.out, self.gain, self.shift = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.full((WIDTH,), 1.0 - shift)), shift

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = nn.functional.normalize(x + torch.tanh(self.out(x)), dim=-1) * WIDTH**0.5 * (self.gain + self.shift)
        return out


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_factor_of_a_norm_in_two_steps_breaks_no_path(shift: float) -> None:
    """D101 said that the path breaks at the gain of the norm, besides that it crosses norms."""
    report = screen.check(nn.Sequential(*(OfOneLength(shift) for _ in range(4))), example_inputs=torch.zeros(2, 9, WIDTH))
    (stream,) = report.streams
    assert (stream.identity_path.norms_crossed, list(stream.identity_path.breaks)) == (4, [])
    assert "breaks" not in next(f.message for f in report.findings if f.code == "D101")
