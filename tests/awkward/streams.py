"""Streams that are not one chain of `x + f(x)`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.awkward.mixers import Cosine
from tests.awkward.parts import FFN, HEADS, Attention, D, Pre


class NormalizedSphere(nn.Module):
    """nGPT: states live on the sphere; a learned step towards the normalised branch, then back onto the sphere."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.ffn = Cosine(), FFN()
        self.step_a, self.step_f = nn.Parameter(torch.full((D,), 0.05)), nn.Parameter(torch.full((D,), 0.05))

    def forward(self, x: Tensor) -> Tensor:
        x = F.normalize(x + self.step_a * (F.normalize(self.attn(x), dim=-1) - x), dim=-1)
        return F.normalize(x + self.step_f * (F.normalize(self.ffn(x), dim=-1) - x), dim=-1)


class Reversible(nn.Module):
    """RevNet: two streams, each updated from the other."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(3))
        self.final = nn.LayerNorm(2 * D)

    def forward(self, x: Tensor) -> Tensor:
        a, b = x, x
        for block in self.blocks:
            a = a + block.attn(block.n1(b))
            b = b + block.ffn(block.n2(a))
        return self.final(torch.cat([a, b], -1))


class HyperConnected(nn.Module):
    """Static hyper-connections: four copies of the stream, read by one learned vector, mixed by a learned matrix."""

    def __init__(self, copies: int = 4) -> None:
        super().__init__()
        self.block, self.copies = Pre(), copies
        self.read = nn.Parameter(torch.ones(2, copies) / copies)
        self.write, self.mix = nn.Parameter(torch.ones(2, copies)), nn.Parameter(torch.eye(copies).repeat(2, 1, 1))

    def forward(self, s: Tensor) -> Tensor:  # s: [copies, batch, tokens, d]
        for index, (norm, branch) in enumerate(((self.block.n1, self.block.attn), (self.block.n2, self.block.ffn))):
            h = torch.einsum("c,cbtd->btd", self.read[index], s)
            y = branch(norm(h))
            s = torch.einsum("ce,ebtd->cbtd", self.mix[index], s) + self.write[index][:, None, None, None] * y
        return s


class HyperModel(nn.Module):
    """The copies are made at the beginning and summed at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(HyperConnected() for _ in range(3))
        self.final = nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        s = x.unsqueeze(0).repeat(4, 1, 1, 1)
        for block in self.blocks:
            s = block(s)
        return self.final(s.sum(0))


class LongSkips(nn.Module):
    """U-Net: each block of the second half also reads the input of its twin in the first."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(6))
        self.final = nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        saved = []
        for block in self.blocks[:3]:
            saved.append(x)
            x = block(x)
        for block in self.blocks[3:]:
            x = block(x + saved.pop())
        return self.final(x)


class ResiDual(nn.Module):
    """Two residuals: a post stream, and a sum of all branches that is never normalised until the end."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(3))
        self.final = nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        dual = x
        for block in self.blocks:
            for norm, branch in ((block.n1, block.attn), (block.n2, block.ffn)):
                y = branch(x)
                dual = dual + y
                x = norm(x + y)
        return x + self.final(dual)


class ValueResidual(nn.Module):
    """ResFormer: every layer's values are mixed with the first layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(3))
        self.mix = nn.Parameter(torch.full((3,), 0.5))
        self.final = nn.LayerNorm(D)

    def attend(self, a: Attention, x: Tensor, first: Tensor | None, mix: Tensor) -> tuple[Tensor, Tensor]:
        v = a.v(x)
        mixed = v if first is None else mix * v + (1 - mix) * first
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (a.q(x), a.k(x), mixed))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        return a.o(y), mixed if first is None else first

    def forward(self, x: Tensor) -> Tensor:
        first = None
        for block, mix in zip(self.blocks, self.mix, strict=True):
            y, first = self.attend(block.attn, block.n1(x), first, mix)
            x = x + y
            x = x + block.ffn(block.n2(x))
        return self.final(x)


class Highway(nn.Module):
    """A data-dependent gate carries the stream and lets the branch in: convex."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn, self.gate = nn.LayerNorm(D), FFN(), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        t = torch.sigmoid(self.gate(h))
        return t * self.ffn(h) + (1 - t) * x


class Modulated(nn.Module):
    """DiT: shift, scale and gate of every branch come from a condition."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(D, elementwise_affine=False)
        self.attn, self.ffn = Attention(), FFN()
        self.condition = nn.Linear(D, 6 * D)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:  # c: [batch, d]
        s1, b1, g1, s2, b2, g2 = self.condition(F.silu(c)).unsqueeze(1).chunk(6, -1)
        x = x + g1 * self.attn(self.norm(x) * (1 + s1) + b1)
        return x + g2 * self.ffn(self.norm(x) * (1 + s2) + b2)


class ModulatedStack(nn.Module):
    """Three DiT blocks under one condition."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.final = nn.ModuleList(Modulated() for _ in range(3)), nn.LayerNorm(D)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, c)
        return self.final(x)


class NormedSkip(Pre):
    """`y = N(x); x' = y + F(y)`: reads like pre, and the skip is normed every time."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.n1(x)
        x = x + self.attn(x)
        x = self.n2(x)
        return x + self.ffn(x)


class LayerIndexed(Pre):
    """Whether a block is post or pre depends on its number, not on its class."""

    def __init__(self, index: int, post_below: int) -> None:
        super().__init__()
        self.index, self.post_below = index, post_below

    def forward(self, x: Tensor) -> Tensor:
        if self.index >= self.post_below:
            return super().forward(x)
        x = self.n1(x + self.attn(x))
        return self.n2(x + self.ffn(x))


class Mixed(nn.Module):
    """Mix-LN: the first two of six blocks are post, the others pre."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(LayerIndexed(i, 2) for i in range(6))
        self.final = nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.final(x)


class Denser(nn.Module):
    """DenseFormer: after each block a learned average over all states so far."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(3))
        self.weights = nn.ParameterList(torch.eye(i + 2)[-1] for i in range(3))
        self.final = nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        states = [x]
        for block, weight in zip(self.blocks, self.weights, strict=True):
            states.append(block(states[-1]))
            states[-1] = sum(w * s for w, s in zip(weight, states, strict=True))
        return self.final(states[-1])


class NestedResidual(nn.Module):
    """The FFN has a residual of its own inside: part of the branch, not a sublayer of the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.mid, self.down = nn.LayerNorm(D), nn.Linear(D, 80), nn.Linear(80, 80), nn.Linear(80, D)

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(self.up(self.norm(x)))
        h = h + F.gelu(self.mid(h))
        return x + self.down(h)


class LowRank(nn.Module):
    """LoRA beside a weight: an add that is no residual of the stream."""

    def __init__(self, rank: int = 5) -> None:
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(D), FFN()
        self.a, self.b = nn.Linear(D, rank, bias=False), nn.Linear(rank, 80, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return x + self.ffn.down(F.gelu(self.ffn.up(h) + 2.0 * self.b(self.a(h))))


class Rotary(nn.Module):
    """Rotary positions: `q·cos + rotate(q)·sin` is no residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(D), Attention()
        angle = torch.outer(torch.arange(16.0), 1e4 ** -torch.arange(0, 1, 2 / (D // HEADS)))
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin(), persistent=False)

    def rotate(self, t: Tensor) -> Tensor:
        a, b = t.chunk(2, -1)
        return t * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x: Tensor) -> Tensor:
        h, a = self.norm(x), self.attn
        q, k, v = (f(h).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (a.q, a.k, a.v))
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v)
        return x + a.o(y.transpose(1, 2).flatten(-2))


class Zigzag(nn.Module):
    """Tokens and channels are mixed in turn (MLP-Mixer): the second FFN works along tokens."""

    def __init__(self, tokens: int = 16) -> None:
        super().__init__()
        self.n1, self.n2, self.ffn = nn.LayerNorm(D), nn.LayerNorm(D), FFN()
        self.token_up, self.token_down = nn.Linear(tokens, 40), nn.Linear(40, tokens)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.token_down(F.gelu(self.token_up(self.n1(x).mT))).mT
        return x + self.ffn(self.n2(x))
