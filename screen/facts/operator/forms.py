"""Each state of a stream as a sum: Σ coefficient · earlier state + Σ coefficient · branch output + a rest.

The graph is cut at the states that branches read and at what branches add. Between cuts only paths without a weight and without a nonlinearity
carry a coefficient; whatever else a state is made of is its rest, with the node that begins it. An op that is not known is never the identity: what
it carries is lost, and said so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from screen.facts.operator import layouts, shares
from screen.facts.operator.gates import RANGES, coefficient
from screen.facts.operator.layouts import Layout
from screen.facts.operator.polynomial import ONE, Atom, Kind, Polynomial, of_atom
from screen.facts.operator.polynomial import number as constant
from screen.graph import Node, Ref
from screen.structure.copies import Weighing, weighing_of
from screen.structure.initial.values import starts_of
from screen.structure.dataflow import Flow, axes_of, number
from screen.structure.norms.find import Norms

Key = tuple[int, Layout]


@dataclass(frozen=True)
class Form:
    """A value as Σ coefficient · source + rest."""

    terms: Mapping[Key, Polynomial]
    rest: int | None = None
    """The first node whose value is neither linear in the sources nor a constant."""
    lost: int | None = None
    """An op that reads a source, and how it carries it is not known."""
    trained: bool = False
    """Weights are added: a bias on the stream."""

    def times(self, factor: Polynomial) -> Form:
        """factor · value."""
        return Form({k: p * factor for k, p in self.terms.items()}, self.rest, self.lost, self.trained)

    def plus(self, other: Form) -> Form:
        """The sum of both."""
        table = dict(self.terms)
        for key, p in other.terms.items():
            table[key] = table[key] + p if key in table else p
        rest = self.rest if self.rest is not None else other.rest
        lost = self.lost if self.lost is not None else other.lost
        return Form({k: p for k, p in table.items() if p.terms}, rest, lost, self.trained or other.trained)


NOTHING = Form({})
DETACHED = ("detach", "data")
"""Ops through which no gradient comes back."""


class Forms:
    """Reads values between cuts. `sources`: the states and branch outputs at which the graph is cut; `back`: as gradients see them, to which a value
    that is detached is a constant."""

    def __init__(self, flow: Flow, norms: Norms, sources: frozenset[int], back: bool = False) -> None:
        self.flow, self.norms, self.sources, self.back = flow, norms, sources, back
        self.table: dict[int, Form] = {}

    def of(self, index: int) -> Form:
        """A value; a source is itself."""
        if index in self.sources:
            shape = self.flow.graph.nodes[index].shape
            return Form({}, index) if shape is None else Form({(index, layouts.whole(shape)): ONE})
        return self.inside(index)

    def inside(self, index: int) -> Form:
        """A value by the op that makes it, even where it is a source."""
        if index not in self.table:
            self.table[index] = self._make(self.flow.graph.nodes[index])
        return self.table[index]

    def _make(self, node: Node) -> Form:
        flow = self.flow
        if not flow.data[node.index]:
            return Form({}, trained=flow.trained[node.index])
        if node.index in self.norms.by_node or not node.inputs or (self.back and node.op in DETACHED):
            return Form({}, node.index)
        kind = flow.classes[node.index]
        rule = _BY_OP.get(node.op) or _BY_CLASS.get(kind)
        if rule is not None:
            return rule(self, node)
        if kind == "unmodelled":
            return self._lost(node)
        return Form({}, node.index)

    # -- what ops do ------------------------------------------------------------------------------------------------------------------

    def _lost(self, node: Node) -> Form:
        """How it carries what it reads is not known; where it reads nothing linear, it is a rest."""
        carries = any(self.of(i).terms or self.of(i).lost is not None for i in dict.fromkeys(node.inputs) if self.flow.data[i])
        return Form({}, node.index, node.index if carries else None)

    def operand(self, node: Node, position: int, *names: str) -> Form | None:
        """An argument as a value; numbers are constants, what is missing is None."""
        found = self.flow.operand(node, position, *names)
        if isinstance(found, Ref):
            return self.broadcast(self.of(found.node), found.node, node)
        return None if found is None else NOTHING

    def broadcast(self, form: Form, source: int, node: Node) -> Form:
        """A value as an operand of another shape: what is repeated along an axis is an operator of its own, unless it is an average along it."""
        shape, wanted = self.flow.graph.nodes[source].shape, node.shape
        if shape == wanted or not form.terms or shape is None or wanted is None:
            return form
        table: dict[Key, Polynomial] = {}
        for (origin, layout), p in form.terms.items():
            if math.prod(layout.sizes) == math.prod(wanted):  # an average, kept in the shape of what it averages
                table[origin, layout] = p
            else:
                key = (origin, layouts.whole(self._shape(origin)))
                times = math.prod(wanted) / max(math.prod(shape), math.prod(layout.sizes), 1)
                repeated = Atom(("repeated", layout, wanted), "repeat", entries=max(1.0, times))
                table[key] = p * (of_atom(repeated) if layouts.is_permuted(layout) else of_atom(replace(repeated, kind="part")))
        return Form(table, form.rest, form.lost, form.trained)

    def _shape(self, index: int) -> tuple[int, ...]:
        return self.flow.graph.nodes[index].shape or ()


def _same(forms: Forms, node: Node) -> Form:
    """A view, a slice, or one result of several."""
    source = node.inputs[0]
    above = forms.flow.graph.nodes[source]
    if node.op == "getitem" and above.op in ("chunk", "split", "split_with_sizes", "tensor_split", "unbind") and above.shape is None:
        if above.op == "unbind" and (kept := _unstacked(forms, above, node.args[1], forms.flow.operand(above, 1, "dim"))) is not None:
            return kept
        return _moved(forms, node, forms.of(above.inputs[0]), lambda layout: layouts.piece(forms.flow, node, layout))
    if above.op in ("var_mean", "std_mean") and node.op == "getitem":
        return _averaged(forms, node, above) if node.args[1] == 1 else Form({}, node.index)
    if above.shape is None:
        return forms._lost(node)
    if node.op == "select" and (kept := _unstacked(forms, node, node.args[2] if len(node.args) > 2 else None, node.args[1])) is not None:
        return kept
    if node.op == "getitem" and (kept := _unstacked(forms, node, node.args[1] if len(node.args) > 1 else None, 0)) is not None:
        return kept
    return _moved(forms, node, forms.of(source), lambda layout: layouts.viewed(forms.flow, node, layout))


def _unstacked(forms: Forms, node: Node, place: object, dim: object) -> Form | None:
    """One member of a `stack`, taken out again."""
    stack = forms.flow.graph.nodes[node.inputs[0]]
    if stack.op != "stack" or stack.index in forms.sources or type(place) is not int or stack.shape is None:
        return None
    rank, axis = len(stack.shape), forms.flow.operand(stack, 1, "dim")
    mine, theirs = (int(a) % rank if type(a) is int else 0 for a in (dim, axis))
    return forms.of(stack.inputs[place]) if mine == theirs and -len(stack.inputs) <= place < len(stack.inputs) else None


def _moved(forms: Forms, node: Node, form: Form, move: object) -> Form:
    """Every term in its new layout; what is no strided view is a permutation or a part."""
    assert callable(move)
    if not form.terms:
        return form
    table: dict[Key, Polynomial] = {}
    shape = forms.flow.graph.nodes[node.inputs[0]].shape or ()
    for (source, layout), p in form.terms.items():
        here, whole = math.prod(shape), math.prod(layout.sizes)  # fewer entries than it is said to have: averages without their copies
        kept = node.op in _KEEPS_AXES and (whole > here or node.op not in _REPEATS)
        new = move(layout) if whole == here else layout if kept else None
        if new is not None:
            table[source, new] = table[source, new] + p if (source, new) in table else p
            continue
        entries, known = math.prod(node.shape or ()), max(whole, here, 1)
        times = max(1.0, entries / known, _times(forms.flow, node))
        permuted = whole <= here == entries and node.op in _PERMUTES
        repeated = node.op in _REPEATS and layouts.is_permuted(layout) and entries >= known
        kind: Kind = "permutation" if permuted else "repeat" if repeated else "part"
        atom = Atom((node.op, *map(str, node.args[1:]), *map(str, node.kwargs), layout.strides), kind, entries=times)
        key = (source, layout if permuted and node.shape == shape else layouts.whole(forms._shape(source)))
        table[key] = (table[key] if key in table else Polynomial(())) + p * of_atom(atom)
    return Form(table, form.rest, form.lost, form.trained)


def _times(flow: Flow, node: Node) -> float:
    """How often a lookup by integers may take one entry: as often as there are indices along an axis."""
    if node.op in ("index_select", "gather", "take_along_dim", "take", "embedding"):
        dim = flow.operand(node, 2 if node.op == "take_along_dim" else 1, "dim")
        shape = node.shape or (1,)
        return float(shape[dim]) if type(dim) is int and node.op != "take" else math.prod(shape)
    if node.op not in ("getitem", "index") or len(node.args) < 2:
        return 1.0
    items = node.args[1] if isinstance(node.args[1], tuple) and node.args[1][:1] != ("slice",) else (node.args[1],)
    tensors = [flow.graph.nodes[i.node] for i in items if isinstance(i, Ref)]
    counts = [math.prod(t.shape or ()) for t in tensors if t.dtype != "bool"]
    counts += [max(Counter(i).values()) for i in items if isinstance(i, tuple) and i and i[:1] != ("slice",)]
    return float(max(counts, default=1))


_KEEPS_AXES = frozenset(
    {"unsqueeze", "squeeze", "expand", "expand_as", "to", "contiguous", "clone", "type", "float", "dropout", "detach", "broadcast_to"}
)
_REPEATS = frozenset({"repeat_interleave", "repeat", "tile", "expand", "expand_as", "broadcast_to"})
"""All entries, each as often as all others."""
_PERMUTES = frozenset({"flip", "roll", "view", "reshape", "rot90", "flatten", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle"})


def _add(forms: Forms, node: Node) -> Form:
    left, right = forms.operand(node, 0, "input"), forms.operand(node, 1, "other")
    alpha = coefficient(forms.flow, node.kwarg("alpha")) or ONE
    if left is None or right is None:
        return Form({}, node.index)
    return left.plus(right.times(alpha.scaled(-1.0) if node.op == "sub" else alpha))


def _mul(forms: Forms, node: Node) -> Form:
    """A product: of two values that both carry a source it is a rest."""
    arguments = forms.flow.operand(node, 0, "input"), forms.flow.operand(node, 1, "other")
    values = forms.operand(node, 0, "input"), forms.operand(node, 1, "other")
    sides: list[Form] = [v if v is not None else NOTHING for v in values]
    carrying = [bool(s.terms) or s.lost is not None for s in sides]
    if all(carrying):
        return Form({}, node.index, next((s.lost for s in sides if s.lost is not None), None))
    if not any(carrying):
        return _scaled_rest(forms, node, sides, arguments)
    mine = carrying.index(True)
    factor = coefficient(forms.flow, arguments[1 - mine])
    if factor is None:  # a complex number
        return Form({}, node.index, node.index)
    return sides[mine].times(factor)


def _scaled_rest(forms: Forms, node: Node, sides: list[Form], arguments: tuple[object, object]) -> Form:
    """A product of values that carry no source: a rest times a number, or times a mask that was given, is still that rest."""
    rests = [s.rest for s in sides if s.rest is not None]
    if not rests:
        return Form({}, trained=any(s.trained for s in sides))
    factor = coefficient(forms.flow, arguments[1 if sides[0].rest is not None else 0]) if len(rests) == 1 else None
    return Form({}, rests[0] if factor is not None and factor.number else node.index)


def _div(forms: Forms, node: Node) -> Form:
    """A quotient; what is divided by a value that carries a source is a rest."""
    value, divisor = forms.operand(node, 0, "input"), forms.flow.operand(node, 1, "other")
    if value is None or node.kwarg("rounding_mode") is not None:
        return Form({}, node.index, value.lost if value is not None else None)
    below = coefficient(forms.flow, divisor)
    if not value.terms or below is None or below.number == 0 or (isinstance(divisor, Ref) and forms.of(divisor.node).terms):
        return Form({}, node.index, value.lost)
    inverse = constant(1.0 / below.number) if below.number is not None else _inverse(below, node)
    return Form({}, node.index) if inverse is None else value.times(inverse)


def _inverse(below: Polynomial, node: Node) -> Polynomial | None:
    """1/g as a multiplier: constants of one sign have the range of their reciprocals."""
    if len(below.terms) != 1 or len(below.terms[0][0]) != 1:
        return of_atom(Atom(("inverse", node.index), "gate", -math.inf, math.inf, None, node.index))
    (atom,), c = below.terms[0]
    safe = math.isfinite(atom.low) and math.isfinite(atom.high) and atom.low * atom.high > 0
    ends = sorted((1.0 / (c * atom.low), 1.0 / (c * atom.high))) if safe else [-math.inf, math.inf]
    start = 1.0 / (c * atom.start) if atom.start else None
    return of_atom(Atom(("inverse", *atom.key), "gate", ends[0], ends[1], start, atom.node, atom.uniform, atom.fixed))


def _neg(forms: Forms, node: Node) -> Form:
    return forms.of(node.inputs[0]).times(constant(-1.0))


def _lerp(forms: Forms, node: Node) -> Form:
    start, end = forms.operand(node, 0, "input"), forms.operand(node, 1, "end")
    weight = coefficient(forms.flow, forms.flow.operand(node, 2, "weight"))
    if start is None or end is None or weight is None:
        return Form({}, node.index)
    return start.times(ONE + weight.scaled(-1.0)).plus(end.times(weight))


def _where(forms: Forms, node: Node) -> Form:
    """A choice entry by entry: m·a + (1 − m)·b, m the mask."""
    one, two = forms.operand(node, 1, "input", "self"), forms.operand(node, 2, "other")
    mask = of_atom(Atom(("mask", node.inputs[0]), "gate", 0.0, 1.0, None, node.index, False))
    return (one or NOTHING).times(mask).plus((two or NOTHING).times(ONE + mask.scaled(-1.0)))


def _reduced(forms: Forms, node: Node) -> Form:
    """`mean` and `sum`: of a `stack` along its own axis the sum of its members, else an average along the axis times its size. A sum of products may
    mix copies of the stream."""
    if node.op == "sum" and (mixed := _mixed_copies(forms, node)) is not None:
        return mixed
    if (weighing := weighing_of(forms.flow, node)) is not None:
        return _weighed(forms, weighing)
    flow, source = forms.flow, node.inputs[0]
    above = flow.graph.nodes[source]
    if above.shape is None:
        return Form({}, node.index)
    axes = axes_of(flow.operand(node, 1, "dim", "axis"), len(above.shape))
    size = math.prod(above.shape[a] for a in axes)
    factor = 1.0 / size if node.op == "mean" else 1.0
    if above.op == "stack" and source not in forms.sources and len(axes) == 1:
        given = flow.operand(above, 1, "dim")
        if (int(given) if type(given) is int else 0) % len(above.shape) == axes[0] % len(above.shape):
            total = NOTHING
            for member in above.inputs:
                total = total.plus(forms.of(member))
            return total.times(constant(factor))
    return _over(forms, node, source, axes, factor * size)


def _weighed(forms: Forms, weighing: Weighing) -> Form:
    """States of a stack, each times a number of its own."""
    made = forms.flow.graph.nodes[forms.flow.root(weighing.shares)]
    low, high = forms.flow.graph.range_of.get(made.index, RANGES.get(made.op, (-math.inf, math.inf)))
    known = starts_of(forms.flow.graph, weighing.shares)
    single = math.prod(forms.flow.graph.nodes[weighing.shares].shape or ()) == len(weighing.states)
    starts = known if isinstance(known, tuple) and len(known) == len(weighing.states) else (known,) * len(weighing.states)
    total = NOTHING
    for place, (state, start) in enumerate(zip(weighing.states, starts, strict=True)):
        begun = start if isinstance(start, float) else None
        share = Atom(("share", weighing.shares, place), "gate", low, high, begun, weighing.shares, uniform=single and begun is not None)
        total = total.plus(forms.of(state).times(of_atom(share)))
    return total


def _averaged(forms: Forms, node: Node, call: Node) -> Form:
    """The mean that comes beside a variance."""
    rank = len(forms.flow.graph.nodes[call.inputs[0]].shape or ())
    return _over(forms, node, call.inputs[0], axes_of(forms.flow.operand(call, 1, "dim", "axis"), rank), 1.0)


def _over(forms: Forms, node: Node, source: int, axes: Sequence[int], factor: float) -> Form:
    """factor · average along axes."""
    form, shape = forms.of(source), forms.flow.graph.nodes[source].shape or ()
    table: dict[Key, Polynomial] = {}
    for (origin, layout), p in form.terms.items():
        if math.prod(layout.sizes) != math.prod(shape) or not layouts.is_permuted(layout):
            return forms._lost(node)
        strides = tuple(sorted((layout.strides[a], layout.sizes[a]) for a in axes))
        table[origin, layout] = p * of_atom(Atom(("average", strides), "average")).scaled(factor)
    return Form(table, form.rest, form.lost, form.trained)


def _cat(forms: Forms, node: Node) -> Form:
    """Parts side by side. Parts of one source that follow each other are one again; with unequal coefficients the largest counts."""
    values = _put_together(forms, node)
    rest = next((v.rest for v in values if v.rest is not None), None)
    lost = next((v.lost for v in values if v.lost is not None), None)
    given = forms.flow.operand(node, 1, "dim", "axis")
    axis = int(given) if type(given) is int else 0
    table: dict[Key, Polynomial] = {}
    for origin in dict.fromkeys(source for v in values for source, _ in v.terms):
        parts = [[(layout, p) for (source, layout), p in v.terms.items() if source == origin] for v in values]
        tiled = layouts.joined([part[0][0] for part in parts], axis) if all(len(part) == 1 for part in parts) else None
        if tiled is not None:
            table[origin, tiled] = _beside([part[0][1] for part in parts], node)
        else:
            terms = [term for part in parts for term in part]
            size = sum(p.gain.high for _, p in terms)
            key = (origin, layouts.whole(forms._shape(origin)))
            if len(terms) == 1 and layouts.is_permuted(terms[0][0]):  # all of it, beside what is none of it
                table[key] = terms[0][1] * of_atom(Atom(("joined", node.index), "beside"))
                continue
            table[key] = (
                of_atom(Atom(("joined", node.index), "part")).scaled(size)
                if math.isfinite(size)
                else of_atom(Atom(("joined", node.index), "gate", -math.inf, math.inf))
            )
    return Form(table, rest, lost, any(v.trained for v in values))


def _put_together(forms: Forms, node: Node) -> list[Form]:
    """The values that are joined. Where one is a state that was cut from another state that is joined beside it (a class token is kept, a branch adds
    to the tokens), it is what it was made of: what was cut is put together again."""
    values = [forms.of(i) for i in node.inputs]
    origins = {source for v in values for source, _ in v.terms}
    if len(origins) < 2:
        return values
    opened = [_opened(forms, v) for v in values]
    if any(v.lost is not None or v.rest is not None or not v.terms for v in opened):
        return values
    return opened if any(all((s in {t for t, _ in v.terms}) for v in opened) for s, _ in opened[0].terms) else values


def _opened(forms: Forms, form: Form) -> Form:
    """A sum with each whole source that is itself a sum of sources written out."""
    total = Form({}, form.rest, form.lost, form.trained)
    for (source, layout), p in form.terms.items():
        made = forms.inside(source)
        written_out = layouts.is_whole(layout) and made.terms and made.rest is None and made.lost is None
        total = total.plus(made.times(p) if written_out else Form({(source, layout): p}))
    return total


def _beside(polynomials: list[Polynomial], node: Node) -> Polynomial:
    """One coefficient for parts side by side."""
    if all(p == polynomials[0] for p in polynomials):
        return polynomials[0]
    numbers = [p.number for p in polynomials]
    if all(n is not None for n in numbers):
        ends = [n for n in numbers if n is not None]
        return of_atom(Atom(("beside", *ends), "gate", min(ends), max(ends), None, node.index, False, True))
    top = max(p.gain.high for p in polynomials)
    return of_atom(Atom(("beside", node.index), "gate", -top, top, None, node.index, False))


def _accumulated(forms: Forms, node: Node) -> Form:
    """`index_add`, `scatter_add`: the target whole, what is added by parts."""
    target = forms.operand(node, 0, "input", "self") or NOTHING
    added = forms.flow.operand(node, 3, "source", "src")
    if not isinstance(added, Ref):
        return forms._lost(node)
    source = forms.of(added.node)
    dim, shape = forms.flow.operand(node, 1, "dim"), forms.flow.graph.nodes[added.node].shape or (1,)
    meeting = shape[dim] if type(dim) is int else math.prod(shape)  # entries that may be added to one
    part = of_atom(Atom(("added", node.index), "part")).scaled(float(meeting))
    terms = {(o, layouts.whole(forms._shape(o))): p * part for (o, _), p in source.terms.items()}
    return target.plus(Form(terms, source.rest, source.lost, source.trained))


def _padded(forms: Forms, node: Node) -> Form:
    """Zeros beside a value: all of its entries are kept. Borders that repeat entries are not followed."""
    mode, fill = (forms.flow.operand(node, 2, "mode"), 3) if node.op == "pad" else (None, 2)
    if mode not in (None, "constant") or forms.flow.operand(node, fill, "value") not in (None, 0, 0.0):
        return forms._lost(node)
    form = forms.of(node.inputs[0])
    part = of_atom(Atom(("padded", *map(str, node.args[1:2]), *map(str, node.kwargs)), "part"))
    terms = {(o, layouts.whole(forms._shape(o))): p * part for (o, _), p in form.terms.items()}
    return Form(terms, form.rest, form.lost, form.trained)


def _dropped(forms: Forms, node: Node) -> Form:
    """A dropout that is on: 0 or x/(1 − p), entry by entry."""
    p = number(forms.flow.operand(node, 1, "p"))
    p = 0.5 if p is None else p
    high = 1.0 / (1.0 - p) if 0.0 <= p < 1.0 else math.inf
    return forms.of(node.inputs[0]).times(of_atom(Atom(("dropped", node.index), "gate", 0.0, high, None, node.index, False)))


def _masked(forms: Forms, node: Node) -> Form:
    return forms.of(node.inputs[0])


def _copied(forms: Forms, node: Node) -> Form:
    """`x.copy_(y)`: y, broadcast; what x held is gone."""
    return forms.operand(node, 1, "src", "other") or Form({}, node.index, node.index)


def _alias(forms: Forms, node: Node) -> Form:
    return forms.of(node.inputs[0]) if len(set(node.inputs)) == 1 else forms._lost(node)


_OVERLAPPING = ("unfold", "unfold_copy", "im2col", "fold", "col2im", "as_strided", "reflection_pad1d", "replication_pad1d")
"""Views that may hold one entry several times."""
_BY_OP = {
    "add": _add,
    "sub": _add,
    "nansum": Forms._lost,
    "mul": _mul,
    "div": _div,
    "true_divide": _div,
    "neg": _neg,
    "lerp": _lerp,
    "where": _where,
    "mean": _reduced,
    "sum": _reduced,
    "cat": _cat,
    "index_add": _accumulated,
    "scatter_add": _accumulated,
    "masked_fill": _masked,
    "alias": _alias,
    "copy": _copied,
    "pad": _padded,
    "constant_pad_nd": _padded,
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"), _dropped),
    **dict.fromkeys(_OVERLAPPING, Forms._lost),
    "alpha_dropout": Forms._lost,
}


def _mixed_copies(forms: Forms, node: Node) -> Form | None:
    """Copies of the stream that a matrix made from them mixes: the stream, times what is known of the matrix."""
    found = shares.mixed(forms.flow, node)
    if found is None or not (form := forms.of(found[0])).terms:
        return None
    return form.times(found[1]) if all(layouts.is_permuted(layout) for _, layout in form.terms) else forms._lost(node)


def _contracted(forms: Forms, node: Node) -> Form:
    """A product of a value with a constant that holds no weight is a path of the identity, by a matrix that is not known."""
    if (mixed := _mixed_copies(forms, node)) is not None:
        return mixed
    factors = node.inputs[1:] if node.op in ("addmm", "baddbmm") else node.inputs
    others = [i for i in factors if not forms.flow.data[i]]
    by_constant = 0 < len(others) < len(factors) and not any(forms.flow.trained[i] for i in others)
    return forms._lost(node) if by_constant else Form({}, node.index)


def _mixed(forms: Forms, node: Node) -> Form:
    """Transforms, pooling and sums along an axis are linear, by a matrix that is not known; attention and recurrent cells are not."""
    return forms._lost(node) if node.op.startswith(_LINEAR) else Form({}, node.index)


_LINEAR = ("fft", "rfft", "irfft", "ifft", "cumsum", "avg_pool", "adaptive_avg_pool", "interpolate", "grid_sample", "istft")
_NONLINEAR = frozenset({"reciprocal", "square", "pow", "floor_divide", "remainder", "fmod", "hypot", "polar"})
"""Of the class of entry-wise arithmetic."""


def _arithmetic(forms: Forms, node: Node) -> Form:
    """What has no row of its own: linear in some operand, unless it is known not to be."""
    return Form({}, node.index) if node.op in _NONLINEAR else forms._lost(node)


_BY_CLASS = {
    "view": _same, "part": _same, "join": Forms._lost, "write": Forms._lost, "product": _contracted, "weighted": _contracted, "mixing": _mixed,
    "linear": _arithmetic,
}  # fmt: skip

__all__ = ["Form", "Forms"]
