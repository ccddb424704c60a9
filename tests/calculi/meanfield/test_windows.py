"""Attention within windows: sizes and gradients are those of as many tokens as meet, and how alike all tokens are is not told by it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import Report

pytestmark = pytest.mark.by_the_day

WIDTH, HEADS, PLACES, SIDE, DEPTH = 32, 4, 16, 4, 12


class Block(nn.Module):
    """Pre-norm attention over all tokens, over runs of four, over every fourth one, or over rows and then columns."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norms = how, nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.maps = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.outs = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        for w in (*self.maps, *self.outs):
            nn.init.normal_(w.weight, std=WIDTH**-0.5)

    def attend(self, i: int, h: Tensor) -> Tensor:
        """Over the last axis of tokens of […, tokens, features]."""
        q, k, v = self.maps[i](h).unflatten(-1, (3, HEADS, -1)).movedim(-3, 0).transpose(-2, -3)
        return self.outs[i]((((q @ k.mT) * (WIDTH // HEADS) ** -0.5).softmax(-1) @ v).transpose(-2, -3).flatten(-2))

    def mixed(self, i: int, h: Tensor) -> Tensor:
        if self.how == "runs":
            return self.attend(i, h.reshape(-1, SIDE, WIDTH)).reshape(h.shape)
        square = h.unflatten(1, (SIDE, SIDE))
        if self.how == "grid" or (self.how == "axes" and i):
            return self.attend(i, square.transpose(1, 2)).transpose(1, 2).flatten(1, 2)
        if self.how == "axes":
            return self.attend(i, square).flatten(1, 2)
        if self.how == "turned":  # tokens first, samples second
            q, k, v = self.maps[i](h.transpose(0, 1)).unflatten(-1, (3, HEADS, -1)).unbind(-3)
            q, k, v = (t.permute(1, 2, 0, 3) for t in (q, k, v))
            return self.outs[i](F.scaled_dot_product_attention(q, k, v).permute(2, 0, 1, 3).flatten(-2)).transpose(0, 1)
        return self.attend(i, h)

    def forward(self, x: Tensor) -> Tensor:
        for i, norm in enumerate(self.norms):
            x = x + self.mixed(i, norm(x))
        return x


def _measured(how: str) -> tuple[float, float]:
    """(rms of the last state over that of the first, 1 − cos over pairs of tokens), means of eight draws in float64."""
    found = []
    for seed in range(8):
        torch.manual_seed(seed)
        x = torch.randn(16, PLACES, WIDTH, dtype=torch.float64)
        with torch.no_grad():
            y = nn.Sequential(*(Block(how).double() for _ in range(DEPTH)))(x)
        unit = F.normalize(y, dim=-1)
        pairs = (unit @ unit.mT).sum((1, 2)) - PLACES
        found.append((float(y.pow(2).mean().sqrt() / x.pow(2).mean().sqrt()), 1 - float(pairs.mean()) / (PLACES * (PLACES - 1))))
    sizes, apart = zip(*found, strict=True)
    return sum(sizes) / len(sizes), sum(apart) / len(apart)


def _report(how: str) -> Report:
    return screen.check(nn.Sequential(*(Block(how) for _ in range(DEPTH))), example_inputs=torch.randn(2, PLACES, WIDTH))


@pytest.mark.parametrize("how", ["all", "turned", "runs", "grid", "axes"])
def test_what_is_told_of_tokens_in_windows_holds(how: str) -> None:
    report, (size, apart) = _report(how), _measured(how)
    claims = {c.claim: c for c in report.claims if c.stream == "stream" and c.weights == "start"}
    assert claims["rms_ratio"].value == pytest.approx(size, rel=0.2)
    told = claims["one_minus_cos"]
    if how in ("all", "turned"):
        assert told.status == "proved" and "windows" not in told.reason
    else:
        assert told.status != "proved" and "windows" in told.reason
        assert apart > 0.3 or how == "axes"
