"""Quotients: by numbers, by what is bounded away from 0, and shares of a sum."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.cosines import cosine
from screen.calculi.bounds.curves import inverted
from screen.calculi.bounds.expr import Expr, mul, num, sym
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import NONE, Atoms, Bound, Fact, is_zero, query, tidy
from screen.calculi.bounds.pointwise import as_value, by_number, multiplied
from screen.calculi.bounds.rules.activation import between
from screen.calculi.bounds.rules.self_normed_weight import over_its_size
from screen.calculi.bounds.value import Value
from screen.graph import Node, Ref
from screen.structure.dataflow import axes_of, number, strip
from screen.structure.shares import sum_below
from screen.structure.types import Unknown


@row("div true_divide")
def div_(walk: Walk, node: Node) -> Value:
    """a / b for b a number, or bounded away from 0: |δ(a/b)| <= |δa|/b + |a||δb|/b²."""
    left, right = walk.operand(node, 0, "input", "self"), walk.operand(node, 1, "other")
    if node.kwarg("rounding_mode") is not None:
        raise NotUnderstood("a rounding division")
    share = _share(walk, node) or over_its_size(walk, node)
    if share is not None:
        return share
    if (top := cosine(walk, node)) is not None:
        return between(walk, node, -top, top, Unknown("the slope of a cosine near vectors of length 0", (node.index,)))
    if isinstance(right, Value):
        right = inverse(right) if right.low > 0 or right.high < 0 else _inverted(walk, node, right)
        return multiplied(walk, as_value(left, right), right)
    if right is None or right == 0 or not isinstance(left, Value):
        raise NotUnderstood("a divisor that is not known")
    return by_number(left, 1.0 / right)


def _inverted(walk: Walk, node: Node, right: Value) -> Value:
    """1/b where b is read as a function of one value (1/b is then another one)."""
    found = inverted(walk, node.inputs[-1])
    return inverse(right) if found is None else found


def _share(walk: Walk, node: Node) -> Value | None:
    """y / Σm for |y| <= c·m, as x / Σx for x >= 0: shares of at most c that sum to at most c (where the sum is not 0). Their slope has no bound of
    this form."""
    if (found := sum_below(walk.flow, node)) is None:
        return None
    below, _ = found
    x, mass = walk.one(node.inputs[0]), walk.one(below.inputs[0])
    times = None if mass.low < 0 or mass.holes or x.holes or mass.shape != x.shape else _most(walk, node.inputs[0], below.inputs[0], FACTORS)
    if times is None or not math.isfinite(times):
        return None
    along = frozenset().union(*(x.axis(a) for a in axes_of(walk.flow.operand(below, 1, "dim", "axis"), len(x.shape))))
    walk.assumed["a sum that shares are taken of is not 0"] = None
    der = x.der if is_zero(x.der) and is_zero(mass.der) else _chosen_again(walk, node.inputs[0], along)
    lost = Unknown("the slope of a quotient by a sum that may be near 0", (node.index,))
    least = 0.0 if x.low >= 0 else -times
    return Value(x.shape, x.layout, (Fact(num(times), along, NONE, 1),), lost if der is None else der, least, times, jump=x.jump)


FACTORS = 4
"""Steps from a value down to the one that its size is compared with."""


def _most(walk: Walk, index: int, mass: int, steps: int) -> float | None:
    """c with |y| <= c·m entry by entry, for m >= 0: m itself, x for m = |x|, and what is no larger than one of them, times numbers and what has
    ends; None where there is none."""
    index, mass = strip(walk.flow, index), strip(walk.flow, mass)
    below, node = walk.graph.nodes[mass], walk.graph.nodes[index]
    if index == mass or (below.op == "abs" and strip(walk.flow, below.inputs[0]) == index) or _is_same(walk, node, below):
        return 1.0
    if not steps or node.shape != below.shape:
        return None
    if node.op in ("relu", "abs", "neg"):
        return _most(walk, node.inputs[0], mass, steps - 1)
    if node.op not in ("mul", "div", "true_divide") or not node.inputs:
        return None
    sides = [walk.flow.operand(node, 0, "input", "self"), walk.flow.operand(node, 1, "other")]
    for mine, other in (sides, sides[::-1])[: 2 if node.op == "mul" else 1]:
        size = _size(walk, other)
        if not isinstance(mine, Ref) or (node.op != "mul" and isinstance(other, Ref)) or not size or not math.isfinite(size):
            continue
        found = _most(walk, mine.node, mass, steps - 1)
        if found is not None:
            return found * size if node.op == "mul" else found / size
    return None


def _size(walk: Walk, factor: object) -> float | None:
    """Of a factor the largest |entry|; of what is divided by, a number."""
    if isinstance(factor, Ref):
        value = walk.one(factor.node)
        return None if value.holes else max(abs(value.low), abs(value.high))
    given = number(factor)
    return None if given is None else abs(given)


def _is_same(walk: Walk, one: Node, other: Node) -> bool:
    """Whether two calls are the same function of the same value: two squares of x."""
    plain = not any(isinstance(a, Ref) for a in (*one.args[1:], *other.args[1:])) and one.args[1:] == other.args[1:]
    alike = one.op == other.op and one.op in ("square", "pow", "exp", "relu", "sigmoid", "softplus", "abs") and one.kwargs == other.kwargs
    return alike and plain and strip(walk.flow, one.inputs[0]) == strip(walk.flow, other.inputs[0])


def _chosen_again(walk: Walk, index: int, along: Atoms) -> Bound | None:
    """Shares of the largest entries of a softmax are the softmax of those logits alone, p_i/Σ_S p = softmax(u_S)_i: at a fixed choice their
    derivative is at most θ·max|δu| in ℓ1, and half of ‖δu‖₂ (E, 4.2)."""
    graph, flow = walk.graph, walk.flow
    item = graph.nodes[strip(flow, index)]
    top = graph.nodes[item.inputs[0]] if item.op == "getitem" and item.args[1:] == (0,) else item
    if top.op != "topk":
        return None
    source = graph.nodes[strip(flow, top.inputs[0])]
    given = walk.integer(top, 2, "dim")
    axis = -1 if given is None else given
    u = walk.one(source.inputs[0]) if source.op == "softmax" else None
    if u is None or u.holes or walk.integer(source, 1, "dim") not in (axis, axis % len(u.shape)) or axis % len(u.shape) != len(u.shape) - 1:
        return None
    if isinstance(u.der, Unknown) or len(u.axis(-1)) != 1 or along != u.axis(-1):
        return None
    theta = f"theta_{len(walk.thetas)}"
    walk.thetas.append(theta)
    sharp = [Fact(mul(sym(theta), query(u.der, u.flat)), along, NONE, 1), Fact(mul(num(0.5), query(u.der, u.flat, along)), along)]
    return tidy(sharp)


def inverse(b: Value) -> Value:
    """1/b, for b of one sign with |b| >= least > 0; per entry 1/least, derivative at most |δb|/least²."""
    least = b.low if b.low > 0 else -b.high if b.high < 0 else 0.0
    if least <= 0 or b.holes:
        raise NotUnderstood("a divisor that may be 0")
    steep = num(1.0 / least**2)
    der = b.der if isinstance(b.der, Unknown) else tuple(Fact(_scale(steep, f), f.inner, f.outer, f.p) for f in b.der)
    ends = sorted((1.0 / x if math.isfinite(x) else 0.0) for x in (b.low, b.high))
    return replace(b.bare(), mag=(Fact(num(1.0 / least)),), der=der, low=ends[0], high=ends[1])


def _scale(factor: Expr, fact: Fact) -> Expr:
    return mul(factor, fact.bound)


@row("reciprocal")
def reciprocal(walk: Walk, node: Node) -> Value:
    """1/b."""
    return inverse(walk.first(node))
