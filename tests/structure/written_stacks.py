"""Stacks as libraries write them: lists of pairs, sums in a module of their own, carried logits, fused projections, skips by a matrix, copies of a
stream; and norms in two steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import Report

WIDTH, TOKENS, DEPTH, HEADS = 32, 9, 3, 2


class Sum(nn.Module):
    """A residual add in a module of its own."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return y + x


class RMS(nn.Module):
    """F.normalize(x) · √n · (1 + g)."""

    def __init__(self, size: int = WIDTH) -> None:
        super().__init__()
        self.root, self.gain = size**0.5, nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1) * self.root * (self.gain + 1)


class Attention(nn.Module):
    """Logits by einsum; perhaps normed queries and keys, logits carried on, weights mixed over heads, values and keys of another stream."""

    def __init__(self, how: str = "") -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.how, self.norms = how, nn.ModuleList(RMS(WIDTH // HEADS) for _ in range(2))
        self.mixed = nn.Parameter(torch.randn(HEADS, HEADS))

    def forward(self, x: Tensor, before: Tensor | None = None, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        source = x if context is None else context
        q, k, v = (m(t).unflatten(-1, (HEADS, -1)).transpose(1, 2) for m, t in ((self.q, x), (self.k, source), (self.v, source)))
        self.kept = k[:, :, 1:]  # a cache that nothing reads
        if self.how == "rms":
            q, k = (norm(t) for norm, t in zip(self.norms, (q, k), strict=True))
        logits = torch.einsum("b h i d, b h j d -> b h i j", q, k) / 4 + (0 if before is None else before)
        weights = logits.softmax(-1)
        if self.how == "talking":
            weights = torch.einsum("b h i j, h g -> b g i j", weights, self.mixed)
        y = torch.einsum("b h i j, b h j d -> b h i d", weights, v)
        return self.o(y.transpose(1, 2).flatten(-2)), logits


class FFN(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(WIDTH, 80), nn.GELU(), nn.Linear(80, WIDTH))


class Alternating(nn.Module):
    """Attention and FFN take turns in one list, each with its norms and its sum beside it."""

    def __init__(self, how: str = "", norm: type[nn.Module] = RMS, peri: bool = False) -> None:
        super().__init__()
        made = [Attention(how) if i % 2 == 0 else FFN() for i in range(2 * DEPTH)]
        self.layers = nn.ModuleList(nn.ModuleList([norm(), norm() if peri else nn.Identity(), layer, Sum()]) for layer in made)
        self.last, self.how = norm(), how

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        logits = None
        for norm, after, layer, add in self.layers:
            if isinstance(layer, Attention):
                y, made = layer(norm(x), logits, context)
                logits = made if self.how == "carried" else None
            else:
                y = layer(norm(x))
            x = add(after(y), x)
        return self.last(x)


class Fused(nn.Module):
    """Attention and a gated FFN from one projection of the normed stream (PaLM)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.made = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH + 160)
        self.o, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(80, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v, h = self.made(self.norm(x)).split((WIDTH, WIDTH, WIDTH, 160), -1)
        up, gate = h.chunk(2, -1)
        return x + (self.o(torch.softmax(q @ k.mT / 6, -1) @ v) + self.down(up * F.silu(gate)))


class OneOutput(nn.Module):
    """Attention and an FFN that share the output map, and perhaps the input map (ViT-22B) or a gate made from another argument (the single blocks of
    Flux)."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.norm, self.out, self.gate = nn.LayerNorm(WIDTH), nn.Linear(WIDTH + 80, WIDTH, bias=how != "no bias"), nn.Linear(WIDTH, 2 * WIDTH)
        self.made = nn.Linear(WIDTH, 3 * WIDTH + 80 if how == "one input" else 3 * WIDTH)
        self.up = None if how == "one input" else nn.Linear(WIDTH, 160 if how == "gated" else 80)
        self.how = how

    def forward(self, x: Tensor, c: Tensor | None = None) -> Tensor:
        shift, gate = self.gate(x if c is None else c).chunk(2, -1)
        y = self.norm(x) if c is None else self.norm(x) + shift
        q, k, v, *rest = self.made(y).split(WIDTH if self.up is not None else (WIDTH, WIDTH, WIDTH, 80), -1)
        hidden = self.up(y) if self.up is not None else rest[0]
        if self.how == "gated":
            up, gate = hidden.chunk(2, -1)
            hidden = up * F.silu(gate)
        else:
            hidden = F.gelu(hidden)
        if self.how == "not activated":
            hidden = self.up(y) if self.up is not None else y
        mixed = torch.softmax(q @ k.mT / 6, -1) @ v
        beside = torch.cat([hidden, mixed] if self.how == "hidden first" else [mixed, hidden], -1)
        made = self.out(beside)
        if self.how == "read twice":
            made = made + beside.mean(-1, keepdim=True)
        return x + (made if c is None and self.how != "own gate" else gate * made)


class Shared(nn.Module):
    """Two branches whose sum has one learned scale."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention, self.ffn, self.scale = nn.LayerNorm(WIDTH), Attention(), FFN(), nn.Parameter(torch.full((WIDTH,), 4.0))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.scale * (self.attention(y)[0] + self.ffn(y))


class Skipping(nn.Module):
    """Blocks in two halves; those of the second half begin with a matrix that joins the stream and an earlier state (U-ViT)."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleList([nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), FFN()]) for _ in range(4))
        self.joins, self.last = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(2)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for i, (norm, one, second, other) in enumerate(self.blocks):
            if i < 2:
                skips.append(x)
            else:
                x = self.joins[i - 2](torch.cat([skips.pop(), x], -1))
            x = x + one(norm(x))[0]
            x = x + other(second(x))
        return self.last(x)


class Copies(nn.Module):
    """Two copies of the stream, mixed by a matrix made from them, summed over the last axis at the end (hyper-connections)."""

    def __init__(self) -> None:
        super().__init__()
        self.norms, self.ffns = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(DEPTH)), nn.ModuleList(FFN() for _ in range(DEPTH))
        self.mixes, self.last = nn.ModuleList(nn.Linear(WIDTH, 3) for _ in range(DEPTH)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(2).expand(-1, -1, 2, -1)
        for norm, ffn, mix in zip(self.norms, self.ffns, self.mixes, strict=True):
            mixed = torch.einsum("... s t, ... s d -> ... t d", torch.tanh(mix(x)), x)
            x = mixed[..., 1:, :] + ffn(norm(mixed[..., 0, :])).unsqueeze(2)
        return self.last(x.transpose(-1, -2).sum(-1))


class Conditioned(nn.Module):
    """The branch is multiplied by what a second argument gives."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn, self.gate = nn.LayerNorm(WIDTH), FFN(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        return x + torch.sigmoid(self.gate(c)).unsqueeze(1) * self.ffn(self.norm(x))


class Remembers(nn.Module):
    """Attention over tokens, and over states that are learned; queries are normed, and keys where `normed` says so."""

    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.q, self.k, self.v, self.sk, self.sv = (nn.Linear(WIDTH, WIDTH) for _ in range(5))
        self.o, self.norm = nn.Linear(2 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.states, self.normed = nn.Parameter(torch.randn(5, WIDTH)), normed

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, s = F.normalize(self.q(y), dim=-1), F.normalize(self.k(y), dim=-1), self.sk(self.states)
        s = F.normalize(s, dim=-1) if self.normed else s
        keys, values = ((t.expand(len(x), -1, -1)) for t in (s, self.sv(self.states)))
        both = [F.scaled_dot_product_attention(q, *of, scale=8.0) for of in ((k, self.v(y)), (keys, values))]
        return x + self.o(torch.cat(both, -1))


class Late(nn.Module):
    """A block adds what the block before it computed, and norms the sum (`norm(x + residual)`); the last sum stands behind the stack."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.ffn = nn.LayerNorm(WIDTH), FFN()

        def forward(self, x: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
            residual = x if residual is None else x + residual
            x = self.norm(residual)
            for _ in range(40):
                x = x * 1.5
            return self.ffn(x), residual

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.blocks, self.last = nn.ModuleList(self.Block() for _ in range(depth)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        residual = None
        for block in self.blocks:
            x, residual = block(x, residual)
        return self.last(x + residual)


class Stages(nn.Module):
    """Two stacks of two blocks, each stack with a norm at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.stacks = nn.ModuleList(Stack() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for stack in self.stacks:
            x = stack(x)
        return x


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), FFN()]) for _ in range(2))
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for norm, attention, second, ffn in self.layers:
            x = x + attention(norm(x))[0]
            x = x + ffn(second(x))
        return self.last(x)


def read(model: nn.Module, *more: Tensor) -> Report:
    return screen.check(model, example_inputs=(torch.zeros(2, TOKENS, WIDTH), *more))


def blocks(report: Report) -> list[str]:
    """Each kind of the one stream as count and roles with placements."""
    [stream] = report.streams
    return [f"{k.count}: {', '.join(f'{s.role} {s.placement}' for s in k.sublayers)}" for k in stream.kinds]
