"""The design table: one GPT whose norms, scales and initialisation are switched, one function for each row.

    screen check examples/table/designs.py::peri_qk

A row is named by where norms stand (A: on a branch's input, B: on its output, C: on the sum), by whether queries and keys are normalised, by the
multipliers on stream and branch, and by the scale that the weights start at.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Design:
    norms: str = "A"
    qk_norm: bool = False
    depth: int = 12
    alpha: float = 1.0  # on the stream
    gain: float = 1.0  # of every weight: standard deviation gain/√fan_in
    beta: float = 1.0  # of V, O and both maps of the FFN, beside `gain`
    rezero: bool = False
    layer_scale: float = 0.0
    parallel: bool = False
    tanh: bool = False  # in place of the norms on the inputs
    final_norm: bool = True
    heads: int = 4
    dim: int = 96
    vocab: int = 512


class DyT(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(0.5))
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, design):
        super().__init__()
        self.heads = design.heads
        self.q, self.k, self.v, self.o = (nn.Linear(design.dim, design.dim, bias=False) for _ in range(4))
        size = design.dim // design.heads
        self.q_norm = nn.RMSNorm(size) if design.qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(size) if design.qk_norm else nn.Identity()

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class FeedForward(nn.Module):
    def __init__(self, design):
        super().__init__()
        self.up = nn.Linear(design.dim, 4 * design.dim, bias=False)
        self.down = nn.Linear(4 * design.dim, design.dim, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Sublayer(nn.Module):
    """x ← C(α·x + s·B(F(A(x))))"""

    def __init__(self, branch, design):
        super().__init__()
        self.branch, self.alpha = branch, design.alpha
        norm = DyT if design.tanh else nn.LayerNorm
        self.before = norm(design.dim) if "A" in design.norms or design.tanh else nn.Identity()
        self.after = nn.LayerNorm(design.dim) if "B" in design.norms else nn.Identity()
        self.on_stream = nn.LayerNorm(design.dim) if "C" in design.norms else nn.Identity()
        self.scale = None
        if design.rezero:
            self.scale = nn.Parameter(torch.zeros(1))
        elif design.layer_scale:
            self.scale = nn.Parameter(torch.full((design.dim,), design.layer_scale))

    def step(self, x):
        y = self.after(self.branch(self.before(x)))
        return y if self.scale is None else self.scale * y

    def forward(self, x):
        y = self.step(x)
        return self.on_stream(x + y if self.alpha == 1.0 else self.alpha * x + y)


class Block(nn.Module):
    def __init__(self, design):
        super().__init__()
        self.attention = Sublayer(Attention(design), design)
        self.ffn = Sublayer(FeedForward(design), design)
        self.parallel = design.parallel

    def forward(self, x):
        if self.parallel:
            return x + self.attention.step(x) + self.ffn.step(x)
        return self.ffn(self.attention(x))


class GPT(nn.Module):
    def __init__(self, design):
        super().__init__()
        self.embed = nn.Embedding(design.vocab, design.dim)
        self.blocks = nn.ModuleList(Block(design) for _ in range(design.depth))
        self.norm = nn.LayerNorm(design.dim) if design.final_norm else nn.Identity()
        nn.init.normal_(self.embed.weight, std=0.02)  # it is the head too
        for block in self.blocks:
            attention, ffn = block.attention.branch, block.ffn.branch
            for linear in (attention.q, attention.k):
                nn.init.normal_(linear.weight, std=design.gain / math.sqrt(linear.in_features))
            for linear in (attention.v, attention.o, ffn.up, ffn.down):
                nn.init.normal_(linear.weight, std=design.beta * design.gain / math.sqrt(linear.in_features))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embed.weight.T


def peri_qk():
    return GPT(Design("AB", qk_norm=True))


def peri():
    return GPT(Design("AB"))


def pre():
    return GPT(Design("A"))


def pre_qk():
    return GPT(Design("A", qk_norm=True))


def post_shallow():
    return GPT(Design("C", depth=6, gain=0.5, final_norm=False))


def post_deep():
    return GPT(Design("C", depth=48, final_norm=False))


def deepnorm():
    depth = 24
    return GPT(Design("C", depth=depth, alpha=(2 * depth) ** 0.25, beta=(8 * depth) ** -0.25, final_norm=False))


def alpha_alone():
    return GPT(Design("C", depth=24, alpha=48**0.25, final_norm=False))


def pre_post():
    return GPT(Design("AC", depth=6, gain=0.5, final_norm=False))


def output_norm():
    return GPT(Design("B", depth=64))


def output_norm_small():
    return GPT(Design("B", depth=24, gain=0.5))


def output_norm_qk():
    return GPT(Design("B", qk_norm=True))


def none():
    return GPT(Design("", depth=24, final_norm=False))


def none_scaled():
    depth = 24
    return GPT(Design("", depth=depth, gain=0.5, beta=0.67 * depth**-0.25, final_norm=False))


def rezero():
    return GPT(Design("", depth=24, rezero=True, final_norm=False))


def dyt():
    return GPT(Design("", depth=24, tanh=True, final_norm=False))


def peri_layer_scale():
    return GPT(Design("AB", layer_scale=1e-2))


def parallel_pre():
    return GPT(Design("A", parallel=True))
