"""The calls: for every op that a calculus has a rule for at least one, as users write it. x: [2, 3, 4] where nothing else is said.

An op has several calls where its rule reads arguments (axes, orders, factors). Nothing here is judged: see `tests/**/test_rows_*.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from screen.ops.scalars import OPS
from tests.rows.block import SHAPE, Call

IMAGE = (1, 2, 4, 4)
VOLUME = (1, 2, 2, 4, 4)
MATRIX = (3, 4)
VECTOR = (4,)
CALLS: list[Call] = []
_seen: Counter[str] = Counter()


def call(names: str, of: Callable[..., Any], *weights: tuple[int, ...], shape: tuple[int, ...] = SHAPE) -> None:
    """Enters a call under the names that capture gives it (of several calls in it)."""
    for name in names.split():
        CALLS.append(Call(name, of, weights, shape, _seen[name]))
        _seen[name] += 1


def named(names: str, home: Any = torch) -> list[tuple[str, Any]]:
    """Functions by name."""
    return [(name, getattr(home, name)) for name in names.split()]


def places(*index: int) -> Tensor:
    """A tensor of indices."""
    return torch.tensor(index)


def written(x: Tensor, index: Any, y: Any) -> Tensor:
    """x with a part replaced."""
    x = x.clone()
    x[index] = y
    return x


def skew(w: Tensor) -> Tensor:
    """A matrix with Aᵀ = −A."""
    return w - w.mT


def cayley(a: Tensor) -> Tensor:
    """An orthogonal matrix from a skew one."""
    return torch.linalg.solve(torch.eye(4) + a, torch.eye(4) - a)


def householder(w: Tensor) -> Tensor:
    """An orthogonal matrix from reflections."""
    a = w.tril(diagonal=-1)
    tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
    return torch.linalg.householder_product(a, tau)


# -- entry by entry -------------------------------------------------------------------------------------------------------------------

for _op in OPS:
    call(_op, getattr(F, _op, None) or getattr(torch, _op))
call("gelu", lambda x: F.gelu(x, approximate="tanh"))
call("elu", lambda x: F.elu(x, 2.0))
call("celu", lambda x: F.celu(x, 0.5))
call("leaky_relu", lambda x: F.leaky_relu(x, 3.0))
call("leaky_relu", lambda x: F.leaky_relu(x, -2.0))
call("hardtanh", lambda x: F.hardtanh(x, -2.0, 3.0))
call("hardtanh", lambda x: F.hardtanh(x, 1.0, 3.0))
call("hardtanh", lambda x: F.hardtanh(x, -40.0, 40.0))
call("softplus", lambda x: F.softplus(x, 0.5))
call("softplus", lambda x: F.softplus(x, 4.0))
call("softshrink", lambda x: F.softshrink(x, 0.1))
call("sqrt", lambda x: torch.sqrt(x * x + 0.25))
call("sqrt", lambda x: torch.sqrt(x.square()))
call("sqrt", lambda x: x.abs().sqrt())
call("rsqrt", lambda x: torch.rsqrt(x * x + 0.25))
call("reciprocal", lambda x: torch.reciprocal(x * x + 0.5))
call("exp", lambda x: torch.exp(-x.abs()))
call("exp", lambda x, w: x * w.exp(), VECTOR)
call("exp", lambda x: (x - x.logsumexp(-1, keepdim=True)).exp())
call("exp2", lambda x: torch.exp2(1 - x.square()))
call("expm1", lambda x: torch.expm1(-F.softplus(x)))
call("clamp", lambda x: x.clamp(-0.5, 2.0))
call("clamp", lambda x: x.clamp(1.0, 2.0))
call("clamp", lambda x: x.clamp(min=0.3))
call("clamp", lambda x: torch.clip(x, max=-0.3))
call("clamp", lambda x, w: x.clamp(min=w.sigmoid()), VECTOR)
call("clamp", lambda x: x.clamp(-40.0, 40.0))
call("clamp_min", lambda x: x.clamp_min(0.5))
call("clamp_max", lambda x: x.clamp_max(-0.5))
call("clamp_min", lambda x: x.clamp_min(-40.0))
call("clamp_max", lambda x: x.clamp_max(40.0))
call("atan2", lambda x: torch.atan2(x, x + 1))
call("remainder", lambda x: x % 0.7)
call("remainder", lambda x: torch.remainder(x, -0.7))
call("copysign", lambda x: torch.copysign(x, x.flip(-1)))
call("threshold", lambda x: F.threshold(x, 0.0, 0.0))
call("threshold", lambda x: F.threshold(x, 0.5, 0.1))
call("prelu", F.prelu, (1,))
call("rrelu", F.rrelu)
call("hardshrink", F.hardshrink)
call("heaviside", lambda x: torch.heaviside(x, torch.ones(())))
call("sinc", torch.sinc)
call("sgn", torch.sgn)
call("nan_to_num", torch.nan_to_num)
call("angle", torch.angle)
call("hypot", lambda x: torch.hypot(x, x.flip(-1)))
call("glu", lambda x: F.glu(x, -1))
call("glu", lambda x: F.glu(x, 0))

# -- sums and products ----------------------------------------------------------------------------------------------------------------

call("add", lambda x: x + x.mean(-1, keepdim=True))
call("add", lambda x: torch.add(x, x.flip(1), alpha=3.0))
call("add", lambda x: 2.0 + x)
call("add", lambda x, w: x + w, VECTOR)
call("sub", lambda x: x - x.mean(-1, keepdim=True))
call("sub", lambda x: torch.sub(x, x[:, :1], alpha=-2.0))
call("sub", lambda x: 1.0 - x)
call("add", lambda x, v, w: x @ v + x @ w, (4, 4), (4, 4))
call("mul", lambda x, v, w: (x @ v) * F.silu(x @ w), (4, 4), (4, 4))
call("sub", lambda x: torch.rsub(x, 1.0))
call("mul", lambda x: x * x.flip(-1))
call("mul", lambda x: -3.0 * x)
call("mul", lambda x: x * torch.exp(-x * x))
call("mul", lambda x: x * torch.sigmoid(1.7 * x))
call("mul", lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)))
call("mul", lambda x, w: x * w, VECTOR)
call("mul", lambda x: x[:, :, :1] * x)
call("mul", lambda x: torch.multiply(x, x.sigmoid()))
call("div", lambda x: x / 0.5)
call("div", lambda x: x / (x.square() + 0.5))
call("true_divide", lambda x: torch.true_divide(x, -4.0))
call("div", lambda x: 3.0 / (x.abs() + 1.5))
call("div", lambda x: x / (x.norm(dim=-1, keepdim=True) + 0.1))
call("div", lambda x: torch.div(x, 0.25, rounding_mode="floor"))
call("neg", torch.negative)
call("lerp", lambda x: torch.lerp(x, x.flip(-1), 0.3))
call("lerp", lambda x: torch.lerp(x, x.flip(-1), 2.0))
call("lerp", lambda x, v, w: torch.lerp(x @ v, x @ w, 0.3), (4, 4), (4, 4))
call("lerp", lambda x, w: torch.lerp(x, x.flip(-1), w), VECTOR)
call("pow", lambda x: x**2)
call("pow", lambda x: x**3)
call("pow", lambda x: x.abs() ** 0.5)
call("pow", lambda x: (x.square() + 1) ** -0.5)
call("outer", lambda x: torch.outer(x[0, 0], x[1, 1]))
call("ger", lambda x: torch.ger(x[0, 0], x[1, 1]))
call("kron", lambda x: torch.kron(x[0], x[1]))
call("complex", lambda x: torch.complex(x, x.flip(-1)))
call("conj", lambda x: torch.complex(x, x.flip(-1)).conj() * 1)
call("real", lambda x: torch.complex(x, x.flip(-1)).real)
call("imag", lambda x: torch.complex(x, x.flip(-1)).imag)
call("polar", lambda x: torch.view_as_complex(x.unflatten(-1, (2, 2))) * torch.polar(torch.ones(2), torch.arange(2.0)))
call("polar", lambda x: torch.polar(x.abs(), x))
call("view_as_complex", lambda x: torch.view_as_complex(x.unflatten(-1, (2, 2))))
call("view_as_complex", lambda x: torch.view_as_complex(x.unflatten(-1, (2, 2)).transpose(-1, -2).contiguous()))
call("view_as_real", lambda x: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (2, 2))) * 2.0))

# -- views ----------------------------------------------------------------------------------------------------------------------------

call("to", lambda x: x.to(torch.float16).to(torch.float32))
call("float", lambda x: x.double().float())
call("half", Tensor.half)
call("bfloat16", Tensor.bfloat16)
call("double", Tensor.double)
call("type_as", lambda x: x.type_as(torch.zeros((), dtype=torch.float64)))
call("contiguous", lambda x: x.mT.contiguous())
call("clone", Tensor.clone)
call("detach", lambda x: x + x.detach())
call("data", lambda x: x + x.data)
call("detach", Tensor.detach)
call("data", lambda x: x.data)
call("alias", torch.ops.aten.alias)
call("dropout", lambda x: F.dropout(x, 0.5, True, True))
call("dropout1d", lambda x: F.dropout1d(x, 0.5, True, True))
call("dropout2d", lambda x: F.dropout2d(x, 0.5, True, True), shape=IMAGE)
call("dropout3d", lambda x: F.dropout3d(x, 0.5, True, True), shape=VOLUME)
call("alpha_dropout", lambda x: F.alpha_dropout(x, 0.5, True, True))
call("feature_dropout", lambda x: torch.feature_dropout_(x, 0.5, True))
call("lift_fresh", torch.ops.aten.lift_fresh_copy)
call("view", lambda x: x.contiguous().view(2, 12))
call("view", lambda x: x.contiguous().view(2, 3, 2, 2))
call("reshape", lambda x: x.reshape(6, 4))
call("reshape", lambda x: x.reshape(2, 2, 6))
call("flatten", lambda x: x.flatten(1))
call("unflatten", lambda x: x.unflatten(-1, (2, 2)))
call("unsqueeze", lambda x: x.unsqueeze(1))
call("squeeze", lambda x: x[:, :1].squeeze(1))
call("squeeze", lambda x: x[:, :1].squeeze())
call("view_as", lambda x: x.contiguous().view_as(torch.zeros(6, 4)))
call("reshape_as", lambda x: x.reshape_as(torch.zeros(6, 4)))
call("ravel", Tensor.ravel)
call("atleast_2d", lambda x: torch.atleast_2d(x[0, 0]))
call("transpose", lambda x: x.transpose(0, 2))
call("transpose", lambda x: torch.transpose(x, dim0=-1, dim1=-2))
call("swapaxes", lambda x: x.swapaxes(1, 2))
call("swapdims", lambda x: x.swapdims(0, 1))
call("t", lambda x: x.t(), shape=MATRIX)
call("T", lambda x: x.T, shape=MATRIX)
call("mT", lambda x: x.mT)
call("H", lambda x: x.H, shape=MATRIX)
call("mH", lambda x: x.mH)
call("adjoint", lambda x: x.adjoint())
call("permute", lambda x: x.permute(2, 0, 1))
call("permute", lambda x: torch.permute(x, (-1, 0, -2)))
call("movedim", lambda x: x.movedim(0, -1))
call("movedim", lambda x: torch.moveaxis(x, 2, 0))
call("expand", lambda x: x[:, :1].expand(2, 5, 4))
call("expand", lambda x: x[0].expand(3, -1, -1))
call("expand_as", lambda x: x[:, :, :1].expand_as(x))
call("broadcast_to", lambda x: torch.broadcast_to(x[:, :1], (2, 5, 4)))
call("repeat", lambda x: x.repeat(1, 2, 3))
call("repeat", lambda x: x[0].repeat(2, 1, 1))
call("tile", lambda x: x.tile(2))
call("repeat_interleave", lambda x: x.repeat_interleave(2, dim=1))
call("repeat_interleave", lambda x: x.repeat_interleave(2, dim=-1))
call("roll", lambda x: x.roll(1, 1))
call("roll", lambda x: torch.roll(x, (1, 2), (1, 2)))
call("roll", lambda x: torch.roll(x, 1))
call("flip", lambda x: x.flip(-1))
call("flip", lambda x: x.flip((0, 1)))
call("pad", lambda x: F.pad(x, (1, 2)))
call("pad", lambda x: F.pad(x, (0, 0, 2, -1)))
call("pad", lambda x: F.pad(x, (1, 1), value=-5.0))
call("pad", lambda x: F.pad(x, (1, 1), mode="reflect"))
call("constant_pad_nd", lambda x: torch.constant_pad_nd(x, (1, 1, 0, 2)))
call("constant_pad_nd", lambda x: torch.constant_pad_nd(x, (1, 1), 3.0))
call("rot90", lambda x: x.rot90(1, (1, 2)))
call("unfold", lambda x: x.unfold(1, 2, 1))
call("unfold_copy", lambda x: torch.ops.aten.unfold_copy(x, 1, 2, 1))
call("im2col", lambda x: torch.ops.aten.im2col(x, [2, 2], [1, 1], [0, 0], [1, 1]), shape=IMAGE)
call("unfold", lambda x: F.unfold(x, 2), shape=IMAGE)
call("fold", lambda x: F.fold(x, (4, 4), 2, stride=2), shape=(1, 4, 4))
call("col2im", lambda x: torch.ops.aten.col2im(x, [4, 4], [2, 2], [1, 1], [0, 0], [2, 2]), shape=(1, 4, 4))
call("as_strided", lambda x: x.contiguous().as_strided((2, 2), (1, 1)))
call("reflection_pad1d", lambda x: torch.ops.aten.reflection_pad1d(x, [1, 1]))
call("replication_pad1d", lambda x: torch.ops.aten.replication_pad1d(x, [1, 1]))
call("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), shape=(1, 4, 2, 2))

# -- parts and joins ------------------------------------------------------------------------------------------------------------------

call("select", lambda x: x.select(1, -1))
call("select", lambda x: torch.select(x, 0, 1))
call("narrow", lambda x: x.narrow(-1, 1, 2))
call("narrow", lambda x: x.narrow_copy(-1, 1, 2))
call("slice", lambda x: torch.ops.aten.slice(x, 2, 0, 4, 2))
call("split", lambda x: x.split(2, -1))
call("split", lambda x: x.split([1, 2], 1)[1])
call("split_with_sizes", lambda x: x.split_with_sizes([1, 3], -1)[1])
call("tensor_split", lambda x: x.tensor_split(2, -1)[0])
call("tensor_split", lambda x: x.tensor_split((1, 3), -1)[1])
call("chunk getitem", lambda x: x.chunk(2, -1)[1])
call("unbind", lambda x: x.unbind(1)[2])
call("getitem", lambda x: x[:, 1:])
call("getitem", lambda x: x[..., ::2, None])
call("getitem", lambda x: x[1, :, -1])
call("getitem", lambda x: x[:, [0, 0, 2]])
call("getitem", lambda x: x[:, :, places(0, 0, 3)])
call("getitem", lambda x: x[places(0, 1, 1), places(2, 0, 0)])
call("getitem", lambda x: x[torch.tensor([[True, False, True], [False, True, False]])])
call("index", lambda x: torch.ops.aten.index(x, [None, places(0, 0)]))
call("index_select", lambda x: x.index_select(1, places(2, 2, 0)))
call("index_select", lambda x: x.index_select(-1, places(2, 2, 0, 1)))
call("gather", lambda x: x.gather(1, torch.zeros(2, 3, 4, dtype=torch.int64)))
call("gather", lambda x: torch.gather(x, -1, x.argsort(-1)))
call("take_along_dim", lambda x: torch.take_along_dim(x, torch.zeros(2, 3, 4, dtype=torch.int64), 2))
call("take", lambda x: x.take(places(0, 0, 5)))
call("masked_select", lambda x: x.masked_select(torch.tensor([True, False, True, True])))
call("embedding", lambda x, w: F.embedding(places(0, 2, 2), w) * x, (5, 4))
call("embedding", lambda x, w: F.embedding((x > 0).long()[..., 0], w), (2, 4))
call("embedding_bag", lambda x, w: F.embedding_bag(places(0, 1).reshape(1, 2), w, mode="sum") * x, (5, 4))
call("diagonal", lambda x, w: x * w.diagonal(), (4, 4))
call("diag", lambda x, w: x * torch.diag(w), (4, 4))
call("tril", lambda x: x.tril())
call("triu", lambda x: torch.triu(x, 1))
call("cat", lambda x: torch.cat([x, 2 * x], -1))
call("cat", lambda x: torch.cat((x, x[:, :1]), dim=1))
call("cat", lambda x: torch.concat([x[..., 2:], x[..., :2]], -1))
call("cat", lambda x: torch.cat([-x[..., 2:], x[..., :2]], -1))
call("stack", lambda x: torch.stack([x, -x], 1))
call("stack", lambda x: torch.stack([x, x.flip(0)], dim=-1))

# -- writes and choices ---------------------------------------------------------------------------------------------------------------

call("setitem", lambda x: written(x, (slice(None), 0), 2 * x[:, 1]))
call("setitem", lambda x: written(x, (..., slice(2, None)), x[..., :2]))
call("setitem", lambda x: written(x, (slice(None), places(0, 2)), x[:, 1:2]))
call("setitem", lambda x: written(x, (..., 0), 2 * x[..., 1]))
call("setitem", lambda x: written(x, (0, ..., slice(1, 3)), 3 * x[0, :, :2]))
call("setitem", lambda x: written(x, x > 1.0, -1.0))
call("setitem", lambda x: written(torch.zeros(2, 3, 4), (slice(None), slice(1, None)), x[:, 1:]))
call("copy", lambda x: torch.empty(2, 3, 4).copy_(x[:, :1]))
call("scatter", lambda x: x.scatter(1, torch.zeros(2, 1, 4, dtype=torch.int64), 3 * x[:, 1:2]))
call("scatter", lambda x: torch.scatter(x, -1, torch.zeros(2, 3, 1, dtype=torch.int64), 2.0))
call("scatter_add", lambda x: x.scatter_add(1, torch.zeros(2, 3, 4, dtype=torch.int64), x))
call("index_add", lambda x: x.index_add(1, places(0, 0), x[:, 1:]))
call("index_copy", lambda x: x.index_copy(1, places(0), x[:, 1:2]))
call("scatter", lambda x: x.softmax(-1).scatter(-1, places(3, 2, 1, 0).expand(2, 3, 4), x.flip(-1).softmax(-1)))
call("scatter", lambda x: x.softmax(-1).scatter(-1, places(3, 1).expand(2, 3, 2), x[..., 2:].softmax(-1)))
call("masked_scatter", lambda x: x.masked_scatter(torch.tensor([True, False, True, False]), x.flip(-1)))
call("where", lambda x: torch.where(x > 0, x, 0.1 * x))
call("where", lambda x: x.where(x.flip(-1) > 0, x.flip(1)))
call("where", lambda x: torch.where(torch.tensor([True, False, True, True]), x, 0.0))
call("masked_fill", lambda x: x.masked_fill(x > 1.0, 1.0))
call("masked_fill", lambda x: x.masked_fill(torch.tensor([True, False, True, False]), 0.0))
call("masked_fill", lambda x: x.masked_fill(torch.tensor([True, False, True, False]), float("-inf")).softmax(-1))
for _op, _of in named("eq ne lt le gt ge"):
    call(_op, lambda x, f=_of: x * f(x, x.flip(-1)))
for _op, _of in named("bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor"):
    call(_op, lambda x, f=_of: x * f(x > 0, x < 1))
call("logical_not", lambda x: x * torch.logical_not(x > 0))
call("round", lambda x: (10 * x).round())
call("round", lambda x: x.round(decimals=1))
call("round", lambda x: x.sigmoid().round())
for _op, _of in named("floor ceil trunc"):
    call(_op, lambda x, f=_of: f(10 * x))
for _op, _of in named("isnan isinf isfinite floor ceil round trunc"):
    call(_op, lambda x, f=_of: x * f(x))
call("sign", torch.sign)
call("bitwise_not", lambda x: x * ~(x > 0))
call("argsort", lambda x: x * x.argsort(-1))
call("argmax", lambda x: x * x.argmax(-1, keepdim=True))
call("argmin", lambda x: x * x.argmin(-1, keepdim=True))
call("one_hot", lambda x: x * F.one_hot(x.argmax(-1), 4))
call("bucketize", lambda x: x * torch.bucketize(x, torch.arange(3.0)))
call("searchsorted", lambda x: x * torch.searchsorted(torch.arange(3.0), x))
call("nonzero", lambda x: x[0, 0] * torch.nonzero(torch.ones(4)).squeeze(-1))
call("multinomial", lambda x: x * torch.multinomial(torch.tensor([0.0, 0.0, 1.0, 0.0]), 1))
call("isin", lambda x: x * torch.isin((x > 0).long(), torch.ones(1, dtype=torch.int64)))
call("bool", lambda x: x * x.bool())
call("int", lambda x: x * x.int())
call("int", lambda x, w: x * w.int(), VECTOR)
call("long", lambda x: x * x.long())

# -- contractions ---------------------------------------------------------------------------------------------------------------------

call("linear", F.linear, (5, 4), (5,))
call("linear", F.linear, (5, 4))
call("linear", lambda x: F.linear(x, x[0]))
call("addmm", lambda x, b, w: torch.addmm(b, x, w), (5,), (4, 5), shape=MATRIX)
call("addmm", lambda x, b, w: torch.addmm(b, x, w, beta=0.5, alpha=2.0), (5,), (4, 5), shape=MATRIX)
call("matmul", lambda x: x @ x.mT)
call("matmul", lambda x, w: x @ w, (4, 5))
call("matmul", lambda x: torch.matmul(x.softmax(-1)[:, :, :3], x))
call("bmm", lambda x: torch.bmm(x, x.mT))
call("mm", torch.mm, (4, 5), shape=MATRIX)
call("mm", lambda x: torch.mm(x, x.T), shape=MATRIX)
call("baddbmm", lambda x, w: torch.baddbmm(w, x, x.mT, beta=0.5, alpha=2.0), (1, 3, 3))
call("baddbmm", lambda x, w: torch.baddbmm(w, x, x.mT, beta=0.0), (1, 3, 3))
call("dot", lambda x: torch.dot(x[0, 0], x[0, 1]))
call("grouped_mm", lambda x, w: torch._grouped_mm(x, w, torch.tensor([1, 3], dtype=torch.int32)), (2, 8, 8), shape=(3, 8))
call("conv1d", F.conv1d, (4, 3, 2), (4,))
call("conv1d", lambda x, w: F.conv1d(x, w, padding=1, groups=3), (3, 1, 3))
call("conv2d", F.conv2d, (4, 2, 3, 3), (4,), shape=IMAGE)
call("conv2d", lambda x, w: F.conv2d(x, w, stride=2, padding="valid", groups=2), (4, 1, 2, 2), shape=IMAGE)
call("conv3d", F.conv3d, (2, 2, 2, 2, 2), shape=VOLUME)
call("convolution", lambda x, w: torch.convolution(x, w, None, [1], [1], [1], False, [0], 1), (4, 3, 2))
call("conv_transpose1d", F.conv_transpose1d, (3, 4, 2))
call("bilinear", lambda x, w: F.bilinear(x, x, w), (2, 4, 4))
call("scaled_dot_product_attention", lambda x: F.scaled_dot_product_attention(x, x.flip(1), x))
call("scaled_dot_product_attention", lambda x, w: F.scaled_dot_product_attention(x, x @ w, x @ w, is_causal=True), (4, 4))
call("scaled_dot_product_attention", lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(3, 3).tril().bool(), scale=2.0))
call("scaled_dot_product_attention", lambda x, w: F.scaled_dot_product_attention(x, x, x, attn_mask=w), (3, 3))
call("scaled_dot_product_attention", lambda x, q, k, v: F.scaled_dot_product_attention(
    (x @ q).view(1, 2, 3, 4), (x[:1] @ k).view(1, 1, 3, 4), (x[:1] @ v).view(1, 1, 3, 4), enable_gqa=True), (4, 4), (4, 4), (4, 4))
call("scaled_dot_product_attention", lambda x, q, k, v: F.scaled_dot_product_attention(x @ q, x @ k, x @ v), (4, 4), (4, 4), (4, 4))
call("_weight_norm", lambda x, v, g: F.linear(x, torch._weight_norm(v, g, 0)), (5, 4), (5, 1))
call("_weight_norm_interface", lambda x, v, g: F.linear(x, torch._weight_norm_interface(v, g, 0)[0]), (5, 4), (5, 1))
call("linalg_matrix_exp", lambda x, w: F.linear(x, torch.linalg.matrix_exp(skew(w))), (4, 4))
call("linalg_matrix_exp", lambda x, w: F.linear(x, torch.matrix_exp(skew(w.mT))), (4, 4))
call("linalg_solve", lambda x, w: F.linear(x, cayley(skew(w))), (4, 4))
call("linalg_householder_product", lambda x, w: F.linear(x, householder(w)), (4, 4))

# -- reductions and statistics --------------------------------------------------------------------------------------------------------

for _op, _of in named("sum mean nansum amax amin"):
    call(_op, lambda x, f=_of: f(x, -1))
    call(_op, lambda x, f=_of: f(x, dim=(0, 1), keepdim=True))
    call(_op, lambda x, f=_of: f(x))
call("mean", lambda x: x + x.mean(1, keepdim=True), shape=(1, 3, 4))
call("logsumexp", lambda x: x.logsumexp(-1))
call("max", lambda x: x.max(-1)[0])
call("max", lambda x: torch.max(x, x.flip(-1)))
call("max", lambda x: x.max())
call("min", lambda x: x.min(1, keepdim=True).values)
call("min", lambda x: x.min(x.flip(-1)))
call("median", lambda x: x.median(-1)[0])
call("median", lambda x: x.median())
call("maximum", lambda x: torch.maximum(x, x.flip(-1)))
call("maximum", lambda x: torch.maximum(x, torch.tensor(0.5)))
call("minimum", lambda x: torch.minimum(x, x.flip(1)))
call("maximum", lambda x: torch.fmax(x, x.flip(-1)))
call("minimum", lambda x: torch.fmin(x, x.flip(1)))
call("topk", lambda x: x.topk(2, -1)[0])
call("topk", lambda x: x.topk(2, dim=1, largest=False).values)
call("sort", lambda x: x.sort(-1)[0])
call("sort", lambda x: torch.sort(x, 1, True).values)
call("cumsum", lambda x: x.cumsum(1))
call("cumsum", lambda x: torch.cumsum(x, -1))
call("cummax", lambda x: x.cummax(1)[0])
for _name, _of in (("norm", torch.norm), ("linalg_norm", torch.linalg.norm), ("vector_norm", torch.linalg.vector_norm)):
    call(_name, lambda x, f=_of: f(x, dim=-1))
    call(_name, lambda x, f=_of: f(x, 1, dim=-1, keepdim=True))
    call(_name, lambda x, f=_of: f(x, float("inf"), dim=1))
    call(_name, lambda x, f=_of: f(x, 3, -1))
    call(_name, lambda x, f=_of: f(x))
call("linalg_norm", lambda x: torch.linalg.norm(x, 2, dim=(1, 2)))
call("linalg_norm", lambda x: torch.linalg.norm(x, 1, dim=(1, 2)))
call("linalg_matrix_norm", torch.linalg.matrix_norm)
call("linalg_matrix_norm", lambda x: torch.linalg.matrix_norm(x, "nuc"))
call("linalg_matrix_norm", lambda x: torch.linalg.matrix_norm(x, math.inf))
call("cdist", lambda x: torch.cdist(x, x.flip(-1)))
for _op, _of in named("var std"):
    call(_op, lambda x, f=_of: f(x, -1))
    call(_op, lambda x, f=_of: f(x, dim=(1, 2), keepdim=True, correction=0))
    call(_op, lambda x, f=_of: f(x, False))
call("var_mean", lambda x: torch.var_mean(x, -1, unbiased=False))
call("std_mean", lambda x: torch.std_mean(x, 1, keepdim=True))
call("softmax", lambda x: x.softmax(-1))
call("softmax", lambda x: F.softmax(x, dim=1))
call("softmax matmul", lambda x, q, k, v: ((x @ q) @ (x @ k).mT * 0.5).softmax(-1) @ (x @ v), (4, 4), (4, 4), (4, 4))
call("softmin", lambda x: F.softmin(x, -1))
call("log_softmax", lambda x: x.log_softmax(-1))
call("avg_pool1d", lambda x: F.avg_pool1d(x, 2))
call("avg_pool2d", lambda x: F.avg_pool2d(x, 2, 1, 1, count_include_pad=False), shape=IMAGE)
call("avg_pool2d", lambda x: F.avg_pool2d(x, 2, divisor_override=1), shape=IMAGE)
call("avg_pool3d", lambda x: F.avg_pool3d(x, 2), shape=VOLUME)
call("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 3))
call("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (1, 3)), shape=IMAGE)
call("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (1, 2, 3)), shape=VOLUME)
for (_op, _of), _shape in zip(named("max_pool1d max_pool2d max_pool3d", F), (SHAPE, IMAGE, VOLUME), strict=True):
    call(_op, lambda x, f=_of: f(x, 2), shape=_shape)
call("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 2))
call("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 2), shape=IMAGE)
call("interpolate", lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"))
call("interpolate", lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", align_corners=False), shape=IMAGE)
call("grid_sample", lambda x: F.grid_sample(x, torch.zeros(1, 2, 2, 2), align_corners=False), shape=IMAGE)
for _op, _of in named("fft ifft fft2 ifft2 fftn ifftn rfft rfft2", torch.fft):
    call("fft_" + _op, lambda x, f=_of: f(x))
    call("fft_" + _op, lambda x, f=_of: f(x, norm="ortho"))
call("fft_fft", lambda x: torch.fft.fft(x, dim=1))
call("fft_fft", lambda x: torch.fft.fft(x, norm="forward"))
call("fft_irfft", lambda x: torch.fft.irfft(torch.fft.rfft(x)))
call("fft_irfft2", lambda x: torch.fft.irfft2(torch.fft.rfft2(x)))
call("fft_irfft", lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1, norm="ortho"), n=5, dim=1, norm="ortho"))
call("fft_irfft", lambda x: torch.fft.irfft(torch.fft.rfft(x, n=9, norm="forward"), norm="forward"))
call("fft_irfft", lambda x, a, b: torch.fft.irfft(torch.fft.rfft(x, n=8) * torch.complex(a, b), n=8)[..., :4], (5,), (5,))
call("complex", lambda x, w: torch.complex(x, x * w).abs(), (4,))
call("istft", lambda x: torch.istft(torch.stft(x, 4, return_complex=True), 4), shape=(2, 8))

for _weights in ((), (VECTOR,), (VECTOR, VECTOR)):
    call("layer_norm", lambda x, *wb: F.layer_norm(x, (4,), *wb), *_weights)
call("layer_norm", lambda x: F.layer_norm(x, (4,), eps=0.3))
call("normalize", lambda x: F.normalize(x, dim=-1))
call("group_norm", lambda x: F.group_norm(x, 2), shape=(2, 4, 2, 2))
call("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b, 0.1), VECTOR, VECTOR, shape=(2, 4, 2, 2))
call("div", lambda x: x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt())
call("mul", lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6))

# -- out of nothing -------------------------------------------------------------------------------------------------------------------

for _op, _of in named("zeros_like ones_like"):
    call(_op, lambda x, f=_of: x * f(x) + x)
for _op, _of in named("zeros ones"):
    call(_op, lambda x, f=_of: x * f(3, 4) + x)
for _op, _of in named("new_zeros new_ones", Tensor):
    call(_op, lambda x, f=_of: x * f(x, 4) + x)
call("zero", lambda x: x + torch.empty(4).zero_())
call("eye", lambda x: x @ torch.eye(4))
call("full", lambda x: x * torch.full((4,), -2.0))
call("full_like", lambda x: x * torch.full_like(x, 3.0))
call("new_full", lambda x: x * x.new_full((4,), fill_value=3.0))
call("fill", lambda x: x * torch.empty(4).fill_(3.0))
call("scalar_tensor", lambda x: x * torch.scalar_tensor(2.5))
call("tensor", lambda x: x * torch.tensor(2.5))
call("as_tensor", lambda x: x * torch.as_tensor(2.5))
call("arange", lambda x: x * torch.arange(4))
call("arange", lambda x: x * torch.arange(6, -2, -2))
call("linspace", lambda x: x * torch.linspace(0.0, 1.0, 4))

# -- a single number, of which torch takes the axes 0 and −1, and pairs of which a sum is known ---------------------------------------

call("softmax", lambda x: x * x.sum().softmax(-1))
call("log_softmax", lambda x: x * x.sum().log_softmax(0))
call("cumsum", lambda x: x * x.sum().cumsum(0))
call("mean", lambda x: x.sum().mean(0) + x)
call("view_as_complex", lambda x: torch.view_as_complex((x.relu() / (x.abs().sum(-1, keepdim=True) + 1e-6)).unflatten(-1, (2, 2))).real)

BY_OP: dict[str, list[Call]] = {op: [c for c in CALLS if c.op == op] for op in dict.fromkeys(c.op for c in CALLS)}

__all__ = ["BY_OP", "CALLS", "written"]
