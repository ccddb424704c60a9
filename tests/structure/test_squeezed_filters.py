"""A depthwise filter on a widened layer: of a feed-forward (Mix-FFN), or of a convolution with squeeze and excitation (MBConv)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

D = 24


class Filtered(nn.Module):
    """x + W₂(filter(W₁ N(x))), with a gate made of the mean of all places or without."""

    def __init__(self, squeezed: bool) -> None:
        super().__init__()
        self.norm, self.one, self.two = nn.GroupNorm(1, D), nn.Conv2d(D, 4 * D, 1), nn.Conv2d(4 * D, D, 1)
        self.filter = nn.Conv2d(4 * D, 4 * D, 3, padding=1, groups=4 * D)
        self.gate = nn.Sequential(nn.Conv2d(4 * D, 6, 1), nn.SiLU(), nn.Conv2d(6, 4 * D, 1), nn.Sigmoid()) if squeezed else None

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.silu(self.filter(nn.functional.silu(self.one(self.norm(x)))))
        if self.gate is not None:
            h = h * self.gate(h.mean((2, 3), keepdim=True))
        return x + self.two(h)


class Attended(nn.Module):
    """Attention of all places, and the filter behind it: beside another mixer of tokens a feed-forward stays one."""

    def __init__(self, squeezed: bool) -> None:
        super().__init__()
        self.norm, self.attention, self.filtered = nn.LayerNorm(D), nn.MultiheadAttention(D, 4, batch_first=True), Filtered(squeezed)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.norm(x.flatten(2).mT)
        return self.filtered(x + self.attention(tokens, tokens, tokens, need_weights=False)[0].mT.reshape(x.shape))


@pytest.mark.parametrize(("squeezed", "role"), [(False, "ffn"), (True, "conv")])
def test_a_squeezed_filter_is_a_convolution(squeezed: bool, role: str) -> None:
    """The gate of one number for each channel tells them apart."""
    model = nn.Sequential(*(Attended(squeezed) for _ in range(3))).eval()
    stream, = screen.check(model, example_inputs={"input": torch.zeros(2, D, 8, 8)}).streams
    assert [s.role for k in stream.kinds for s in k.sublayers] == ["attention", role]
