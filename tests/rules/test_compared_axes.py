"""Norms of queries and keys count where they run over the axis that the product of both sums over; all that is said of them says the same."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, HEADS, PLACES = 32, 4, 16
HEAD = WIDTH // HEADS


class Block(nn.Module):
    """Attention with one kind of norm before its logits; `logits` keeps them."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm, self.project, self.out = how, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.over_batch = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(self.norm(x)).chunk(3, -1)
        if self.how == "batch":
            q, k = (n(t.mT).mT for n, t in zip(self.over_batch, (q, k), strict=True))
        if self.how == "channels by places":
            q, k = F.normalize(q, dim=1), F.normalize(k, dim=1)
        q, k, v = (t.unflatten(-1, (HEADS, HEAD)) for t in (q, k, v))  # [samples, places, heads, features]
        if self.how == "heads":
            q, k = (t / t.norm(dim=2, keepdim=True).clamp_min(1e-6) for t in (q, k))
        if self.how == "keys turned first":
            q, k = F.rms_norm(q, (HEAD,)), F.rms_norm(k.transpose(1, 3), (PLACES,)).transpose(1, 3)
        if self.how == "features":
            q, k = F.rms_norm(q, (HEAD,)), F.rms_norm(k, (HEAD,))
        if self.how in ("channels", "channels by places"):
            self.logits = torch.einsum("bnhd,bnhe->bhde", q, k)
            y = torch.einsum("bhde,bnhe->bnhd", self.logits.softmax(-1), v)
        else:
            self.logits = torch.einsum("bnhd,bmhd->bhnm", q, k)
            y = torch.einsum("bhnm,bmhd->bnhd", self.logits.softmax(-1), v)
        return x + self.out(y.flatten(-2))


CASES = [
    # how, (queries, keys) whose lengths are bounded, the largest logit whatever the map
    ("features", ("per_head", "per_head"), HEAD),
    ("channels by places", ("cosine", "cosine"), 1),
    ("heads", ("none", "none"), HEAD),
    ("keys turned first", ("per_head", "none"), HEAD * PLACES**0.5),
    ("batch", ("none", "none"), HEAD * 2 * PLACES),
    ("channels", ("none", "none"), float("inf")),
]


@pytest.mark.by_the_day
@pytest.mark.parametrize(("how", "normed", "most"), CASES)
def test_norms_count_along_the_axis_of_the_sum(how: str, normed: tuple[str, str], most: float) -> None:
    torch.manual_seed(0)
    block = Block(how).double()
    block.project.weight.data.mul_(1e4)
    block(torch.randn(2, PLACES, WIDTH, dtype=torch.float64))
    assert float(block.logits.abs().amax()) <= most * 1.001
    report = screen.check(nn.Sequential(Block(how), Block(how)), example_inputs=torch.randn(2, PLACES, WIDTH))
    [sublayer] = report.streams[0].kinds[0].sublayers
    assert (sublayer.q_norm, sublayer.k_norm) == normed
    assert ("A2" in sublayer.positions) == ("none" not in normed)
    said = {f.code: f"{f.outcome}: {f.message}" for f in report.findings if f.code in ("L101", "G128", "L201")}
    across = "over another axis than the one" in said.get("G128", "") if how != "keys turned first" else None
    assert across in (None, normed == ("none", "none") and how != "channels")
    assert "none" not in normed or "QK-norm" not in said["L201"]
    assert sublayer.logits.bounded == ("no" if most == float("inf") else "yes"), said
    if how in ("heads", "batch"):
        assert "over another axis" in said["L101"] and said["L101"].startswith("holds")
