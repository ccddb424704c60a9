"""A report as lines for tools: one annotation for each finding that says something, at the line of the user's code that it is about.

Levels: what is violated has the severity of its rule; what is conditional or cannot be told is a note. Fingerprints hold no line, no number
and no message, so that they stay when lines move, when numbers change, and when the model gets deeper.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from screen.report.groups import worth_reading
from screen.report.schema import FindingPart, Report, Reports
from screen.visible import clean

Level = Literal["error", "warning", "note"]
NOT_JUDGED = "not-judged"
"""Code of a target that was not judged."""


@dataclass(frozen=True)
class Annotation:
    """One finding at its place."""

    level: Level
    code: str
    name: str
    outcome: str
    message: str
    remedy: str
    file: str
    """Relative to the working directory or to site-packages; the target itself where a finding has no place."""
    line: int
    """From 1; 1 where it is not known."""
    fingerprint: str
    places: tuple[str, ...] = ()
    """Where else the same was found."""

    @property
    def text(self) -> str:
        """The message and what to do."""
        return f"{self.message} Option: {self.remedy}." if self.remedy else self.message


def annotations_of(report: Report) -> list[Annotation]:
    """Of one target, gravest first; a target that was not judged has one that says why."""
    spec = clean(report.target.spec)
    plain = posixpath.normpath(file_of(spec)) + spec[len(file_of(spec)) :]  # `./model.py` is `model.py`
    whose = f"{plain} ({clean(report.target.name)})" if report.target.name else plain
    found: list[Annotation] = []
    if report.error is not None:
        error = report.error
        key = _fingerprint(whose, NOT_JUDGED, error.stage)
        file, line = clean(error.file) if error.file else file_of(spec), error.line or 1
        found.append(Annotation("error", NOT_JUDGED, error.stage, "error", clean(error.message), "", file, line, key))
    seen: Counter[str] = Counter()
    for group in worth_reading(report):
        f = group.first
        key = _fingerprint(whose, f.code, f.stream, f.sublayer, re.sub(r"\d+", "#", f.module or ""))
        seen[key] += 1
        if seen[key] > 1:  # a second finding of a rule at one place
            key = _fingerprint(key, seen[key])
        found.append(
            Annotation(
                level_of(f), f.code, f.name, f.outcome, clean(f.said), clean(f.remedy), clean(f.file) if f.file else file_of(spec), f.line or 1,
                key, group.others,
            )
        )  # fmt: skip
    return sorted(found, key=lambda a: ("error", "warning", "note").index(a.level))


def level_of(finding: FindingPart) -> Level:
    """The severity of what is violated; a note for what is conditional or cannot be told."""
    return finding.severity if finding.outcome == "violated" else "note"


def by_target(report: Report | Reports) -> list[tuple[Report, list[Annotation]]]:
    """Of every target, in their order."""
    return [(one, annotations_of(one)) for one in (report.reports if isinstance(report, Reports) else [report])]


def file_of(spec: str) -> str:
    """The file that a target names, else the target's own words."""
    return re.sub(r"(?<=\.py)::?\w.*$", "", spec)


def _fingerprint(*words: object) -> str:
    return hashlib.sha256("\0".join(map(str, words)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


__all__ = ["NOT_JUDGED", "Annotation", "Level", "annotations_of", "by_target", "file_of", "level_of"]
