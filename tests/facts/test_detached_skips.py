"""What gradients see of a stream that is detached in part: `x - s * x.detach()` hands them on whole, `a * x + (1 - a) * x.detach()` by a."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, DEPTH = 32, 12
OF_A = 0.1


def _taken_off(x: Tensor, s: Tensor) -> Tensor:
    return x - nn.functional.silu(s) * x.detach()


def _shrunk(x: Tensor, s: Tensor) -> Tensor:
    return 0.9 * x + (1 - 0.9) * x.detach()


def _rounded(x: Tensor, s: Tensor) -> Tensor:
    return x + (x.round() - x).detach()


def _half(x: Tensor, s: Tensor) -> Tensor:
    return torch.add(x, x.data) / 2


def _cut(x: Tensor, s: Tensor) -> Tensor:
    return x.detach()


def _whole(x: Tensor, s: Tensor) -> Tensor:
    return x


class Block(nn.Module):
    def __init__(self, skip: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.skip, self.s = skip, nn.Parameter(torch.tensor(OF_A))

    def forward(self, x: Tensor) -> Tensor:
        x = self.skip(x, self.s)
        return x + self.down(torch.relu(self.up(self.norm(x))))


@pytest.mark.parametrize(
    ("skip", "outcome", "gain"),
    [
        (_whole, "holds", "1"),
        (_taken_off, "holds", "1 for gradients"),
        (_rounded, "holds", "1 for gradients"),
        (_shrunk, "conditional", f"{0.9**DEPTH:.4g} for gradients"),
        (_half, "conditional", f"{0.5**DEPTH:.4g} for gradients"),
        (_cut, "violated", None),
    ],
)
def test_the_identity_path_is_that_of_gradients(skip: Callable[[Tensor, Tensor], Tensor], outcome: str, gain: str | None) -> None:
    report = screen.check(Block(skip), example_inputs=torch.randn(2, 8, WIDTH), depth=DEPTH)
    assert [f.outcome for f in report.findings if f.code == "D101"] == [outcome]
    assert report.streams[0].identity_path.gain == gain
