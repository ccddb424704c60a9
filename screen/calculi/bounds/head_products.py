"""Norms of products of two maps head by head, where the data flow multiplies them without anything in between (T5, T10).

**Logits.** q_h = A_h x + a_h and k_h = C_h y + c_h for vectors x, y of norm at most r and s:
q_h·k_h = xᵀA_hᵀC_h y + xᵀA_hᵀc_h + a_hᵀC_h y + a_h·c_h, so

    |q·k|  <=  max_h ‖A_hᵀC_h‖ r s + max_h ‖A_hᵀc_h‖ r + max_h ‖C_hᵀa_h‖ s + max_h |a_h·c_h|

and where x moves by δr and y by δs, it moves by at most (max_h ‖A_hᵀC_h‖ s + max_h ‖A_hᵀc_h‖) δr + (max_h ‖A_hᵀC_h‖ r + max_h ‖C_hᵀa_h‖) δs.
Never more than with ‖A_h‖‖C_h‖. A rotation by the position stands between the two maps where positions are rotary, another one for each distance
of the tokens: there is no such product then, and none is taken.

**Values.** Rows of attention are convex, so that head h gives A_h z_h + a_h with ‖z_h‖ <= r, and W_O makes Σ_h W_h A_h z_h + W_O a + b of
that, with one constant, as rows sum to 1. With z_h in units of 1/‖A_h‖ and Cauchy-Schwarz over heads

    ‖Σ_h W_h A_h z_h‖  <=  ‖[W_1 A_1/‖A_1‖, …, W_H A_H/‖A_H‖]‖ √(Σ_h ‖A_h‖²) r  <=  ‖W_O‖ √(Σ_h ‖A_h‖²) r

Arrays are small: AᵀC = Q R (Q' R')ᵀ by Aᵀ = Q R and Cᵀ = Q' R', and Q has orthonormal columns, so that R R'ᵀ, of the size of a head, has the same
norm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from screen.calculi.bounds.arrays import Fold, vector_of
from screen.calculi.bounds.expr import Expr, add, mul, num, sym
from screen.calculi.bounds.mixed_norms import Bound, Fact, Facts
from screen.calculi.bounds.parts import Made, Part, Symbols, dense, said
from screen.calculi.bounds.quantities import Names
from screen.calculi.bounds.value import Projection
from screen.structure.types import Unknown

if TYPE_CHECKING:
    import numpy


@dataclass(frozen=True)
class Two(Made):
    """A product of two parts, head by head: `matrix` [heads …, rows, (columns)] first."""

    other: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        """Both."""
        return (self.matrix, self.other)

    @property
    def factors(self) -> tuple[Part, ...]:
        """Both."""
        return self.parts

    @property
    def first(self) -> str:
        """The first without its name."""
        return said(self.matrix).removeprefix(self.matrix.parameter).strip()


@dataclass(frozen=True)
class Logit(Two):
    """A_hᵀC_h by R_h R'_hᵀ; a_hᵀC_h by R'_h a_h; a_h·c_h. Of matrices [heads …, rows, columns], vectors [heads …, rows]."""

    heads: int = 0
    """Axes of heads."""

    @property
    def told(self) -> str:
        """After the name of the first."""
        return f"{self.first} (transposed) times {said(self.other)}, by heads".strip()

    def array(self, weights: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """[heads …], then for each matrix one axis."""
        import numpy as np

        left, right = (_small(p.read(weights), self.heads) for p in self.parts)  # [heads …, n, rows]
        made: numpy.ndarray = left @ np.swapaxes(right, -1, -2)
        lost = tuple(a for a, p in ((-2, self.matrix), (-1, self.other)) if len(p.sizes) == self.heads + 1)
        return np.squeeze(made, lost)

    def slack(self, weights: Mapping[str, numpy.ndarray]) -> float:
        """Rounding of what cancels."""
        import numpy as np

        return 1e-13 * math.prod(float(np.linalg.norm(p.read(weights))) for p in self.parts) + sum(_slack(p, weights, q) for p, q in self._pairs)

    @property
    def _pairs(self) -> tuple[tuple[Part, Part], ...]:
        return ((self.matrix, self.other), (self.other, self.matrix))

    def plainly(self, part: Part, roles: str, names: Symbols) -> Expr:
        """The product of the largest norms of a head."""
        lead = "s" * self.heads
        return mul(*(sym(names.symbol(p, lead + ("rc" if len(p.sizes) > self.heads + 1 else "r"))) for p in self.parts))


@dataclass(frozen=True)
class Through(Two):
    """√(Σ‖A_h‖²) [W_1 R_1ᵀ/‖A_1‖, …]: W [out, heads …, rows] first, A [heads …, rows, columns]."""

    @property
    def told(self) -> str:
        """After the name of the first."""
        return f"{self.first} times {said(self.other)}, by heads: each over its norm, times the root of the sum of their squares".strip()

    def array(self, weights: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """[out, heads · n]."""
        import numpy as np

        heads = len(self.other.sizes) - 2
        small = _small(self.other.read(weights), heads).reshape(-1, *_small_sizes(self.other))  # [heads, n, rows]
        size = np.linalg.norm(small, 2, axis=(-2, -1))
        out = self.matrix.read(weights).reshape(self.matrix.sizes[0], len(small), -1)  # [out, heads, rows]
        unit = small / np.where(size > 0, size, 1.0)[:, None, None]
        made: numpy.ndarray = np.einsum("ohr,hnr->ohn", out, unit).reshape(len(out), -1)
        made *= np.linalg.norm(size)
        return made

    def slack(self, weights: Mapping[str, numpy.ndarray]) -> float:
        """Rounding of what cancels."""
        import numpy as np

        size = float(np.linalg.norm(self.matrix.read(weights)))
        return size * (1e-13 * float(np.linalg.norm(self.other.read(weights))) + _slack(self.other, weights))

    def plainly(self, part: Part, roles: str, names: Symbols) -> Expr:
        """‖W‖ (its largest row) times √(Σ‖A_h‖²)."""
        flat = self.matrix.viewed((self.matrix.sizes[0], math.prod(self.matrix.sizes[1:])))
        first = names.symbol(flat, roles) if flat is not None else names.symbol(self.matrix, roles[0] + "c" * (len(self.matrix.sizes) - 1))
        return mul(sym(first), sym(names.symbol(self.other, "h" * (len(self.other.sizes) - 2) + "rc")))


def _slack(part: Part, weights: Mapping[str, numpy.ndarray], by: Part | None = None) -> float:
    """What rounding leaves of a folded part, times the size of the other."""
    import numpy as np

    lost = 0.0 if part.fold is None else part.fold.slack(weights)
    return lost * (1.0 if by is None or not lost else float(np.linalg.norm(by.read(weights))))


def _small(w: numpy.ndarray, heads: int) -> numpy.ndarray:
    """R of Aᵀ = Q R for each head, [heads …, n, rows] with n = min(columns, rows); of a vector [heads …, 1, rows]."""
    import numpy as np

    if w.ndim == heads + 1:
        return w[..., None, :]
    turned: numpy.ndarray = np.swapaxes(w, -1, -2)
    return turned if turned.shape[-2] <= turned.shape[-1] else np.asarray(np.linalg.qr(turned, mode="r"))


def _small_sizes(part: Part) -> tuple[int, int]:
    rows, columns = part.sizes[-2:]
    return min(rows, columns), rows


# -- facts ----------------------------------------------------------------------------------------------------------------------------


def logit_facts(
    q: Projection, k: Projection, labels: tuple[list[int], list[int]], contracted: frozenset[int], names: Names
) -> tuple[Facts, Bound] | None:
    """(magnitude, derivative) of the entries of q·k, where both are maps cut into the same heads along the axis that is summed; else None. Keys
    that several heads of queries share are repeated. `labels`: of the atoms of each projection."""
    mine, theirs = labels
    if not mine or not theirs or {mine[-1]} != contracted or theirs[-1] != mine[-1] or not set(theirs) <= set(mine):
        return None
    if not _is_free(q, names) or not _is_free(k, names) or isinstance(q.magnitude, Unknown) or isinstance(k.magnitude, Unknown):
        return None
    heads = len(mine) - 1
    weights = (q.weight, repeated(k.weight, theirs, mine, q.weight))
    biases = (q.bias, None if k.bias is None else repeated(k.bias, theirs, mine, q.weight))

    def norm(a: Part | None, b: Part | None) -> Expr:
        return num(0.0) if a is None or b is None else _named(a, b, heads, names)

    both, left, right, rest = norm(*weights), norm(biases[1], weights[0]), norm(biases[0], weights[1]), norm(*biases)
    factor = num(abs(q.factor * k.factor))
    size = mul(factor, add(mul(both, q.magnitude, k.magnitude), mul(left, q.magnitude), mul(right, k.magnitude), rest))
    if isinstance(q.derivative, Unknown):
        return (Fact(size),), q.derivative
    if isinstance(k.derivative, Unknown):
        return (Fact(size),), k.derivative
    slope = add(mul(q.derivative, add(mul(both, k.magnitude), left)), mul(k.derivative, add(mul(both, q.magnitude), right)))
    return (Fact(size),), (Fact(mul(factor, slope)),)


def _is_free(x: Projection, names: Names) -> bool:
    """Whether a map is of weights that may be anything: of others more may be known than that a product of theirs has a norm."""
    return len(x.weight.sizes) == len(x.atoms) + 1 and all(p is None or _free(p, names) for p in (x.weight, x.bias))


def _free(part: Part, names: Names) -> bool:
    parts = (part,) if part.fold is None else part.fold.parts if isinstance(part.fold, Fold) else ()
    return bool(parts) and all(p.fold is None and p.parameter not in names.buffers for p in parts)


def _named(a: Part, b: Part, heads: int, names: Names) -> Expr:
    """max over heads of the norm of the product."""
    rows = a.sizes[heads]
    ends = tuple(min(p.sizes[-1], rows) for p in (a, b) if len(p.sizes) > heads + 1)
    made = dense(a, (*a.sizes[:heads], *ends), Logit(a, b, heads))
    return sym(names.symbol(made, "s" * heads + "rc"[: len(ends)]))


def repeated(part: Part, have: list[int], want: list[int], like: Part) -> Part:
    """With an axis of stride 0 for each label that is missing."""
    for place, label in enumerate(want):
        if label not in have:
            part = part.inserted(place)
            part = replace(part, sizes=(*part.sizes[:place], like.sizes[place], *part.sizes[place + 1 :]))
    return part


def through(
    weight: Part, bias: Part | None, x: Projection, want: tuple[int, ...], sizes: tuple[int, ...], rows: tuple[int, ...], names: Names
) -> Facts | None:
    """Facts of W (A z + a) + b over `rows`, where x is A z + a with another z for each head; `want`: the atoms of what W reads, of `sizes`."""
    cut = weight.split(1, sizes) if len(sizes) > 1 else weight
    if isinstance(x.magnitude, Unknown) or not set(x.atoms) <= set(want) or x.atoms[-1:] != want[-1:]:
        return None
    if not _is_free(x, names) or not _free(weight, names) or (x.bias is not None and x.factor != 1.0):
        return None
    like = replace(cut, sizes=cut.sizes[1:], strides=cut.strides[1:])
    inner = repeated(x.weight, list(x.atoms), list(want), like)
    shift = None if x.bias is None else repeated(x.bias, list(x.atoms), list(want), like)
    flat = None if shift is None else shift.viewed((math.prod(sizes),))
    constant = bias if flat is None else vector_of(weight, flat, bias)
    made = dense(weight, (weight.sizes[0], math.prod(sizes[:-1]) * _small_sizes(inner)[0]), Through(cut, inner))
    found = []
    for roles, along in (("rc", frozenset(rows)), ("sc", frozenset[int]())):
        terms = [mul(num(abs(x.factor)), sym(names.symbol(made, roles)), x.magnitude)]
        if constant is not None:
            terms.append(sym(names.symbol(constant, roles[0])))
        if shift is not None and flat is None:
            terms.append(mul(sym(names.symbol(weight, roles)), sym(names.symbol(shift, "r" * len(shift.sizes)))))
        found.append(Fact(add(*terms), along))
    return tuple(found)


__all__ = ["Logit", "Through", "logit_facts", "through"]
