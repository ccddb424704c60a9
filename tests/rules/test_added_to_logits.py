"""Of logits to which something is added by position, the size at the start is told of the products of queries and keys, and said to be."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH, HEADS, PLACES = 32, 4, 16


class Block(nn.Module):
    """Attention with slopes by distance that are stored, made as it runs, or learned; or with a mask in booleans; or plain."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm = how, nn.RMSNorm(WIDTH)
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        for w in (self.project, self.out):
            nn.init.normal_(w.weight, std=WIDTH**-0.5)
        self.register_buffer("slopes", 4 * 2.0 ** -torch.arange(HEADS))
        self.register_buffer("stored", self.distances())
        self.table = nn.Parameter(torch.randn(HEADS, 2 * PLACES - 1))

    def distances(self) -> Tensor:
        i = torch.arange(PLACES, device=self.slopes.device)
        return -self.slopes[:, None, None] * (i[:, None] - i).abs()

    def logits(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.project(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        u = q @ k.mT / (WIDTH // HEADS) ** 0.5
        i = torch.arange(PLACES, device=x.device)
        if self.how == "stored":
            u = u + self.stored
        if self.how == "made":
            u = u + self.distances()
        if self.how == "learned":
            u = u + self.table[:, i[:, None] - i + PLACES - 1]
        if self.how == "hidden by a sum":
            u = u + torch.full((PLACES, PLACES), float("-inf"), device=x.device).triu(1)
        if self.how == "hidden":
            u = u.masked_fill(i[:, None] < i, float("-inf"))
        return u, q, v

    def forward(self, x: Tensor) -> Tensor:
        u, _, v = self.logits(x)
        y: Tensor = x + self.out((u.softmax(-1) @ v).transpose(1, 2).flatten(-2))
        return y


class Fused(Block):
    """The same by the fused call."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        y: Tensor = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=self.stored).transpose(1, 2).flatten(-2))
        return y


@pytest.mark.by_the_day
@pytest.mark.parametrize("how", ["stored", "made", "learned", "fused", "hidden", "hidden by a sum", "plain"])
def test_what_is_added_is_named(how: str) -> None:
    make = (lambda: Fused("")) if how == "fused" else (lambda: Block(how))
    report = screen.check(nn.Sequential(make(), make()), example_inputs=torch.randn(2, PLACES, WIDTH))
    beside = how not in ("hidden", "hidden by a sum", "plain")
    for code in ("I202", "L201"):
        [message] = [f.plain or f.message for f in report.findings if f.code == code]
        assert ("before what is added to them" in message) is beside, message
    [size] = [c.value for c in report.claims if c.claim == "logit_rms"]
    assert size == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize(("how", "least", "most"), [("stored", 8.0, 20.0), ("plain", 0.8, 1.3)])
def test_what_is_added_counts(how: str, least: float, most: float) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        u = Block(how).double().logits(torch.randn(4, PLACES, WIDTH, dtype=torch.float64))[0]
    assert least < float(u.pow(2).mean().sqrt()) < most
