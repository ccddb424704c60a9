"""Calls that have no kernel on meta, or none that says what it does."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention

from tests.awkward.parts import FFN, HEADS, D

H = D // HEADS


class Flex(nn.Module):
    """`flex_attention` with a relative bias as a score function."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, H)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + 0.01 * (j - i))
        return self.o(y.transpose(1, 2).flatten(-2))


class Nested(nn.Module):
    """The FFN runs on a nested (jagged) tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.ffn = FFN()

    def forward(self, x: Tensor) -> Tensor:
        nested = torch.nested.as_nested_tensor(list(x.unbind(0)), layout=torch.jagged)
        return self.ffn(nested).to_padded_tensor(0.0)


@torch.library.custom_op("awkward::squared_relu", mutates_args=())
def squared_relu(x: Tensor) -> Tensor:
    """A custom op without a meta kernel: what it does cannot be read."""
    return torch.relu(x).square()


class Custom(nn.Module):
    """The activation is a custom op."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(D, 80), nn.Linear(80, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(squared_relu(self.up(x)))


@torch.library.custom_op("awkward::fused_norm", mutates_args=())
def fused_norm(x: Tensor) -> Tensor:
    """A custom op on the stream itself: whether it is a norm cannot be read."""
    return F.layer_norm(x, x.shape[-1:])


@fused_norm.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class Opaque(nn.Module):
    """The A norm is a custom op that has a meta kernel: shapes are known, meaning is not."""

    def __init__(self) -> None:
        super().__init__()
        self.ffn = FFN()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.ffn(fused_norm(x))
