"""θ: exact cases against all subsets, certified intervals that hold, and where the prefix heuristic and the corollary of Emadi fail."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from screen.theorems import theta as module
from screen.theorems.theta import (
    Interval,
    is_below_eight_ninths,
    karmarkar_karp,
    row_entropy,
    theta,
    theta_from_largest,
    theta_peaked,
    theta_top_k,
)

Array = NDArray[np.float64]


def brute(p: Array) -> float:
    """θ over all subsets."""
    signs = np.array(list(itertools.product((0.0, 1.0), repeat=p.size)))
    mass = signs @ p
    return float((4 * mass * (1 - mass)).max())


def prefix(p: Array) -> float:
    """Emadi's heuristic (appendix E): the prefix of the sorted row whose mass is nearest to one half."""
    mass = np.cumsum(np.sort(p)[::-1])
    best = mass[np.argmin(np.abs(mass - 0.5))]
    return float(4 * best * (1 - best))


def softmax(u: Array) -> Array:
    e = np.exp(u - u.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


rows = arrays(np.float64, st.integers(1, 11), elements=st.floats(0, 1)).filter(lambda v: v.sum() > 1e-3).map(lambda v: v / v.sum())


@settings(max_examples=300, deadline=None)
@given(rows)
def test_exact_equals_all_subsets(p: Array) -> None:
    found = theta(p)
    assert found.exact and found.low == found.high == pytest.approx(brute(p), abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(rows)
def test_intervals_hold_where_no_subset_is_searched(p: Array) -> None:
    """The certified route (cases 1 and 3), forced on short rows, and the interval from the largest entry alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "EXACT_UP_TO", 0)
        for found in (theta(p), theta_from_largest(float(p.max()))):
            assert found.low - 1e-12 <= brute(p) <= found.high + 1e-12


@settings(max_examples=200, deadline=None)
@given(rows)
def test_below_eight_ninths_if_and_only_if_largest_above_two_thirds(p: Array) -> None:
    if abs(p.max() - 2 / 3) > 1e-9:
        assert (brute(p) < 8 / 9 - 1e-12) == (p.max() > 2 / 3) == is_below_eight_ninths(float(p.max()))


def test_theorem_1_is_sharp() -> None:
    """(⅓, ⅓, ⅓) has θ = 8/9 = 1 − p_max²."""
    assert theta([1 / 3] * 3).low == pytest.approx(8 / 9, abs=1e-12)
    assert theta_from_largest(1 / 3).low == pytest.approx(8 / 9, abs=1e-12)


def test_softmax_jacobian_norm() -> None:
    """Emadi, theorem 4.2: ‖J‖_{∞→1} = θ/τ, over all sign vectors."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        u, tau = rng.normal(size=8), float(rng.uniform(0.3, 3))
        p = softmax(u / tau)
        jacobian = (np.diag(p) - np.outer(p, p)) / tau
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=8)))
        assert np.abs(signs @ jacobian).sum(1).max() == pytest.approx(theta(p).low / tau, rel=1e-12)
        assert np.linalg.norm(jacobian, 2) <= 1 / (2 * tau) + 1e-12  # remark B.2


@pytest.mark.parametrize(("length", "rate"), [(4, 0.39), (8, 0.84), (16, 0.98)])
def test_prefix_heuristic_misses(length: int, rate: float) -> None:
    """Emadi, appendix E: "matches exhaustive search exactly" for L ≤ 16; on softmax of normal logits it misses in most rows."""
    rng = np.random.default_rng(length)
    sample = softmax(rng.normal(size=(1500, length)))
    missed = np.mean([prefix(p) < theta(p).low - 1e-9 for p in sample])
    assert missed == pytest.approx(rate, abs=0.04)


def test_corollary_regimes() -> None:
    """Emadi, corollary 4.3: parts 1 and 4 (θ = 1 − 1/k² for odd k, not 1), 2, and 3 only for κ ≤ ½."""
    for k in range(1, 10):
        assert theta_top_k(k) == pytest.approx(brute(np.full(k, 1 / k)), abs=1e-12)
        padded = np.concatenate([np.full(k, 1 / k), np.zeros(3)])
        assert theta(padded).low == pytest.approx(theta_top_k(k), abs=1e-12)
    assert theta_top_k(3) == pytest.approx(8 / 9) and theta([1.0, 0.0]).low == 0
    assert theta_peaked(0.3) == pytest.approx(theta([0.7, 0.2, 0.1]).low)
    row = np.array([0.4, 0.1, 0.4, 0.1])
    assert brute(row) == pytest.approx(1)  # the claimed bound is 4 * 0.6 * 0.4 = 0.96
    with pytest.raises(ValueError, match="1/2"):
        theta_peaked(0.6)


def test_long_rows_are_certified_near_one() -> None:
    """Rows of 256 and 1024 at logit deviation 2: θ between 1 − δ² and 1, and near 1; the entropy alone does not say so."""
    rng = np.random.default_rng(1)
    for length, count, mean in ((256, 300, 0.998), (1024, 50, 1.0)):
        found = [theta(p) for p in softmax(2 * rng.normal(size=(count, length)))]
        assert all(f.high <= 1 for f in found) and np.mean([f.low for f in found]) == pytest.approx(mean, abs=0.002)
    assert theta(np.full(10**5, 1e-5)) == Interval(1 - 1e-10, 1.0, False, "greedy")


def test_karmarkar_karp_is_a_certificate_and_not_exact() -> None:
    rng = np.random.default_rng(2)
    sample = [p for p in softmax(rng.normal(size=(300, 10))) if p.max() < 0.5]
    gaps = [brute(p) - (1 - karmarkar_karp(p) ** 2) for p in sample]
    assert min(gaps) > -1e-12 and max(gaps) > 1e-6


def test_entropy() -> None:
    assert row_entropy([0.25] * 4) == pytest.approx(math.log(4)) and row_entropy([1.0, 0.0]) == 0


@pytest.mark.parametrize("row", [[], [0.5, 0.6], [-0.1, 1.1], [math.nan, 1.0]])
def test_refuses_what_is_no_row(row: list[float]) -> None:
    with pytest.raises(ValueError, match="required"):
        theta(row)
