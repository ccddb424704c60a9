"""Quotients: by numbers, by what is bounded away from 0, and shares of a sum."""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.curves import inverted
from screen.calculi.bounds.expr import Expr, mul, num, sym
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import NONE, Atoms, Bound, Fact, is_zero, query, tidy
from screen.calculi.bounds.pointwise import as_value, by_number, multiplied
from screen.calculi.bounds.rules.self_normed_weight import over_its_size
from screen.calculi.bounds.value import Value
from screen.graph import Node
from screen.structure.dataflow import axes_of, number, strip
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
    """x / Σx for x >= 0: shares between 0 and 1 that sum to 1 (where the sum is not 0). Their slope has no bound of this form."""
    if len(node.inputs) != 2:
        return None
    below = walk.graph.nodes[strip(walk.flow, node.inputs[1])]
    while below.op in ("add", "clamp_min", "clamp") and _is_raised(walk, below):
        below = walk.graph.nodes[strip(walk.flow, below.inputs[0])]
    x = walk.one(node.inputs[0])
    if below.op != "sum" or x.low < 0 or x.holes or strip(walk.flow, below.inputs[0]) != strip(walk.flow, node.inputs[0]):
        return None
    axes = axes_of(walk.flow.operand(below, 1, "dim", "axis"), len(x.shape))
    if walk.flow.operand(below, 2, "keepdim") is not True:
        return None
    walk.assumed["a sum that shares are taken of is not 0"] = None
    along = frozenset().union(*(x.axis(a) for a in axes))
    der = x.der if is_zero(x.der) else _chosen_again(walk, node.inputs[0], along)
    lost = Unknown("the slope of a quotient by a sum that may be near 0", (node.index,))
    return Value(x.shape, x.layout, (Fact(num(1.0), along, NONE, 1),), lost if der is None else der, 0.0, 1.0, jump=x.jump)


def _is_raised(walk: Walk, node: Node) -> bool:
    """A sum plus ε, or no less than ε: what is divided by it sums to at most 1."""
    value = number(walk.flow.operand(node, 1, "other", "min"))
    plain = len(node.inputs) == 1 and node.kwarg("alpha") in (None, 1) and walk.flow.operand(node, 2, "max") is None
    return plain and value is not None and value >= 0


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
