"""What each op does to degrees: `evaluate` picks the row. An op without a row is unknown, with its node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from screen.calculi.degrees import laws
from screen.calculi.degrees.laws import LARGE_EPSILON
from screen.calculi.degrees.choice import clamped, filled, prelu, sign, threshold, written
from screen.calculi.degrees.gates import self_gated
from screen.calculi.degrees.monomials import Power
from screen.calculi.degrees.signs import sign_of
from screen.calculi.degrees.values import CONST, Value, Walk, bounded, capped, divided, joined, multiplied, normalised, powered
from screen.calculi.degrees.weighted_ops import linear
from screen.graph import Node, Ref
from screen.structure.dataflow import number
from screen.structure.norms.statistics import Mean, Stat, reading_of
from screen.structure.sums import terms_of
from screen.structure.types import Unknown

Row = Callable[[Walk, Node], Value]
IDLE_EPSILON = 1.0
"""Above it nothing cancels at an ordinary size: the norm is a bounded function like any other."""


def evaluate(walk: Walk, index: int) -> Value:
    """The value of one node of the branch, its operands being known."""
    flow, node = walk.flow, walk.flow.graph.nodes[index]
    norm = walk.branch.norms.by_node.get(index)
    if norm is not None:
        source, floor = walk.value(norm.source), norm.eps or 0.0
        if floor > IDLE_EPSILON:
            return bounded(source)
        return normalised(powered(source, 1, exact=False) if floor > LARGE_EPSILON else source)
    if index in walk.branch.norms.scale_free:
        return _over_another(walk, node, walk.branch.norms.scale_free[index])
    if not flow.data[index]:
        return walk.value(index)
    if flow.weighted[index]:
        return capped(linear(walk, node), index)
    row = _ROWS.get(node.op) or _BY_CLASS.get(flow.classes[index])
    if row is None:
        return Value(unknown=Unknown(f"`{node.op}` has no row in the table of degrees", (index,)))
    return capped(_still_whole(walk, node, row(walk, node)), index)


def _over_another(walk: Walk, node: Node, numerator: int) -> Value:
    """A quotient by a statistic that is no norm of the value: of part of it, which has its degrees, so that they cancel; or of another value, whose
    degrees are taken away."""
    norms, above = walk.branch.norms, walk.value(numerator)
    stats = [s for i in node.inputs if isinstance(s := reading_of(list(norms.readings), walk.flow, i), Stat | Mean) and i != numerator]
    below = walk.value(stats[0].source) if stats else above
    same = dict(above.laws) == dict(below.laws) and above.size == below.size
    return normalised(above) if same else divided(above, below)


def _still_whole(walk: Walk, node: Node, found: Value) -> Value:
    """An activation of a fused output that is cut into its parts later."""
    if walk.flow.classes[node.index] != "activation" or node.op == "glu" or len(walk.flow.counting[node.index]) != 1:
        return found
    before = _first(walk, node)
    return found if before.uncut is None else replace(found, uncut=before.uncut, through=(*before.through, node.index))


def _operands(walk: Walk, node: Node) -> list[Value]:
    """Values of what a node reads; a bias is none of them, see `_sum`."""
    return [walk.value(i) for i in walk.flow.counting[node.index]]


def _first(walk: Walk, node: Node) -> Value:
    sources = walk.flow.counting[node.index]
    return walk.value(sources[0]) if sources else CONST


def _view(walk: Walk, node: Node) -> Value:
    return _first(walk, node)


def _part(walk: Walk, node: Node) -> Value:
    """A slice: the first cut of a fused output leaves one logical map."""
    found = _first(walk, node)
    if found.uncut is None or node.shape is None or node.op in ("tril", "triu", "diagonal"):
        return found
    part = walk.groups.part_of(found.uncut, node.index)
    if part is None:
        return found
    cut = linear(walk, walk.flow.graph.nodes[found.uncut], part=part)
    for activation in found.through:
        cut = _acted(walk, walk.flow.graph.nodes[activation], cut)
    return cut


def _acted(walk: Walk, node: Node, value: Value) -> Value:
    """What the activation `node` makes of a value in place of its own operand."""
    source = walk.flow.counting[node.index][0]
    whole = walk.values.get(source)
    walk.values[source] = value
    try:
        return _ROWS[node.op](walk, node)
    finally:
        if whole is not None:
            walk.values[source] = whole
        else:
            del walk.values[source]


def _sum(walk: Walk, node: Node) -> Value:
    """a ± b; a trained vector that no data reaches is a bias."""
    flow = walk.flow
    sources = flow.counting[node.index]
    kept = terms_of(flow, node.index, walk.branch.members)
    if kept is not None:  # what is taken away again counts no more
        sources = tuple(kept)
    biases = [i for i in sources if flow.of_weights[i] and not flow.data[i]]
    values = [i for i in sources if i not in biases]
    found = joined([walk.value(i) for i in values] + ([CONST] if _adds_number(node) else []))
    uncut = walk.value(values[0]).uncut if len(values) == 1 and not _adds_number(node) else None
    if uncut is not None:  # the bias of a fused map, added by hand
        walk.late_biases.setdefault(uncut, []).extend(biases)
    for bias in biases:
        found = walk.absorbed(found, bias)
    return replace(found, uncut=uncut)


def _adds_number(node: Node) -> bool:
    return any(number(a) not in (None, 0.0) for a in node.args[:2])


def _product(walk: Walk, node: Node) -> Value:
    """a ⊙ b. x·g(x) with bounded g is a hand-written GELU or SiLU."""
    gate = self_gated(walk.flow, node)
    if len(node.inputs) == 2 and node.inputs[0] == node.inputs[1]:
        return _square(walk, node)
    if gate is not None:
        return powered(walk.value(gate), 1, exact=False)
    found = CONST
    for value in _operands(walk, node):
        found = multiplied(found, value)
    return found


def _square(walk: Walk, node: Node) -> Value:
    return _raise(walk, _first(walk, node), 2)


def _raise(walk: Walk, value: Value, power: Power) -> Value:
    """A power, noted for the sites that it acts on."""
    for monomial in value.size | value.slope:
        for site, _ in monomial:
            walk.powers[site] = max(walk.powers.get(site, 1), power)
    return powered(value, power)


def _quotient(walk: Walk, node: Node) -> Value:
    sources = [a.node if isinstance(a, Ref) else None for a in node.args[:2]]
    if node.kwarg("rounding_mode") is not None:
        found = divided(*_operands(walk, node)) if len(node.inputs) == 2 else _first(walk, node)
        return powered(found, 1, exact=False)
    if len(sources) < 2 or sources[1] is None:
        return _first(walk, node)
    above = walk.value(sources[0]) if sources[0] is not None else CONST
    return divided(above, walk.value(sources[1]))


def _power(walk: Walk, node: Node) -> Value:
    exponent = number(walk.flow.operand(node, 1, "exponent"))
    found = _first(walk, node)
    if exponent is None:
        return Value(unknown=Unknown("a power whose exponent is no number", (node.index,)))
    power = int(abs(exponent)) if exponent == int(exponent) else Fraction(abs(exponent)).limit_denominator(64)
    raised = _raise(walk, found, power)
    return divided(CONST, raised) if exponent < 0 else raised


def _attention(walk: Walk, node: Node) -> Value:
    """softmax(q·k)·v."""
    v = walk.flow.ref(node, 2, "value")
    if v is None:
        return Value(unknown=Unknown("an attention without operands", (node.index,)))
    return multiplied(bounded(logits_of(walk, node.index)), walk.value(v))


def logits_of(walk: Walk, index: int) -> Value:
    """q·k of a fused attention, and what is added to it: a mask of −∞ and 0 is the same at every scale, a trained one and one of data are not."""
    node = walk.flow.graph.nodes[index]
    q, k, mask = (walk.flow.ref(node, p, name) for p, name in ((0, "query"), (1, "key"), (3, "attn_mask")))
    if q is None or k is None:
        return Value(unknown=Unknown("an attention without operands", (index,)))
    found = multiplied(walk.value(q), walk.value(k))
    if mask is None or walk.flow.graph.nodes[mask].dtype == "bool":
        return found
    if walk.flow.data[mask]:
        return joined([found, walk.value(mask)])
    return walk.absorbed(found, mask) if walk.flow.of_weights[mask] else found


def _contraction(walk: Walk, node: Node) -> Value:
    if node.op in ("addmm", "baddbmm"):
        a, b, c = (walk.value(i) for i in node.inputs)
        return joined([a, multiplied(b, c)])
    return _product(walk, node)


def _bounded(walk: Walk, node: Node) -> Value:
    return bounded(joined(_operands(walk, node)))


def _clamp(walk: Walk, node: Node) -> Value:
    """With limits made of data: as their sum."""
    return clamped(walk.flow, node, _first(walk, node)) or joined(_operands(walk, node))


def _exponential(walk: Walk, node: Node) -> Value:
    """At most one where the argument is never positive; else nothing is known of its size."""
    found = _first(walk, node)
    if sign_of(walk.flow, node.inputs[0]) == -1:
        return bounded(found)
    if found.is_constant:
        return CONST
    return Value(unknown=Unknown(f"`{node.op}` of a value that may be positive", (node.index,)))


def _united(walk: Walk, node: Node) -> Value:
    return joined([walk.value(i) for i in walk.flow.counting[node.index] if walk.flow.is_float(walk.flow.graph.nodes[i])])


def _glu(walk: Walk, node: Node) -> Value:
    """a·σ(b), the halves of one value."""
    found = _first(walk, node)
    if found.uncut is not None and len(walk.groups.parts(found.uncut)) == 2:
        call = walk.flow.graph.nodes[found.uncut]
        named = {name: i for i, part in enumerate(walk.groups.parts(found.uncut)) for name in part}
        if {"up", "gate"} <= set(named):
            return multiplied(linear(walk, call, part=named["up"]), bounded(linear(walk, call, part=named["gate"])))
    return multiplied(found, bounded(found))


def _lerp(walk: Walk, node: Node) -> Value:
    values = _operands(walk, node)
    return joined([multiplied(v, values[2]) if len(values) == 3 else v for v in values[:2]])


def _by_law(power: Power) -> Row:
    """A homogeneous op; one of negative degree is a quotient (of a sum the smallest term decides when it is large)."""

    size = power if power >= 0 else -power

    def row(walk: Walk, node: Node) -> Value:
        steady = node.op not in ("maximum", "minimum", "hypot") or all(number(a) in (None, 0.0) for a in node.args[:2])
        found = powered(joined(_operands(walk, node)), size, exact=steady)
        return divided(CONST, found) if power < 0 else found

    return row


def _asymptotic(walk: Walk, node: Node) -> Value:
    return powered(joined(_operands(walk, node)), 1, exact=False)


_ROWS: dict[str, Row] = {
    "add": _sum, "sub": _sum, "mul": _product, "div": _quotient, "true_divide": _quotient, "pow": _power, "square": _square,
    "lerp": _lerp, "masked_fill": filled, "where": filled, "outer": _product, "ger": _product, "kron": _product,
    "scaled_dot_product_attention": _attention, "clamp": _clamp, "pad": written, "constant_pad_nd": written, "clamp_min": _clamp, "clamp_max": _clamp,
    "threshold": threshold, "prelu": prelu, "exp": _exponential, "exp2": _exponential, "glu": _glu,
    "alias": _united, "complex": _united, "neg": _view, "log_softmax": _asymptotic, "cat": _united,
    **{op: _by_law(k) for op, k in laws.HOMOGENEOUS.items() if op not in ("neg", "square", "prelu")},
    **dict.fromkeys(laws.ASYMPTOTIC, _asymptotic), **dict.fromkeys(laws.SIGNS, sign),
    **dict.fromkeys(laws.BOUNDED, _bounded),
    **dict.fromkeys(laws.LINEAR_MIXERS, _view),
}  # fmt: skip
_BY_CLASS: dict[str, Row] = {
    "view": _view, "part": _part, "join": _united, "product": _contraction, "write": written, "choice": _view, "factory": lambda walk, node: CONST,
}  # fmt: skip
