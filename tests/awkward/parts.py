"""What the awkward blocks have in common, written plainly, so that each shows nothing but its own oddity."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

D = 24
"""Width of every stream."""
HEADS = 3
TOKENS = 16


class Attention(nn.Module):
    """Softmax attention: four maps, nothing normalised."""

    def __init__(self, d: int = D, heads: int = HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:  # x: [batch, tokens, d]
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        w = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
        return self.o((w @ v).transpose(1, 2).reshape(b, n, d))


class FFN(nn.Module):
    """Two maps with GELU between."""

    def __init__(self, d: int = D, hidden: int = 80) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(d, hidden), nn.Linear(hidden, d)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


class Pre(nn.Module):
    """The plain pre block that most oddities are a change of."""

    def __init__(self, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.n1, self.n2 = norm(D), norm(D)
        self.attn, self.ffn = Attention(), FFN()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x))
        return x + self.ffn(self.n2(x))


class Stack(nn.Module):
    """`count` blocks in a row, then a norm if there is one."""

    def __init__(self, make: Callable[[], nn.Module], count: int = 3, final: bool = True) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(make() for _ in range(count))
        self.final = nn.LayerNorm(D) if final else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.final(x)


def stream() -> tuple[Tensor, ...]:
    """The inputs of a model that takes the stream itself."""
    return (torch.empty(2, TOKENS, D, device="meta"),)
