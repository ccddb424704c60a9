"""What `--fail-on` makes of a report: the exit code of `screen check`, and in a few words why it is not 0.

Only what `--select` and `--ignore` leave counts: the findings of a report are those of the rules that were chosen, and `verdict` is theirs. What is
known (`screen.pipeline.known`) does not count, and a verdict counts while something of what it rests on is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from screen.report.annotation import Annotation
    from screen.report.schema import Report
    from screen.verdict.channels import Verdict, VerdictName

NOT_JUDGED = 2
LEFT_OUT = "rules-left-out"
"""The condition of a channel of which rules were left out and the others found nothing."""
UNKNOWN = "the verdict is unknown"
SHOWN = 4
"""Codes that are named in one line; of more only how many there are."""


class Known(Protocol):
    """What does not fail the gate (`screen.pipeline.known`)."""

    def holds(self, found: Annotation) -> bool: ...


@dataclass(frozen=True)
class Decision:
    """An exit code; of a 1 also what failed, and on whose word, and of a 2 why where there is no error that says it."""

    code: int
    why: str = ""


def decide(
    report: Report, fail_on: tuple[str, ...], *, allow_unknown: bool = False, verdict: VerdictName | None = None, known: Known | None = None
) -> Decision:
    """The exit code for one report. `verdict`: that of the chosen rules alone, where rules were left out. `known`: what does not fail it.

    2 where nothing was judged, whatever was found; `unknown` is that too, unless it is allowed or something was found that fails."""
    verdict = verdict or report.verdict
    if report.error is not None:
        return Decision(NOT_JUDGED)
    from screen.report.annotation import annotations_of

    found = [a for a in annotations_of(report) if known is None or not known.holds(a)]
    reasons: list[str] = []
    words: list[str] = []
    for word in fail_on:
        told = _judged_by(word, verdict) if known is None or _rests_on(report, verdict, found) else []
        told += _violated(found, WANTED.get(word, _of_code(word)))
        words += [word] if told else []
        reasons += told
    if not words:
        return Decision(NOT_JUDGED, UNKNOWN) if verdict == "unknown" and not allow_unknown else Decision(0)
    return Decision(1, f"{_listed(list(dict.fromkeys(reasons)))} (--fail-on {','.join(words)})")


def of_chosen(verdict: Verdict) -> VerdictName:
    """The verdict on what the chosen rules found: a channel that is conditional because rules were left out says nothing."""
    told = any(c.state == "conditional" and c.conditions != (LEFT_OUT,) for c in verdict.channels)
    return "stable" if verdict.verdict == "conditional" and not told else verdict.verdict


def _judged_by(word: str, verdict: VerdictName) -> list[str]:
    """The verdict, where the word fails on it."""
    failing = {"slip": ("unstable",), "unstable": ("unstable",), "conditional": ("unstable", "conditional")}.get(word, ())
    return [f"the verdict is {verdict}"] if verdict in failing else []


def _rests_on(report: Report, verdict: VerdictName, found: list[Annotation]) -> bool:
    """Whether a channel that makes the verdict has a finding among these, or names no rule."""
    state = {"unstable": "open", "conditional": "conditional"}.get(verdict)
    channels = [c for c in report.channels if c.state == state]
    return not channels or any(not c.codes or any(a.code in c.codes for a in found) for c in channels)


def _violated(found: list[Annotation], wanted: Callable[[Annotation], bool]) -> list[str]:
    return list(dict.fromkeys(f"{a.code} violated" for a in found if a.outcome == "violated" and wanted(a)))


def _of_code(code: str) -> Callable[[Annotation], bool]:
    """A rule whose code is this one or starts so."""
    return lambda finding: finding.code.startswith(code)


WANTED: dict[str, Callable[[Annotation], bool]] = {
    "slip": lambda finding: finding.level in ("error", "warning"),
    "unstable": lambda finding: False,
    "conditional": lambda finding: False,
    "never": lambda finding: False,
}
"""Word -> the violated findings that it fails on; what is no word is a code."""


def _listed(reasons: list[str]) -> str:
    more = len(reasons) - SHOWN
    return ", ".join(reasons[:SHOWN]) + (f" and {more} more" if more > 0 else "")


__all__ = ["Decision", "Known", "decide", "of_chosen"]
