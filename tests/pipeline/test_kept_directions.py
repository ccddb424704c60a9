"""Growth is asked of the direction that is kept best: one channel of many, or one place, may keep what all others lose."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, TOKENS = 32, 16


class Kept(nn.Module):
    """x times numbers in a buffer, and a normed net."""

    def __init__(self, factors: Tensor) -> None:
        super().__init__()
        self.register_buffer("kept", factors)
        self.net = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x * self.kept + self.net(x)
        return out


KEPT = {
    "one channel keeps all": (torch.linspace(0.5, 1.0, WIDTH), {"linear"}),
    "from nothing to all": (torch.arange(WIDTH) / (WIDTH - 1.0), {"linear"}),
    "one channel grows slowly": (torch.linspace(0.5, 1.02, WIDTH), {None, "exponential"}),
    "the first place grows": (torch.tensor([1.05, *[0.5] * (TOKENS - 1)])[:, None], {None, "exponential"}),
    "all lose": (torch.linspace(0.5, 0.8, WIDTH), {"bounded"}),
}


@pytest.mark.by_the_day
@pytest.mark.parametrize(("factors", "laws"), list(KEPT.values()), ids=list(KEPT))
def test_growth_is_that_of_what_is_kept_best(factors: Tensor, laws: set[str | None]) -> None:
    report = screen.check(Kept(factors), example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=24)
    assert next(c.value for c in report.claims if c.claim == "growth" and c.weights == "fixed") in laws
