"""What the reader of a branch knows of each node while it writes the steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from screen.calculi.meanfield.activation_kernels import Kernel, kernel
from screen.calculi.meanfield.lower.axes import Layout
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.stop import Stop
from screen.calculi.meanfield.transfer import Entrywise, Step, Stretch

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Turn:
    """A value times an angle table: one half of a rotation."""

    kind: str
    """`cos`, `sin`, or `table` when its numbers are not in the graph."""
    source: int
    """The node of the angles; of a table the table itself."""
    factor: float = 1.0
    """A number that multiplies cosines and sines alike."""


@dataclass(frozen=True)
class Value:
    """The entries of a slot, with an entry-wise function that has not been applied yet."""

    slot: int
    layout: Layout
    roots: frozenset[int]
    """Sources of randomness: values without a common one are independent."""
    gaussian: bool = True
    bent: frozenset[int] = frozenset()
    """Of the roots those that it depends on by more than a linear form (see `forms`): a function, a product, entries moved or taken."""
    moved: bool = False
    """Its entries stand at other places than those of its roots (rolled, flipped)."""
    common: bool = False
    """The same at all tokens of a sequence, and stored once."""
    factor: float = 1.0
    """A number that multiplies the slot, before any function."""
    learned: tuple[int, int] | None = None
    """Of a learned weight that the factor starts at: its entries, and the features that they multiply."""
    function: Function | None = None
    name: str = ""
    """Of the function where it is one of the table."""
    whole: int | None = None
    """The slot that this is a part of."""
    share: float = 1.0
    turn: Turn | None = None

    def times(self, number: float, learned: tuple[int, int] | None = None) -> Value:
        """This value times a number, or times a learned weight that starts at it; one that multiplies what a function makes is not kept."""
        if self.function is None:
            return replace(self, factor=self.factor * number, learned=learned or self.learned)
        before = self.function
        return replace(self, function=lambda x: number * before(x), name="")

    def through(self, outer: Function, name: str = "") -> Value:
        """An entry-wise function of this value."""
        if self.function is None and self.factor == 1.0:
            return replace(self, function=outer, name=name, learned=None)
        inner = self.whole_function()
        return replace(self, factor=1.0, function=lambda x: outer(inner(x)), name="", learned=None)

    def whole_function(self) -> Function:
        """The value as a function of its slot."""
        factor = self.factor
        return self.function or (lambda x: factor * x)


@dataclass(frozen=True)
class Places:
    """τ·q·p with rows p of a table of relative positions: a part of the logits."""

    query: Value
    square: float
    """τ²·d_h·δ_p."""


@dataclass(frozen=True)
class Logits:
    """τ·q·k before or (as `rows`) after the softmax."""

    query: Value
    key: Value
    width: int
    scale: float
    heads: int
    masked: bool = False
    rows: bool = False
    cap: float = 0.0
    """c of c·tanh(u): a cap on the logits; 0 without one."""
    places: tuple[Places, ...] = ()
    within: float = math.inf
    """Where they are cut off."""
    layout: Layout = ()
    """That of the query without its features, and the tokens of the keys; empty where a view has moved them in a way without a row."""
    sink: str = ""
    """At which end a learned logit stands beside those of the keys, until its share of the rows is dropped: `first` or `last`."""

    def times(self, number: float) -> Logits:
        """These logits times a number."""
        within = self.within * abs(number) if number else self.within
        if self.cap:
            return replace(self, cap=self.cap * number, within=within)
        return replace(self, scale=self.scale * number, within=within, places=tuple(replace(p, square=p.square * number**2) for p in self.places))


@dataclass(frozen=True)
class Largest:
    """The largest logit of each row."""

    logits: Logits


@dataclass(frozen=True)
class Routed:
    """What a router makes of the logits of each token: an array that is computed on a sample of logits."""

    slot: int
    """Of the logits."""
    node: int
    """Whose array it is."""
    rest: tuple[int, ...] | None
    """Its shape behind the tokens; None where tokens and choices stand in one axis."""
    picks: int | None = None
    """The node that says which experts its entries belong to; None where there is one entry for each expert."""


@dataclass(frozen=True)
class Spectrum:
    """A discrete Fourier transform of a real value."""

    value: Value
    axes: frozenset[int]
    """Along which it was taken."""


@dataclass(frozen=True)
class Pairs:
    """Complex numbers whose real and imaginary parts are the two entries of pairs of features."""

    value: Value
    """The pairs as real entries; its last axis holds the two."""


@dataclass(frozen=True)
class Order:
    """Places of tokens by the experts that were chosen for them."""

    slot: int


@dataclass(frozen=True)
class Weighted:
    """Outputs of experts times their gates, before they are summed up."""

    value: Value
    routed: Routed
    whole: bool
    """Of all experts together (one weight with an axis for them); else of one of them."""


@dataclass(frozen=True)
class Partial:
    """The sum over some experts."""

    routed: Routed | None
    slots: tuple[int, ...]
    """Their outputs."""
    taken: tuple[int, int] | None = None
    """Of `y[places] += …`: the nodes of y and of the places; None for all rows."""


@dataclass
class Writer:
    """Steps as they are written."""

    steps: list[Step] = field(default_factory=list)
    size: int = 1
    made: dict[tuple[int, str], int] = field(default_factory=dict)
    """(slot, function) -> slot, so that one function is applied once."""
    given: list[tuple[int, Moments]] = field(default_factory=list)
    """Slots that are filled from elsewhere."""
    signs: bool = False
    """Whether a minus counts: where values that have something in common are added."""

    def slot(self) -> int:
        """A new slot."""
        self.size += 1
        return self.size - 1

    def settled(self, value: Value) -> Value:
        """The same value with its function applied."""
        if value.function is None:
            return self._stretched(value)
        key = (value.slot, value.name or f"#{id(value.function)}")
        if key not in self.made:
            self.made[key] = self.slot()
            made = kernel(value.name) if value.name else Kernel("composed", value.function, {})
            self.steps.append(Entrywise(value.slot, self.made[key], made))
        return replace(value, slot=self.made[key], function=None, name="", gaussian=False, bent=value.roots, whole=None)

    def _stretched(self, value: Value) -> Value:
        even = value.factor == -1.0 and value.gaussian and not self.signs  # a Gaussian is as likely as its negative
        if (value.factor == 1.0 or even) and value.learned is None:
            return replace(value, factor=1.0)
        key = (value.slot, f"times {value.factor!r} {value.learned}")
        if key not in self.made:
            self.made[key] = self.slot()
            self.steps.append(Stretch(value.slot, self.made[key], value.factor, *(value.learned or ())))
        return replace(value, slot=self.made[key], factor=1.0, whole=None, learned=None)


__all__ = [
    "Function", "Largest", "Logits", "Order", "Pairs", "Partial", "Places", "Routed", "Spectrum", "Stop", "Turn", "Value", "Weighted", "Writer",
]  # fmt: skip
