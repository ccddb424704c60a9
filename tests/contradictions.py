"""What a report may not say beside each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from screen.report.schema import ClaimPart, Report

STARVED, GROWN = 1e3, 1e6
"""First over last gradient beside which D is not closed, and growth that is not linear."""


def contradictions(report: Report) -> list[str]:
    """Every pair of statements of one report that cannot both be true."""
    return [*_of_channels(report), *_of_growth(report), *_of_sublayers(report), *_of_findings(report), *_of_ourselves(report)]


def _of_ourselves(report: Report) -> Iterator[str]:
    """Exceptions of ours, which are told as reasons."""
    said = [*(c.reason for c in report.claims), *(f.message for f in report.findings), *(c.reason for c in report.channels)]
    yield from (s for s in said if "a fault of `screen`" in s or re.search(r"the rule of `\w+` failed \(", s))


def _known(report: Report, *names: str) -> Iterator[ClaimPart]:
    return (c for c in report.claims if c.claim in names and c.value is not None and not (c.measured and c.measured.agrees is False))


def _of_channels(report: Report) -> Iterator[str]:
    states = {c.id: c.state for c in report.channels}
    if report.verdict == "stable" and {states[c] for c in "DRL"} != {"closed"}:
        yield f"stable beside {states}"
    for claim in _known(report, "gradient_law", "gradient_ratio"):
        steep = claim.value == "exponential" or (isinstance(claim.value, float) and not 1 / STARVED <= claim.value <= STARVED)
        if steep and states["D"] == "closed":
            yield f"D is closed beside {claim.claim} {claim.value}"
    for claim in _known(report, "growth"):
        if claim.weights == "fixed" and claim.value in ("polynomial", "exponential") and states["R"] == "closed":
            yield f"R is closed beside growth that is {claim.value}"
    summed = {(s.name, k.id, sub.name) for s in report.streams for k in s.kinds for sub in k.sublayers if "C" in sub.positions}
    free = [c for c in _known(report, "output_bounded") if c.value is False and (c.stream, c.kind, c.sublayer) not in summed]
    ended = any(c.weights == "all" and c.value == "bounded" for c in _known(report, "growth"))  # by a norm at the end of each block
    if states["R"] == "closed" and free and not ended:
        yield f"R is closed beside `{free[0].sublayer}`, whose output is not bounded"
    if states["L"] == "closed" and any(c.value is False for c in _known(report, "logits_bounded")):
        yield "L is closed beside logits that are not bounded"
    softmax = next((c for c in _known(report, "softmax") if c.sublayer is None), None)
    if softmax is not None and softmax.value is False and any(c.value is True for c in _known(report, "softmax")):
        yield "no softmax anywhere beside one in a branch"


def _of_growth(report: Report) -> Iterator[str]:
    rms = {c.stream: c.value for c in _known(report, "rms_ratio") if isinstance(c.value, float)}
    laws = {(c.stream, c.weights): c.value for c in _known(report, "growth")}
    for (stream, weights), law in laws.items():
        if law in ("bounded", "linear") and rms.get(stream, 0.0) > GROWN:
            yield f"{stream}: {law} beside rms × {rms[stream]:.3g}"
        if weights == "all" and law in ("bounded", "linear") and laws.get((stream, "fixed")) in ("polynomial", "exponential"):
            yield f"{stream}: {law} over all weights, {laws[stream, 'fixed']} at fixed ones"


def _of_sublayers(report: Report) -> Iterator[str]:
    claims = {(c.claim, c.stream, c.kind, c.sublayer): c for c in report.claims}
    words = {True: "yes", False: "no"}
    for stream in report.streams:
        for kind in stream.kinds:
            for sub in kind.sublayers:
                claim = claims.get(("output_bounded", stream.name, kind.id, sub.name))
                if claim is not None and isinstance(claim.value, bool) and sub.output_set.bounded not in (words[claim.value], "unknown"):
                    yield f"{sub.name}: the claim says {claim.value}, the table {sub.output_set.bounded}"
                if sub.output_set.bounded == "yes" and any(
                    c.claim == "degree" and c.sublayer == sub.name and c.kind == kind.id and c.stream == stream.name
                    and isinstance(c.value, float) and c.value > 0 and c.reason == "exact" and c.group == "output"
                    for c in report.claims
                ):  # fmt: skip
                    yield f"{sub.name}: bounded beside a weight that scales it"


def _of_findings(report: Report) -> Iterator[str]:
    laws = [c.value for c in _known(report, "growth") if c.weights == "fixed"]
    for finding in report.findings:
        if finding.outcome == "holds" and "neither is met" in finding.message:
            yield f"{finding.code} holds: {finding.message}"
        if finding.code == "R301" and finding.outcome == "holds" and any(law in ("polynomial", "exponential") for law in laws):
            yield f"R301 holds beside {laws}"
        if finding.code == "R201" and finding.outcome == "holds" and any(c.value is False for c in _known(report, "output_bounded")) and (
            finding.sublayer is None
        ):
            yield "R201 holds for all beside an output that is not bounded"


__all__ = ["contradictions"]
