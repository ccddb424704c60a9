"""Values weighed by a softmax of what one map makes of each place, with no queries and keys to compare. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

pytestmark = pytest.mark.by_the_day

WIDTH, TOKENS = 16, 9


class Predicted(nn.Module):
    """o(softmax(a(x)) v(x)): weights of all places by a map, of three neighbours, or, `twice`, tokens pooled by one softmax and handed back."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.v, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.a, self.b = nn.Linear(WIDTH, {"all": TOKENS, "near": 3, "twice": 5}[how]), nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        v = self.v(x)
        if self.how == "twice":
            return self.o(self.b(x) @ (self.a(x).softmax(1).mT @ v))
        weights = self.a(x).softmax(-1)
        if self.how == "all":
            return self.o(weights @ v)
        near = F.pad(v, (0, 0, 1, 1)).unfold(1, 3, 1)
        return self.o((near @ weights[..., None]).squeeze(-1))


class Block(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.mix, self.first, self.second = Predicted(how), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.first(x))
        return x + self.feed(self.second(x))


class Stack(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.patch, self.blocks = nn.Linear(8, WIDTH), nn.ModuleList([Block(how) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize(("how", "role"), [("all", "attention"), ("near", "attention"), ("twice", "linear_attention")])
def test_values_that_a_softmax_of_a_map_weighs_are_attention(how: str, role: str) -> None:
    """Weights that a map predicts (outlook attention, a dense synthesizer) were linear attention, though a softmax stands there."""
    (stream,) = screen.check(Stack(how), example_inputs=torch.zeros(2, TOKENS, 8)).streams
    assert [f"{s.role}:{s.placement}" for s in stream.kinds[0].sublayers] == [f"{role}:pre", "ffn:pre"]
