"""Feed-forwards with a depthwise filter behind them, which is added to what it reads or replaces it, and with a softmax for an activation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

D = 32


class Smoothed(nn.Module):
    """x + S(W₂ act(W₁ N(x))) with S(y) = y + filter(y), or the filter alone."""

    def __init__(self, skipped: bool) -> None:
        super().__init__()
        self.skipped = skipped
        self.norm, self.one, self.two = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.filter = nn.Conv1d(D, D, 3, groups=D)
        self.tokens, self.attention = nn.LayerNorm(D), nn.MultiheadAttention(D, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        read = self.tokens(x)
        x = x + self.attention(read, read, read, need_weights=False)[0]
        y = self.two(torch.tanh(self.one(self.norm(x))))
        filtered = self.filter(nn.functional.pad(y.mT, (2, 0))).mT
        return x + (filtered + y if self.skipped else filtered)


@pytest.mark.parametrize(("skipped", "role"), [(True, "ffn"), (False, "conv")])
def test_a_filter_with_a_skip_of_its_own_leaves_a_feed_forward_one(skipped: bool, role: str) -> None:
    model = nn.Sequential(*(Smoothed(skipped) for _ in range(3)), nn.LayerNorm(D))
    stream, = screen.check(model, example_inputs=torch.zeros(2, 12, D)).streams
    assert [(s.role, s.placement) for k in stream.kinds for s in k.sublayers] == [("attention", "pre"), (role, "pre")]


class Chosen(nn.Module):
    """x + W₂(s ⊙ h) with h = W₁ N(x) and s its softmax over features, or over tokens."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis, self.norm, self.one, self.two = axis, nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.one(self.norm(x))
        return x + self.two(hidden.softmax(self.axis) * hidden)


@pytest.mark.parametrize(("axis", "role"), [(-1, "ffn"), (1, "other")])
def test_a_softmax_over_features_is_the_activation_of_a_feed_forward(axis: int, role: str) -> None:
    model = nn.Sequential(nn.Embedding(40, D), *(Chosen(axis) for _ in range(3)), nn.LayerNorm(D))
    stream, = screen.check(model, example_inputs=torch.zeros(2, 12, dtype=torch.long)).streams
    assert {s.role for k in stream.kinds for s in k.sublayers} == {role}
