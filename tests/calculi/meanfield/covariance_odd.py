"""Stacks with ops on the stream that people write, sound ones and broken ones: for each the recursion is right or says that it does not know."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.calculi.meanfield.simulation import Sample, mean_cosine

HEAD = """
import math
import torch
from torch import nn
from torch.nn import functional as F

D, DEPTH = 128, 12


class FFN(nn.Module):
    def __init__(self, gain=1.0, act=F.gelu):
        super().__init__()
        self.up, self.down, self.act = nn.Linear(D, 2 * D), nn.Linear(2 * D, D), act
        for m in (self.up, self.down):
            nn.init.normal_(m.weight, 0.0, gain / math.sqrt(m.in_features))
            nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Block(nn.Module):
    def __init__(self, i=0):
        super().__init__()
        self.i, self.n, self.n2, self.f, self.g = i, nn.LayerNorm(D), nn.LayerNorm(D), FFN(), FFN()
        {init}

    def forward(self, x, x0=None):
        {body}
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(i) for i in range(DEPTH))
        {more}

    def forward(self, x):
        {loop}
        return x
"""
LOOP = "for block in self.blocks: x = block(x)"
INPUTS = ("x=float32[2,32,128]",)


def stack(body: str, init: str = "pass", loop: str = LOOP, more: str = "pass") -> str:
    """The source of a module that holds `Model`; `; ` parts lines."""
    lines = {"init": init, "body": body, "loop": loop, "more": more}
    return HEAD.format(**{k: v.replace("; ", "\n        ") for k, v in lines.items()})


PRE = "x = x + self.f(self.n(x))"
ZEROS = "nn.init.zeros_(self.w.weight); nn.init.zeros_(self.w.bias)"
GATE = "self.w = nn.Linear(D, D)"
MOMENTUM = """v = 0 * x
        for block in self.blocks:
            v = 0.9 * v + block(x)
            x = x + v"""
REVERSIBLE = """a, b = x, x
        for block in self.blocks:
            a = a + block.f(b)
            b = b + block.g(a)
        x = a + b"""
EXCHANGE = """a, b = x, x
        for block in self.blocks:
            a = a + block.f(block.n(a)) + 0.5 * b
            b = b + block.g(block.n2(b)) + 0.5 * a
        x = a + b"""
DENSE = """xs = [x]
        for block in self.blocks:
            xs.append(sum(xs) / len(xs) + block(xs[-1]))
        x = xs[-1]"""
AGAIN = "x0 = x; for block in self.blocks: x = block(x, x0)"
ODD: dict[str, str] = {
    "pre": stack(PRE),
    "twice itself": stack("x = x + x + self.f(self.n(x))"),
    "twice at the end": stack(PRE + "; x = x + x"),
    "half of itself more": stack("x = x + 0.5 * x + self.f(self.n(x))"),
    "itself by alpha": stack("x = torch.add(x, x, alpha=0.25); " + PRE),
    "two halves": stack("x = 0.5 * x + 0.5 * x + self.f(self.n(x))"),
    "less half of itself": stack("x = x - 0.5 * x + self.f(self.n(x))"),
    "minus itself and twice": stack("x = 2 * x - x + self.f(self.n(x))"),
    "from a factor": stack("h = 3 * x; x = h - x + self.f(self.n(x))"),
    "mean of tokens": stack("x = x + x.mean(1, keepdim=True); " + PRE),
    "mean of tokens by index": stack("x = x + 0.3 * x.mean(1)[:, None]; " + PRE),
    "mean of tokens, expanded": stack(PRE + "; x = x + x.mean(dim=1, keepdim=True).expand_as(x)"),
    "largest of tokens": stack("x = x + x.amax(1, keepdim=True); " + PRE),
    "tokens centred": stack("x = x - x.mean(1, keepdim=True); " + PRE),
    "tokens half centred": stack(PRE + "; x = x - 0.5 * x.mean(1, keepdim=True)"),
    "mean of features": stack("x = x + x.mean(-1, keepdim=True); " + PRE),
    "running mean": stack("x = x + x.cumsum(1) / 32; " + PRE),
    "first token for all": stack("x = x + x[:, :1]; " + PRE),
    "mean mapped": stack("x = x + self.f(self.n(x)) + self.g(x.mean(1, keepdim=True))"),
    "far clamp": stack("x = (x + self.f(self.n(x))).clamp(-1e4, 1e4)"),
    "near clamp": stack("x = (x + self.f(self.n(x))).clamp(-1, 1)"),
    "clamp that is reached": stack("x = (x + self.f(2 * x)).clamp(-100, 100)"),
    "one-sided clamp": stack("x = (x + self.f(self.n(x))).clamp(min=0)"),
    "relu in place": stack("x = torch.relu_(x + self.f(self.n(x)))"),
    "relu on the sum": stack("x = F.relu(x + self.f(x))", "self.f = FFN(1.0, F.relu)"),
    "tanh on the sum": stack("x = torch.tanh(x + self.f(self.n(x)))"),
    "a little tanh": stack("x = x + 0.1 * torch.tanh(x); " + PRE),
    "cubic": stack("x = x - 0.01 * x ** 3; " + PRE),
    "lerp of norm": stack("s = x + self.f(x); x = torch.lerp(s, self.n(s), self.p.sigmoid())", "self.p = nn.Parameter(torch.zeros(1))"),
    "norm and sum by hand": stack("s = x + self.f(x); x = 0.3 * s + 0.7 * self.n(s)"),
    "norm added": stack("x = x + self.n2(x) + self.f(self.n(x))"),
    "norm subtracted": stack("x = x - 0.5 * self.n2(x) + self.f(self.n(x))"),
    "lerp of branch": stack("x = torch.lerp(x, self.f(self.n(x)), 0.3)"),
    "addcmul": stack("x = torch.addcmul(x, self.f(self.n(x)), self.p, value=0.5)", "self.p = nn.Parameter(torch.full((D,), 0.5))"),
    "addcdiv": stack("x = torch.addcdiv(x, self.f(self.n(x)), self.p)", "self.p = nn.Parameter(torch.full((D,), 2.0))"),
    "times √2": stack("x = x * torch.sqrt(torch.tensor(2.0)) + self.f(self.n(x))"),
    "times a number": stack("x = 1.4 * x + self.f(self.n(x))"),
    "the sum times a number": stack("x = (x + self.f(self.n(x))) * 0.8"),
    "the sum divided": stack("x = (x + self.f(self.n(x))) / 0.7"),
    "a gain behind the norm": stack("x = 1.5 * self.n(x + self.f(x))"),
    "a norm's own gain": stack("x = self.n(x + self.f(x))", "nn.init.constant_(self.n.weight, 0.5)"),
    "two norms": stack("x = self.n2(2 * self.n(x + self.f(x)))"),
    "norm, then as large as before": stack("s = x + self.f(x); x = F.normalize(s, dim=-1) * s.norm(dim=-1, keepdim=True)"),
    "norm, then gate": stack("s = x + self.f(x); x = self.n(s) * (1 + torch.tanh(self.w(s)))", GATE),
    "a gate on the stream": stack("x = x * torch.sigmoid(self.w(x)) + self.f(self.n(x))", GATE),
    "highway": stack("g = torch.sigmoid(self.w(x)); x = g * self.f(x) + (1 - g) * x", GATE),
    "a gate near one": stack("x = x * (1 + 0.5 * torch.tanh(self.w(x)))", GATE),
    "a gate on the branch": stack("x = x + torch.sigmoid(self.w(self.n2(x))) * self.f(self.n(x))", GATE),
    "a gate that starts at one": stack("x = x * (1 + self.w(x)) + self.f(self.n(x))", GATE + "; " + ZEROS),
    "rolled": stack("x = x.roll(1, 1) + self.f(self.n(x))"),
    "rolled and added": stack("x = x + x.roll(1, 1); " + PRE),
    "flipped": stack(PRE + "; x = x.flip(-1)"),
    "flipped and added": stack("x = x + x.flip(-1); " + PRE),
    "transposed and added": stack("x = x + x[..., :32].transpose(1, 2).repeat(1, 1, 4)[:, :, :128]; " + PRE),
    "batch norm": stack("x = (x - x.mean((0, 1))) / (x.var((0, 1)) + 1e-5).sqrt(); x = x + self.f(x)"),
    "a number added": stack("x = x + 0.3; x = x + self.f(self.n(x))"),
    "a number added, rms norm": stack("x = x + 0.3 + self.f(self.n(x))", "self.n = nn.RMSNorm(D)"),
    "cut off": stack("x = x.detach() + self.f(self.n(x))"),
    "first state again": stack("x = x + self.f(self.n(x)) + 0.3 * x0", loop=AGAIN),
    "first state mapped": stack("x = x + self.f(self.n(x)) + self.g(x0)", loop=AGAIN),
    "leapfrog": stack("x = self.f(self.n(x))", loop="p = x; " + "for block in self.blocks: p, x = x, 2 * x - p + block(x)"),
    "momentum": stack("x = self.f(self.n(x))", loop=MOMENTUM),
    "reversible": stack("x = self.f(x)", loop=REVERSIBLE),
    "two that exchange": stack("pass", loop=EXCHANGE),
    "dense": stack("x = self.f(self.n(x))", loop=DENSE),
    "in place": stack("x = x.mul(0.9).add_(self.f(self.n(x)))"),
    "in place, added": stack("h = x.clone(); h += self.f(self.n(x)); x = h"),
    "in place, itself": stack("h = x.clone(); h += x; h += self.f(self.n(x)); x = h"),
    "one block differs": stack("x = x * (10.0 if self.i == 5 else 1.0) + self.f(self.n(x))"),
    "stacked and summed": stack("x = torch.stack([x, self.f(self.n(x))]).sum(0)"),
    "a branch twice": stack("h = self.f(self.n(x)); x = x + h + h"),
    "a branch with the stream in it": stack("x = x + (self.f(self.n(x)) + 0.5 * x)"),
    "a branch less the stream": stack("x = x + (self.f(x) - x)"),
    "a table in every block": stack("x = x + self.f(self.n(x)) + x0", more="self.t = nn.Parameter(torch.randn(32, D))",
                                    loop=LOOP.replace("block(x)", "block(x, self.t)")),
    "a map on the stream": stack("x = self.w(x) + self.f(self.n(x))", GATE + "; nn.init.normal_(self.w.weight, 0.0, 1.2 / math.sqrt(D))"),
    "halves": stack("a, b = x.chunk(2, -1); a = a + self.w(self.v(b)); x = torch.cat((b, a), -1)",
                    "self.v, self.w = nn.Linear(D // 2, D), nn.Linear(D, D // 2)"),
    "sine": stack("x = x + self.f(x)", "self.f = FFN(1.2, torch.sin)"),
    "no norm": stack("x = x + self.f(x)", "self.f = FFN(1.2, F.relu)"),
    "divided by its largest": stack("x = x + self.f(self.n(x)); x = x / x.abs().amax()"),
    "softmax of itself": stack("x = x + x.softmax(-1); " + PRE),
    "sorted": stack("x = x.sort(-1).values; " + PRE),
    "norm of the first state": stack("y = self.n(x); x = y + self.f(x)"),
    "reads before the factor": stack("y = 0.5 * x; x = y + self.f(self.n(x))"),
    "two branches, one late": stack("h = x + self.f(self.n(x)); x = h + self.g(self.n2(x))"),
    "two branches, a factor between": stack("h = 0.7 * (x + self.f(self.n(x))); x = h + self.g(x)"),
}  # fmt: skip


def run(source: str, seed: int = 0) -> Sample:
    """What the real model does at its own start in float64: after each block, and gradients of all parameters of a block."""
    torch.manual_seed(seed)
    space: dict[str, Any] = {}
    exec(compile(source, "model.py", "exec"), space)
    model, sample = space["Model"]().double(), Sample()
    for block in model.blocks:
        block.register_forward_hook(lambda m, i, out: _note(sample, out))
    out = model(torch.randn(2, 32, 128, dtype=torch.float64))
    (out * torch.randn_like(out)).sum().backward()
    squares = [sum(float(p.grad.square().sum()) for p in b.parameters() if p.grad is not None) for b in model.blocks]
    sample.gradients = [s**0.5 for s in squares]
    return sample


def _note(sample: Sample, out: Tensor) -> None:
    values = out.detach()[0]
    sample.rms.append(float(values.square().mean().sqrt()))
    sample.cosine.append(mean_cosine(values))
