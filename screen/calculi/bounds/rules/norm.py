"""Recognised norms: y = ℓ(x)/ρ(ℓ(x)), then the gains that stand in the same call.

Magnitude: ρ(z) >= c‖z‖ gives ‖y‖ <= 1/c: √d for rms and layer norms, 1 for L2. Derivative: ρ = f(‖z‖) with 0 <= r f'(r) <= 2 f(r) gives
‖∂y/∂z‖ <= 1/ρ, for σ(x)² = variance + ε in particular, and centring has norm 1: ‖∂y/∂x‖ <= 1/ρ <= 1/(smallest ρ): √ε for ε under the root,
ε for `max(‖x‖, ε)` and for ε added to the root. A symbol `sigma_i` stands for the smallest ρ over all tokens (and heads).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from screen.calculi.bounds.expr import mul, num, power, sym
from screen.calculi.bounds.interpreter import PATTERNS, Floor, NotUnderstood, Walk
from screen.calculi.bounds.mixed_norms import NONE, Bound, Fact, query, tidy, zero
from screen.calculi.bounds.pointwise import added, multiplied
from screen.calculi.bounds.value import Normed, Value, recut, reshaped
from screen.graph import Node, Ref
from screen.structure.dataflow import axes_of, number, strip
from screen.structure.norms.calls import norm_of
from screen.structure.types import Norm, Unknown

_MACHINE = {"float64": 2.220446049250313e-16, "float32": 1.1920928955078125e-07, "float16": 9.765625e-4, "bfloat16": 7.8125e-3}


CHANNELS = frozenset({"batch_norm", "instance_norm"})


@dataclass(frozen=True)
class Divisor:
    """A statistic ρ >= c·‖z‖^degree, and ρ >= least."""

    c: float
    degree: float
    least: float


def normed(walk: Walk, node: Node, norm: Norm) -> Value:
    """The value of a recognised norm."""
    source = walk.one(norm.source)
    shape = source.shape
    if node.shape != shape:
        raise_lost(node)
    fused = node.op in ("layer_norm", "rms_norm", "normalize") or node.op == "getitem"
    if source.holes:
        raise NotUnderstood("a norm of a masked value")
    if norm.type == "groupnorm" and node.op in ("group_norm", "getitem"):
        return _grouped(walk, walk.graph.nodes[node.inputs[0]] if node.op == "getitem" else node, norm, source)
    call = walk.graph.nodes[node.inputs[0]] if node.op == "getitem" else node
    if call.op in CHANNELS:
        return _by_channel(walk, call, norm, source)
    if norm.type not in ("layernorm", "rmsnorm", "l2"):
        return walk.lost(node, "a norm whose bound is not worked out (axes that include tokens, or another statistic)")
    if not fused and _is_centred_outside(walk, node, norm):  # the branch may read what has a mean: root mean squares are all that it divides by
        norm = replace(norm, type="rmsnorm", centred=False)
        divisor = _by_hand(walk, node, norm)
    else:
        divisor = _fused(walk, node, norm) if fused else _by_hand(walk, node, norm) or _by_radius(norm)
    if divisor is None:
        return replace(walk.lost(node, "a norm whose divisor was not read"), after="norm")  # what follows is its gain all the same
    made = _normalised(walk, source, norm, divisor)
    if fused:
        return _affine(walk, walk.graph.nodes[node.inputs[0]] if node.op == "getitem" else node, made)
    return _gained(walk, node, norm, made)


def _grouped(walk: Walk, call: Node, norm: Norm, x: Value) -> Value:
    """Groups of channels over all positions: ‖group‖₂ <= √size, so that one position can hold √n times its share (review, item 7)."""
    groups = walk.integer(call, 1, "num_groups")
    if call.op != "group_norm" or groups is None or len(x.shape) < 2 or x.shape[1] % groups:
        raise NotUnderstood("groups that are not known")
    whole = recut(x, tuple((n,) if n != 1 else () for n in x.shape), x.shape, walk.names)
    split = (*x.shape[:1], groups, x.shape[1] // groups, *x.shape[2:])
    parts = reshaped(whole, split, walk.names)
    size = math.prod(split[2:])
    eps = number(walk.flow.operand(call, 4, "eps"))
    inner = replace(norm, axes=tuple(range(2 - len(split), 0)))
    made = _normalised(walk, parts, inner, Divisor(size**-0.5, 1.0, math.sqrt(1e-5 if eps is None else eps)))
    y = reshaped(made, x.shape, walk.names)
    if not isinstance(y.mag, Unknown):
        y = replace(y, mag=(*y.mag, Fact(num(math.sqrt(groups * size)), y.axis(1))))
    rules: tuple[tuple[int, str, Callable[[Walk, Value, Value], Value]], ...] = ((2, "weight", multiplied), (3, "bias", added))
    for position, name, rule in rules:
        value = walk.operand(call, position, name)
        if isinstance(value, Value):
            y = rule(walk, y, reshaped(value, (x.shape[1], *(1,) * (len(x.shape) - 2)), walk.names))
    return replace(y, after="")  # of what follows nothing is a gain of a norm over features


def _by_channel(walk: Walk, call: Node, norm: Norm, x: Value) -> Value:
    """Batch and instance norms, y of each channel over n entries with Σy² <= n: over samples and places, or over places alone. The gain and the
    bias have a number for each channel, axis 1."""
    size = math.prod(x.shape[a] for a in norm.axes)
    if size < 1 or len(x.shape) < 2:
        raise NotUnderstood("axes that are not known")
    if call.op == "batch_norm":
        walk.assumed["a batch norm takes its statistics from the batch, as in training"] = None
    whole = recut(x.bare(), tuple((n,) if n != 1 else () for n in x.shape), x.shape, walk.names)
    y = _normalised(walk, whole, norm, Divisor(size**-0.5, 1.0, math.sqrt(1e-5 if norm.eps is None else norm.eps)))
    rules: tuple[tuple[int, str, Callable[[Walk, Value, Value], Value]], ...] = ((3, "weight", multiplied), (4, "bias", added))
    for position, name, rule in rules:
        value = walk.operand(call, position, name)
        if isinstance(value, Value):
            y = rule(walk, y, reshaped(value, (x.shape[1], *(1,) * (len(x.shape) - 2)), walk.names))
    return y


def raise_lost(node: Node) -> None:
    """A norm that changes the shape is none."""
    raise NotUnderstood(f"a norm of another shape than {node.shape}")


def _normalised(walk: Walk, x: Value, norm: Norm, divisor: Divisor) -> Value:
    along = frozenset().union(*(x.axis(a) for a in norm.axes)) if norm.axes else NONE
    radius = 1.0 / divisor.c
    symbol = f"sigma_{len(walk.floors)}"
    walk.floors.append(Floor(symbol, divisor.least if divisor.least > 0 else None, norm.node))
    flat = x.flat
    mag: Bound = (Fact(num(radius), along),)
    der: Bound = x.der
    if not isinstance(der, Unknown):
        inverse = power(sym(symbol), -1.0)
        keys = dict.fromkeys([(along, NONE), *((f.inner, f.outer) for f in der if along <= f.inner and f.p == 2)])
        der = tidy((Fact(mul(inverse, query(der, flat, *k)), *k) for k in keys), flat)
        der = zero(len(flat)) if any(f.bound.kind == "num" and f.bound.value == 0 for f in der) else der
    last = len(norm.axes) == 1 and norm.axes[0] % len(x.shape) == len(x.shape) - 1
    slope = der if isinstance(der, Unknown) else query(der, flat, along)
    folds = Normed(radius, slope, norm.centred) if last else None
    return Value(x.shape, x.layout, mag, der, -radius, radius, after="norm", jump=x.jump, normed=folds)


def _affine(walk: Walk, call: Node, y: Value) -> Value:
    """γ ⊙ y + β of a fused call: ‖·‖ <= max|γ|·‖y‖ + ‖β‖."""
    if call.op == "normalize":
        return y
    first = 2
    gain = walk.operand(call, first, "weight")
    bias = walk.operand(call, 3, "bias") if call.op == "layer_norm" else None
    if isinstance(gain, Value):
        y = multiplied(walk, y, gain)
    return added(walk, y, bias) if isinstance(bias, Value) else y


def _gained(walk: Walk, node: Node, norm: Norm, y: Value) -> Value:
    """`g * x / ρ(x)`: the gain stands before the quotient."""
    for i in node.inputs:
        here = walk.graph.nodes[strip(walk.flow, i)]
        gains = [j for j in here.inputs if walk.flow.trained[j]]
        carried = [j for j in here.inputs if not walk.flow.trained[j]]
        if here.op != "mul" or here.index == norm.source or not gains or len(carried) != 1:
            continue
        if strip(walk.flow, carried[0]) == strip(walk.flow, norm.source) or _is_centred(walk, carried[0], norm):
            return multiplied(walk, y, walk.one(gains[0]))
    return y


def _is_centred(walk: Walk, node: int, norm: Norm) -> bool:
    here = walk.graph.nodes[strip(walk.flow, node)]
    return norm.centred and here.op == "sub" and strip(walk.flow, here.inputs[0]) == strip(walk.flow, norm.source)


def _fused(walk: Walk, node: Node, norm: Norm) -> Divisor | None:
    if len(norm.axes) == 0 or norm.size <= 0:
        return None
    if norm.type == "l2":
        return Divisor(1.0, 1.0, 1e-12 if norm.eps is None else norm.eps)
    eps = norm.eps
    if eps is None:
        call = walk.graph.nodes[node.inputs[0]] if node.op == "getitem" else node
        eps = 1e-5 if call.op == "layer_norm" else _MACHINE.get(walk.graph.nodes[norm.source].dtype or "", 0.0)
    return Divisor(1.0 / math.sqrt(norm.size), 1.0, math.sqrt(eps))


# -- norms by hand --------------------------------------------------------------------------------------------------------------------


def _by_hand(walk: Walk, node: Node, norm: Norm) -> Divisor | None:
    """The divisor of x · r or x / r, read exactly: constants count."""
    refs = list(node.inputs)
    for i in reversed(refs):
        found, inverse = _read(walk, i, norm)
        if found is not None and abs(found.degree - 1.0) < 1e-9 and inverse == (node.op == "mul"):
            return found
    return None


def _by_radius(norm: Norm) -> Divisor | None:
    """The divisor as the norm was recognised: how large its values are, and nothing of how small it gets."""
    return Divisor(1.0 / (norm.radius * math.sqrt(norm.size)), 1.0, 0.0) if norm.radius and norm.size > 0 else None


def _is_centred_outside(walk: Walk, node: Node, norm: Norm) -> bool:
    """Whether the mean of a layer norm by hand is taken away in front of what the branch reads, where blocks end with a centring, and not again."""
    if not norm.centred or walk.branch.chains.edges.norms.by_node[node.index].source == norm.source:
        return False
    tops = [walk.graph.nodes[strip(walk.flow, i)] for i in node.inputs]
    gained = [j for here in tops if here.op == "mul" and any(walk.flow.trained[j] for j in here.inputs) for j in here.inputs]
    return not any(_is_centred(walk, i, norm) for i in (*node.inputs, *gained))


def _read(walk: Walk, index: int, norm: Norm) -> tuple[Divisor | None, bool]:
    """(divisor, whether the node holds its inverse)."""
    node = walk.graph.nodes[index]
    flow = walk.flow
    if flow.classes[index] == "view" or node.op == "alias" or (node.op == "getitem" and node.shape is not None):
        return _read(walk, node.inputs[0], norm) if node.inputs else (None, False)
    start = _statistic(walk, node, norm)
    if start is not None:
        return start, False
    if not node.inputs:
        return None, False
    below, inverse = _read(walk, node.inputs[0], norm) if flow.data[node.inputs[0]] else (None, False)
    if node.op == "div" and number(node.args[0]) is not None and isinstance(node.args[1], Ref):
        below, inverse = _read(walk, node.args[1].node, norm)
        top = number(node.args[0]) or 0.0
        return (Divisor(below.c / top, below.degree, below.least / top), True) if below and not inverse and top > 0 else (None, False)
    if below is None or (inverse and node.op not in ("mul",)):
        return None, False
    return _step(walk, node, below, inverse)


def _step(walk: Walk, node: Node, d: Divisor, inverse: bool) -> tuple[Divisor | None, bool]:
    """One op on a divisor (or, for a factor, on its inverse)."""
    exponent = {"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}.get(node.op)
    if node.op == "pow":
        exponent = number(walk.flow.operand(node, 1, "exponent"))
    if exponent is not None:
        size = abs(exponent)
        return Divisor(d.c**size, d.degree * size, d.least**size), exponent < 0
    value = walk.operand(node, 1, "other", "min")
    if isinstance(value, Value):
        value = value.low if value.low == value.high else None
    if value is None or value < 0 or node.kwarg("alpha") not in (None, 1):
        return None, False
    if node.op == "add" and not inverse:
        return Divisor(d.c, d.degree, d.least + value), False
    if node.op in ("clamp", "clamp_min", "maximum") and not inverse and walk.flow.operand(node, 2, "max") is None:
        return Divisor(d.c, d.degree, max(d.least, value)), False
    if node.op in ("mul", "div") and value > 0:
        factor = value if (node.op == "mul") != inverse else 1.0 / value
        return Divisor(d.c * factor, d.degree, d.least * factor), inverse
    return None, False


def _statistic(walk: Walk, node: Node, norm: Norm) -> Divisor | None:
    """Σz², mean z², ‖z‖, var, std over the norm's axes; z is x, or x without its mean."""
    flow, n = walk.flow, norm.size
    shape = walk.graph.nodes[norm.source].shape or ()
    if node.op in ("sum", "mean"):
        inside = walk.graph.nodes[strip(flow, node.inputs[0])]
        squared = inside.op == "square" or (inside.op == "pow" and number(flow.operand(inside, 1, "exponent")) == 2.0)
        squared = squared or (inside.op == "mul" and len(inside.inputs) == 2 and strip(flow, inside.inputs[0]) == strip(flow, inside.inputs[1]))
        if not squared or axes_of(flow.operand(node, 1, "dim", "axis"), len(shape)) != norm.axes or not _is_subject(walk, inside.inputs[0], norm):
            return None
        return Divisor(1.0 if node.op == "sum" else 1.0 / n, 2.0, 0.0)
    if node.op in ("norm", "vector_norm", "linalg_norm"):
        fits = norm_of(flow, node, len(shape)) == ("vector", 2.0, norm.axes)
        return Divisor(1.0, 1.0, 0.0) if fits and _is_subject(walk, node.inputs[0], norm) else None
    if node.op == "getitem" and node.args[1:] == (0,) and walk.graph.nodes[node.inputs[0]].op in ("var_mean", "std_mean"):
        node = walk.graph.nodes[node.inputs[0]]
    if node.op in ("var", "std", "var_mean", "std_mean") and norm.type == "layernorm":
        first = walk.graph.nodes[node.inputs[0]].index
        return _variance(flow.operand(node, 2, "unbiased"), node, n) if _is_subject(walk, first, norm, also_raw=True) else None
    return None


def _variance(unbiased: object, node: Node, n: int) -> Divisor:
    correction = node.kwarg("correction")
    less = 0.0 if unbiased is False or node.args[1:2] == (False,) else 1.0
    less = float(correction) if isinstance(correction, int | float) else less
    c = 1.0 / max(n - less, 1.0)
    return Divisor(c, 2.0, 0.0) if node.op in ("var", "var_mean") else Divisor(math.sqrt(c), 1.0, 0.0)


def _is_subject(walk: Walk, node: int, norm: Norm, also_raw: bool = False) -> bool:
    """Whether a node is the z of the norm."""
    behind = strip(walk.flow, node)
    if not norm.centred or also_raw:
        return behind == strip(walk.flow, norm.source)
    return _is_centred(walk, behind, norm)


PATTERNS.norm = normed
