"""Small models in the way such code is written: traced for their facts, and run for what they do at their own initialisation."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from screen.facts.record import Facts
from screen.rule import Example
from screen.testing import facts_of
from tests.calculi.meanfield.simulation import Sample, mean_cosine

HEAD = """
import math
import torch
from torch import nn
from torch.nn import functional as F

D, N, H, DEPTH, VOCAB = 128, 32, 4, 12, 512
"""

FRAME = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, D)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.final = {final}
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, 0.0, {std})
            if m.bias is not None:
                nn.init.zeros_(m.bias)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.final(x)
"""

FUSED = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, H, D // H).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, n, D))


class MLP(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
"""

WRITTEN_OUT = """
def rms(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def rotate(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(D, D, bias=False), nn.Linear(D, D // 2, bias=False), nn.Linear(D, D // 2, bias=False)
        self.out = nn.Linear(D, D, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q(x).view(b, n, H, D // H).transpose(1, 2)
        k, v = (m(x).view(b, n, H // 2, D // H).transpose(1, 2) for m in (self.k, self.v))
        angles = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, D // H, 2) / (D // H))
        cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()
        q, k = q * cos + rotate(q) * sin, k * cos + rotate(k) * sin
        k, v = k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1)
        a = (q @ k.transpose(-2, -1) / math.sqrt(D // H)).softmax(dim=-1)
        return self.out((a @ v).transpose(1, 2).reshape(b, n, D))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(D, 8 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def forward(self, x):
        a, b = self.up(x).chunk(2, dim=-1)
        return self.down(a * torch.sigmoid(a) * b)
"""

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.mlp, self.extra = Attention(), MLP(), nn.Linear(D, D)
        self.one, self.two, self.three, self.four = (nn.LayerNorm(D) for _ in range(4))

    def forward(self, x):
        {body}
        return x
"""
LAYERNORM, NONE = "nn.LayerNorm(D)", "nn.Identity()"


def model_of(parts: str, body: str, final: str = LAYERNORM, std: str = "1 / math.sqrt(m.in_features)") -> str:
    return HEAD + parts + BLOCK.replace("{body}", body.replace("; ", "\n        ")) + FRAME.replace("{final}", final).replace("{std}", std)


MODELS: dict[str, str] = {
    "pre": model_of(FUSED, "x = x + self.attention(self.one(x)); x = x + self.mlp(self.two(x))"),
    "post": model_of(FUSED, "x = self.one(x + self.attention(x)); x = self.two(x + self.mlp(x))", NONE, "0.05"),
    "peri": model_of(FUSED, "x = x + self.three(self.attention(self.one(x))); x = x + self.four(self.mlp(self.two(x)))"),
    "B alone": model_of(FUSED, "x = x + self.three(self.attention(x)); x = x + self.four(self.mlp(x))", std="0.5 / math.sqrt(m.in_features)"),
    "parallel": model_of(FUSED, "h = self.one(x); x = x + self.attention(h) + self.mlp(h)"),
    "alpha": model_of(FUSED, "x = self.one(x * 2.2 + self.attention(x)); x = self.two(x * 2.2 + self.mlp(x))", NONE, "0.04"),
    "branch": model_of(FUSED, "x = x + 0.5 * self.attention(self.one(x)); x = torch.add(x, self.mlp(self.two(x)), alpha=0.5)"),
    "llama": model_of(WRITTEN_OUT, "x = x + self.attention(rms(x)); x = x + self.mlp(rms(x))"),
    "none": model_of(FUSED, "x = x + self.attention(x); x = x + self.mlp(x)", std="0.4 / math.sqrt(m.in_features)"),
    "A and C": model_of(FUSED, "x = self.one(x + self.attention(self.three(x))); x = self.two(x + self.mlp(self.four(x)))", NONE, "0.05"),
}
"""Design -> source of a module that holds `Model`."""

INPUTS = ("ids=int64[2,16]",)


def traced(source: str) -> Facts:
    """The facts that the tool derives from a source."""
    return facts_of(Example("model", source, inputs=INPUTS))


def trained_run(source: str, seed: int = 0, tokens: int = 32) -> Sample:
    """What the real model does at its own initialisation, on different tokens, under a random linear loss."""
    torch.manual_seed(seed)
    space: dict[str, Any] = {}
    exec(compile(source, "model.py", "exec"), space)
    model, sample = space["Model"](), Sample()
    for block in model.blocks:
        block.register_forward_hook(lambda m, i, out: _note(sample, out))
    out = model(torch.randperm(512)[:tokens][None])
    (out * torch.randn_like(out)).sum().backward()
    sample.gradients = [norm_of_all(block) for block in model.blocks]
    lasts = [[p for p in block.mlp.parameters() if p.dim() == 2][-1] for block in model.blocks]
    sample.lasts = [float(w.grad.norm()) for w in lasts if w.grad is not None]
    return sample


def norm_of_all(block: torch.nn.Module) -> float:
    """√(Σ‖∂L/∂W‖²) over all weights and biases of a block."""
    return math.sqrt(sum(float(p.grad.square().sum()) for p in block.parameters() if p.grad is not None))


def _note(sample: Sample, out: Tensor) -> None:
    values = out.detach()[0].double()
    sample.rms.append(float(values.square().mean().sqrt()))
    sample.cosine.append(mean_cosine(F.normalize(values, dim=-1)))
