"""Weights that a parametrisation computes, found by what is computed and never by a name.

1. g v/‖v‖ per row (weight norm): a part whose rows have length |g| (`fold.Rows`); bounded given g (review, item 21).
2. γW/σ (spectral norm, σReparam): a part of its own (`arrays.Share`), see `self_normed_weight`.
3. exp(A) and (I + cA)⁻¹(I − cA) for A = ±(T − Tᵀ): orthogonal, for Aᵀ = −A makes exp(A)ᵀ = exp(−A) and lets I + cA and I − cA commute.
4. Π_i (I − τ_i v_i v_iᵀ), v_i = e_i + column i of a strictly lower triangle, τ_i = 2/(1 + Σ of its squares) = 2/‖v_i‖²: reflections, so that the
   columns of the product are orthonormal.
5. The matrix in 4 with its columns times whole numbers cut from a weight: no gradient passes a cast to integers, so they are held fixed.
"""

from __future__ import annotations

from dataclasses import replace

from screen.calculi.bounds.arrays import rows_of
from screen.calculi.bounds.expr import ONE, sym
from screen.calculi.bounds.interpreter import NotUnderstood, Walk, row
from screen.calculi.bounds.mixed_norms import Fact, is_zero, zero
from screen.calculi.bounds.rules.activation import discrete
from screen.calculi.bounds.rules.linear import constrained
from screen.calculi.bounds.value import Value, of_part
from screen.graph import Node
from screen.structure.dataflow import number, strip


@row("_weight_norm")
def weight_norm(walk: Walk, node: Node) -> Value:
    """g v/‖v‖ for each row (1)."""
    v, g = walk.first(node), walk.operand(node, 1, "g")
    if not isinstance(g, Value) or g.part is None or v.part is None or v.part.shift or g.part.shift:
        raise NotUnderstood("a form that is not covered")
    if (walk.integer(node, 2, "dim") or 0) != 0 or node.shape != v.shape or len(v.shape) < 2:
        raise NotUnderstood("a form that is not covered")
    return of_part(rows_of(v.part, g.part), walk.names)


def _same(walk: Walk, index: int) -> int:
    """The value behind casts, copies and reshapes."""
    index = strip(walk.flow, index)
    node = walk.graph.nodes[index]
    return _same(walk, node.inputs[0]) if node.op in ("reshape", "view", "flatten", "clone") and len(node.inputs) == 1 else index


@row("linalg_matrix_exp")
def exponential(walk: Walk, node: Node) -> Value:
    """exp(A) (3)."""
    if _skew(walk, node.inputs[0]) is None or node.shape is None or len(node.shape) != 2:
        raise NotUnderstood("of a matrix that is not seen to be skew")
    return constrained(node.shape, ONE)


@row("linalg_solve")
def cayley(walk: Walk, node: Node) -> Value:
    """(I + cA)⁻¹(I − cA) (3)."""
    sides = [_shifted(walk, i) for i in node.inputs[:2]]
    if len(sides) != 2 or None in sides or node.shape is None or len(node.shape) != 2 or walk.flow.operand(node, 2, "left") is False:
        raise NotUnderstood("no Cayley map")
    (one, c), (two, d) = (s for s in sides if s is not None)
    if one != two or c != -d:
        raise NotUnderstood("no Cayley map")
    return constrained(node.shape, ONE)


def _skew(walk: Walk, index: int) -> int | None:
    """T of A = T − Tᵀ."""
    node = walk.graph.nodes[_same(walk, index)]
    if node.op != "sub" or len(node.inputs) != 2 or node.kwarg("alpha") not in (None, 1) or not walk.flow.is_float(node):
        return None
    left, right = (walk.graph.nodes[_same(walk, i)] for i in node.inputs)
    for t, turned in ((left, right), (right, left)):
        above = walk.graph.nodes[_same(walk, turned.inputs[0])] if turned.inputs else turned
        if turned.op in ("mT", "mH", "t", "T", "transpose", "adjoint") and _is_equal(above, t) and len(t.shape or ()) == 2:
            return node.index
    return None


def _is_equal(one: Node, other: Node) -> bool:
    """One value, or a triangle that is taken twice."""
    twice = one.op in ("triu", "tril") and (one.op, one.args, one.kwargs) == (other.op, other.args, other.kwargs)
    return one.index == other.index or twice


def _shifted(walk: Walk, index: int) -> tuple[int, float] | None:
    """(A, c) of I + cA with a skew A."""
    node = walk.graph.nodes[_same(walk, index)]
    if node.op not in ("add", "sub") or len(node.inputs) != 2:
        return None
    alpha = number(walk.flow.operand(node, 2, "alpha"))
    factor = (1.0 if alpha is None else alpha) * (-1.0 if node.op == "sub" else 1.0)
    skew = _skew(walk, node.inputs[1])
    return (skew, factor) if walk.graph.nodes[_same(walk, node.inputs[0])].op == "eye" and skew is not None else None


@row("linalg_householder_product")
def reflections(walk: Walk, node: Node) -> Value:
    """The first columns of a product of reflections (4)."""
    if len(node.inputs) != 2 or node.shape is None or len(node.shape) != 2 or node.shape[0] < node.shape[1] or not _is_twice(walk, node):
        raise NotUnderstood("factors that are not seen to be reflections")
    return constrained(node.shape, ONE)


def _is_twice(walk: Walk, node: Node) -> bool:
    """τ = 2/(1 + Σ_i A_ij²) for the strictly lower triangle A."""
    graph, flow = walk.graph, walk.flow
    triangle, quotient = graph.nodes[_same(walk, node.inputs[0])], graph.nodes[_same(walk, node.inputs[1])]
    if triangle.op != "tril" or walk.integer(triangle, 1, "diagonal") != -1 or quotient.op != "div" or number(quotient.args[0]) != 2.0:
        return False
    above = graph.nodes[_same(walk, quotient.inputs[-1])]
    if above.op != "add" or len(above.inputs) != 1 or number(flow.operand(above, 1, "other")) != 1.0 or above.kwarg("alpha") not in (None, 1):
        return False
    total = graph.nodes[_same(walk, above.inputs[0])]
    square = graph.nodes[_same(walk, total.inputs[0])] if total.op == "sum" and len(total.inputs) == 1 else total
    down = walk.integer(total, 1, "dim")
    return square.op == "mul" and [_same(walk, i) for i in square.inputs] == [triangle.index] * 2 and down is not None and down % 2 == 0


@row("int long")
def whole(walk: Walk, node: Node) -> Value:
    """Cut to a whole number, towards 0: no entry grows, and no gradient passes (5)."""
    value = walk.first(node)
    if not is_zero(value.der) or value.holes:
        return discrete(walk, node, -float("inf"), float("inf"))
    walk.hold(value.gain, "what is cut to whole numbers gets no gradient")
    return replace(value.bare(), low=min(value.low, 0.0), high=max(value.high, 0.0), gain=value.gain)


@row("diagonal diag")
def diagonal(walk: Walk, node: Node) -> Value:
    """The main diagonal of a weight."""
    value = walk.first(node)
    axes = {a % 2 for a in (walk.integer(node, 2, "dim1"), walk.integer(node, 3, "dim2")) if a is not None}
    part = value.part
    other = walk.integer(node, 1, "offset", "diagonal")
    if part is None or len(value.shape) != 2 or (node.op == "diagonal" and axes not in ({0, 1}, set())) or other:
        raise NotUnderstood("of something that is no weight")
    made = replace(part, sizes=(min(value.shape),), strides=(sum(part.strides),))
    symbol = walk.names.symbol(made, "s")
    return Value(made.sizes, (made.sizes if made.sizes != (1,) else (),), (Fact(sym(symbol)),), zero(made.sizes != (1,)), gain=(symbol,))

