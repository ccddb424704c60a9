"""A gain of the identity path that is derived as a range, and measured, is told as it was measured, by every rule that speaks of it."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, DEPTH = 32, 24


class Turned(nn.Module):
    """Pairs of features are turned by learned angles and made 1.05 times as long; a net of a norm is added."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.angle = nn.Parameter(torch.rand(WIDTH // 2) * 6.28)

    def carry(self, x: Tensor) -> Tensor:
        z = torch.view_as_complex(x.unflatten(-1, (WIDTH // 2, 2)).contiguous())
        return torch.view_as_real(z * torch.polar(torch.full_like(self.angle, 1.05), self.angle)).flatten(-2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.carry(x) + self.down(F.gelu(self.up(self.norm(x))))
        return out


class Doubled(Turned):
    """Even features are taken twice and odd ones never: √2 once, at any depth."""

    def carry(self, x: Tensor) -> Tensor:
        return x[..., torch.arange(WIDTH, device=x.device) // 2 * 2]


@pytest.mark.by_the_day
@pytest.mark.parametrize(("block", "gain"), [(Turned, 1.05**DEPTH), (Doubled, math.sqrt(2))])
def test_one_gain_is_told(block: type[nn.Module], gain: float) -> None:
    torch.manual_seed(0)
    report = screen.check(block(), example_inputs=torch.randn(2, 8, WIDTH), depth=DEPTH)
    said = {f.code: f.message for f in report.findings}
    assert f"the gain {gain:.4g} over its depth, as measured" in said["D101"] and f"{gain:.3g}" in said["D202"]
    assert "more than once: gradients of early blocks grow" not in said["D202"] and "multipliers" not in said["R301"]


def test_what_is_taken_twice_is_not_taken_again() -> None:
    """The largest singular value of the carried map, float64, at 1 and at 24 blocks."""
    block, found = Doubled(), []
    eye = torch.eye(WIDTH, dtype=torch.float64)
    for depth in (1, DEPTH):
        x = eye
        for _ in range(depth):
            x = block.carry(x)
        found.append(float(torch.linalg.matrix_norm(x, 2)))
    assert found == pytest.approx([math.sqrt(2)] * 2)
