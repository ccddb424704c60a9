"""Which quotients may be a softmax that is written out: those by what several exponentials are put together in."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

example_inputs = (torch.randn(2, 8, 32),)


class Block(nn.Module):
    """x: [2, 8, 32]; the map of each kind mixes its 8 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.second, self.out = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.rate = nn.Parameter(torch.zeros(32))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.out(self.body(self.norm(x)))
        return out

    def body(self, h: Tensor) -> Tensor:
        raise NotImplementedError


class Bumps(Block):
    """Distances are told to a net by bumps, and what it makes of them is divided by."""

    def body(self, h: Tensor) -> Tensor:
        seen = F.silu(self.first(torch.exp(-h.square())))
        out: Tensor = self.second(h) / (1 + seen.square().sum(-1, keepdim=True))
        return out


class Kernel(Block):
    """A rate that is an exponential, alone and beside an imaginary part."""

    def body(self, h: Tensor) -> Tensor:
        rate = torch.complex(-self.rate.exp(), torch.ones_like(self.rate))
        out: Tensor = self.first(h) * ((rate * 0.1).exp() / rate).real
        return out


class Alone(Block):
    """Over one exponential times another."""

    def body(self, h: Tensor) -> Tensor:
        out: Tensor = self.first(h) / (h.clamp(-1, 1).exp() * self.rate.exp())
        return out


class Apart(Block):
    """Weighed sums over sums of weights, each by itself."""

    def body(self, h: Tensor) -> Tensor:
        weights = torch.exp(self.first(h))
        return torch.cumsum(weights * self.second(h), 1) / torch.cumsum(weights, 1)


class Features(Block):
    """Products of exponentials of queries and keys, over their sum."""

    def body(self, h: Tensor) -> Tensor:
        q, k = torch.exp(self.first(h)), torch.exp(self.second(h))
        return q @ (k.transpose(1, 2) @ h) / (q @ k.sum(1)[..., None])


class Clipped(Block):
    """The sum is clipped before it divides."""

    def body(self, h: Tensor) -> Tensor:
        weights = torch.exp(self.first(h))
        out: Tensor = (weights * h).sum(1, keepdim=True) / weights.sum(1, keepdim=True).clamp(min=1.0) + self.second(h)
        return out


class OfLogarithm(Block):
    """Over the exponential of the logarithm of a sum of them."""

    def body(self, h: Tensor) -> Tensor:
        weights = torch.exp(self.first(h))
        out: Tensor = (weights * h).sum(1, keepdim=True) / torch.exp(torch.log(weights.sum(1, keepdim=True))) + self.second(h)
        return out


class TwoOfThem(Block):
    """Of two values."""

    def body(self, h: Tensor) -> Tensor:
        a, b = torch.exp(self.first(h)), torch.exp(self.second(h))
        return h * (a / (a + b)) + h.mean(1, keepdim=True) * (b / (b + a))


class Signed(Block):
    """Products of queries and keys times gates, over the size of their sum, or one exponential where that is larger (a matrix memory)."""

    def body(self, h: Tensor) -> Tensor:
        gate = self.rate.mean() * h.mean(-1)[:, None]
        top = gate.amax(-1, keepdim=True)
        s = self.first(h) @ self.second(h).mT * 32**-0.5 * torch.exp(gate - top)
        out: Tensor = s / (torch.maximum(s.sum(-1, keepdim=True).abs(), torch.exp(-top)) + 1e-6) @ h
        return out


class Positive(Block):
    """Exponentials times what is above 0: shares all the same."""

    def body(self, h: Tensor) -> Tensor:
        shares = torch.exp(self.first(h)) * torch.sigmoid(self.second(h))
        return (shares * h).cumsum(1) / (shares.cumsum(1) + 1e-6)


class OneMore(Block):
    """1/(1 + e^(b − a)) and the rest of it, a softmax of a and b."""

    def body(self, h: Tensor) -> Tensor:
        share = 1 / (1 + torch.exp(self.first(h) - self.second(h)))
        return share * h + (1 - share) * h.mean(1, keepdim=True)


@pytest.mark.parametrize("block", ["Bumps", "Kernel", "Alone", "Signed"])
def test_no_softmax(block: str) -> None:
    assert _softmax(block) is False


@pytest.mark.parametrize("block", ["Apart", "Features", "Clipped", "OfLogarithm", "TwoOfThem", "Positive", "OneMore"])
def test_softmax_perhaps(block: str) -> None:
    assert _softmax(block) is not False


def _softmax(block: str) -> object:
    report = screen.check(f"{__file__}::{block}", depth=6, isolate=False, spot_check=False)
    return next(c.value for c in report.claims if c.claim == "softmax" and c.sublayer is None)
