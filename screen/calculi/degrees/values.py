"""One pass over the nodes of a branch: magnitude and sensitivity monomials, and the law of each value in each weight group.

    value v         M(v)   monomials of its magnitude            S(v)   monomials of ‖∂v/∂x‖, x the branch's inputs
    W v             W·M                                          W·S
    a ⊙ b, q·k, T v M(a)·M(b)                                    S(a)·M(b) ∪ M(a)·S(b)
    softmax(u)      1                                            S(u)
    φ of degree k   M^k                                          M^(k−1)·S
    a + b           M(a) ∪ M(b)                                  S(a) ∪ S(b)
    norm(v)         1                                            S(v)/M(v)
    no row          unknown                                      unknown

The *law* of v in a group W says whether v(cW) = c^k·v(W) (T9 of the review): `(k, True)` exactly, `(k, False)` in the limit c → ∞, `MIXED` not at
all. It follows the same ops on its own: a sum keeps a law that its terms share; a bias joins the group with the power of what it is
added to; a bounded function keeps only k = 0. Numbers never come from here: S/M is a statement about degrees (review, item 8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from screen.calculi.degrees.monomials import CONSTANT, MEMORY, NOTHING, STREAM, Monomials, Power, product, quotient, raised, single
from screen.calculi.degrees.weight_groups import Groups
from screen.structure.branches.branch import Branch
from screen.structure.dataflow import Flow
from screen.structure.types import Unknown

Law = tuple[Power, bool] | None
"""(degree, exact?), or None: not homogeneous."""
MIXED: Law = None
ZEROS = frozenset({"zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "zero"})
MOST_MONOMIALS = 400
"""A set larger than this is given up: nobody reads it, and products of such sets cost time."""


@dataclass(frozen=True)
class Value:
    """What is known of the value of one node."""

    size: Monomials = CONSTANT
    slope: Monomials = NOTHING
    laws: Mapping[int, Law] = field(default_factory=dict)
    """By group, and under `STREAM` in the stream; what is not there does not act on the value."""
    unknown: Unknown | None = None
    under: Monomials = CONSTANT
    """A sum that divides: the magnitude is size/under and the sensitivity slope/under², both kept apart until a sum, a function or the end
    asks (numerator and denominator of a normalised linear attention cancel only together)."""
    uncut: int | None = None
    """The fused weighted op of which this is a view that was not cut into its parts yet."""
    through: tuple[int, ...] = ()
    """Activations between that op and this view: they act on each part alone."""

    @property
    def is_constant(self) -> bool:
        """Neither weights nor the stream act on it."""
        return not self.slope and self.size == CONSTANT and not self.laws


CONST = Value()
ZERO = Value(NOTHING)
"""A tensor of zeros, or one that is written before it is read: the same at every scale."""


def settled(value: Value) -> Value:
    """The value with its quotient worked out."""
    if value.under == CONSTANT:
        return value
    size, _ = quotient(value.size, value.under)
    slope, _ = quotient(value.slope, product(value.under, value.under))
    return replace(value, size=size, slope=slope, under=CONSTANT)


def capped(value: Value, node: int) -> Value:
    """The value, or unknown when its sets are too large to be read."""
    if len(value.size) + len(value.slope) + len(value.under) <= MOST_MONOMIALS:
        return value
    return Value(unknown=Unknown(f"its degrees need more than {MOST_MONOMIALS} monomials", (node,)))


def doubt(values: Iterable[Value]) -> Unknown | None:
    """The first thing that is not known."""
    return next((v.unknown for v in values if v.unknown is not None), None)


def joined(values: list[Value]) -> Value:
    """A sum, a concatenation, a choice between values: sets are united, laws kept where all agree."""
    values = [v for v in values if v is not ZERO]
    if len(values) > 1:
        values = [settled(v) for v in values]
    if len(values) <= 1:
        return replace(values[0], uncut=None, through=()) if values else ZERO
    groups = dict.fromkeys(g for v in values for g in v.laws)
    return Value(
        frozenset().union(*(v.size for v in values)),
        frozenset().union(*(v.slope for v in values)),
        {g: (_agreed if g != STREAM else _outgrown)([v.laws.get(g, (0, True)) for v in values]) for g in groups},
        doubt(values),
    )


def _outgrown(laws: list[Law]) -> Law:
    """Of a stream that grows the largest degree is left over."""
    known = [law for law in laws if law is not None]
    if len(known) < len(laws):
        return MIXED
    return max(k for k, _ in known), len({k for k, _ in known}) == 1 and all(exact for _, exact in known)


def _agreed(laws: list[Law]) -> Law:
    known = [law for law in laws if law is not None]
    if len(known) < len(laws) or len({k for k, _ in known}) > 1:
        return MIXED
    return known[0][0], all(exact for _, exact in known)


def multiplied(a: Value, b: Value) -> Value:
    """A product of two values, entry by entry or contracted."""
    slope = product(product(a.slope, b.size), b.under) | product(product(a.size, a.under), b.slope)
    laws = {g: _summed(a.laws.get(g, (0, True)), b.laws.get(g, (0, True))) for g in dict.fromkeys([*a.laws, *b.laws])}
    return Value(product(a.size, b.size), slope, laws, doubt((a, b)), product(a.under, b.under))


def _summed(a: Law, b: Law) -> Law:
    return None if a is None or b is None else (a[0] + b[0], a[1] and b[1])


def powered(v: Value, power: Power, *, exact: bool = True) -> Value:
    """A function of degree `power`, exactly or in the limit."""
    v = settled(v)
    slope = product(raised(v.size, power - 1), v.slope) if power != 1 else v.slope
    laws: dict[int, Law] = {g: None if law is None else (law[0] * power, law[1] and (exact or law[0] == 0)) for g, law in v.laws.items()}
    return Value(raised(v.size, power), slope, laws, v.unknown)


def bounded(v: Value) -> Value:
    """A bounded function: homogeneous only where its argument does not change."""
    v = settled(v)
    laws: dict[int, Law] = {g: law if law is not None and law[0] == 0 else MIXED for g, law in v.laws.items()}
    return Value(CONSTANT, v.slope, laws, v.unknown)


def normalised(v: Value) -> Value:
    """A norm, or any quotient of degree 0: weights in which v is homogeneous cancel."""
    v = settled(v)
    slope, _ = quotient(v.slope, v.size)
    laws: dict[int, Law] = {g: None if law is None else (0, law[1]) for g, law in v.laws.items()}
    return Value(CONSTANT, slope, laws, v.unknown)


def divided(a: Value, b: Value) -> Value:
    """a/b. What all terms of b share cancels at once, the rest with what is multiplied later."""
    b = settled(b)
    laws = {g: _summed(a.laws.get(g, (0, True)), _negated(b.laws.get(g, (0, True)))) for g in dict.fromkeys([*a.laws, *b.laws])}
    slope = product(a.slope, b.size) | product(product(a.size, a.under), b.slope)
    found = Value(a.size, slope, laws, doubt((a, b)), product(a.under, b.size))
    return settled(found) if len(found.under) == 1 else found


def _negated(law: Law) -> Law:
    return None if law is None else (-law[0], law[1])


@dataclass
class Walk:
    """Walks one branch; `Rows` (in `screen.calculi.degrees.rules`) says what each op does."""

    branch: Branch
    groups: Groups
    values: dict[int, Value] = field(default_factory=dict)
    biases: dict[int, dict[int, Power]] = field(default_factory=dict)
    """Group -> bias parameter node -> power with which it joins the group's scaling."""
    late_biases: dict[int, list[int]] = field(default_factory=dict)
    """Fused weighted op -> biases that are added to its output before it is cut."""
    powers: dict[int, Power] = field(default_factory=dict)
    """Site -> the largest degree of an activation that acts on what it feeds (ReLU²: 2), where it is not 1."""

    @property
    def flow(self) -> Flow:
        """The graph's data flow."""
        return self.branch.flow

    def value(self, node: int) -> Value:
        """The value of a node of the branch or of its border."""
        if node in self.values:
            return self.values[node]
        border = self.branch.border(node)
        if border == "raw":
            return Value(single(STREAM), CONSTANT, {STREAM: (1, True)})
        if border in ("memory", "earlier"):
            return Value(single(MEMORY), CONSTANT)
        return ZERO if self._is_zero(node) else CONST

    def _is_zero(self, node: int) -> bool:
        """Made of zeros, or of nothing, by a factory."""
        return self.flow.graph.nodes[self.flow.root(node)].op in ZEROS

    def absorbed(self, value: Value, bias: int) -> Value:
        """value + bias: the bias joins each group that acts on the value, with the value's power there."""
        parameter = self.parameter_of(bias)
        laws = dict(value.laws)
        for group, law in value.laws.items():
            if law is None or law[0] == 0:
                continue
            if group == STREAM:
                laws[STREAM] = max(law[0], 0), False
                continue
            powers = self.biases.setdefault(group, {})
            if parameter is None or powers.setdefault(parameter, law[0]) != law[0]:
                laws[group] = MIXED
        return replace(value, laws=laws)

    def parameter_of(self, node: int) -> int | None:
        """The parameter behind views and slices; None when it is computed."""
        while self.flow.graph.nodes[node].op != "parameter":
            inputs = [i for i in self.flow.graph.nodes[node].inputs if self.flow.of_weights[i]]
            if self.flow.classes[node] not in ("view", "part") or not inputs:
                return None
            node = inputs[0]
        return node
