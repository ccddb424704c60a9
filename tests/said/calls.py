"""Calls and blocks that no table of tests has: operands of which nothing is known, or that stand still, and other ways to write the same.

They are on record for the lines that they alone come to; what is true of them is judged by the tests of each calculus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations as P

from tests.calculi.bounds.near_bounds import WIDTH, Parts, Rule
from tests.calculi.bounds.test_bounds_constrained import _linear
from tests.rows.block import SHAPE, Call
from tests.rows.table import IMAGE, MATRIX, VECTOR, places, written

MORE: dict[str, Call] = {}


def call(name: str, op: str, of: Callable[..., Any], *weights: tuple[int, ...], shape: tuple[int, ...] = SHAPE) -> None:
    """Enters a call with a name of its own."""
    MORE[f"{op}: {name}"] = Call(op, of, weights, shape, len(MORE))


def lost(x: Tensor) -> Tensor:
    """Of an op without a row."""
    return torch.special.bessel_j0(x)


def still(x: Tensor) -> Tensor:
    """A value that does not move with the stream."""
    return torch.ones_like(x)


def masked(x: Tensor) -> Tensor:
    """Some of its entries are −∞."""
    return x.masked_fill(torch.tensor([True, False, True, False]), float("-inf"))


def gated(a: Tensor, b: Tensor) -> Tensor:
    """SwiGLU's product."""
    return F.silu(a) * b


OPERANDS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "conv1d": (lambda x, w, f: F.conv1d(f(x), w) + x.mean(), ((4, 3, 2),)),
    "cat": (lambda x, f: torch.cat([f(x), x], -1), ()),
    "topk": (lambda x, f: f(x).topk(2, -1)[0] + x[..., :2], ()),
    "cumsum": (lambda x, f: f(x).cumsum(1) + x, ()),
    "fft_fft": (lambda x, f: torch.fft.fft(f(x)).real + x, ()),
    "norm": (lambda x, f: f(x).norm(dim=-1) + x[..., 0], ()),
    "where": (lambda x, f: torch.where(x > 0, f(x), x), ()),
    "setitem": (lambda x, f: written(x, (slice(None), 0), f(x)[:, 1]), ()),
    "scatter": (lambda x, f: x.scatter(1, torch.zeros(2, 1, 4, dtype=torch.int64), f(x)[:, 1:2]), ()),
    "maximum": (lambda x, f: torch.maximum(x, f(x)), ()),
    "var": (lambda x, f: f(x).var(-1) + x[..., 0], ()),
}
UNKNOWN, STILL = "conv1d topk cumsum fft_fft where setitem scatter maximum var", "conv1d cat topk norm where"
for _name, _made, _ops in (("unknown", lost, UNKNOWN), ("still", still, STILL)):
    for _op in _ops.split():
        call(_name, _op, lambda *given, of=OPERANDS[_op][0], f=_made: of(*given, f), *OPERANDS[_op][1])
MASKED = "abs neg exp tanh relu sqrt sum mean amax amin cumsum roll flip softmax log_softmax logsumexp var norm square sigmoid"
for _op in MASKED.split():
    _along = () if _op in "abs neg exp tanh relu sqrt square sigmoid" else (1, 1) if _op == "roll" else ((-1,),) if _op == "flip" else (-1,)
    call("masked", _op, lambda x, op=_op, a=_along: getattr(torch, op)(masked(x), *a) + x.sum())
call("masked", "copysign", lambda x: torch.copysign(masked(x), x))
call("masked", "cat", lambda x: torch.cat([masked(x), x], -1))
call("masked", "linear", lambda x, w: F.linear(masked(x), w) + x.mean(), (5, 4))
call("masked", "matmul", lambda x: masked(x) @ x.mT)
call("masked", "mul", lambda x: masked(x) * x)
call("masked", "add", lambda x: masked(x) + x)
call("masked", "div", lambda x: masked(x) / 2.0)
call("masked", "where", lambda x: torch.where(x > 0, masked(x), x))
call("masked", "topk", lambda x: masked(x).topk(2, -1)[0])
call("masked", "clamp", lambda x: masked(x).clamp(-1.0, 1.0))
call("masked", "maximum", lambda x: torch.maximum(masked(x), x))
call("masked", "setitem", lambda x: written(x, (slice(None), 0), masked(x)[:, 1]))
call("of choices on one side", "cdist", lambda x: torch.cdist(x, (x > 0).float()))
call("of choices on the other", "cdist", lambda x: torch.cdist((x > 0).float(), x))
call("all of it", "masked_fill", lambda x: x.masked_fill(torch.ones(4, dtype=torch.bool), float("-inf")))
call("both masked", "where", lambda x: torch.where(x > 0, torch.tensor(float("-inf")), torch.tensor(-1e9)).softmax(-1) * x)
call("a floor of a mask", "maximum", lambda x: torch.maximum(x, torch.tensor(torch.finfo(torch.float32).min)))
call("of a mask", "max", lambda x: x.masked_fill(torch.tensor([True, False, True, False]), float("-inf")).max(-1)[0])
call("of a single number", "norm", lambda x: torch.norm(x.sum(), dim=-1) * x)
call("of a single number", "topk", lambda x: x + x.sum().topk(1, 0)[0])
call("of a matrix of data", "addmm", lambda x: torch.addmm(x[0], x[0] @ x[1].mT, x[1]))
call("two maps", "matmul", lambda x, v, w: x @ (v @ w), (4, 5), (5, 4))
call("of an orthogonal map", "matmul", lambda x, w: x @ torch.linalg.matrix_exp(w - w.mT), (4, 4))
call("a list of one", "getitem", lambda x: x[:, [1]])
call("a new axis of a weight", "getitem", lambda x, w: x * w[None, :, None].squeeze(-1), VECTOR)
call("rows picked by data", "getitem", lambda x: x[:, x[0, :, 0].argsort()])
call("the second axis, other sizes", "index_select", lambda x: x.index_select(1, places(0)))
call("a part that is broadcast", "setitem", lambda x: written(x, (slice(None), slice(1, None)), x[:, :1]))
call("one number for a row", "setitem", lambda x: written(x, (slice(None), 0), x[:, 1, :1]))
call("as a whole", "data", lambda x: written(x.data, ..., 2 * x))
call("one map's rows picked", "select", lambda x, w: (x @ w).unflatten(-1, (2, 2)).select(-2, 1), (4, 4))
call("a mask of data", "scaled_dot_product_attention", lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=x @ x.mT))
call("to a number of data", "pow", lambda x: x.abs().pow(x.sigmoid()))
call("minus a half of data", "pow", lambda x: (x.abs() + 1) ** -1.5)
call("to nothing", "pow", lambda x: x.square() ** 0.0)
call("of a number", "exp", lambda x: x * torch.exp(torch.ones(4)))
call("of another value", "embedding", lambda x: F.embedding(places(0, 1), x[0]))
call("of a part of a map", "gelu", lambda x, w: (lambda a, b: a * b)(*F.gelu(x @ w).chunk(2, -1)), (4, 8))
call("of a map", "glu", lambda x, w: F.glu(x @ w, -1), (4, 8))
call("a square of a weight", "linear", lambda x, w: F.linear(x, w.square()), (5, 4))
call("one over a weight", "linear", lambda x, w: F.linear(x, 1 / w), (5, 4))
call("a power of a weight", "linear", lambda x, w: F.linear(x, w**2), (5, 4))
call("softplus of a weight", "linear", lambda x, w: F.linear(x, F.softplus(w)), (5, 4))
call("a product of weights", "linear", lambda x, v, w: F.linear(x, v * w), (5, 4), (5, 4))
call("two parts of a weight", "linear", lambda x, w: F.linear(x, torch.cat([w[:2], 2 * w[2:]])), (5, 4))
call("an outer product of weights", "linear", lambda x, v, w: F.linear(x, v @ w), (5, 2), (2, 4))
call("a turned stack of two", "matmul", lambda x, w: gated(*(x @ w.permute(1, 0, 2).reshape(4, 10)).chunk(2, -1)), (2, 4, 5))
call("of a fused weight", "linear", lambda x, w: gated(*F.linear(x, w.view(10, 4)).unflatten(-1, (2, 5)).unbind(-2)), (2, 5, 4))
call("rows by a list", "linear", lambda x, w: F.linear(x, w[..., :4]), (5, 6))
call("a bias that grows", "linear", lambda x, w, b: F.linear(x, w, b.exp()), (5, 4), (5,))
call("of a constant and a sign", "mul", lambda x: -x.abs() * torch.exp(-x.abs() - 1))
call("of sizes", "norm", lambda x: x / (x.norm(dim=-1, keepdim=True).norm(dim=1, keepdim=True) + 1e-6))
call("a sum of sizes", "norm", lambda x: x / (x.abs().norm(3, dim=-1, keepdim=True) + 0.1))
call("a relu over a sum", "div", lambda x: 0.5 * F.relu(x) / (x.abs().sum(-1, keepdim=True) + 1e-6))
call("a part over a sum", "div", lambda x: (-x / 4) / (x.abs().sum(-1, keepdim=True) + 1e-6))
call("a gate over a sum", "div", lambda x: x * x.sigmoid() / (x.abs().sum(-1, keepdim=True) + 1e-6))
call("of what is divided by itself", "div", lambda x: (x / (1 + x.abs())) / (x.abs().sum(-1, keepdim=True) + 1e-6))
call("steps and holes", "conv2d", lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(1, 0), dilation=(1, 2)), (4, 2, 3, 2), shape=IMAGE)
call("a padding by place", "conv1d", lambda x, w: F.conv1d(x, w, None, 1, "same"), (4, 3, 3))
call("of two axes", "repeat_interleave", lambda x: x.unsqueeze(1).expand(-1, 2, -1, -1).flatten(1, 2))
call("another distance", "cdist", lambda x: torch.cdist(x, x, p=1.0))
call("of all", "squeeze", lambda x: x.sum((0, 1), keepdim=True).squeeze())
call("a half that is not", "cat", lambda x: torch.cat([x[..., :2] * 2 - x[..., 2:], x[..., 2:] * 2 + x[..., :2]], -1))
call("maps of a matrix", "mm", lambda x, v, w: torch.mm(torch.mm(x, v), w), (4, 3), (3, 4), shape=MATRIX)


def size(y: Tensor) -> Tensor:
    """The root of the mean of squares of each token."""
    return torch.sqrt(y.square().mean(-1, keepdim=True) + 1e-6)


def _rotated(p: Parts, x: Tensor, turned: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    angles = torch.arange(x.shape[1])[:, None] * 100.0 ** (-torch.arange(0, WIDTH // 2) / 8)
    q, k = (turned(t, angles.cos(), angles.sin()) for t in p.qk(x))
    return p.weigh(q @ k.mT, x)


def _halves(t: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = t.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def _unlike(t: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = t.chunk(2, -1)
    return torch.cat([a * c - b * s, b * s + a * c], -1)


def _pairs(t: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = t[..., ::2], t[..., 1::2]
    return torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2)


def _turned_pairs(t: Tensor, c: Tensor, s: Tensor) -> Tensor:
    both = torch.stack([-t[..., 1::2], t[..., ::2]], -1).flatten(-2)
    return t * c.repeat_interleave(2, dim=-1) + both * s.repeat_interleave(2, dim=-1)


def _doubled(t: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = t.chunk(2, -1)
    return t * torch.cat([c, c], -1)[None] + torch.cat([-b, a], -1) * torch.cat([s, s], -1)[None]


def _crosswise(t: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = t.chunk(2, -1)
    return t * torch.cat([c, s], -1) + torch.cat([-b, a], -1) * torch.cat([s, c], -1)


def _two(p: Parts, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return F.linear(F.relu(F.linear(p.n(x), a)), b)


def _rotation(w: Tensor) -> Tensor:
    return torch.linalg.matrix_exp(w - w.mT)


def _centred(y: Tensor) -> Tensor:
    return y - y.mean(-1, keepdim=True)


RULES: dict[str, Rule] = {
    "a number over its size": lambda p, x: (y := p.ffn(x)) * (2.0 / size(y)),
    "a power of its square": lambda p, x: (y := p.ffn(x)) * (y.square().mean(-1, keepdim=True) + 1e-6).pow(-0.5),
    "times a size": lambda p, x: (y := p.ffn(x)) / (3.0 * size(y)),
    "over a part of its size": lambda p, x: (y := p.ffn(x)) / (size(y) / 4.0),
    "half of an inverse": lambda p, x: (y := p.ffn(x)) * (0.5 * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)),
    "reciprocal": lambda p, x: (y := p.ffn(x)) * torch.reciprocal(size(y)),
    "a tensor for eps": lambda p, x: (y := p.ffn(x)) / (y.norm(dim=-1, keepdim=True) + torch.tensor(0.1)),
    "less than its size": lambda p, x: (y := p.ffn(x)) / (size(y) - 0.1),
    "twice an eps": lambda p, x: (y := p.ffn(x)) / torch.add(y.norm(dim=-1, keepdim=True), torch.tensor(0.1), alpha=2),
    "by variance and mean": lambda p, x: _centred(y := p.ffn(x)) * torch.rsqrt(torch.var_mean(y, -1, keepdim=True, unbiased=False)[0] + 1e-5),
    "a gain before the quotient": lambda p, x: (p.vector * (y := p.ffn(x))) * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6),
    "a gain before the quotient, centred": lambda p, x: (p.vector * (y := _centred(p.ffn(x)))) / size(y),
    "a gain behind": lambda p, x: p.vector * F.layer_norm(p.ffn(x), (WIDTH,)) - 1.0,
    "a norm without eps": lambda p, x: F.rms_norm(p.ffn(x).double(), (WIDTH,)).float(),
    "a norm without a sign": lambda p, x: -(F.layer_norm(p.ffn(x), (WIDTH,), p.vector, p.vector) * 0.5),
    "log1p of its size": lambda p, x: (y := p.ffn(x)) * torch.log1p(n := y.norm(dim=-1, keepdim=True)) / (1 + n).square(),
    "log of its size": lambda p, x: (y := p.ffn(x)) * torch.log(1 + (n := y.norm(dim=-1, keepdim=True))) / (1 + n).square(),
    "log1p of its size, over it": lambda p, x: (y := p.ffn(x)) * torch.log1p(n := y.norm(dim=-1, keepdim=True)) / (n + 1e-3),
    "expm1 of its size": lambda p, x: (y := p.ffn(x)) * torch.expm1(-y.norm(dim=-1, keepdim=True)) / (1 + y.norm(dim=-1, keepdim=True)),
    "leaky size": lambda p, x: (y := p.ffn(x)) / F.leaky_relu(1 + y.norm(dim=-1, keepdim=True), 0.1),
    "softplus of its size": lambda p, x: (y := p.ffn(x)) / F.softplus(y.norm(dim=-1, keepdim=True)),
    "over a wave": lambda p, x: (y := p.ffn(x)) * torch.reciprocal(2.0 + torch.cos(y)),
    "over a sigmoid": lambda p, x: (y := p.ffn(x)) / (1 + torch.exp(-y)),
    "inverse of a square": lambda p, x: p.ffn(x).square().add(0.5).reciprocal() * 3.0,
    "a half ramp": lambda p, x: torch.where((y := p.ffn(x)) > 0, y, 0.1 * y) / (1 + y.abs()),
    "weights over their size": lambda p, x: _two(p, x, p.w / (1 + p.w.abs()), p.w2 * torch.exp(-p.w2.square())),
    "minus a quotient": lambda p, x: -((y := p.ffn(x)) / (1 + y.norm(dim=-1, keepdim=True))),
    "size to nothing": lambda p, x: (y := p.ffn(x)) / ((1 + (n := y.norm(dim=-1, keepdim=True))) * (1 + n) ** 0.0),
    "an expanded size": lambda p, x: (y := p.ffn(x)) / (1 + y.norm(dim=-1, keepdim=True)).expand(-1, -1, WIDTH),
    "sizes out of place": lambda p, x: (y := p.ffn(x)) / (1 + y.norm(dim=-1)).unsqueeze(1).mT,
    "sizes of other tokens": lambda p, x: (y := p.ffn(x)) / (1 + y.norm(dim=-1).flip(1).unsqueeze(-1)),
    "size of sizes": lambda p, x: (y := p.ffn(x)) / (1 + y.norm(dim=-1, keepdim=True).norm(dim=1, keepdim=True)),
    "size of entries": lambda p, x: (y := p.ffn(x)) / (1 + y.abs().norm(1, dim=-1, keepdim=True)),
    "sum with a quotient": lambda p, x: ((y := p.ffn(x)) - y / (2 + y.norm(dim=-1, keepdim=True))) / (1 + y.norm(dim=-1, keepdim=True)),
    "over its Frobenius norm": lambda p, x: _two(p, x, 3.0 * p.w / p.w.norm(), p.number * p.w2 / torch.linalg.norm(p.w2)),
    "over its spectral norm": lambda p, x: _two(p, x, p.w / torch.linalg.matrix_norm(p.w, 2), p.w2 / torch.linalg.matrix_norm(p.w2, 2) * p.number),
    "over its size in parts": lambda p, x: _two(p, x, (p.w / p.w.norm())[:16], p.w2[:, :16] / p.w2.norm()),
    "over the size of another": lambda p, x: _two(p, x, p.w / p.w2.norm(), p.w2 / p.w2.mT.norm()),
    "orthogonal maps in a row": lambda p, x: p.n(x) @ _rotation(p.w[:16]) @ _rotation(p.w[16:]),
    "fused gate": lambda p, x: p.o((h := F.gelu(p.up(p.n(x))))[..., :16] * h[..., 16:]),
    "glu": lambda p, x: p.o(F.glu(p.up(p.n(x)), -1)),
    "gate of tokens": lambda p, x: p.v(p.n(x)) * p.n(x).mean(1, keepdim=True).sigmoid(),
    "rotated halves": lambda p, x: _rotated(p, x, _halves),
    "rotated, not quite": lambda p, x: _rotated(p, x, _unlike),
    "rotated pairs": lambda p, x: _rotated(p, x, _pairs),
    "rotated pairs by a turn": lambda p, x: _rotated(p, x, _turned_pairs),
    "rotated by doubled angles": lambda p, x: _rotated(p, x, _doubled),
    "rotated crosswise": lambda p, x: _rotated(p, x, _crosswise),
    "temperature of a size": lambda p, x: p.weigh((q := p.qk(x))[0] @ q[1].mT / (1 + p.number.abs()), x),
    "turned weights": lambda p, x: p.o(torch.softmax(p.q(p.n(x)) @ p.k(p.n(x)).mT, 1).permute(0, 2, 1) @ p.v(p.n(x))),
    "turned weights by name": lambda p, x: p.o(torch.transpose(torch.softmax(p.q(p.n(x)) @ p.k(p.n(x)).mT, -1), dim0=1, dim1=2) @ p.v(p.n(x))),
    "expanded weights": lambda p, x: p.o((torch.softmax(p.q(p.n(x)) @ p.k(p.n(x)).mT, -1).unsqueeze(1) @ p.v(p.n(x)).unsqueeze(1)).squeeze(1)),
    "dropout": lambda p, x: F.dropout(p.ffn(x), 0.1, training=True),
    "dropout, off": lambda p, x: F.dropout(p.ffn(x), p=0.1, training=False),
    "over queries, and a dropout": lambda p, x: p.o(F.dropout(torch.softmax(p.q(p.n(x)) @ p.k(p.n(x)).mT, -2), 0.1, False) @ p.v(p.n(x))),
    "over keys, times a number": lambda p, x: p.o((2.0 * torch.softmax(p.q(p.n(x)) @ p.k(p.n(x)).mT, -1)) @ p.v(p.n(x))),
    "over its Frobenius norm, axes by place": lambda p, x: _two(p, x, p.w / torch.norm(p.w, 2, (-2, -1)), p.w2 / torch.norm(p.w2, "fro", (0, 1))),
    "over its spectral norm, by a sum": lambda p, x: F.linear(p.n(x), p.w[:16] / (p.vector * (p.w[:16] @ p.vector)).sum()),
    "rotated by turned angles": lambda p, x: _rotated(p, x, lambda t, c, s: _halves(t, c.mT.mT[None], s.mT.mT[None])),
    "rotated by a part of angles": lambda p, x: _rotated(p, x, lambda t, c, s: _halves(t, c[None, ..., :], s[None][..., :, :])),
    "rotated by angles of one token": lambda p, x: _rotated(p, x, lambda t, c, s: _halves(t, c[1], s[1])),
    "rotated, of the unknown": lambda p, x: _rotated(p, x, lambda t, c, s: _halves(lost(t), c, s)),
}


def _by_columns() -> nn.Module:
    return P.spectral_norm(_linear(), dim=1)


def _by_columns_old() -> nn.Module:
    made: nn.Module = nn.utils.spectral_norm(_linear(), dim=1)
    return made


def _lengths_by_columns() -> nn.Module:
    return P.weight_norm(_linear(), dim=1)


def _as_a_whole() -> nn.Module:
    return P.weight_norm(_linear(), dim=None)  # type: ignore[arg-type]


HELD: dict[str, Callable[[], nn.Module]] = {
    "spectral, by columns": _by_columns, "spectral, by columns, old": _by_columns_old, "weight, by columns": _lengths_by_columns,
    "one size": _as_a_whole,
}  # fmt: skip

__all__ = ["HELD", "MORE", "RULES"]
