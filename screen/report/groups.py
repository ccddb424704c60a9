"""Findings and names in the order and the groups in which people read them: alike ones once, gravest first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from screen.report.schema import FindingPart, GuessPart, KindPart, Report, Source

Place = TypeVar("Place", Source, GuessPart)

TELLING = ("violated", "conditional", "cannot_tell")
"""Outcomes that a reader should act on or know, gravest first."""


@dataclass(frozen=True)
class Group:
    """Findings that differ in numbers alone: the first, and how many there are."""

    first: FindingPart
    count: int
    others: tuple[str, ...]
    """Where the others are: module, or file and line, or stream; of what is said of the model as a whole nothing."""


def grouped(findings: list[FindingPart]) -> list[Group]:
    """Findings that say the same of modules that differ in numbers alone, each said once."""
    found: dict[tuple[object, ...], list[FindingPart]] = {}
    for f in findings:
        key = (f.code, f.outcome, _between_numbers(f.message), _between_numbers(f.module or ""))
        found.setdefault(key, []).append(f)
    return [Group(same[0], len(same), tuple(dict.fromkeys(filter(None, map(_where, same[1:]))))) for same in found.values()]


def _between_numbers(text: str) -> tuple[str, ...]:
    return tuple(re.split(r"\d+", text))


def _where(finding: FindingPart) -> str:
    return finding.module or (f"{finding.file}:{finding.line}" if finding.file else finding.stream or "")


def read_alike(kinds: list[KindPart], shown: Callable[[KindPart], object]) -> list[list[KindPart]]:
    """Kinds of blocks of which the same is shown, in order: a number that differs from layer to layer makes as many kinds as there are layers."""
    found: dict[object, list[KindPart]] = {}
    for kind in kinds:
        found.setdefault(shown(kind), []).append(kind)
    return list(found.values())


def joined(kinds: Sequence[KindPart]) -> KindPart:
    """Several kinds as one: the first, with the layers of all."""
    spans: list[tuple[int, int]] = []
    for first, last in sorted(span for kind in kinds for span in kind.layers):
        if spans and spans[-1][1] + 1 == first:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return kinds[0].model_copy(update={"count": sum(kind.count for kind in kinds), "layers": spans})


def folded(names: list[str]) -> list[str]:
    """Names that differ in numbers alone, as ranges: `layers.0–31.mixer`. Nothing is lost where the numbers are consecutive."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        found.setdefault(_between_numbers(name), []).append(name)
    return [_folded(texts, same) for texts, same in found.items()]


def _folded(texts: tuple[str, ...], same: list[str]) -> str:
    numbers = [re.findall(r"\d+", name) for name in same]
    varying = [i for i in range(len(numbers[0])) if len({n[i] for n in numbers}) > 1]
    if len(same) == 1:
        return same[0]
    if len(varying) != 1:
        return ", ".join(same)
    values = sorted({int(n[varying[0]]) for n in numbers})
    pieces = [ranges(values) if i == varying[0] else number for i, number in enumerate(numbers[0])]
    return "".join(text + piece for text, piece in zip(texts, [*pieces, ""], strict=True))


def counted(places: Sequence[Place]) -> list[tuple[Place, str]]:
    """Places that read alike once, each with how often it stands there, in words."""
    keys = [(p.file, p.line, p.assumed if isinstance(p, GuessPart) else "" if p.file else p.module) for p in places]
    times, first = Counter(keys), dict(zip(reversed(keys), reversed(places), strict=True))
    return [(first[key], "" if n == 1 else f" ({n} times)") for key, n in times.items()]


def ranges(values: list[int]) -> str:
    """`0–31`, `0–2,5`."""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][1] == value - 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ",".join(f"{a}" if a == b else f"{a}–{b}" for a, b in runs)


def tally(report: Report) -> str:
    """`23 hold, 4 do not apply`: the findings that are not listed one by one."""
    held = sum(f.outcome == "holds" for f in report.findings)
    idle = sum(f.outcome == "not_applicable" for f in report.findings)
    return f"{held} check{'s hold' if held != 1 else ' holds'}, {idle} {'do' if idle != 1 else 'does'} not apply"


def worth_reading(report: Report) -> list[Group]:
    """The findings that say something a reader should act on or know, alike ones together: mere notes last, what is violated first, by severity."""
    found = grouped([f for f in report.findings if f.outcome in TELLING])
    order = sorted(found, key=lambda g: gravity(g.first))
    return sorted(order, key=lambda g: g.first.severity == "note")


def gravity(finding: FindingPart) -> tuple[int, int]:
    """Smaller is graver: by outcome, then by severity."""
    return TELLING.index(finding.outcome), ("error", "warning", "note").index(finding.severity)


def families(report: Report) -> list[list[Group]]:
    """What is worth reading, in the same order; findings of one rule that differ in names and numbers alone stand together, and what one would do
    about them is the same."""
    found: dict[tuple[object, ...], list[Group]] = {}
    for group in worth_reading(report):
        f = group.first
        found.setdefault((f.code, f.outcome, f.remedy, re.sub(r"`[^`]*`|\d+", "#", f.said)), []).append(group)
    return list(found.values())


def quiet(report: Report) -> list[FindingPart]:
    """The findings that hold or do not apply."""
    return [f for f in report.findings if f.outcome in ("holds", "not_applicable")]


__all__ = ["Group", "counted", "families", "folded", "gravity", "grouped", "joined", "quiet", "ranges", "read_alike", "tally", "worth_reading"]
