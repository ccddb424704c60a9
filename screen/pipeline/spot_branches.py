"""Claims about one branch beside what the spot check measured of it: whether its output and its logits are bounded, and how large these start."""

from __future__ import annotations

from dataclasses import replace

from screen.facts.claims.claim import Claim, Measured
from screen.probe.plan.spot_types import STILL, FoundBranch

FAR = 1e4
"""How many times larger a value has to be with free vectors of one number to be none that is bounded: ten times the largest bound to rely on."""
ALLOWED = 100.0
"""How many times larger a bounded value may be at multiplied inputs or weights (convention; a free degree of one gives 1e6)."""


def of_branch(claim: Claim, found: list[FoundBranch]) -> Claim:
    """The claim beside what the branches of its sublayer showed, in all blocks that ran."""
    if claim.claim == "output_bounded":
        each = [(b.base or 0.0, [s for s in (*b.inputs, b.weights, b.both, b.alone) if s is not None]) for b in found]
        base, sizes = _of_all(each)
        if claim.value is False and base > 0 and all(b.both is not None for b in found) and max(sizes) <= STILL * base:
            reason = f"nothing grew when its weights, and what it reads, were multiplied: at most {max(sizes):.3g} where it was {base:.3g} before"
            return replace(claim, status="unknown", value=None, reason=reason, measured=Measured(max(sizes), None))
        start, sizes = _that_grows_most(each) if claim.status == "unknown" else (base, sizes)
        return _of_fills(_of_bound(claim, max(start, claim.high or 0.0), sizes), base, [b.filled for b in found])
    if claim.claim == "logits_bounded":
        each = [(b.logits or 0.0, [b.heavy_logits] if b.heavy_logits is not None else []) for b in found]
        base, sizes = _of_all(each)
        start, sizes = _that_grows_most(each) if claim.status == "unknown" else (base, sizes)
        claim = _of_bound(claim, max(start, claim.high or 0.0), sizes)
        return _of_fills(claim, max(base, claim.high or 0.0), [b.filled_logits for b in found])
    if claim.claim == "logit_rms":
        values = [b.logit_rms for b in found if b.logit_rms is not None]
        felt = [b.logits_felt for b in found if b.logits_felt is not None]
        return (
            replace(
                claim,
                status="measured" if claim.status == "unknown" else claim.status,
                value=claim.value if claim.value is not None else values[0],
                low=max(felt) if len(felt) == len(values) and max(felt) < max(values) else claim.low,
                high=max(values),
                measured=Measured(values[0], None),
            )
            if values
            else claim
        )
    return claim


Shown = tuple[float, list[float]]
"""A size, and sizes with what is multiplied."""


def _of_all(each: list[Shown]) -> Shown:
    return max((base for base, _ in each), default=0.0), [size for _, sizes in each for size in sizes]


def _that_grows_most(each: list[Shown]) -> Shown:
    """The one of several blocks that shows most growth: in a stream that explodes later ones are large as they are."""
    shown = [(base, sizes) for base, sizes in each if base > 0 and sizes]
    return max(shown, key=lambda one: max(one[1]) / max(one[0], 1.0), default=(0.0, []))


def _of_bound(claim: Claim, base: float, sizes: list[float]) -> Claim:
    """A bounded value stays of its size; an unbounded one was seen to grow, or is not known."""
    if not sizes:
        return claim
    top = max(sizes)
    grew = top > ALLOWED * max(base, 1.0)
    if claim.status == "unknown":
        return replace(claim, status="measured", value=False, measured=Measured(top / max(base, 1e-30), None)) if grew and base > 0 else claim
    if claim.value is True:
        return replace(claim, measured=Measured(f"{top:.3g} where it was {base:.3g} before" if grew else top, not grew))
    return replace(claim, measured=Measured(top, True if grew else None))


def _of_fills(claim: Claim, base: float, sizes: list[float | None]) -> Claim:
    """What was not known to be bounded was seen to be far beyond what anybody calls a bound, where free vectors hold one number."""
    top = max((s for s in sizes if s is not None), default=0.0)
    if claim.status != "unknown" or claim.measured is not None or base <= 0 or top <= FAR * max(base, 1.0):
        return claim
    return replace(claim, status="measured", value=False, measured=Measured(top / base, None))


__all__ = ["ALLOWED", "of_branch"]
