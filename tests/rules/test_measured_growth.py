"""Growth that was measured as linear: no exponential is told beside it, and no missing norm where norms stand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 32


class Wave(nn.Module):
    """Shares of waves of the raw stream, perhaps behind a norm: that sin² + cos² stays away from zero is not known."""

    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH) if normed else nn.Identity()
        self.up, self.down, self.pitch = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.pitch * self.up(self.norm(x))
        y = torch.cos(h) ** 2 / (torch.cos(h) ** 2 + torch.sin(h) ** 2)
        return x + self.down(y)  # type: ignore[no-any-return]


@pytest.mark.parametrize("normed", [False, True])
def test_a_stream_that_was_seen_to_grow_linearly_does_not_grow_exponentially(normed: bool) -> None:
    torch.manual_seed(0)
    report = screen.check(nn.Sequential(*(Wave(normed) for _ in range(12))), example_inputs=torch.randn(2, 8, WIDTH))
    (found,) = [f for f in report.findings if f.code == "R101"]
    assert found.outcome == ("holds" if normed else "conditional") and "exponentially" not in found.message
    assert ("No norm stands" in found.message) is not normed
