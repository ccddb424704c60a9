"""A stack of random transformer blocks, run in torch: what the token covariance recursion is compared with.

No model of the library and no tracer stands in between: matrices, drawn and multiplied here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

ACTS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh}


@dataclass(frozen=True)
class Design:
    """Where norms stand, and how large the weights start (σ² = gain/fan-in)."""

    a: bool = False
    b: bool = False
    c: bool = False
    qk_norm: bool = False
    final: bool = True
    act: str = "gelu"
    gated: bool = False
    causal: bool = False
    alpha: float = 1.0
    qk: float = 1.0
    v: float = 1.0
    o: float = 1.0
    w1: float = 1.0
    w2: float = 1.0
    attention: bool = True
    feed: bool = True
    uniform: bool = False
    tied: bool = False
    ratio: int = 4


@dataclass
class Sample:
    """What one network showed."""

    rms: list[float] = field(default_factory=list)
    cosine: list[float] = field(default_factory=list)
    gradients: list[float] = field(default_factory=list)
    """√(Σ‖∂L/∂W‖²) over all weights of a block."""
    lasts: list[float] = field(default_factory=list)
    """‖∂L/∂W2‖_F per block."""

    @property
    def ratio(self) -> float:
        """First over last, all weights of a block."""
        return self.gradients[0] / self.gradients[-1]

    @property
    def last_ratio(self) -> float:
        """First over last, W2 alone."""
        return self.lasts[0] / self.lasts[-1]


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _weight(draw: torch.Generator, rows: int, columns: int, gain: float) -> Tensor:
    return torch.randn(rows, columns, generator=draw, dtype=torch.float64).mul_(math.sqrt(gain / columns))


@dataclass
class Network:
    """Blocks with weights of their own."""

    design: Design
    width: int
    heads: int
    weights: list[dict[str, Tensor]]

    @classmethod
    def make(cls, design: Design, depth: int, width: int, heads: int, seed: int) -> Network:
        draw = torch.Generator().manual_seed(seed)
        inner = design.ratio * width

        def block() -> dict[str, Tensor]:
            table = {n: _weight(draw, width, width, g) for n, g in (("q", design.qk), ("k", design.qk), ("v", design.v), ("o", design.o))}
            table["w1"], table["w3"] = (_weight(draw, inner, width, design.w1) for _ in range(2))
            table["w2"] = _weight(draw, width, inner, design.w2)
            return {name: weight.requires_grad_() for name, weight in table.items()}

        first = block()
        return cls(design, width, heads, [first] * depth if design.tied else [first, *(block() for _ in range(depth - 1))])

    def attend(self, x: Tensor, w: dict[str, Tensor]) -> Tensor:
        tokens, size = x.shape[0], self.width // self.heads
        q, k, v = ((x @ w[n].T).view(tokens, self.heads, size).transpose(0, 1) for n in "qkv")
        if self.design.qk_norm:
            q, k = (t / t.square().mean(-1, keepdim=True).add(1e-6).sqrt() for t in (q, k))
        logits = q @ k.transpose(1, 2) / math.sqrt(size) * (0.0 if self.design.uniform else 1.0)
        if self.design.causal:
            logits = logits.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), -math.inf)
        return (logits.softmax(-1) @ v).transpose(0, 1).reshape(tokens, self.width) @ w["o"].T

    def feed(self, x: Tensor, w: dict[str, Tensor]) -> Tensor:
        hidden = ACTS[self.design.act](x @ w["w1"].T)
        return (hidden * (x @ w["w3"].T) if self.design.gated else hidden) @ w["w2"].T

    def residual(self, x: Tensor, branch: Callable[[Tensor, dict[str, Tensor]], Tensor], w: dict[str, Tensor]) -> Tensor:
        out = branch(_norm(x) if self.design.a else x, w)
        total = self.design.alpha * x + (_norm(out) if self.design.b else out)
        return _norm(total) if self.design.c else total

    def run(self, x: Tensor, sample: Sample) -> Tensor:
        for w in self.weights:
            for wanted, branch in ((self.design.attention, self.attend), (self.design.feed, self.feed)):
                x = self.residual(x, branch, w) if wanted else x
            values = x.detach()
            sample.rms.append(float(values.square().mean().sqrt()))
            sample.cosine.append(mean_cosine(values))
        return _norm(x) if self.design.final else x


def mean_cosine(x: Tensor) -> float:
    """Mean over pairs of different tokens."""
    unit = F.normalize(x, dim=-1)
    n = len(x)
    return float(((unit @ unit.T).sum() - n) / (n * (n - 1)))


def simulate(design: Design, depth: int, *, width: int = 128, tokens: int = 32, heads: int = 4, seed: int = 0, quadratic: bool = False) -> Sample:
    """One random network on random tokens; the loss is a random linear function of every token's output (or half its square)."""
    network, sample = Network.make(design, depth, width, heads, seed), Sample()
    draw = torch.Generator().manual_seed(seed + 1_000_003)
    x, target = (torch.randn(tokens, width, generator=draw, dtype=torch.float64) for _ in range(2))
    out = network.run(x, sample)
    loss = out.square().sum() / 2 if quadratic else (out * target).sum()
    if design.feed:
        loss.backward()  # type: ignore[no-untyped-call]
        found = [{n: float(t.grad.square().sum()) for n, t in w.items() if t.grad is not None} for w in network.weights]
        sample.gradients = [math.sqrt(sum(w.values())) for w in found]
        sample.lasts = [math.sqrt(w["w2"]) for w in found]
    return sample
