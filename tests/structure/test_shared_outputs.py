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
