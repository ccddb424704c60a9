"""Residual adds that are not written `x + f(x)`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.awkward.parts import FFN, Attention, D, Pre


class AugmentedAdd(Pre):
    """`+=` writes into the tensor that the caller handed over."""

    def forward(self, x: Tensor) -> Tensor:
        x += self.attn(self.n1(x))
        x += self.ffn(self.n2(x))
        return x


class AddUnderscore(Pre):
    """A clone that is then added to in place, twice, through two names of one tensor."""

    def forward(self, x: Tensor) -> Tensor:
        out = x.clone()
        same = out
        out.add_(self.attn(self.n1(out)))
        same.add_(self.ffn(self.n2(same)))
        return out


class SliceWrite(Pre):
    """The branch is added in place through a view, the first token (a CLS token) left out of the FFN."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        x[...] += self.attn(self.n1(x))
        x[:, 1:] = x[:, 1:] + self.ffn(self.n2(x[:, 1:]))
        return x


class OutBuffer(Pre):
    """The sums go into a buffer made beforehand."""

    def forward(self, x: Tensor) -> Tensor:
        buffer = torch.empty_like(x)
        torch.add(x, self.attn(self.n1(x)), out=buffer)
        return torch.add(buffer, self.ffn(self.n2(buffer)))


class Lerp(nn.Module):
    """`lerp` with weight 1/4: stream × 3/4 plus branch × 1/4."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(D), FFN()

    def forward(self, x: Tensor) -> Tensor:
        return torch.lerp(x, self.ffn(self.norm(x)), 0.25)


class Addcmul(nn.Module):
    """LayerScale in one fused call."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(D), FFN()
        self.gamma = nn.Parameter(torch.full((D,), 1e-5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(x, self.gamma, self.ffn(self.norm(x)))


class Addmm(nn.Module):
    """The FFN's last product adds the stream by itself, over tokens laid flat."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.w1, self.w2 = nn.Parameter(torch.empty(D, 80)), nn.Parameter(torch.empty(80, D))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, D)
        return torch.addmm(flat, torch.relu(self.norm(flat) @ self.w1), self.w2).view_as(x)


class Baddbmm(nn.Module):
    """Single-head attention whose product with V adds the stream: no output map."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(D), nn.Linear(D, 3 * D)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        weights = torch.bmm(q, k.mT).mul(D**-0.5).softmax(-1)
        return torch.baddbmm(x, weights, v)


class AddAlpha(Pre):
    """`torch.add` with its own multiplier on the branch."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.add(x, self.attn(self.n1(x)), alpha=0.5)
        return torch.add(x, self.ffn(self.n2(x)), alpha=0.5)


class StackSum(Pre):
    """Parallel branches summed over a new axis."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.n1(x)
        return torch.stack([x, self.attn(h), self.ffn(h)]).sum(0)


class BuiltinSum(Pre):
    """Python's `sum`, which begins with `0 + x`."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.n1(x)
        return sum((x, self.attn(h), self.ffn(h)))  # type: ignore[return-value]


class Minus(nn.Module):
    """Gradient-flow style: the branch is subtracted."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(D), Attention()

    def forward(self, x: Tensor) -> Tensor:
        return x - self.attn(self.norm(x))


class Macaron(nn.Module):
    """Half a step of one FFN before attention and half a step of another after it."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))
        self.first, self.attn, self.second = FFN(), Attention(), FFN()

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = self.norms
        x = x + 0.5 * self.first(a(x))
        x = x + self.attn(b(x))
        return x + self.second(c(x)) / 2


class Carried(nn.Module):
    """Fused-kernel style: blocks pass on (branch, residual), and the add belongs to the next block."""

    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(count))
        self.final = nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        hidden, residual = x, None
        for block in self.blocks:
            for norm, branch in ((block.n1, block.attn), (block.n2, block.ffn)):
                residual = hidden if residual is None else residual + hidden
                hidden = branch(norm(residual))
        return self.final(residual + hidden)


class Dropped(Pre):
    """Dropout that is on in eval too, and stochastic depth by a mask over the batch."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + nn.functional.dropout(self.attn(self.n1(x)), 0.1, training=True)
        keep = torch.empty(x.shape[0], 1, 1, device=x.device).bernoulli_(0.9)
        return x + self.ffn(self.n2(x)) * keep / 0.9
