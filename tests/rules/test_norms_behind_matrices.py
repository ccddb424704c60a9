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
