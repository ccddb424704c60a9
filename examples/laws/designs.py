"""One GPT for the laws of depth: where norms stand, what the weights start at, and a depth to choose; one function for each law.

    screen probe examples/laws/designs.py::deepnorm --set depth=24

Weights start as N(0, gain²/fan_in). Attention sees all tokens: each law is one of depth, and a mask would make every position a case of its own.
"""

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import nn


@dataclass
class Design:
    norms: str = "A"  # A: on the input of a branch, B: on its output, C: on the sum
    depth: int = 16
    alpha: float = 1.0  # on the stream
    value: float = 1.0  # gain of V and W1
    out: float = 1.0  # gain of O and W2
    query: float = 1.0  # gain of Q and K
    qk_norm: bool = False
    final: bool = True
    act: str = "gelu"
    ratio: int = 4  # width of the FFN over that of the stream
    dim: int = 128
    heads: int = 4


class Attention(nn.Module):
    def __init__(self, design):
        super().__init__()
        self.heads = design.heads
        self.q, self.k, self.v, self.o = (nn.Linear(design.dim, design.dim, bias=False) for _ in range(4))
        size = design.dim // design.heads
        self.q_norm, self.k_norm = (nn.RMSNorm(size) if design.qk_norm else nn.Identity() for _ in range(2))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class FeedForward(nn.Module):
    def __init__(self, design):
        super().__init__()
        self.up = nn.Linear(design.dim, design.ratio * design.dim, bias=False)
        self.down = nn.Linear(design.ratio * design.dim, design.dim, bias=False)
        self.act = F.relu if design.act == "relu" else F.gelu

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Sublayer(nn.Module):
    """x ← C(α·x + B(F(A(x))))"""

    def __init__(self, branch, design):
        super().__init__()
        self.branch, self.alpha = branch, design.alpha
        self.before, self.after, self.on_stream = (nn.LayerNorm(design.dim) if p in design.norms else nn.Identity() for p in "ABC")

    def forward(self, x):
        return self.on_stream(self.alpha * x + self.after(self.branch(self.before(x))))


class Block(nn.Module):
    def __init__(self, design):
        super().__init__()
        self.attention, self.ffn = Sublayer(Attention(design), design), Sublayer(FeedForward(design), design)

    def forward(self, x):
        return self.ffn(self.attention(x))


class GPT(nn.Module):
    def __init__(self, design):
        super().__init__()
        self.embed = nn.Embedding(512, design.dim)
        self.blocks = nn.ModuleList(Block(design) for _ in range(design.depth))
        self.norm = nn.LayerNorm(design.dim) if design.final and "C" not in design.norms else nn.Identity()
        nn.init.normal_(self.embed.weight)
        for block in self.blocks:
            attention, ffn = block.attention.branch, block.ffn.branch
            gains = ((design.query, (attention.q, attention.k)), (design.value, (attention.v, ffn.up)), (design.out, (attention.o, ffn.down)))
            for gain, linears in gains:
                for linear in linears:
                    nn.init.normal_(linear.weight, std=gain / math.sqrt(linear.in_features))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def pre(depth=16, value=1.0, out=1.0, query=1.0):
    return GPT(Design("A", depth, value=value, out=out, query=query))


def peri(depth=16, value=1.0, out=1.0, query=1.0):
    return GPT(Design("AB", depth, value=value, out=out, query=query))


def post(depth=16):
    return GPT(Design("C", depth))


def pre_post(depth=16):
    return GPT(Design("AC", depth))


def gpt2(depth=16):
    """Both maps that write to the stream times 1/√(2N)."""
    return GPT(Design("A", depth, out=1 / math.sqrt(2 * depth)))


def deepnorm(depth=16):
    """α = (2N)^(1/4), β = (8N)^(−1/4)."""
    beta = (8 * depth) ** -0.25
    return GPT(Design("C", depth, alpha=(2 * depth) ** 0.25, value=beta, out=beta))


def output_norm(depth=16, query=1.0):
    return GPT(Design("B", depth, query=query))


def output_norm_qk(depth=16):
    return GPT(Design("B", depth, qk_norm=True))


def none(depth=16):
    return GPT(Design("", depth, final=False))


def lemma_two(depth=16):
    """Xiong et al., lemma 2: square maps, ReLU, attention that starts uniform."""
    return GPT(Design("A", depth, query=0.0, act="relu", ratio=1))


def lemma_two_post(depth=16):
    return GPT(Design("C", depth, query=0.0, act="relu", ratio=1))
