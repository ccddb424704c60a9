"""Output maps that an attention and a feed-forward share, where the tokens of the attention are cut and laid beside each other again."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, HEADS, WORDS = 48, 4, 5


class Single(nn.Module):
    """One map reads [attention, hidden layer]; words stand behind the picture, and leave it for the attention. `swapped`: the hidden layer first."""

    def __init__(self, swapped: bool) -> None:
        super().__init__()
        self.swapped = swapped
        self.norm, self.wide = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.q, self.k, self.v = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, picture: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([picture, words], dim=1)
        q, k, v = (m(both).unflatten(-1, (HEADS, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return y[:, :-WORDS], y[:, -WORDS:]

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        mixed = torch.cat(self.attend(normed[:, :-WORDS], normed[:, -WORDS:]), dim=1)
        parts = [F.gelu(self.wide(normed)), mixed] if self.swapped else [mixed, F.gelu(self.wide(normed))]
        out: Tensor = x + self.out(torch.cat(parts, dim=2))
        return out


@pytest.mark.parametrize("swapped", [False, True])
def test_attention_whose_tokens_are_laid_together_again_stands_beside_its_feed_forward(swapped: bool) -> None:
    model = nn.Sequential(*(Single(swapped) for _ in range(3)), nn.LayerNorm(WIDTH))
    stream, = screen.check(model, example_inputs=torch.zeros(2, 17, WIDTH)).streams
    assert stream.depth == 3
    assert {(s.role, s.placement, s.parallel_group) for k in stream.kinds for s in k.sublayers} == {("attention", "pre", 0), ("ffn", "pre", 0)}


class Subtracted(nn.Module):
    """What one attention gives less a trained share of what another gives, each head normed; a map of both it and a hidden layer."""

    def __init__(self, gated: bool) -> None:
        super().__init__()
        self.norm, self.wide, self.qkv = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, 5 * WIDTH)
        self.share, self.heads, self.out = nn.Parameter(torch.zeros(HEADS, 1, 1)), nn.RMSNorm(WIDTH // HEADS), nn.Linear(3 * WIDTH, WIDTH)
        self.gate = nn.Linear(WIDTH, WIDTH) if gated else None

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        a, b, c, d, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(normed).chunk(5, dim=-1))
        one, two = F.scaled_dot_product_attention(a, b, v), F.scaled_dot_product_attention(c, d, v)
        y = (0.7 * self.heads(one - self.share * two)).transpose(1, 2).flatten(2)
        y = y if self.gate is None else y * torch.sigmoid(self.gate(normed))
        return x + self.out(torch.cat([F.relu(self.wide(normed)), y], dim=-1))


@pytest.mark.parametrize("gated", [False, True])
def test_two_attentions_that_are_subtracted_stand_beside_their_feed_forward(gated: bool) -> None:
    model = nn.Sequential(*(Subtracted(gated) for _ in range(3)), nn.RMSNorm(WIDTH))
    stream, = screen.check(model, example_inputs=torch.zeros(2, 17, WIDTH)).streams
    assert stream.depth == 3
    assert {(s.role, s.placement, s.parallel_group) for k in stream.kinds for s in k.sublayers} == {("attention", "pre", 0), ("ffn", "pre", 0)}
