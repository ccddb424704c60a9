"""How an entry-wise function, or a reduction, acts on degrees: one row per op.

    HOMOGENEOUS  f(c·t) = c^k·f(t) for c > 0: the degree is multiplied by k, exactly
    ASYMPTOTIC   f(c·t)/c tends to a function of degree 1 when c grows (GELU and SiLU to ReLU): degree 1, asymptotically
    BOUNDED      |f| ≤ 1 up to a constant: no degree in magnitude; in sensitivity the degree of its argument
    Ops of no table (log, exp of what may be positive, …) are unknown.
"""

from __future__ import annotations

from fractions import Fraction

from screen.ops import scalars
from screen.ops.scalars import OPS, SCALARS, of_degree

HOMOGENEOUS: dict[str, Fraction | int] = {
    **{op: k for op in OPS if isinstance(k := SCALARS[op].degree, int)},
    "prelu": 1, "rrelu": 1, "sqrt": Fraction(1, 2),
    "rsqrt": Fraction(-1, 2), "reciprocal": -1, "real": 1, "conj": 1, "imag": 1, "nan_to_num": 1, "maximum": 1, "minimum": 1,
    "sum": 1, "mean": 1, "amax": 1, "amin": 1, "max": 1, "min": 1, "median": 1, "norm": 1, "vector_norm": 1, "linalg_norm": 1, "std": 1, "var": 2,
    "cumsum": 1, "cummax": 1, "nansum": 1, "hypot": 1,
}  # fmt: skip
ASYMPTOTIC = of_degree("asymptotic") | {"hardshrink", "logsumexp", "alpha_dropout", "round", "floor", "ceil", "trunc"}
BOUNDED = of_degree("bounded") | {"heaviside", "softmax", "softmin", "angle"}
SIGNS = frozenset({"sign", "sgn"})
"""f(c·t) = f(t) for c > 0, and bounded."""
COMPARISONS = frozenset({"gt", "lt", "ge", "le", "eq", "ne"})
"""With 0, or of two values of one degree, they do not change with the scale; with another number they do."""
LINEAR_MIXERS = frozenset({
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "interpolate", "fft_fftn", "fft_ifftn", "fft_fft", "fft_fft2", "fft_rfft",
    "fft_irfft", "fft_ifft", "fft_rfft2", "fft_irfft2", "fft_ifft2", "grid_sample", "istft",
})  # fmt: skip
"""Fixed linear maps over tokens (and maxima, which are homogeneous too): degree 1."""
NONNEGATIVE = scalars.NONNEGATIVE | {"exp2", "softmax", "norm", "vector_norm"}
"""Ops whose values are never negative."""
KEEPS_SIGN = frozenset({"sum", "mean", "cumsum", "amax", "amin", "max", "min"})
"""Reductions of values of one sign that have that sign."""
LARGE_EPSILON = 0.02
"""Above it a weight before a norm does not cancel to within 0.02 at unit variance: the exponent is ε/(σ² + ε) too large (review, item 10)."""
