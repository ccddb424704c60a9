"""What the symbols of a bound stand for: norms of (parts of) parameters, as numbers once weights are known.

A part of a parameter is a strided view of it (offset, sizes, strides: slices of fused weights, transposes, heads), whose axes play roles:

    r, c    rows and columns of a matrix, of which the spectral norm is taken (no c: the plain 2-norm of a vector)
    s       the largest over this axis          h    root of the sum of squares over this axis
    a       the sum of |entries| over this axis  t    the sum over this axis (taps of a filter)

    value = Σ_t √( Σ_h ( max_s ‖part‖_{r × c} )² ),  or with `a`:  max_s Σ_a |entry|
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from screen.calculi.bounds.parts import Part
from screen.graph import Graph
from screen.structure.initial.laws import starting_value_of, starting_values_of

if TYPE_CHECKING:
    import numpy

    from screen.calculi.bounds.expr import Expr

Kind = Literal["spectral", "head_rss", "max_abs", "frobenius", "l2", "row_max", "row_l1", "taps", "max_exp"]
"""spectral: max_s ‖W‖₂; head_rss: √Σ_h ‖W_h‖₂²; max_abs: max |w|; frobenius, l2: √Σ w²; row_max: max_row √Σ_c w²; row_l1: max_row Σ_c |w|;
taps: Σ over the taps of a filter of the norm of its matrix; max_exp: max exp(w)."""


@dataclass(frozen=True)
class Quantity:
    """One symbol of a bound: a norm of a part of a parameter (formula in the module)."""

    symbol: str
    kind: Kind
    part: Part
    roles: str
    """One letter per axis of the part."""

    @property
    def parameter(self) -> str:
        """Name of the parameter."""
        return self.part.parameter

    @property
    def heads(self) -> int | None:
        """Number of heads that are summed over."""
        found = math.prod(n for n, r in zip(self.part.sizes, self.roles, strict=True) if r == "h")
        return found if "h" in self.roles else None

    @property
    def slices(self) -> str:
        """Where the part stands in a matrix of which it is not all: `[0:8]` rows, `[:, 0:8]` columns, `[0:8, 4:8]`; `[…]` where it is no block."""
        part = self.part
        if len(part.whole) != 2 or math.prod(part.sizes) == math.prod(part.whole):
            return ""
        (top, left), (bottom, right) = (divmod(i, part.whole[1]) for i in (part.offset, part.last))
        if (bottom - top + 1) * (right - left + 1) != math.prod(part.sizes):
            return "[…]"
        rows, columns = f"{top}:{bottom + 1}", f"{left}:{right + 1}"
        if (left, right + 1) == (0, part.whole[1]):
            return f"[{rows}]"
        return f"[{':' if (top, bottom + 1) == (0, part.whole[0]) else rows}, {columns}]"

    @property
    def at_one(self) -> float:
        """The number where every entry of the parameter is one; 1 for what is made of several parameters."""
        if self.part.fold is not None:
            return 1.0
        each = {role: math.prod(n for n, r in zip(self.part.sizes, self.roles, strict=True) if r == role) for role in "tharc"}
        entries = each["r"] * each["c"]
        found = each["a"] * entries if "a" in self.roles else each["t"] * math.sqrt(each["h"] * entries)
        return math.e if self.kind == "max_exp" else float(found)

    def measure(self, weight: numpy.ndarray) -> float:
        """The number, from the parameter's value, for a quantity of one parameter."""
        return self.of({self.parameter: weight})

    def of(self, weights: Mapping[str, numpy.ndarray]) -> float:
        """The number, from the parameters by name. A relative error of 1e-12 of the SVD is added, so that the result is an upper bound."""
        import numpy as np

        part = self.part.read(weights)
        if self.kind == "max_exp":
            return float(np.exp(part).max())
        order = sorted(range(len(self.roles)), key=lambda i: "thsarc".index(self.roles[i]))
        names = "".join(self.roles[i] for i in order)
        sizes = [math.prod(self.part.sizes[i] for i in order if self.roles[i] == role) for role in "thsarc"]
        grid = np.transpose(part, order).reshape(sizes)  # [t, h, s, a, r, c]
        if "a" in names:
            return float(np.abs(grid).sum(axis=(3, 4, 5)).max())
        matrices = grid[:, :, :, 0]
        norms = np.sqrt((matrices**2).sum((-1, -2))) if 1 in sizes[4:] else np.linalg.norm(matrices, 2, axis=(-2, -1))
        rounding = self.part.fold.slack(weights) if self.part.fold is not None else 0.0
        return float(np.sqrt((norms.max(2) ** 2).sum(1)).sum(0)) * (1 + 1e-12) + rounding


def normal(part: Part, roles: str) -> tuple[Part, str]:
    """Without axes of size 1, and with neighbours of one role joined where strides allow it."""
    sizes: list[int] = []
    strides: list[int] = []
    kept = ""
    for n, s, role in zip(part.sizes, part.strides, roles, strict=True):
        if n == 1:
            continue
        if kept and kept[-1] == role != "t" and role != "h" and strides[-1] == n * s:
            sizes[-1], strides[-1] = sizes[-1] * n, s
        else:
            sizes.append(n)
            strides.append(s)
            kept += role
    if "r" not in kept or "c" not in kept:  # a vector's 2-norm, whether it is a row or a column
        kept = kept.replace("c", "r")
    return replace(part, sizes=tuple(sizes), strides=tuple(strides)), kept


def kind_of(part: Part, roles: str, exponential: bool) -> Kind:
    """The name of a choice of roles."""
    used = {r for n, r in zip(part.sizes, roles, strict=True) if n != 1}
    if exponential:
        return "max_exp"
    if "a" in used:
        return "row_l1"
    if "t" in used:
        return "taps"
    if "h" in used:
        return "head_rss"
    if used <= {"s"}:
        return "max_abs"
    if {"r", "c"} <= used:
        return "spectral"
    return "row_max" if "s" in used else ("l2" if len(part.whole) == 1 else "frobenius")


_SUFFIX = {
    "spectral": "", "head_rss": "_rss", "max_abs": "_abs", "frobenius": "_fro", "l2": "_l2", "row_max": "_row", "row_l1": "_l1", "taps": "_taps",
}


class Names:
    """Gives symbols to quantities: `W0` for the first weight of the branch, `g0` for gains, `b0` for vectors, with a suffix for the kind of norm."""

    def __init__(self) -> None:
        self.quantities: dict[str, Quantity] = {}
        self._symbols: dict[tuple[object, ...], str] = {}
        self._bases: dict[tuple[object, ...], str] = {}
        self._taken: set[str] = set()
        self._counts: Counter[str] = Counter()
        """How many bases begin with a letter and end in a number."""
        self.coarse: dict[str, Expr] = {}
        """Symbol of a folded quantity (`arrays`) -> a bound of it in norms of single parameters."""
        self.buffers: dict[str, str] = {}
        """What is no weight and has norms beside theirs, by name: frozen parameters, buffers, other tensors that the model holds."""
        self.gains: set[str] = set()
        """Parameters that multiply entry by entry: their symbols begin with `g`."""

    def symbol(self, part: Part, roles: str, exponential: bool = False) -> str:
        """The symbol of a quantity."""
        key = (part, roles, exponential)
        found = self._symbols.get(key)
        if found is None:
            dense = (*normal(part, roles), exponential)
            found = self._symbols.get(dense) or self._new(*dense)
            self._symbols[key] = found
        return found

    def _new(self, part: Part, roles: str, exponential: bool) -> str:
        kind = kind_of(part, roles, exponential)
        base = self._base(part)
        found = base + ("_exp" if exponential else _SUFFIX[kind])
        if kind == "spectral" and "s" in {r for n, r in zip(part.sizes, roles, strict=True) if n != 1}:
            found += "_max"
        while found in self.quantities:
            found += "x"
        self._symbols[part, roles, exponential] = found
        self.quantities[found] = Quantity(found, kind, part, roles)
        coarse = part.fold.plainly(part, roles, self) if part.fold is not None else None
        if coarse is not None:
            self.coarse[found] = coarse
        return found

    def _base(self, part: Part) -> str:
        once = math.prod(n for n, step in zip(part.sizes, part.strides, strict=True) if step)  # heads that share a part of it stand there once
        rows = (part.parameter, part.offset, once, part.shift, part.fold)
        if rows not in self._bases and part.fold is not None and len(part.fold.factors) == 2:
            self._enter(rows, "".join(map(self._base, part.fold.factors)), "x")
        elif rows not in self._bases and part.fold is not None and len(part.fold.matrix.sizes) == len(part.whole):
            found = self._base(part.fold.unfolded(part)) + part.fold.letter
            self._enter(rows, found, part.fold.letter)
        elif rows not in self._bases:
            letter = "c" if part.fold is not None else "g" if part.parameter in self.gains else "W" if sum(n != 1 for n in part.whole) > 1 else "b"
            self._enter(rows, f"{letter}{self._counts[letter]}", "")
        return self._bases[rows]

    def _enter(self, rows: tuple[object, ...], base: str, letter: str) -> None:
        """A base of its own: symbols of one base are compared with each other, so that another part, or another norm before it, has another."""
        while letter and base in self._taken:
            base += letter
        self._taken.add(base)
        self._counts[base[0]] += base[-1].isdigit()
        self._bases[rows] = base


def at_start(quantity: Quantity, graph: Graph) -> float | None:
    """The number at the recorded start, of a plain norm of entries that are all one number or a short row of numbers; else None."""
    part, history = quantity.part, graph.histories.get(quantity.parameter, ())
    number, row = starting_value_of(history), starting_values_of(history, part.whole)
    if part.fold is not None or (number is None and row is None) or quantity.kind not in ("max_abs", "l2", "frobenius"):
        return None
    places = [part.offset]
    for size, stride in zip(part.sizes, part.strides, strict=True) if number is None else ():
        places = [p + k * stride for p in places for k in range(size)]
    entries = [abs((row[p] if row is not None else number or 0.0) + part.shift) for p in places]
    each = math.prod(part.sizes) if number is not None else 1  # as often as one number stands
    return max(entries) if quantity.kind == "max_abs" else math.sqrt(each * math.fsum(e * e for e in entries))


def values_of(quantities: tuple[Quantity, ...], weights: Mapping[str, numpy.ndarray]) -> dict[str, float]:
    """All numbers, from the parameters by name."""
    return {q.symbol: q.of(weights) for q in quantities}
