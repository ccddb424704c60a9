"""Blocks whose stream passes a matrix and a norm behind the sum (ConvMixer): the last one ends in that norm, which a final norm would only repeat."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 32


class Skip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 5, groups=WIDTH, padding=2)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.mix(x).relu())  # type: ignore[no-any-return]


def mixer(*ends: type[nn.Module]) -> nn.Sequential:
    """Images of one axis, a matrix behind each sum, and what stands behind that."""
    made = {nn.GELU: nn.GELU, nn.BatchNorm1d: lambda: nn.BatchNorm1d(WIDTH), nn.Conv1d: lambda: nn.Conv1d(WIDTH, WIDTH, 1)}
    blocks = (nn.Sequential(Skip(), nn.Conv1d(WIDTH, WIDTH, 1), *(made[end]() for end in ends)) for _ in range(6))
    return nn.Sequential(nn.Conv1d(3, WIDTH, 4, 4), *blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(WIDTH, 10))


@pytest.mark.parametrize(
    ("ends", "violated"),
    [
        ((nn.GELU, nn.BatchNorm1d), False),
        ((nn.BatchNorm1d,), False),
        ((nn.GELU,), True),
        ((nn.BatchNorm1d, nn.Conv1d), True),
    ],
)
def test_the_norm_behind_the_last_matrix_hides_the_growth(ends: tuple[type[nn.Module], ...], violated: bool) -> None:
    report = screen.check(mixer(*ends), example_inputs=torch.zeros(2, 3, 64), spot_check=False)
    assert [s.depth for s in report.streams] == [6]
    assert ("G103" in {f.code for f in report.findings if f.outcome == "violated"}) is violated


class Headed(nn.Module):
    """Pre-norm blocks over a picture, and what stands between the last sum and the head: `behind` (RMT, EfficientNet, MobileNet)."""

    def __init__(self, *behind: nn.Module, beside: bool = False) -> None:
        super().__init__()
        self.beside = beside
        self.start, self.last = nn.Conv2d(3, WIDTH, 4, 4), nn.Linear(48, 10)
        self.norms = nn.ModuleList(nn.BatchNorm2d(WIDTH) for _ in range(4))
        self.maps = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(4))
        self.behind, self.other = nn.Sequential(*behind), nn.Conv2d(WIDTH, 48, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        for norm, mix in zip(self.norms, self.maps, strict=True):
            x = x + mix(norm(x)).relu()
        y = self.behind(x)
        return self.last((y + self.other(x) if self.beside else y).mean((2, 3)))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("behind", "beside", "outcome"),
    [
        ((nn.Conv2d(WIDTH, 48, 1), nn.BatchNorm2d(48), nn.SiLU()), False, "holds"),
        ((nn.AvgPool2d(2), nn.Conv2d(WIDTH, 48, 1), nn.BatchNorm2d(48)), False, "holds"),
        ((nn.Conv2d(WIDTH, 48, 1), nn.BatchNorm2d(48), nn.SiLU()), True, "violated"),
        ((nn.Conv2d(WIDTH, 48, 1), nn.SiLU(), nn.BatchNorm2d(48)), False, "violated"),
        ((nn.Conv2d(WIDTH, 48, 1), nn.SiLU()), False, "violated"),
    ],
)
def test_a_norm_behind_the_map_that_alone_reads_the_end_hides_the_growth(behind: tuple[nn.Module, ...], beside: bool, outcome: str) -> None:
    """norm(W c x) is norm(W x): a head behind `conv, BatchNorm` was said to see the growth (exit 1). Past it, or behind a function, it is seen."""
    report = screen.check(Headed(*behind, beside=beside), example_inputs=torch.zeros(2, 3, 64, 64), spot_check=False)
    [found] = [f for f in report.findings if f.code == "G103"]
    assert found.outcome == outcome, found.message
