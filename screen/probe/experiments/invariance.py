"""Experiment `invariance`: how ‖J‖ of a branch answers when one weight group is multiplied by c (theory, section 2; review, item 55).

    exact        every slope between neighbours of c ∈ {1/2, 1, 2, 4, 8} within 0.02 of the degree, after ε/(σ²+ε) is allowed for; where ε is felt
                 (a share above 0.005) the scales are moved up by powers of 2, and the report says which were used
    asymptotic   only between the two largest scales, 512 and 1024, within 0.1
    bound        no slope: the value of ‖J(c)‖ against its bound (`screen.probe.bounds.attack.scaled`)

J = 0 (an output that starts at zero) is not applicable. ‖J‖ is Hutchinson's estimate over fixed directions: exactly homogeneous whenever J is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from screen.probe.measure.branch import BranchRun, frobenius
from screen.probe.plan.types import DegreePlan, Experiment, NormPlan, rounded

SCALES = (0.5, 1.0, 2.0, 4.0, 8.0)
FAR = (512.0, 1024.0)
EXACT, ASYMPTOTIC = 0.02, 0.1
"""Allowed differences of exponents (theory, section 10)."""
FELT = 0.005
"""Share of ε in a variance from which the scales are moved."""
HIGHEST = 16
"""Powers of two by which they are moved at most."""
DIRECTIONS = 4
ZERO = "J = 0: the branch does not answer to the state at these weights (an output that starts at zero)"
SLOPE = "exponent of ‖J‖ in one weight group"


def invariance(run: BranchRun, degree: DegreePlan) -> Experiment:
    """One weight group of one branch."""
    plan = run.plan
    empty = Experiment(
        "invariance", SLOPE, "not_measured", plan.stream, plan.kind, plan.name, degree.group, degree.status,
        rounded(degree.predicted), samples=DIRECTIONS,
    )  # fmt: skip
    if not all(p in run.names for p in degree.parameters[:1]):
        return replace(empty, reason="the branch does not read the parameter in this run")
    if not run.own:
        return replace(empty, reason="the branch reads no state of its own stream")
    scales, share = (FAR, 0.0) if degree.status == "asymptotic" else _scales(run, degree)
    sizes = [frobenius(run.pulled(run.scaled(degree, c), run.directions(DIRECTIONS, 0))) for c in scales]
    return judged(empty, scales, sizes, share)


def judged(empty: Experiment, scales: tuple[float, ...], sizes: list[float], share: float) -> Experiment:
    """Slopes between neighbours against the degree. `share`: the largest ε/(σ²+ε) of a norm that the group changes."""
    if all(s == 0 for s in sizes):
        return replace(empty, outcome="not_applicable", reason=ZERO)
    if any(s == 0 or not math.isfinite(s) for s in sizes):
        return replace(empty, reason="‖J‖ is zero or not finite at some of the scales")
    logs = [(math.log(c), math.log(s)) for c, s in zip(scales, sizes, strict=True)]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(logs)]
    degree = float(empty.predicted) if empty.predicted is not None else math.nan
    allowed = ASYMPTOTIC if empty.status == "asymptotic" else EXACT + share
    worst = max(slopes, key=lambda s: abs(s - degree))
    right = abs(worst - degree) <= allowed
    slope, error = _fit(logs)
    numbers = {"smallest_scale": rounded(scales[0]), "largest_scale": rounded(scales[-1]), "allowed": rounded(allowed)}
    numbers |= {"standard_error": _exponent(error)} if error is not None else {}
    found = replace(empty, measured=_exponent(slope), interval=(_exponent(min(slopes)), _exponent(max(slopes))), numbers=numbers)
    if share > 0.25:
        return replace(found, reason=f"ε is {share:.2g} of a variance that a norm of the branch divides by")
    reason = "" if right else f"the slope is {worst:.3g} where the degree is {degree:g} ({empty.status}, {allowed:.2g} allowed)"
    return replace(found, outcome="confirmed" if right else "refuted", reason=reason)


def _exponent(value: float) -> float | str:
    """Three significant digits, and no digits below 0.001: an exponent of 1e-15 is rounding."""
    return rounded(round(value, 3))


def _fit(logs: list[tuple[float, float]]) -> tuple[float, float | None]:
    """Least squares slope and its standard error, √(Σ residual² / (n − 2) / Σ(x − x̄)²), which two points do not have."""
    n = len(logs)
    mx, my = (sum(p[i] for p in logs) / n for i in (0, 1))
    spread = sum((x - mx) ** 2 for x, _ in logs)
    slope = sum((x - mx) * (y - my) for x, y in logs) / spread
    left = sum((y - my - slope * (x - mx)) ** 2 for x, y in logs)
    return slope, math.sqrt(left / (n - 2) / spread) if n > 2 else None


def _scales(run: BranchRun, degree: DegreePlan) -> tuple[tuple[float, ...], float]:
    """The scales, moved up by powers of two until ε is not felt by any norm that the group changes, and the share of ε that is left."""
    shares = list[float]()
    with torch.no_grad():
        base, other = (run.variances(run.values(run.scaled(degree, c))) for c in (1.0, 4.0))
        changed = {n.node for (n, v), (_, w) in zip(base, other, strict=True) if not torch.allclose(v, w, rtol=1e-9, atol=0.0)}
        for power in range(HIGHEST + 1):
            shares.append(_share(changed, run.variances(run.values(run.scaled(degree, SCALES[0] * 2.0**power)))))
            if shares[-1] <= FELT or (power and shares[-1] >= shares[-2]):
                break
    power = shares.index(min(shares))
    return tuple(c * 2.0**power for c in SCALES), shares[power]


def _share(changed: set[int], scaled: list[tuple[NormPlan, Tensor]]) -> float:
    """Σ over the norms that the group changes of the largest ε/(σ²+ε)."""
    return sum(float((n.eps / (v + n.eps)).amax()) for n, v in scaled if n.node in changed)


__all__ = ["invariance", "judged"]
