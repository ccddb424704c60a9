"""Feed-forwards with a depthwise filter in the hidden layer, as the feed-forward of a block or beside one. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH = 16


class Filtered(nn.Module):
    """A map to four times the width, a depthwise filter, and back."""

    def __init__(self) -> None:
        super().__init__()
        wide = 4 * WIDTH
        self.parts = nn.Sequential(
            nn.Conv2d(WIDTH, wide, 1), nn.SiLU(), nn.Conv2d(wide, wide, 3, padding=1, groups=wide), nn.SiLU(), nn.Conv2d(wide, WIDTH, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.parts(x)


class Mixed(nn.Module):
    """Attention of all places of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Conv2d(WIDTH, 3 * WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).flatten(2).chunk(3, 1)
        return self.out((v @ torch.softmax(k.mT @ q * WIDTH**-0.5, 1)).unflatten(2, x.shape[2:]))


class Block(nn.Module):
    def __init__(self, plain: bool) -> None:
        super().__init__()
        plainly = [nn.Sequential(nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.GELU(), nn.Conv2d(2 * WIDTH, WIDTH, 1))] * plain
        self.parts = nn.ModuleList([Mixed(), *plainly, Filtered()])
        self.norms = nn.ModuleList([nn.GroupNorm(1, WIDTH) for _ in self.parts])

    def forward(self, x: Tensor) -> Tensor:
        for norm, part in zip(self.norms, self.parts, strict=True):
            x = x + part(norm(x))
        return x


class Stack(nn.Module):
    def __init__(self, plain: bool) -> None:
        super().__init__()
        self.patch, self.blocks = nn.Conv2d(3, WIDTH, 2, stride=2), nn.ModuleList([Block(plain) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize(("plain", "roles"), [(False, ["attention", "ffn"]), (True, ["attention", "ffn", "conv"])])
def test_a_filter_in_a_hidden_layer_beside_a_feed_forward_is_a_convolution(plain: bool, roles: list[str]) -> None:
    """An inverted bottleneck behind attention and a feed-forward was a second feed-forward."""
    (stream,) = screen.check(Stack(plain), example_inputs=torch.zeros(2, 3, 16, 16)).streams
    assert [s.role for s in stream.kinds[0].sublayers] == roles
