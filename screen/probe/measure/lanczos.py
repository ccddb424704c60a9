"""Both ends of the spectrum of a symmetric map by Lanczos from a random start, with two vectors kept: w ← A v_k − β_{k−1} v_{k−1} − α_k v_k.

No earlier vector is kept, so that eigenvalues that have converged may come again; the ends of the spectrum are right all the same (Paige 1980). An
end θ is a Rayleigh quotient, so that the largest eigenvalue is at least θ; with s the last entry of its eigenvector in the k × k matrix some
eigenvalue lies within r = β_k |s| of θ (Parlett, "The Symmetric Eigenvalue Problem", section 13.2). Power iteration takes the same products, forgets
all but the last two, and tells nothing where the two ends are of about one size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

NOTHING = 1e-6
"""Length of a new vector, over the map's size, at which rounding is all that it holds."""
Vector = list[Tensor]
"""One tensor for each weight."""


@dataclass(frozen=True)
class End:
    """One end of a spectrum."""

    value: float
    residual: float
    """Some eigenvalue lies as near as this."""
    before: float
    """The value one product earlier."""

    def has_converged(self, share: float) -> bool:
        """Whether the residual is a small share of the value."""
        return self.residual <= share * abs(self.value)


def ends(product: Callable[[Vector], Vector], start: Sequence[Tensor], most: int, share: float) -> tuple[End, End, int]:
    """(largest, smallest, products taken). It ends when the largest has converged up to a share, or when nothing is left to look at."""
    v = _scaled([t.clone() for t in start], 1 / _length(start))
    last: Vector = []
    diagonal, beside = list[float](), list[float]()
    top = bottom = End(math.nan, math.inf, math.nan)
    while len(diagonal) < most:
        w = product(v)
        diagonal.append(_dot(w, v))
        for i, t in enumerate(w):
            t.sub_(v[i], alpha=diagonal[-1])
            if last:
                t.sub_(last[i], alpha=beside[-1])
        length = _length(w)
        top, bottom = _end(diagonal, beside, length, -1, top.value), _end(diagonal, beside, length, 0, bottom.value)
        nothing_left = length <= NOTHING * max(abs(top.value), abs(bottom.value)) or not math.isfinite(length)
        if nothing_left or (top.value > 0 and top.has_converged(share)):
            break
        beside.append(length)
        last, v = v, _scaled(w, 1 / length)
    return top, bottom, len(diagonal)


def _end(diagonal: list[float], beside: list[float], length: float, which: int, before: float) -> End:
    if not all(map(math.isfinite, [*diagonal, length])):
        return End(math.nan, math.inf, before)
    t = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    for i, b in enumerate(beside):
        t[i, i + 1] = t[i + 1, i] = b
    values, vectors = torch.linalg.eigh(t)
    return End(float(values[which]), length * abs(float(vectors[-1, which])), before)


def _scaled(vector: Vector, by: float) -> Vector:
    for t in vector:
        t.mul_(by)
    return vector


def _dot(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    return math.fsum(float(torch.dot(a.flatten(), b.flatten())) for a, b in zip(one, other, strict=True))


def _length(vector: Sequence[Tensor]) -> float:
    return math.sqrt(max(_dot(vector, vector), 0.0))


__all__ = ["End", "Vector", "ends"]
