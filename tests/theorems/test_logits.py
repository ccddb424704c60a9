"""Logits under QK-norm: reached, never passed, and the case with rotary positions where the largest product of gains is no bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from screen.theorems.logits import Kind, qk_norm_bound, raw_bound

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)


def normed(x: Array, kind: Kind) -> Array:
    """[heads, d_h] under each of the norms."""
    over = None if kind == "full" else -1
    square = (x**2).sum(over, keepdims=True) if kind == "unit" else (x**2).mean(over, keepdims=True)
    return np.asarray(x / np.sqrt(square))


@pytest.mark.parametrize("kind", ["per_head", "full", "unit"])
def test_no_pair_passes_and_one_reaches(kind: Kind) -> None:
    """Heads of 8 channels: 2.83 per head, 22.6 full width with 8 heads, 1/√8·… for unit vectors."""
    gamma_q, gamma_k = RNG.uniform(0.5, 2, 8), RNG.uniform(0.5, 2, 8)
    bound = qk_norm_bound(kind, 8, 8, gamma_q, gamma_k, rotary=False)
    best = int(np.argmax(gamma_q * gamma_k))
    spike = np.zeros((8, 8))
    spike[(0, best) if kind == "full" else (slice(None), best)] = 1.0
    reached = (gamma_q * normed(spike, kind) * gamma_k * normed(spike, kind)).sum(-1).max() / math.sqrt(8)
    assert reached == pytest.approx(bound)
    for _ in range(200):
        q, k = (normed(RNG.standard_t(1.5, size=(8, 8)), kind) for _ in range(2))
        assert np.abs((gamma_q * q * gamma_k * k).sum(-1)).max() / math.sqrt(8) <= bound <= qk_norm_bound(kind, 8, 8, gamma_q, gamma_k)


def test_full_width_is_weaker_by_the_number_of_heads() -> None:
    assert qk_norm_bound("per_head", 8) == pytest.approx(2.83, abs=0.01) and qk_norm_bound("full", 8, heads=8) == pytest.approx(22.63, abs=0.01)
    assert qk_norm_bound("unit", 64, scale=10.0) == 10.0


def test_rotary_needs_the_product_of_the_maxima() -> None:
    """Gains (1, 0) and (0, 1): a quarter turn between positions makes a logit of √2, where the largest product of gains says 0."""
    q, k = np.array([math.sqrt(2), 0.0]), np.array([0.0, math.sqrt(2)])
    turned = np.array([-q[1], q[0]])  # the position's rotation by 90°
    assert turned @ k / math.sqrt(2) == pytest.approx(qk_norm_bound("per_head", 2, gamma_q=[1.0, 0.0], gamma_k=[0.0, 1.0]))
    assert qk_norm_bound("per_head", 2, gamma_q=[1.0, 0.0], gamma_k=[0.0, 1.0], rotary=False) == 0


def test_biases_count_by_their_length() -> None:
    q = math.sqrt(4) * np.array([1.0, 0, 0, 0]) * 1.5 + np.array([2.0, 0, 0, 0])
    assert q @ q / 2 == pytest.approx(qk_norm_bound("per_head", 4, gamma_q=1.5, gamma_k=1.5, beta_q=2.0, beta_k=2.0))


def test_raw_logits_are_reached_on_the_leading_directions() -> None:
    w = RNG.normal(size=(6, 4)) @ RNG.normal(size=(4, 6))
    u, s, v = np.linalg.svd(w)
    assert (3 * u[:, 0]) @ w @ (3 * v[0]) * 0.5 == pytest.approx(raw_bound(3.0, s[0], -0.5))


def test_refuses() -> None:
    with pytest.raises(ValueError, match="required"):
        qk_norm_bound("head", 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="required"):
        raw_bound(-1.0, 1.0, 1.0)
