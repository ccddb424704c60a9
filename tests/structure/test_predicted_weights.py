"""Values weighed by a softmax of what one map makes of each place, with no queries and keys to compare. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from tests.structure.mixed_blocks import Mixed, Stack

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


@pytest.mark.parametrize(("how", "role"), [("all", "attention"), ("near", "attention"), ("twice", "linear_attention")])
def test_values_that_a_softmax_of_a_map_weighs_are_attention(how: str, role: str) -> None:
    """Weights that a map predicts (outlook attention, a dense synthesizer) were linear attention, though a softmax stands there."""
    model = Stack(nn.Linear(8, WIDTH), [Mixed(Predicted(how), WIDTH) for _ in range(3)])
    (stream,) = screen.check(model, example_inputs=torch.zeros(2, TOKENS, 8)).streams
    assert [f"{s.role}:{s.placement}" for s in stream.kinds[0].sublayers] == [f"{role}:pre", "ffn:pre"]
