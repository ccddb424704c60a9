"""θ(p) = 4 max_S p(S)(1 − p(S)): how evenly a row of attention can be cut in two (Emadi, definition 4.1, theorem 4.2; T1).

The softmax Jacobian at p has ∞→1 norm θ(p)/τ. Finding the best S is the subset-sum problem; the cases below are numbered and the
code refers to the numbers.

1. p_max ≥ ½: the largest entry against all others is the best cut, θ = 4 p_max(1 − p_max). Exact. (Any S that holds the largest entry
   has p(S) ≥ p_max ≥ ½, and t(1 − t) falls on [½, 1].)
2. At most `EXACT_UP_TO` entries other than zero: meet in the middle, O(2^(L/2) L). Exact up to rounding.
3. Else an interval [low, 1] with low the largest of
   a. 8/9 (T1: if every entry is below ⅓, add entries until the sum reaches ⅓, it is at most ⅔; an entry in [⅓, ½) is such a sum by
      itself; and t(1 − t) ≥ 2/9 on [⅓, ⅔]),
   b. 1 − p_max² (T1: putting the entries, largest first, on the lighter side leaves a difference of at most p_max),
   c. 1 − δ², δ the difference that the method of Karmarkar and Karp leaves: its cut is a real cut, and 4t(1 − t) = 1 − (2t − 1)².

Units: none. A row must be non-negative and sum to 1 within `SUM_TOLERANCE`; it is divided by its sum.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

EXACT_UP_TO = 32
"""Longest row that is cut exactly by meet in the middle (2 · 2^16 sums, about 10 ms)."""
SUM_TOLERANCE = 1e-2
"""How far from 1 the sum of a row may be: rows in bfloat16 miss it by a few parts in a thousand."""
CLOSE_ENOUGH = 1e-6
"""Where 1 − p_max² is already this near to 1, no cut is searched."""

Method = Literal["one entry", "meet in the middle", "greedy", "Karmarkar-Karp", "largest entry"]


@dataclass(frozen=True)
class Interval:
    """low ≤ θ ≤ high; `exact` when both are the value itself (up to rounding)."""

    low: float
    high: float
    exact: bool
    method: Method


def theta(row: ArrayLike) -> Interval:
    """θ of one row of attention, exact or certified (the three cases above).

    Raises ValueError for an empty row, a negative entry, or a sum that is not 1.
    """
    p = _row(row)
    largest = float(p.max())
    if largest >= 0.5:  # case 1
        value = 4 * largest * (1 - largest)
        return Interval(value, value, True, "one entry")
    if p.size <= EXACT_UP_TO:  # case 2
        value = 1 - _smallest_difference(p) ** 2
        return Interval(value, value, True, "meet in the middle")
    low = max(8 / 9, 1 - largest**2)  # cases 3a, 3b
    cut = 0.0 if 1 - low <= CLOSE_ENOUGH else 1 - karmarkar_karp(p) ** 2  # case 3c
    return Interval(cut, 1.0, False, "Karmarkar-Karp") if cut > low else Interval(low, 1.0, False, "greedy")


def theta_from_largest(largest: float) -> Interval:
    """T1: what the largest entry alone says about θ, in O(1).

    p_max ≥ ½: θ = 4 p_max(1 − p_max). Else max(8/9, 1 − p_max²) ≤ θ ≤ 1. Hence θ < 8/9 if and only if p_max > ⅔.
    """
    if not 0 < largest <= 1:
        raise ValueError(f"`largest` must be the largest entry of a row: required 0 < largest <= 1, found {largest}")
    if largest >= 0.5:
        value = 4 * largest * (1 - largest)
        return Interval(value, value, True, "largest entry")
    return Interval(max(8 / 9, 1 - largest**2), 1.0, False, "largest entry")


def is_below_eight_ninths(largest: float) -> bool:
    """T1: θ(p) < 8/9 if and only if p_max > ⅔."""
    return theta_from_largest(largest).high < 8 / 9


def theta_top_k(k: int) -> float:
    """θ of a uniform row on k tokens, 1 − (1 − 2⌊k/2⌋/k)²: 1 for even k, 1 − 1/k² for odd k (Emadi, corollary 4.3, parts 1 and 4).

    Part 1 of the corollary says 1 for every length; its own proof has 1 − 1/L² for odd L.
    """
    if k < 1:
        raise ValueError(f"`k` counts tokens: required k >= 1, found {k}")
    return 1 - (1 - 2 * (k // 2) / k) ** 2


def theta_peaked(rest: float) -> float:
    """θ = 4κ(1 − κ) of a row whose largest entry is 1 − κ, for κ ≤ ½ (Emadi, corollary 4.3, part 3, corrected).

    The paper states the upper bound for every κ. For κ > ½ it is false: (.4, .1, .4, .1) has κ = .6, 4κ(1 − κ) = .96 and θ = 1.
    """
    if not 0 <= rest <= 0.5:
        raise ValueError(f"`rest` is what the largest entry leaves: required 0 <= rest <= 1/2, found {rest} (above 1/2 the formula is no bound)")
    return 4 * rest * (1 - rest)


def row_entropy(row: ArrayLike) -> float:
    """−Σ p ln p of one row, in nats: 0 for one entry, ln L for a uniform row. θ stays near 1 where the entropy has long fallen."""
    p = _row(row)
    return float(-(p * np.log(p)).sum()) + 0.0


def karmarkar_karp(row: ArrayLike) -> float:
    """Difference of the two sides of the cut by largest differencing: at least the smallest possible one, so 1 − δ² ≤ θ.

    The two largest numbers are put on opposite sides, that is, replaced by their difference, until one number is left.
    """
    heap = [-float(value) for value in np.asarray(row, dtype=np.float64).ravel()]
    heapq.heapify(heap)
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, first - second)
    return -heap[0]


def _row(row: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(row, dtype=np.float64).ravel()
    if p.size == 0 or not np.isfinite(p).all() or (p < 0).any():
        raise ValueError(f"a row of attention: required at least one entry, all finite and >= 0, found {p[:8]}{' ...' if p.size > 8 else ''}")
    total = math.fsum(p)
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"a row of attention: required a sum of 1 within {SUM_TOLERANCE}, found {total}")
    return np.asarray(p[p > 0] / total, dtype=np.float64)


def _smallest_difference(p: NDArray[np.float64]) -> float:
    """min over S of |2 p(S) − 1|, by meet in the middle over the sums of two halves."""
    left, right = _sums(p[: p.size // 2]), np.sort(_sums(p[p.size // 2 :]))
    wanted = 0.5 - left
    above = np.searchsorted(right, wanted).clip(0, right.size - 1)
    below = (above - 1).clip(0)
    nearest = np.minimum(np.abs(right[above] - wanted), np.abs(right[below] - wanted))
    return 2 * float(nearest.min())


def _sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums
