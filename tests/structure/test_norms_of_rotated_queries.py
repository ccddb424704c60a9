"""Norms of queries and keys of a fused map, in front of rotations that are written out, beside keys of another stream."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, HEADS, HEAD = 48, 3, 16


def rotated(x: Tensor, table: Tensor) -> Tensor:
    """Pairs of features times 2 × 2 matrices."""
    pairs = x.float().reshape(*x.shape[:-1], -1, 1, 2)
    return (table[..., 0] * pairs[..., 0] + table[..., 1] * pairs[..., 1]).reshape(*x.shape).type_as(x)


class Both(nn.Module):
    """Queries of a picture; keys of it and of words, each with a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fused, self.words = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.one, self.two, self.three = nn.RMSNorm(HEAD), nn.RMSNorm(HEAD), nn.RMSNorm(HEAD)

    def forward(self, x: Tensor, words: Tensor, table: Tensor) -> Tensor:
        q, k, v = self.fused(self.norm(x)).reshape(*x.shape[:2], 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        their_k, their_v = self.words(words).reshape(*words.shape[:2], 2, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        q, k, their_k = rotated(self.one(q), table), rotated(self.two(k), table), self.three(their_k)
        y = F.scaled_dot_product_attention(q.contiguous(), torch.cat([their_k, k], 2), torch.cat([their_v, v], 2))
        return x + self.out(y.transpose(1, 2).reshape(*x.shape))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.first, self.told = nn.ModuleList(Both() for _ in range(3)), nn.Linear(12, WIDTH), nn.Linear(20, WIDTH)
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, words: Tensor, places: Tensor | None = None, turned: bool = True) -> Tensor:
        x, words = self.first(x), self.told(words)
        places = torch.arange(x.shape[1])[None] if places is None else places
        angles = (places[..., None] / 100 ** (torch.arange(0, HEAD, 2) / HEAD))[:, None]
        entries = [angles.cos(), -angles.sin(), angles.sin(), angles.cos()] if turned else [angles] * 4
        table = torch.stack(entries, -1).unflatten(-1, (2, 2)).float()
        for block in self.blocks:
            x = block(x, words, table)
        out: Tensor = self.last(x)
        return out


def test_queries_and_keys_are_normed_before_they_are_rotated() -> None:
    report = screen.check(Net(), example_inputs=(torch.zeros(2, 17, 12), torch.zeros(2, 5, 20)))
    (sub, *_) = report.streams[0].kinds[0].sublayers
    assert (sub.role, sub.placement, sub.q_norm, sub.k_norm, sub.qk_norm) == ("attention", "pre", "per_head", "per_head", "per_head")


@pytest.mark.parametrize("turned", [True, False])
def test_tables_that_are_made_of_places_which_forward_is_given(turned: bool) -> None:
    """Cosines and sines of an argument are at most 1 (Flux: "QK-norm none", and logits that could not be told); the argument itself has no bound."""
    given = (torch.zeros(2, 17, 12), torch.zeros(2, 5, 20), torch.rand(2, 17), turned)
    report = screen.check(Net(), example_inputs=given, spot_check=False)
    (sub, *_) = report.streams[0].kinds[0].sublayers
    assert (sub.role, sub.q_norm, sub.k_norm, sub.qk_norm) == ("attention", "per_head", "per_head", "per_head")
    assert [f.outcome == "holds" for f in report.findings if f.code == "L201"] == [turned]
