"""The abstract value of a node: bounds of its magnitude and of its directional derivative, with what else is known of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from screen.calculi.bounds.axes import Layout, _edges, atoms, plain, recast, refine, regroup, sizes
from screen.calculi.bounds.expr import Expr, add, mul, num, sym
from screen.calculi.bounds.mixed_norms import Bound, Fact, Facts, plus, query, relabel, tidy, times, zero
from screen.calculi.bounds.parts import Part
from screen.calculi.bounds.quantities import Names
from screen.structure.types import Unknown


@dataclass(frozen=True)
class Projection:
    """The value is W·x + b along `atoms`: what splitting those atoms into heads needs."""

    weight: Part
    """Axes: one per atom, then the columns."""
    bias: Part | None
    atoms: tuple[int, ...]
    magnitude: Expr | Unknown
    """2-norm of x."""
    derivative: Expr | Unknown
    factor: float = 1.0


@dataclass(frozen=True)
class Normed:
    """The value is x̂ ⊙ γ + β over its last axis with ‖x̂‖₂ <= radius: what folding γ and β into the next map needs (`arrays`)."""

    radius: float
    slope: Expr | Unknown
    """Of the 2-norm of δx̂."""
    centred: bool
    gain: Part | None = None
    bias: Part | None = None


@dataclass(frozen=True)
class Piece:
    """The value is a part [start, stop) of axis `axis` of node `node`, up to isometries along that axis."""

    node: int
    axis: int
    start: int
    stop: int
    step: int = 1


@dataclass(frozen=True)
class Value:
    """What is known of one node."""

    shape: tuple[int, ...]
    layout: Layout
    mag: Bound
    """Bounds of the value; entries of a masked value that are (nearly) −∞ are left out, see `holes`."""
    der: Bound
    """Bounds of its derivative in a direction δx with ‖δx_token‖₂ <= 1 for every token."""
    low: float = -math.inf
    high: float = math.inf
    holes: bool = False
    """Some entries may be −∞ (a mask): only a softmax may read it."""
    part: Part | None = None
    """It is this part of a parameter."""
    projection: Projection | None = None
    mixture: Projection | None = None
    """It is such a map of a convex mixture of vectors, another one for each head (and each place that the atoms leave out)."""
    piece: Piece | None = None
    after: str = ""
    """`norm`: a norm's output up to gains; `biased`: also a bias."""
    jump: int | None = None
    """The choice made from data that it depends on: it is not continuous."""
    gain: tuple[str, ...] = ()
    """Symbols of the parameters that it is made of, when it is made of weights alone."""
    normed: Normed | None = None
    operator: Expr | None = None
    """Of weights that are computed: a bound of the spectral norm of the matrix of the last two axes."""
    balanced: frozenset[int] = frozenset()
    """Atoms over which its entries sum to 1, so that its derivative sums to 0."""

    @property
    def flat(self) -> tuple[int, ...]:
        """Sizes of the atoms."""
        return sizes(self.layout)

    @property
    def all(self) -> frozenset[int]:
        """All atoms."""
        return frozenset(range(len(self.flat)))

    def axis(self, axis: int) -> frozenset[int]:
        """Atoms of one axis."""
        return frozenset(atoms(self.layout, axis))

    def length(self, axis: int) -> int:
        """Of one axis; of a single number 1, as torch has it."""
        return self.shape[axis] if self.shape else 1

    def norm(self, *axes: int) -> Expr | Unknown:
        """sup of the plain 2-norm over some axes."""
        along = frozenset().union(*(self.axis(a) for a in axes)) if axes else frozenset()
        return self.mag if isinstance(self.mag, Unknown) else query(self.mag, self.flat, along)

    def slope(self, *axes: int) -> Expr | Unknown:
        """The same of the derivative."""
        along = frozenset().union(*(self.axis(a) for a in axes)) if axes else frozenset()
        return self.der if isinstance(self.der, Unknown) else query(self.der, self.flat, along)

    def bare(self) -> Value:
        """Without what only holds for the value as it stands."""
        return replace(
            self, part=None, projection=None, mixture=None, piece=None, after="", gain=(), normed=None, balanced=frozenset(), operator=None
        )


def unknown(shape: tuple[int, ...], reason: str, node: int, der: Bound | None = None) -> Value:
    """Nothing is known of it."""
    why = Unknown(reason, (node,))
    return Value(shape, plain(shape), why, why if der is None else der)


def constant(shape: tuple[int, ...], low: float, high: float) -> Value:
    """A tensor that does not depend on the input, with entries in [low, high]."""
    layout = plain(shape)
    top = max(abs(low), abs(high))
    mag: Bound = (Fact(num(top)),) if math.isfinite(top) else Unknown("a constant tensor of unknown size")
    return Value(shape, layout, mag if top else zero(len(sizes(layout))), zero(len(sizes(layout))), low, high)


def of_part(part: Part, names: Names) -> Value:
    """A part of a parameter as a value: its largest entry, its 2-norm, and the norms over its last axis."""
    layout = plain(part.sizes)
    flat = sizes(layout)
    everything = frozenset(range(len(flat)))
    rank = len(part.sizes)
    facts = [Fact(sym(names.symbol(part, "s" * rank)))]
    if flat:
        facts.append(Fact(sym(names.symbol(part, "r" * rank)), everything))
        last = frozenset(atoms(layout, -1))
        if last and last != everything:
            facts.append(Fact(sym(names.symbol(part, "s" * (rank - 1) + "r")), last))
        if last and last != everything:
            facts.append(Fact(sym(names.symbol(part, "s" * (rank - 1) + "a")), last, frozenset(), 1))
    symbols = tuple(s for f in facts for s in f.bound.symbols())
    return Value(part.sizes, layout, tuple(facts), zero(len(flat)), part=part, gain=symbols)


def reshaped(value: Value, shape: tuple[int, ...], names: Names) -> Value:
    """Another shape, same order of entries."""
    if value.part is not None and (part := value.part.viewed(shape)) is not None:
        return replace(of_part(part, names), low=value.low, high=value.high)
    wanted = sizes(plain(shape))
    new = refine(value.flat, wanted)
    return recut(value, regroup(new, shape), shape, names)


def recut(value: Value, layout: Layout, shape: tuple[int, ...], names: Names) -> Value:
    """The same entries on other atoms; a projection that is cut into heads gains its per-head facts."""
    old, new = value.flat, sizes(layout)
    if layout == value.layout and shape == value.shape:
        return value
    made = replace(
        value.bare(), shape=shape, layout=layout, mag=recast(value.mag, old, new), der=recast(value.der, old, new), after=value.after,
        gain=value.gain,
        normed=value.normed if shape and shape[-1:] == value.shape[-1:] else None, balanced=value.balanced if old == new else frozenset(),
        mixture=None if value.mixture is None else _follow(value.mixture, old, new),
    )
    if value.projection is None:
        return made
    moved = _follow(value.projection, old, new)
    return made if moved is None else with_projection(made, moved, names)


def _follow(projection: Projection, old: tuple[int, ...], new: tuple[int, ...]) -> Projection | None:
    """The projection on refined atoms; None when one of its atoms was merged with others."""
    have, want = _edges(old)[::-1], _edges(new)[::-1]
    weight, bias = projection.weight, projection.bias
    found: list[int] = []
    for position, atom in reversed(list(enumerate(projection.atoms))):
        top, bottom = have[atom], have[atom + 1]
        if top not in want or bottom not in want:
            return None
        first, last = want.index(top), want.index(bottom)
        parts = tuple(new[first:last])
        weight = weight.split(position, parts)
        bias = bias.split(position, parts) if bias is not None else None
        found[:0] = range(first, last)
    return replace(projection, weight=weight, bias=bias, atoms=tuple(found))


def with_projection(value: Value, projection: Projection, names: Names) -> Value:
    """Facts of W·x + b along its atoms: ‖W‖M + ‖b‖; per entry the largest row; per head the largest head, and the root of the sum of squares."""
    return replace(value, mag=_renewed(value.mag, projection, names, value.flat, True), der=_renewed(value.der, projection, names, value.flat, False),
                   projection=projection)


def _renewed(bound: Bound, projection: Projection, names: Names, flat: tuple[int, ...], magnitude: bool) -> Bound:
    """Facts along the projection's atoms alone are replaced: those of more rows can only be larger."""
    made = _rows(projection, names, magnitude)
    if isinstance(bound, Unknown) or not made:
        return bound
    own = frozenset(projection.atoms)
    return tidy((*made, *(f for f in bound if f.p == 1 or not f.inner | f.outer <= own)), flat)


def _rows(p: Projection, names: Names, magnitude: bool) -> Facts:
    """√Σ_h(‖W_h‖M+‖b_h‖)² <= √Σ_h‖W_h‖²·M + ‖b‖ (Minkowski)."""
    size = p.magnitude if magnitude else p.derivative
    if isinstance(size, Unknown):
        return ()
    count = len(p.atoms)
    cuts = [("r" * count, frozenset(p.atoms), frozenset[int]()), ("s" * count, frozenset[int](), frozenset[int]())]
    if count > 1:
        cuts.append(("s" * (count - 1) + "r", frozenset(p.atoms[-1:]), frozenset[int]()))
    if count == 2:
        cuts.append(("hr", frozenset(p.atoms[1:]), frozenset(p.atoms[:1])))
    facts = []
    for roles, inner, outer in cuts:
        bound = mul(sym(names.symbol(p.weight, roles + "c" * (len(p.weight.sizes) - count))), size)
        if magnitude and p.bias is not None:
            bound = add(bound, sym(names.symbol(p.bias, roles.replace("h", "r"))))
        facts.append(Fact(mul(num(abs(p.factor)), bound), inner, outer))
    return tuple(facts)


def permuted(value: Value, order: tuple[int, ...]) -> Value:
    """Axes in another order."""
    order = tuple(o % max(len(value.shape), 1) for o in order)
    layout = tuple(value.layout[o] for o in order)
    where = [a for o in order for a in atoms(value.layout, o)]
    names = {old: new for new, old in enumerate(where)}
    part = value.part.permuted(order) if value.part is not None else None
    return replace(
        value,
        shape=tuple(value.shape[o] for o in order),
        layout=layout,
        mag=relabel(value.mag, names),
        der=relabel(value.der, names),
        projection=renamed(value.projection, names),
        mixture=renamed(value.mixture, names),
        piece=None,
        part=part,
        normed=None,
        operator=value.operator if set(order[-2:]) == {len(order) - 2, len(order) - 1} else None,
        balanced=frozenset(names[a] for a in value.balanced),
    )


def renamed(projection: Projection | None, names: Mapping[int, int]) -> Projection | None:
    """A projection whose atoms stand elsewhere; None where one is lost."""
    if projection is None or any(a not in names for a in projection.atoms):
        return None
    return replace(projection, atoms=tuple(names[a] for a in projection.atoms))


def scaled(value: Value, factor: float) -> Value:
    """factor · value."""
    size = num(abs(factor))
    ends = sorted((value.low * factor, value.high * factor)) if factor else [0.0, 0.0]
    maps = (None if p is None else replace(p, factor=p.factor * factor) for p in (value.projection, value.mixture))
    projection, mixture = maps
    return replace(
        value, mag=times(value.mag, size), der=times(value.der, size), low=ends[0], high=ends[1], projection=projection, mixture=mixture, part=None,
        piece=value.piece if abs(factor) == 1.0 else None, normed=_scaled(value.normed, factor), balanced=frozenset(),
        operator=mul(num(abs(factor)), value.operator) if value.operator is not None else None,
    )


def _scaled(normed: Normed | None, factor: float) -> Normed | None:
    """factor · (x̂ ⊙ γ), read as (factor · x̂) ⊙ γ; with a bias it is let go."""
    if normed is None or normed.bias is not None or not factor or isinstance(normed.slope, Unknown):
        return None
    return replace(normed, radius=normed.radius * abs(factor), slope=mul(num(abs(factor)), normed.slope))


def spread_of(value: Value, names: Names) -> Bound:
    """Facts of the value up to a constant: of W·x + b those of W·x."""
    if value.projection is None:
        return value.mag
    return _renewed(value.mag, replace(value.projection, bias=None), names, value.flat, True)


def summed(left: Value, right: Value) -> Value:
    """left + right, on equal layouts; ValueError on others."""
    if left.layout != right.layout:
        raise ValueError(f"a sum on different atoms: {left.layout} and {right.layout}")
    flat = left.flat
    return replace(
        left.bare(),
        mag=plus(left.mag, right.mag, flat),
        der=plus(left.der, right.der, flat),
        low=left.low + right.low,
        high=left.high + right.high,
        jump=left.jump if left.jump is not None else right.jump,
    )

