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


class Bottlenecks(nn.Module):
    """Members of a list with one branch each: inverted bottlenecks, and filters of the stream as it is."""

    def __init__(self, plain: tuple[bool, ...], paired: bool) -> None:
        super().__init__()
        self.patch, self.paired = nn.Conv2d(3, WIDTH, 2, stride=2), paired
        local = [nn.Conv2d(WIDTH, WIDTH, 5, padding=2) if p else Filtered() for p in plain]
        parts = [[nn.Conv2d(WIDTH, WIDTH, 5, padding=2), part] for part in local] if paired else [[part] for part in local]
        self.blocks = nn.ModuleList([Sum(p) for p in parts])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for block in self.blocks:
            x = block(x)
        return x


class Sum(nn.Module):
    """x + f(N(x)), and once more with another f."""

    def __init__(self, parts: list[nn.Module]) -> None:
        super().__init__()
        self.first, self.norm = parts[0], nn.GroupNorm(1, WIDTH)
        self.second = parts[1] if len(parts) > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.first(self.norm(x))
        return x if self.second is None else x + self.second(self.norm(x))


def test_bottlenecks_beside_blocks_that_filter_are_convolutions() -> None:
    """One block that filters the stream made feed-forwards of the inverted bottlenecks in other blocks; one in the same block does (Mix-FFN)."""
    images = torch.zeros(2, 3, 16, 16)
    (alone,) = screen.check(Bottlenecks((False, False, True, False), False), example_inputs=images).streams
    assert {s.role for k in alone.kinds for s in k.sublayers} == {"conv"}
    (beside,) = screen.check(Bottlenecks((False, False, False), True), example_inputs=images).streams
    assert [s.role for s in beside.kinds[0].sublayers] == ["conv", "ffn"]
