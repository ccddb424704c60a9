"""Which factor on the maps of a branch keeps N of them together bounded (Emadi, 6.1 and 6.2, and two criteria beside it).

A branch whose sensitivity is a sum of monomials c_i β^(k_i) in a common factor β has the product bound Π(1 + Σ c_i β^(k_i))^N, which
stays bounded if and only if N β^k does for the *smallest* degree k: as β falls, the smallest degree falls slowest.

(a) Emadi: N^(−1/m), m the largest degree. (b) Worst case over all paths: N^(−1/m_min), m_min the smallest; for softmax attention the
value path V·O has degree 2: with β = N^(−1/4) the product is (1 + N^(−1/2))^N, 257 at N = 36. m_min = 0: no factor helps. (c) Mean
square at random initialisation, weights independent across depth: N^(−1/(2k)) for a path of degree k, since variances add; tied layers
need (b). DeepNorm is none of the three: it bounds the *update*, 2N(v² + w²)/α² = 1, and its relative branch gain β²/α falls as N^(−3/4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping


def product(layers: int, monomials: Mapping[int, float], factor: float) -> float:
    """(1 + Σ_k c_k β^k)^N for monomials {k: c_k}; infinity where it overflows."""
    if layers < 0 or factor < 0:
        raise ValueError(f"required layers >= 0 and factor >= 0, found {layers} and {factor}")
    log = layers * math.log1p(sum(c * factor**k for k, c in monomials.items()))
    return math.exp(log) if log < 700 else math.inf


def worst_case_factor(layers: int, degree: int) -> float:
    """N^(−1/k): criterion (a) with the largest degree, (b) with the smallest. ValueError for degree 0, where no factor has an effect."""
    _check(layers, degree)
    return float(layers ** (-1 / degree))


def mean_square_factor(layers: int, degree: int) -> float:
    """N^(−1/(2k)): criterion (c), for weights independent across depth (T-Fixup: V·O, N^(−1/4))."""
    _check(layers, degree)
    return float(layers ** (-1 / (2 * degree)))


def deepnorm_condition(sublayers: int, value: float, output: float, alpha: float) -> float:
    """2N(v² + w²)/α² with 2N `sublayers`: at most about 1 bounds the update (Wang et al.); v, w the scales of value and output map."""
    if sublayers < 1 or not alpha > 0:
        raise ValueError(f"required sublayers >= 1 and alpha > 0, found {sublayers} and {alpha}")
    return sublayers * (value**2 + output**2) / alpha**2


def deepnorm(layers: int) -> tuple[float, float]:
    """(α, β) = ((2N)^(1/4), (8N)^(−1/4)) of an encoder or decoder of N layers with two sublayers each."""
    _check(layers, 1)
    return float((2 * layers) ** 0.25), float((8 * layers) ** -0.25)


def _check(layers: int, degree: int) -> None:
    if layers < 1:
        raise ValueError(f"`layers`: required >= 1, found {layers}")
    if degree < 1:
        raise ValueError(f"`degree`: required >= 1 (at degree 0 a factor has no effect), found {degree}")
