"""Logits times the logarithm of how many tokens are read, numbers of the program, which have ends; and times temperatures of channels."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH = 16
Length = Callable[[Tensor], Tensor]


def counted(h: Tensor) -> Tensor:
    return torch.arange(1, h.shape[1] + 1, device=h.device, dtype=h.dtype).log()[:, None]


def shifted(h: Tensor) -> Tensor:
    return torch.log2(torch.arange(h.shape[1], device=h.device).float() + 2).unsqueeze(1)


def added(h: Tensor) -> Tensor:
    return torch.log1p(torch.arange(2 * h.shape[1], h.shape[1], -1, device=h.device).to(h.dtype)).view(-1, 1)


def raw(h: Tensor) -> Tensor:
    """Of the data, which have no end."""
    return (1 + h.square().mean(-1, keepdim=True)).log().exp()


class Block(nn.Module):
    """x: [2, 8, 16]."""

    def __init__(self, length: Length, bare: bool = False) -> None:
        super().__init__()
        self.norm, self.q, self.k, self.v = nn.RMSNorm(WIDTH), *(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.q_norm, self.k_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.length, self.bare = length, bare

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        scale = self.length(self.v(x) if self.bare else h)
        q, k = self.q_norm(self.q(h)) * scale, self.k_norm(self.k(h))
        return x + F.scaled_dot_product_attention(q, k, self.v(h), is_causal=True)


def bounded(block: nn.Module) -> bool | None:
    claims = screen.check(block, example_inputs=torch.randn(2, 8, WIDTH), depth=4).claims
    (claim,) = [c for c in claims if c.claim == "logits_bounded"]
    return claim.value  # type: ignore[return-value]


@pytest.mark.parametrize("length", (counted, shifted, added), ids=lambda f: str(f.__name__))
def test_logits_times_a_logarithm_of_a_count_are_bounded(length: Length) -> None:
    assert bounded(Block(length)) is True


def test_those_times_what_data_make_are_not() -> None:
    assert bounded(Block(raw, bare=True)) is not True


class Channels(nn.Module):
    """A softmax over tokens for each channel, of a norm's entries, times one factor for each channel; or of a map of them."""

    def __init__(self, map_: bool) -> None:
        super().__init__()
        self.norm, self.out, self.map = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH) if map_ else nn.Identity()
        self.factor = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norm(x)) + 1e-7
        shares = (self.factor * self.map(h)).unsqueeze(1).expand(-1, 8, -1, -1).softmax(2)
        return x + self.out((shares * h.unsqueeze(1)).sum(2))


@pytest.mark.parametrize("map_", [False, True])
def test_one_number_for_each_softmax_is_a_temperature(map_: bool) -> None:
    assert bounded(Channels(map_)) is not map_
