"""Claims as parts of the report: the contract's JSON, with the rules that read each."""

from __future__ import annotations

from collections.abc import Sequence

from screen.facts.claims.claim import Claim, Claims
from screen.report import schema
from screen.report.build_streams import source_part
from screen.rule import RuleRun
from screen.verdict.risk import Limit

READERS: dict[str, tuple[str, ...]] = {
    "identity_gain": ("D101", "D202", "R301", "R401"), "growth": ("R101", "R301", "R401", "L201", "L202"), "gradient_law": ("D202",),
    "output_bounded": ("R201", "R301"), "logits_bounded": ("L201", "L202"), "softmax": ("L201", "L202"), "rms_ratio": ("D202", "L202"),
    "one_minus_cos": ("D201", "D202"), "gradient_ratio": ("D202",), "replay": ("D201", "D202"), "degree": ("D301",),
}  # fmt: skip
"""Kind of claim -> rules that read it."""
DIGITS = 6


def claim_part(claim: Claim, run: RuleRun, root: str) -> schema.ClaimPart:
    """One claim. Numbers have six significant digits: more would differ between machines."""
    ran = {f.rule.code for f in run.findings}
    measured = claim.measured
    return schema.ClaimPart(
        id=claim.id, claim=claim.claim, stream=claim.stream, kind=claim.kind, sublayer=claim.sublayer, group=claim.group,
        value=_value(claim.value), low=_number(claim.low), high=_number(claim.high), weights=claim.weights, status=claim.status, reason=claim.reason,
        node=None if claim.node is None else source_part(claim.node, root), rests_on=list(claim.rests_on),
        measured=None if measured is None else schema.MeasuredPart(value=_value(measured.value, 3), agrees=measured.agrees),
        codes=[c for c in READERS.get(claim.claim, ()) if c in ran],
    )  # fmt: skip


def limit_parts(limits: Sequence[Limit], first: int) -> list[schema.ClaimPart]:
    """Claims on the largest learning rate at which each channel is expected to hold, numbered from `first`: estimates, by constants that were fitted
    to runs (docs/outcomes.md)."""
    return [
        schema.ClaimPart(
            id=f"c{first + place}", claim="lr_max", group=limit.channel, value=rate(limit.value), low=rate(limit.low), high=rate(limit.high),
            weights="start", status="measured", reason=limit.by,
        )
        for place, limit in enumerate(limits)
    ]  # fmt: skip


def rate(value: float) -> float:
    """A learning rate is estimated to no more than two digits."""
    return float(f"{value:.2g}")


def spot_part(claims: Claims) -> schema.SpotCheckPart:
    """What the spot check came to."""
    compared = [c for c in claims if c.measured is not None and c.measured.agrees is not None]
    return schema.SpotCheckPart(ran=claims.checked, compared=len(compared), refuted=[c.id for c in claims.refuted], reason=claims.reason)


def _value(value: bool | str | float | None, digits: int = DIGITS) -> bool | str | float | None:
    return value if value is None or isinstance(value, bool | str) else float(f"{value:.{digits}g}")


def _number(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


__all__ = ["claim_part", "limit_parts", "rate", "spot_part"]
