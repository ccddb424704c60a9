"""Branches that look bounded or unbounded and may be the other: each with its truth by mathematics."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, TOKENS, HEADS = 16, 5, 2
Rule = Callable[["Parts", Tensor], Tensor]


class Parts(nn.Module):
    """What branches are built from; each uses some of it. Norms have no gains, so that every parameter is a weight."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.rule = rule
        self.up, self.gate = nn.Linear(WIDTH, 32), nn.Linear(WIDTH, 32)
        self.down = nn.Linear(32, WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.one, self.slots = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 3)
        self.w, self.w2 = nn.Parameter(torch.randn(32, WIDTH)), nn.Parameter(torch.randn(WIDTH, 32))
        self.vector, self.number = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.tensor(0.5))
        self.table, self.heads = nn.Parameter(torch.randn(TOKENS, TOKENS)), nn.Parameter(torch.randn(HEADS, HEADS))
        self.latent, self.null = nn.Parameter(torch.randn(3, WIDTH)), nn.Parameter(torch.randn(1, 1, WIDTH))
        self.conv = nn.Conv2d(1, 1, 3, padding=1)
        self.logits: Tensor | None = None

    def n(self, x: Tensor) -> Tensor:
        """The norm of the input."""
        return F.layer_norm(x, (WIDTH,))

    def ffn(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(self.n(x))))  # type: ignore[no-any-return]

    def qk(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Normed queries and keys."""
        h = self.n(x)
        return F.rms_norm(self.q(h), (WIDTH,)), F.rms_norm(self.k(h), (WIDTH,))

    def weigh(self, u: Tensor, x: Tensor) -> Tensor:
        """The values by the softmax of logits."""
        self.logits = u
        return self.o(torch.softmax(u, -1) @ self.v(self.n(x)))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        return x + self.rule(self, x)


def _ball(y: Tensor, radius: float = 2.0) -> Tensor:
    n = y.norm(dim=-1, keepdim=True)
    return torch.where(n > radius, y * radius / n, y)


def _unit_rows(w: Tensor) -> Tensor:
    return w / (w.norm(dim=1, keepdim=True) + 1e-4)


def _standard(w: Tensor) -> Tensor:
    return (w - w.mean(1, keepdim=True)) / (w.std(1, keepdim=True) + 1e-5)


def _maxnorm(w: Tensor) -> Tensor:
    return w * (1.0 / w.norm(dim=1, keepdim=True)).clamp(max=1.0)


def _sign(w: Tensor) -> Tensor:
    return w + (torch.sign(w) - w).detach()


def _bit(w: Tensor) -> Tensor:
    return torch.sign(w - w.mean()) * w.abs().mean()


def _two(p: Parts, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return F.linear(F.relu(F.linear(p.n(x), a)), b)


def _matrix(y: Tensor, order: object) -> Tensor:
    m = y.unflatten(-1, (4, 4))
    return (m / (torch.linalg.matrix_norm(m, ord=order, keepdim=True) + 1e-6)).flatten(-2)


def _per_head(t: Tensor) -> Tensor:
    return t.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def _attended(p: Parts, x: Tensor, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
    p.logits = q @ k.mT / math.sqrt(q.shape[-1]) + (0.0 if mask is None else mask)
    return p.o(F.scaled_dot_product_attention(q, k, p.v(p.n(x)), attn_mask=mask))  # type: ignore[no-any-return]


def _talking(p: Parts, x: Tensor) -> Tensor:
    q, k = (F.normalize(_per_head(t), dim=-1) for t in (p.q(p.n(x)), p.k(p.n(x))))
    u = p.logits = torch.einsum("bhij,hg->bgij", q @ k.mT, p.heads)
    return p.o((u.softmax(-1) @ _per_head(p.v(p.n(x)))).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def _written(p: Parts, x: Tensor, u: Tensor) -> Tensor:
    p.logits = u
    e = torch.exp(u - u.amax(-1, keepdim=True))
    return p.o((e / e.sum(-1, keepdim=True)) @ p.v(p.n(x)))  # type: ignore[no-any-return]


def _pooled(p: Parts, x: Tensor, u: Tensor) -> Tensor:
    p.logits = u
    return p.o((torch.softmax(u, 1) * p.v(p.n(x))).sum(1, keepdim=True)).expand_as(x)  # type: ignore[no-any-return]


def _cosine(p: Parts, x: Tensor) -> Tensor:
    h = p.n(x)
    return F.normalize(p.q(h), dim=-1) @ F.normalize(p.k(h), dim=-1).mT


BOUNDED: dict[str, Rule] = {
    "softsign": lambda p, x: (y := p.ffn(x)) / (1 + y.abs()),
    "softsign call": lambda p, x: F.softsign(p.ffn(x)),
    "over its size": lambda p, x: (y := p.ffn(x)) / (y.abs() + 1e-6),
    "isru": lambda p, x: (y := p.ffn(x)) * torch.rsqrt(1 + y * y),
    "isru divided": lambda p, x: (y := p.ffn(x)) / torch.sqrt(1 + y.square()),
    "isru per token": lambda p, x: (y := p.ffn(x)) * torch.rsqrt(1 + y.pow(2).sum(-1, keepdim=True)),
    "clamped inverse": lambda p, x: (y := p.ffn(x)) * (1 / y.abs()).clamp(max=1),
    "clamp": lambda p, x: p.ffn(x).clamp(-3, 3),
    "min and max": lambda p, x: torch.minimum(torch.maximum(p.ffn(x), torch.tensor(-1.0)), torch.tensor(2.0)),
    "norm + eps": lambda p, x: (y := p.ffn(x)) / (y.norm(dim=-1, keepdim=True) + 1e-6),
    "1 + norm": lambda p, x: (y := p.ffn(x)) / (1 + y.norm(dim=-1, keepdim=True)),
    "1 + square of the norm": lambda p, x: (y := p.ffn(x)) / (1 + y.pow(2).sum(-1, keepdim=True)),
    "norm.clamp_min": lambda p, x: (y := p.ffn(x)) / y.norm(dim=-1, keepdim=True).clamp_min(1e-5),
    "norm, maximum": lambda p, x: (y := p.ffn(x)) / torch.maximum(y.norm(dim=-1, keepdim=True), torch.tensor(1.0)),
    "norm where": lambda p, x: (y := p.ffn(x)) / torch.where((n := y.norm(dim=-1, keepdim=True)) > 1e-3, n, 1e-3),
    "ball": lambda p, x: _ball(p.ffn(x)),
    "ball by min": lambda p, x: (y := p.ffn(x)) * (3.0 / (y.norm(dim=-1, keepdim=True) + 1e-6)).clamp(max=1.0),
    "unsqueezed norm": lambda p, x: (y := p.ffn(x)) / (1 + y.norm(dim=-1)).unsqueeze(-1),
    "indexed norm": lambda p, x: (y := p.ffn(x)) / (y.norm(dim=-1)[..., None] + 1e-3),
    "eps of a softplus": lambda p, x: (y := p.ffn(x)) / (y.pow(2).mean(-1, keepdim=True).sqrt() + F.softplus(p.number)),
    "eps of a softplus, inside": lambda p, x: (y := p.ffn(x)) * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + F.softplus(p.number)),
    "largest token": lambda p, x: (y := p.ffn(x)) / (y.norm(dim=-1, keepdim=True).amax(1, keepdim=True) + 1e-6),
    "largest entry": lambda p, x: (y := p.ffn(x)) / (y.abs().amax(-1, keepdim=True) + 1e-6),
    "largest entry, max": lambda p, x: (y := p.ffn(x)) / (y.abs().max(dim=-1, keepdim=True).values + 1e-6),
    "mean size": lambda p, x: (y := p.ffn(x)) / (y.abs().mean(-1, keepdim=True) + 1e-6),
    "spectral norm of a token": lambda p, x: _matrix(p.ffn(x), 2),
    "column sums of a token": lambda p, x: _matrix(p.ffn(x), 1),
    "row sums of a token": lambda p, x: _matrix(p.ffn(x), float("inf")),
    "frobenius norm of a token": lambda p, x: _matrix(p.ffn(x), "fro"),
    "nuclear norm of a token": lambda p, x: _matrix(p.ffn(x), "nuc"),
    "std plus one": lambda p, x: ((y := p.ffn(x)) - y.mean(-1, keepdim=True)) / (1 + y.std(-1, keepdim=True)),
    "tanh by hand": lambda p, x: 2 * torch.sigmoid(2 * p.ffn(x)) - 1,
    "tanh that is passed by": lambda p, x: (y := p.ffn(x)) + (torch.tanh(y) - y).detach(),
    "y - y + sin": lambda p, x: (y := p.ffn(x)) - (y - torch.sin(y)),
    "falls off": lambda p, x: (y := p.ffn(x)) * torch.exp(-y.square()),
    "1 - tanh": lambda p, x: (y := p.ffn(x)) * (1 - torch.tanh(y.abs())),
    "relu of minus relu": lambda p, x: F.relu(-F.relu(p.ffn(x))) + torch.sigmoid(p.o(x)),
    "sigmoid gate on a norm": lambda p, x: torch.sigmoid(p.o(x)) * F.rms_norm(p.ffn(x), (WIDTH,)),
    "two sigmoid gates": lambda p, x: torch.sigmoid(p.one(x)) * p.n(p.ffn(x)) + torch.tanh(p.o(x)) * F.normalize(p.v(x), dim=-1),
    "unit rows": lambda p, x: _two(p, x, _unit_rows(p.w), _unit_rows(p.w2)),
    "clamped rows": lambda p, x: _two(p, x, p.w / p.w.norm(dim=1, keepdim=True).clamp_min(1e-4), F.normalize(p.w2, dim=1)),
    "standardised": lambda p, x: _two(p, x, _standard(p.w), _standard(p.w2)),
    "over the largest": lambda p, x: _two(p, x, p.w / p.w.abs().max(), p.w2 / (p.w2.abs().amax() + 1e-3)),
    "max-norm": lambda p, x: _two(p, x, _maxnorm(p.w), _maxnorm(p.w2)),
    "signs": lambda p, x: _two(p, x, _sign(p.w), _sign(p.w2)),
    "tanh of weights": lambda p, x: _two(p, x, torch.tanh(p.w), p.w2.clamp(-1, 1)),
    "row sums of a weight": lambda p, x: _two(p, x, p.w / torch.linalg.norm(p.w, ord=float("inf")), F.softmax(p.w2, -1)),
    "map over the input's norm": lambda p, x: torch.tanh(p.q(x) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
}
UNBOUNDED: dict[str, Rule] = {
    "square root of its size": lambda p, x: (y := p.ffn(x)) / (1 + y.abs()).sqrt(),
    "clamp at one end": lambda p, x: p.ffn(x).clamp(min=-3),
    "softplus gate on a norm": lambda p, x: F.softplus(p.o(x)) * p.n(p.ffn(x)),
    "linear gates on norms": lambda p, x: p.one(x) * p.n(p.ffn(x)) + p.o(x) * F.normalize(p.v(x), dim=-1),
    "gates behind a cat": lambda p, x: torch.cat([p.one(x) * p.n(p.ffn(x))[..., :8], F.normalize(p.v(x), dim=-1)[..., 8:]], -1),
    "norm times its size": lambda p, x: F.normalize(y := p.ffn(x), dim=-1) * y.norm(dim=-1, keepdim=True),
    "table behind a norm": lambda p, x: p.n(p.ffn(x)) + p.table[:, :1] * torch.ones(WIDTH),
    "vector behind a norm": lambda p, x: p.n(p.ffn(x)) + p.vector,
    "sign times the mean size": lambda p, x: _two(p, x, _bit(p.w), p.w2),
    "unit rows and a free map": lambda p, x: _two(p, x, _unit_rows(p.w), p.w2),
    "softsign and a map": lambda p, x: p.o((y := p.ffn(x)) / (1 + y.abs())),
    "denormalised": lambda p, x: p.ffn(x * (r := 1 / x.abs().amax(-1, keepdim=True).clamp(min=1e-6))) / r,
    "convex sum of a value": lambda p, x: torch.softmax(p.q(x) @ p.k(x).mT, -1) @ p.v(p.n(x)),
    "threshold": lambda p, x: F.threshold(p.ffn(x), 0.5, 0.0),
    "square": lambda p, x: F.relu(p.ffn(x)) ** 2,
    "gated": lambda p, x: p.down(F.silu(p.gate(p.n(x))) * p.up(p.n(x))),
    "mean over tokens": lambda p, x: p.ffn(x).mean(1, keepdim=True).expand_as(x),
    "the size of the stream times a norm": lambda p, x: x.pow(2).mean(-1, keepdim=True).sqrt() * p.n(p.ffn(x)),
    "minus its mean": lambda p, x: (y := p.ffn(x)) - y.mean(-1, keepdim=True),
}

UNDECIDED: dict[str, Rule] = {
    "ramp": lambda p, x: F.relu(y := p.ffn(x)) - F.relu(y - 1),
    "softplus without its ramp": lambda p, x: F.softplus(y := p.ffn(x)) - F.relu(y),
    "a vector without its mean over tokens": lambda p, x: torch.tanh(p.ffn(x)) + (t := p.vector.expand_as(x)) - t.mean(1, keepdim=True),
    "angles of two halves": lambda p, x: (y := p.ffn(x)) / (1 + y.roll(1, -1).abs() + y.abs()),
}
"""Truly bounded by what cancels: no bound is derived, and nothing must be taken for a witness."""

BOUNDED_LOGITS: dict[str, Rule] = {
    "rms": lambda p, x: p.weigh((qk := p.qk(x))[0] @ qk[1].mT / 4, x),
    "cosine": lambda p, x: p.weigh(_cosine(p, x) * 10, x),
    "cosine, softmax by hand": lambda p, x: _written(p, x, _cosine(p, x) * 10),
    "cosine, log softmax": lambda p, x: p.o(F.log_softmax(_seen(p, _cosine(p, x)), -1).exp() @ p.v(p.n(x))),
    "soft cap": lambda p, x: p.weigh(30 * torch.tanh(p.q(x) @ p.k(x).mT / 30), x),
    "cosine, fused": lambda p, x: _attended(p, x, F.normalize(p.q(x), dim=-1), F.normalize(p.k(x), dim=-1)),
    "clamped temperature": lambda p, x: p.weigh(_cosine(p, x) * p.number.exp().clamp(max=100), x),
    "sigmoid of data as temperature": lambda p, x: p.weigh(_cosine(p, x) * torch.sigmoid(p.one(x)), x),
    "tanh bias": lambda p, x: p.weigh(_cosine(p, x) + torch.tanh(p.table), x),
    "distances of unit vectors": lambda p, x: p.weigh(-torch.cdist(F.normalize(p.q(x), dim=-1), F.normalize(p.k(x), dim=-1)), x),
    "normed logits": lambda p, x: p.weigh(F.layer_norm(p.q(x) @ p.k(x).mT, (TOKENS,)), x),
    "soft signs": lambda p, x: p.weigh((u := p.q(x) @ p.k(x).mT) / (1 + u.abs()), x),
}  # fmt: skip
FREE_LOGITS: dict[str, Rule] = {
    "plain": lambda p, x: p.weigh(p.q(p.n(x)) @ p.k(p.n(x)).mT / 4, x),
    "plain, fused": lambda p, x: _attended(p, x, p.q(p.n(x)), p.k(p.n(x))),
    "talking heads": _talking,
    "table": lambda p, x: p.weigh(_cosine(p, x) + p.table, x),
    "table as a mask": lambda p, x: _attended(p, x, F.normalize(p.q(x), dim=-1), F.normalize(p.k(x), dim=-1), p.table),
    "temperature of data": lambda p, x: p.weigh(_cosine(p, x) * F.softplus(p.one(x)), x),
    "temperature on queries": lambda p, x: p.weigh((F.normalize(p.q(x), dim=-1) * p.one(p.n(x))) @ F.normalize(p.k(x), dim=-1).mT, x),
    "bias of data": lambda p, x: p.weigh(_cosine(p, x) + p.one(p.n(x)), x),
    "one side of data, on keys": lambda p, x: p.weigh(_cosine(p, x) + torch.relu(p.number * F.softplus(p.one(x)))[:, None, :, 0], x),
    "forgetting": lambda p, x: p.weigh(_cosine(p, x) + F.logsigmoid(p.one(p.n(x))).cumsum(1).mT, x),
    "only queries are normed": lambda p, x: p.weigh(p.qk(x)[0] @ p.k(p.n(x)).mT, x),
    "learned queries": lambda p, x: p.o(torch.softmax(_seen(p, p.table[:, :1] * (p.latent[:1] @ p.k(p.n(x)).mT)), -1) @ p.v(p.n(x))),
    "additive": lambda p, x: p.weigh(p.one(torch.tanh(p.q(x)[:, :, None] + p.k(x)[:, None])).squeeze(-1), x),
    "distances": lambda p, x: p.weigh(-torch.cdist(p.q(p.n(x)), p.k(p.n(x))), x),
    "convolved": lambda p, x: p.weigh(p.conv(_cosine(p, x)[:, None])[:, 0], x),
    "null key": lambda p, x: p.o(torch.softmax(_seen(p, F.normalize(p.q(x), dim=-1) @ torch.cat(
        [F.normalize(p.k(x), dim=-1), p.null.expand(x.shape[0], 1, WIDTH)], 1).mT), -1)[..., :-1] @ p.v(p.n(x))),
    "by hand": lambda p, x: _written(p, x, p.q(p.n(x)) @ p.k(p.n(x)).mT),
    "log softmax": lambda p, x: p.o(F.log_softmax(_seen(p, p.q(p.n(x)) @ p.k(p.n(x)).mT), -1).exp() @ p.v(p.n(x))),
    "pooling": lambda p, x: _pooled(p, x, p.one(p.n(x))),
    "static table": lambda p, x: p.o(torch.softmax(_seen(p, p.table), -1) @ p.v(p.n(x))),
}  # fmt: skip


def _seen(p: Parts, u: Tensor) -> Tensor:
    p.logits = u
    return u
