"""Attention that sums tokens by weights and multiplies each by the sum, however the weights are made alike; beside it what only looks so.
Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from tests.structure.mixed_blocks import Stack

pytestmark = pytest.mark.by_the_day

WIDTH = 16


class Additive(nn.Module):
    """o(p(k ⊙ Σ w q) + q): the weight w of a token is a map of q, by a softmax over tokens, over its size over tokens, or alone; `mean`: none."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.q, self.k = how, nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.weigh, self.p, self.o = nn.Linear(WIDTH, 1, bias=False), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k = F.normalize(self.q(x), dim=-1), F.normalize(self.k(x), dim=-1)
        if self.how == "mean":
            pooled = q.mean(1, keepdim=True)
        else:
            w = self.weigh(q) * WIDTH**-0.5
            if self.how == "sum":
                w = w / w.abs().sum(1, keepdim=True)
            else:
                w = w.softmax(1) if self.how == "softmax" else F.normalize(w, dim=1)
            pooled = (w * q).sum(1, keepdim=True)
        return self.o(self.p(k * pooled) + q)


class Block(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.mix, self.norm = Additive(how), nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(x)
        return x + self.feed(self.norm(x))


@pytest.mark.parametrize(
    ("how", "role"), [("softmax", "linear_attention"), ("size", "linear_attention"), ("sum", "linear_attention"), ("mean", "gated_ffn")]
)
def test_tokens_that_are_summed_by_weights_are_attention(how: str, role: str) -> None:
    """Weights that are brought to one size over all tokens, by no softmax, made a gated feed-forward of it (SwiftFormer)."""
    (stream,) = screen.check(Stack(nn.Linear(8, WIDTH), [Block(how) for _ in range(3)]), example_inputs=torch.zeros(2, 11, 8)).streams
    assert [f"{s.role}:{s.placement}" for s in stream.kinds[0].sublayers] == [f"{role}:none", "ffn:pre"]
