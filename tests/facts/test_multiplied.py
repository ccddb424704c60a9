"""A stream that weights multiply past every branch: a law that one draw shows is one where their sizes are no matter of weights."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

D, DEPTH = 16, 24


class Turned(nn.Module):
    """A spectrum of the tokens is turned by phases of a table, and a net of the norm is added."""

    length = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.table = nn.Parameter(torch.randn(5, D))

    def phases(self, table: Tensor) -> Tensor:
        return torch.polar(torch.full_like(table, self.length), table)

    def forward(self, x: Tensor) -> Tensor:
        moved = torch.fft.irfft(torch.fft.rfft(x, dim=1) * self.phases(self.table), n=x.shape[1], dim=1)
        return moved + self.down(F.gelu(self.up(self.norm(x))))  # type: ignore[no-any-return]


class TurnedLong(Turned):
    length = 1.3


class OverItsSize(Turned):
    """z over its size, which is kept from zero."""

    def phases(self, table: Tensor) -> Tensor:
        z = torch.complex(table, table.roll(1, 0))
        return z / z.abs().clamp_min(1e-6)


class LengthOfWeights(Turned):
    """Lengths around one are weights."""

    def phases(self, table: Tensor) -> Tensor:
        return torch.polar(1 + 0.05 * table.roll(1, 0).sin(), table)


example_inputs = {name: (torch.randn(2, 8, D),) for name in ("Turned", "TurnedLong", "OverItsSize", "LengthOfWeights")}


LAWS = {"Turned": "linear", "TurnedLong": "exponential", "OverItsSize": "linear", "LengthOfWeights": None}


@pytest.mark.by_the_day
@pytest.mark.parametrize(("block", "law"), list(LAWS.items()))
def test_a_size_that_is_no_matter_of_weights(block: str, law: str | None) -> None:
    report = screen.check(f"{__file__}::{block}", depth=DEPTH, isolate=False)
    assert next(c.value for c in report.claims if c.claim == "growth" and c.weights == "fixed") == law
