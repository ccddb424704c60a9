"""Cosines whose lengths are divided out of a product, in every spelling, and what only looks like one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, TOKENS, HEADS = 32, 16, 4
Score = Callable[[Tensor, Tensor], Tensor]


class Block(nn.Module):
    """Attention of heads whose logits are ten times what `score` makes of queries and keys [samples, heads, tokens, entries]."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.norm, self.score, self.heat = nn.LayerNorm(WIDTH), score, nn.Parameter(torch.full((HEADS, 1, 1), 10.0))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (f(y).view(2, TOKENS, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        return x + self.o(((self.score(q, k) * self.heat).softmax(-1) @ v).transpose(1, 2).reshape(2, TOKENS, WIDTH))


COSINES: dict[str, Score] = {
    "over both": lambda q, k: torch.einsum("bhqd,bhkd->bhqk", q, k) / (q.norm(dim=-1)[..., :, None] * k.norm(dim=-1)[..., None, :]).clamp_min(1e-6),
    "with a number added": lambda q, k: (q @ k.mT) / (q.norm(dim=-1, keepdim=True) * k.norm(dim=-1, keepdim=True).mT + 1e-8),
    "one after the other": lambda q, k: (q @ k.mT) / q.norm(dim=-1, keepdim=True) / k.norm(dim=-1).unsqueeze(-2),
    "times inverses": lambda q, k: (q @ k.mT) * (q.pow(2).sum(-1, keepdim=True) + 1e-6).rsqrt() * (k.pow(2).sum(-1, keepdim=True) + 1e-6).rsqrt().mT,
    "one root of both": lambda q, k: (q @ k.mT) / ((q * q).sum(-1)[..., None] * (k * k).sum(-1)[..., None, :]).sqrt().clamp(min=1e-6),
    "entries that are summed": lambda q, k: (q[..., :, None, :] * k[..., None, :, :]).sum(-1)
    / torch.einsum("bhq,bhk->bhqk", q.norm(dim=-1), k.norm(dim=-1)),
    "roots of means": lambda q, k: (q @ k.mT)
    / (q.square().mean(-1, keepdim=True).sqrt() * k.square().mean(-1, keepdim=True).sqrt().mT)
    / q.shape[-1],
}
OTHERS: dict[str, Score] = {
    "lengths of keys along queries": lambda q, k: (q @ k.mT) / (q.norm(dim=-1, keepdim=True) * k.norm(dim=-1, keepdim=True) + 1e-8),
    "queries alone": lambda q, k: (q @ k.mT) / (q.norm(dim=-1, keepdim=True) + 1e-8),
    "queries twice": lambda q, k: (q @ k.mT) / (q.norm(dim=-1, keepdim=True) * q.norm(dim=-1, keepdim=True).mT + 1e-8),
    "lengths of entries": lambda q, k: (q @ k.mT) / (q.norm(dim=-2).mean(-1)[..., None, None] * k.norm(dim=-1, keepdim=True).mT + 1e-8),
    "other heads": lambda q, k: (q @ k.mT) / (q.norm(dim=-1, keepdim=True) * k.flip(1).norm(dim=-1, keepdim=True).mT + 1e-8),
    "a smaller one": lambda q, k: (q @ k.mT) / (q.norm(dim=-1, keepdim=True) * k.norm(dim=-1, keepdim=True).mT).clamp(max=1.0),
}


def told(score: Score) -> object:
    torch.manual_seed(0)
    report = screen.check(Block(score), example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=4, spot_check=False)
    return next(c.value for c in report.claims if c.claim == "logits_bounded")


@pytest.mark.by_the_day
@pytest.mark.parametrize("score", list(COSINES.values()), ids=list(COSINES))
def test_a_cosine_is_bounded(score: Score) -> None:
    q, k = (torch.randn(2, HEADS, TOKENS, 8, dtype=torch.float64) * 10.0 ** torch.randn(2, HEADS, TOKENS, 1, dtype=torch.float64) for _ in range(2))
    assert score(q, k).abs().max() <= 1 + 1e-9
    assert told(score) is True


@pytest.mark.parametrize("score", list(OTHERS.values()), ids=list(OTHERS))
def test_what_is_none_is_not(score: Score) -> None:
    q, k = (torch.randn(2, HEADS, TOKENS, 8, dtype=torch.float64) * 10.0 ** torch.randn(2, HEADS, TOKENS, 1, dtype=torch.float64) for _ in range(2))
    assert score(q, k).abs().max() > 2
    assert told(score) is not True


class FlatGains(nn.Module):
    """Queries and keys of length 1, times gains that stand in one vector for all heads, times a number; `tokens`: one for each token and entry."""

    def __init__(self, tokens: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.norm, self.gain = nn.LayerNorm(WIDTH), nn.Parameter(torch.full((TOKENS * WIDTH if tokens else WIDTH,), 0.5))

    def logits(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k = (nn.functional.normalize(f(y).view(2, TOKENS, HEADS, -1).transpose(1, 2), dim=-1) for f in (self.q, self.k))
        gain = (self.gain * 2.0).view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2)
        return (q * gain) @ (k * gain).mT * 3.0

    def forward(self, x: Tensor) -> Tensor:
        v = self.v(self.norm(x)).view(2, TOKENS, HEADS, -1).transpose(1, 2)
        return x + self.o((self.logits(x).softmax(-1) @ v).transpose(1, 2).reshape(2, TOKENS, WIDTH))


@pytest.mark.by_the_day
def test_gains_of_all_heads_in_one_vector_are_gains() -> None:
    torch.manual_seed(0)
    block, x = FlatGains(), torch.randn(2, TOKENS, WIDTH)
    report = screen.check(block, example_inputs=(x,))
    [found] = [f for f in report.findings if f.code == "L201"]
    assert found.outcome == "holds" and "given `gain`: at most 12 with its entries at 1" in found.message
    with torch.no_grad():
        block.gain.fill_(1.0)
        block.k.weight.copy_(block.q.weight)
        assert 11.9 < float(block.double().logits(x.double()).abs().max()) < 12 + 1e-9
    positions = screen.check(FlatGains(tokens=True), example_inputs=(x,))
    assert [f.outcome for f in positions.findings if f.code == "L201"] != ["holds"], "a table of positions is no gain of a norm"
