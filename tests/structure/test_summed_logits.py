"""Logits that are a sum of two products: what is said of the norms of queries and keys has to hold for both."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, HEADS, SIZE = 32, 4, 8


class Parted(nn.Module):
    """Heads of a part that may turn and of one that does not, each with a product of its own; `normed`: the parts whose keys have a norm."""

    def __init__(self, normed: tuple[int, ...]) -> None:
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.asks = nn.ModuleList(nn.Linear(WIDTH, HEADS * SIZE) for _ in range(2))
        self.keys = nn.ModuleList(nn.Linear(WIDTH, HEADS * SIZE) for _ in range(2))
        self.value, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.normed = normed

    def forward(self, x: Tensor) -> Tensor:
        h, logits = self.before(x), []
        for part, (ask, key) in enumerate(zip(self.asks, self.keys, strict=True)):
            q, k = (m(h).unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for m in (ask, key))
            logits.append(q @ (F.rms_norm(k, (SIZE,)) if part in self.normed else k).mT)
        weights = ((logits[0] + logits[1]) / (2 * SIZE) ** 0.5).softmax(-1)
        mixed = weights @ self.value(h).unflatten(-1, (HEADS, SIZE)).transpose(1, 2)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("normed", "said"), [((0,), "none"), ((1,), "none"), ((0, 1), "per_head"), ((), "none")])
def test_keys_are_normed_where_those_of_both_products_are(normed: tuple[int, ...], said: str) -> None:
    torch.manual_seed(0)
    report = screen.check(nn.Sequential(*(Parted(normed) for _ in range(2))), example_inputs=torch.randn(2, 6, WIDTH))
    (branch,) = {(b.role, b.k_norm, b.q_norm) for stream in report.streams for kind in stream.kinds for b in kind.sublayers}
    assert branch == ("attention", said, "none")
    assert any(f.code == "L101" and f.outcome == "violated" for f in report.findings) == (said != "none")
