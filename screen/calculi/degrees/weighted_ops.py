"""Weighted ops: a linear map of data by a trained weight, whole or one part of a fused one, and lookups in trained tables."""

from __future__ import annotations

from dataclasses import replace

from screen.calculi.degrees.choice import clamped
from screen.calculi.degrees.laws import ASYMPTOTIC, BOUNDED, HOMOGENEOUS, LARGE_EPSILON, SIGNS
from screen.calculi.degrees.monomials import NOTHING, single
from screen.calculi.degrees.values import CONST, Law, Value, Walk, bounded, divided, joined, multiplied, normalised, powered
from screen.calculi.degrees.weight_rows import rows_of_weight
from screen.graph import Node, Ref
from screen.structure.dataflow import number
from screen.structure.sums import terms_of
from screen.structure.types import Unknown

BIASED = {"linear": 2, "addmm": 0, "baddbmm": 0, "conv1d": 2, "conv2d": 2, "conv3d": 2, "conv_transpose1d": 2,
          "conv_transpose2d": 2, "conv_transpose3d": 2, "convolution": 2, "conv_tbc": 2}  # fmt: skip
"""Where the bias of a weighted op stands."""
SUMS = frozenset({"add", "sub", "lerp"})
"""Of weights, and of numbers: no larger than the larger part, and of no one degree."""


def linear(walk: Walk, node: Node, part: int | None = None) -> Value:
    """W v + b. `part`: one of the parts of a fused output."""
    flow, index = walk.flow, node.index
    if node.op in ("embedding", "embedding_bag", "getitem", "index_select", "gather", "index"):
        return lookup(walk, node)
    bias = _bias(walk, node)
    operands = [i for i in flow.counting[index] if i != bias and flow.is_float(flow.graph.nodes[i])]
    weights = [i for i in operands if flow.trained[i] or flow.is_chosen_weight(i)]
    found = joined([walk.value(i) for i in operands if i not in weights]) if len(operands) - len(weights) == 1 else CONST
    if len(operands) - len(weights) != 1:
        for i in operands:
            found = multiplied(found, walk.value(i)) if i not in weights else found
    for weight in weights:
        found = multiplied(found, _weight(walk, weight, index, part))
    if bias is not None:
        found = walk.absorbed(found, bias) if flow.of_weights[bias] else joined([found, walk.value(bias)])
    for late in walk.late_biases.get(index, ()) if part is not None else ():
        found = walk.absorbed(found, late)
    uncut = index if part is None and walk.groups.parts(index) else None
    return replace(found, uncut=uncut)


def _bias(walk: Walk, node: Node) -> int | None:
    place = BIASED.get(node.op)
    return None if place is None else walk.flow.ref(node, place, "bias")


def lookup(walk: Walk, node: Node) -> Value:
    """Rows of a trained table, picked by something discrete."""
    table = next((i for i in node.inputs if walk.flow.of_weights[i]), None)
    if table is None:
        return Value(unknown=Unknown("a lookup in something that is no trained table", (node.index,)))
    return replace(_weight(walk, table, node.index, None), slope=NOTHING)


def _is_by_rows(walk: Walk, node: Node, use: int, part: int | None) -> bool:
    """Whether vectors of a weight are made of length 1, each by itself of every part that is looked at: along the axis that the map sums over, where
    it is one of the parts of a fused output."""
    axis, floor = walk.flow.operand(node, 2, "dim"), number(walk.flow.operand(node, 3, "eps"))
    if floor is not None and floor > LARGE_EPSILON:
        return False
    rank, axis = len(node.shape or ()), 1 if axis is None else axis
    return part is None or (walk.flow.graph.nodes[use].op == "linear" and type(axis) is int and axis % rank == rank - 1)


def _is_scaled(node: Node, weight: int) -> bool:
    """c·w, w/c or −w; c/w is none."""
    return node.op in ("neg", "mul") or (node.op == "div" and node.args[0] == Ref(weight))


def _weight(walk: Walk, node: int, use: int, part: int | None, depth: int = 24) -> Value:
    """A weight, or what is computed from weights alone (`g·v/‖v‖`), as a value without sensitivity."""
    flow, here = walk.flow, walk.flow.graph.nodes[node]
    parameter = walk.parameter_of(node)
    if parameter is not None:
        rows = rows_of_weight(flow, parameter, node) if part is None else None
        site = walk.groups.site(parameter, use, part, rows)
        law: Law = (1, True)
        return Value(single(site), NOTHING, {walk.groups.owner[site]: law})
    inputs = [i for i in here.inputs if flow.of_weights[i] or flow.is_chosen_weight(i)]
    if depth == 0 or not inputs:
        return CONST
    values = [_weight(walk, i, use, part, depth - 1) for i in inputs]
    if flow.classes[node] in ("view", "part", "weighted") or (len(values) == 1 and _is_scaled(here, inputs[0])):
        return values[0]
    if here.op == "mul":
        return values[0] if len(values) == 1 else multiplied(values[0], values[1])
    if here.op == "div" and len(values) == 1:
        return divided(CONST, values[0])
    if here.op == "div" and len(values) == 2:
        return divided(values[0], values[1])
    if here.op == "pow" and number(here.args[1]) == 2.0:
        return powered(values[0], 2)
    if here.op in HOMOGENEOUS:
        return powered(values[0], HOMOGENEOUS[here.op])
    if flow.classes[node] == "product":
        found = values[0]
        for value in values[1:]:
            found = multiplied(found, value)
        return found
    if here.op in ("_weight_norm", "_weight_norm_interface") and len(values) == 2:
        return multiplied(normalised(values[0]), values[1])
    if here.op == "normalize" and _is_by_rows(walk, here, use, part):
        return normalised(values[0])
    if here.op in SIGNS:
        return replace(bounded(values[0]), laws={g: None if law is None else (0, law[1]) for g, law in values[0].laws.items()})
    if here.op in BOUNDED:
        return bounded(values[0])
    if here.op in ASYMPTOTIC:
        return powered(values[0], 1, exact=False)
    if here.op in ("clamp", "clamp_min", "clamp_max") and (cut := clamped(flow, here, values[0])) is not None:
        return cut
    if here.op not in SUMS and flow.classes[node] not in ("join", "write", "choice"):
        return Value(unknown=Unknown(f"`{here.op}` of a weight has no row in the table of degrees", (node,)))
    kept = terms_of(flow, node, ())
    if kept is not None and len(kept) == 1:
        return _weight(walk, next(iter(kept)), use, part, depth - 1)
    found = joined(values)
    return replace(found, laws=dict.fromkeys(found.laws))
