"""What is bounded but for a learned scale behind the norm says so: the scale is no gain of a norm."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from tests.awkward.parts import FFN, TOKENS, D


class Scaled(nn.Module):
    def __init__(self, learned: bool) -> None:
        super().__init__()
        self.before, self.after, self.ffn = nn.LayerNorm(D), nn.RMSNorm(D), FFN()
        self.scale = nn.Parameter(torch.full((D,), 0.1)) if learned else None

    def forward(self, x: Tensor) -> Tensor:
        added = self.after(self.ffn(self.before(x)))
        return x + (added if self.scale is None else self.scale * added)


@pytest.mark.parametrize("learned", [True, False])
def test_a_learned_scale_is_named_beside_the_gains(learned: bool) -> None:
    model = nn.Sequential(*(Scaled(learned) for _ in range(3)), nn.LayerNorm(D))
    said = {f.code: f.message for f in screen.check(model, example_inputs=torch.randn(2, TOKENS, D), spot_check=False).findings}
    assert ("norm gains and its learned scale held fixed" in said["R201"]) is learned
    assert ("but norm gains and learned scales:" in said["R301"]) is learned
