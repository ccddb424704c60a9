"""Calls beside those of the table: two sides that count alike, chains, and spellings that few write. Compositions are not drawn from these,
so that one may be added without changing what is drawn."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.rows.block import SHAPE, Call
from tests.rows.table import VECTOR, places, skew, written

SQUARE = (4, 4)


def turned(w: Tensor) -> Tensor:
    """A rotation."""
    return torch.linalg.matrix_exp(skew(w))


def chain(w: Tensor, steps: int) -> Tensor:
    """A weight behind so many steps that keep its size."""
    for _ in range(steps):
        w = -w
    return w


def copied(y: Tensor) -> Tensor:
    """A tensor that is made and written to as a whole."""
    made = torch.empty_like(y)
    made.copy_(y)
    return made


_MADE: dict[str, tuple[Any, ...]] = {
    "scatter": (lambda x: F.normalize(x, dim=-1).scatter(-1, places(3, 2, 1, 0).expand(2, 3, 4), F.normalize(x.flip(-1), dim=-1)),),
    "scatter, along tokens": (lambda x: F.normalize(x, dim=1).scatter(1, places(1).expand(2, 1, 4), F.normalize(x, dim=1)[:, :1]),),
    "scatter, a part of the others": (lambda x: F.normalize(x, dim=-1).scatter(-1, places(3, 1).expand(2, 2, 2), F.normalize(x, dim=-1)[:, :2, :2]),),
    "setitem": (lambda x: written(F.normalize(x, dim=-1), (slice(None), 0), 3 * F.normalize(x[:, 1], dim=-1)),),
    "setitem, of one axis": (lambda x: written(F.normalize(x, dim=-1), (0, ...), 3 * F.normalize(x[1], dim=-1)),),
    "matmul": (lambda x, w, v: x @ (turned(w) @ v), SQUARE, SQUARE),
    "matmul, two rotations": (lambda x, w, v: x @ (turned(w) @ turned(v)), SQUARE, SQUARE),
    "matmul, a shift": (lambda x, w, v: x @ (turned(w) @ (v + 1.0)), SQUARE, SQUARE),
    "matmul, what stands still": (lambda x, w: x + torch.ones_like(x) @ turned(w), SQUARE),
    "linear": (lambda x, w: F.linear(x, chain(w, 30)), SQUARE),
    "linear, a sum of weights": (lambda x, v, w: F.linear(x, v + 2.0 * w), SQUARE, SQUARE),
    "linear, one over a product": (lambda x, v, w: F.linear(x, v / (w.square() + 1.0)), SQUARE, SQUARE),
    "linear, a weight less its mean": (lambda x, w: F.linear(x, w - w.mean(1, keepdim=True)), SQUARE),
    "cat": (lambda x: torch.cat([x, x[..., :0]], -1) * 2.0,),
    "cat, in one row": (lambda x: torch.cat([F.normalize(x, dim=-1), 2 * F.normalize(x.flip(1), dim=-1)], -1),),
    "stack": (lambda x: torch.stack([F.normalize(x, dim=-1), 2 * F.normalize(x.flip(1), dim=-1)], -1),),
    "add": (lambda x: 3.0 * x + x.flip(-1) - 2.0 * x,),
    "add, a multiple beside others": (lambda x: x.tanh() + (2.0 * x - 0.5 * x) - x,),
    "sub, by alpha": (lambda x: torch.sub(x, x, alpha=3.0) + x.tanh(),),
    "exp": (lambda x: torch.exp(-x.square() * x.abs()),),
    "exp, minus a half": (lambda x: torch.exp(x.square() / -2.0),),
    "exp, of a positive one": (lambda x: torch.exp(-(x.abs() * 0.5)),),
    "index_select": (lambda x: F.normalize(x, dim=-1).index_select(1, places(2, 2)),),
    "index_select, first": (lambda x: F.normalize(x, dim=-1).index_select(0, places(1)),),
    "getitem": (lambda x: F.normalize(x, dim=-1)[places(1, 0)],),
    "getitem, pairs": (lambda x: F.normalize(x, dim=-1)[places(1, 0), places(0, 0)],),
    "copy": (lambda x: copied(2.0 * x),),
    "mean": (lambda x: F.normalize(x, dim=-1).mean(1, keepdim=True) + F.normalize(x, dim=1).sum(1, keepdim=True),),
    "div": (lambda x: x / (1.0 + x.square().mean(-1, keepdim=True).sqrt()),),
    "div, over two axes": (lambda x: x / (1.0 + torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)),),
    "div, of deviations": (lambda x: (x - x.mean(-1, keepdim=True)) / (0.1 + x.var(-1, keepdim=True)).sqrt(),),
    "div, of deviations, unbiased off": (lambda x: (x - x.mean(-1, keepdim=True)) / (0.1 + x.std(-1, keepdim=True, correction=0)),),
    "norm, the larger": (lambda x: x / torch.maximum(x.norm(dim=-1, keepdim=True), x.norm(dim=1, keepdim=True)).clamp_min(0.2),),
    "norm, a sum of two": (lambda x: x / (0.2 + x.norm(dim=-1, keepdim=True) + x.abs().sum(1, keepdim=True)),),
    "div, an average": (lambda x: x / (0.2 + x.square().mean((1, 2), keepdim=True).sqrt()),),
    "norm, cubic": (lambda x: x / (0.2 + x.norm(3, dim=-1, keepdim=True)),),
    "layer_norm": (lambda x, w: F.layer_norm(x, (4,), w, None) * 2.0, VECTOR),
    "sub, of a norm": (lambda x, w: F.rms_norm(x, (4,), w) - 1.0, VECTOR),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, padding=1), (3, 3, 3), (3,)),
    "conv1d, groups": (lambda x, w: F.conv1d(x.mT, w, groups=2).mT, (4, 2, 2)),
    "conv1d, of length one": (lambda x, w: F.conv1d(x, F.normalize(w, dim=(1, 2)), padding=1), (3, 3, 3)),
    "conv1d, of length one, groups": (lambda x, w: F.conv1d(x.mT, F.normalize(w, dim=(1, 2)), groups=2).mT, (4, 2, 2)),
    "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, stride=2), (3, 2, 2)),
    "lerp": (lambda x: torch.lerp(x.tanh(), x.sigmoid(), 0.5 * x.sigmoid()),),
    "lerp, far": (lambda x: torch.lerp(x.sigmoid(), 3.0 * x.tanh(), 1.0 + x.sigmoid()),),
    "log": (lambda x: (0.1 + x.sigmoid()).log() * F.normalize(x, dim=-1),),
    "log1p": (lambda x: (x.tanh() - 0.1).mul(0.9).log1p(),),
    "log_softmax": (lambda x: torch.ones_like(x).log_softmax(-1) + x,),
    "log_softmax, of what jumps": (lambda x: (x * (x > 0.5)).sigmoid().log_softmax(-1),),
    "cumsum": (lambda x: x.tanh().cumsum(1),),
    "cumsum, of what is not negative": (lambda x: (1.0 + x.sigmoid()).cumsum(-1).neg().exp(),),
    "setitem, a plain slice": (lambda x: written(y := F.normalize(x.flatten(1), dim=-1).view_as(x), slice(1, None), y[:1]).norm(dim=(1, 2)),),
    "topk, of tokens": (lambda x: (p := x.softmax(-1).topk(2, 1)[0]) / p.sum(-1, keepdim=True),),
}  # fmt: skip
BESIDE = {name: Call(name.partition(",")[0], of, tuple(weights), SHAPE, n) for n, (name, (of, *weights)) in enumerate(_MADE.items())}

__all__ = ["BESIDE"]
