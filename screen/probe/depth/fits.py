"""Exponents of depth, and a power law against an exponential.

Both laws have two parameters, log v = a + b·log N and log v = a + b·N, with normal errors of one size. With S the sums of squares that are left and
n points, log L_power − log L_exponential = ½n·log(S_exponential/S_power).
"""

from __future__ import annotations

import math
from dataclasses import replace

from screen.probe.plan.types import Experiment, rounded

TELLING = 30.0
"""Largest over smallest from which a power law and an exponential can be told apart between 4 and 64 (review, item 55)."""
SURE = 2.0
"""Difference of log-likelihoods from which one law is named: a ratio of 7.4, 4 in Akaike's criterion (Burnham and Anderson, 2002, 2.6)."""
ROUNDING = 1e-24
"""A sum of squared residuals of a logarithm that is rounding."""


def law(empty: Experiment, values: dict[int, list[float]], also: str = "") -> Experiment:
    """The exponent with two standard errors, the values, and which law fits. `also`: words in front of the reason."""
    points = [(n, v) for n, found in sorted(values.items()) for v in found]
    numbers: dict[str, float | str] = {f"at_{n}": rounded(mean(v)) for n, v in sorted(values.items())}
    if any(not math.isfinite(v) or v <= 0 for _, v in points):
        return replace(empty, numbers=numbers, measured="nan", reason=_joined(also, "a value is zero or leaves the range of floats"))
    slope, error, power = fitted([(math.log(n), math.log(v)) for n, v in points])
    _, _, exponential = fitted([(float(n), math.log(v)) for n, v in points])
    likelier = 0.5 * len(points) * math.log(max(exponential, ROUNDING) / max(power, ROUNDING))
    means = [mean(v) for v in values.values()]
    told = max(means) >= TELLING * min(means) and abs(likelier) >= SURE
    name = ("power law" if likelier > 0 else "exponential") if told else "unknown"
    numbers |= {"standard_error": rounded(error), "points": float(len(points)), "log_likelihood_ratio": rounded(likelier), "law": name}
    interval = (rounded(slope - 2 * error), rounded(slope + 2 * error))
    words = f"law: {name} (log-likelihood of power over exponential {likelier:+.3g}, {len(points)} points)"
    return replace(empty, measured=rounded(slope), interval=interval, numbers=numbers, reason=_joined(also, words))


def _joined(*words: str) -> str:
    return "; ".join(w for w in words if w)


def mean(values: list[float]) -> float:
    """Geometric mean; nan when a value is not positive and finite."""
    if any(not math.isfinite(v) or v <= 0 for v in values):
        return math.nan
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def fitted(points: list[tuple[float, float]]) -> tuple[float, float, float]:
    """(slope, its standard error, sum of squared residuals) of a straight line."""
    n = len(points)
    mx, my = (math.fsum(p[i] for p in points) / n for i in (0, 1))
    spread = math.fsum((x - mx) ** 2 for x, _ in points)
    slope = math.fsum((x - mx) * (y - my) for x, y in points) / spread
    left = math.fsum((y - my - slope * (x - mx)) ** 2 for x, y in points)
    return slope, math.sqrt(left / max(n - 2, 1) / spread), left


__all__ = ["SURE", "TELLING", "fitted", "law", "mean"]
