"""What was measured, as text and Markdown: one line for each prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from screen.probe.plan.types import Outcome
from screen.report.escape import code
from screen.report.escape import text as escaped
from screen.report.numbers import number
from screen.report.schema import ExperimentPart, ProbePart
from screen.visible import clean

Pictures = Sequence[tuple[str, str]]
"""(title, file) of each picture."""

ORDER: tuple[Outcome, ...] = ("refuted", "confirmed", "observed", "not_applicable", "not_measured")
SAID = {"refuted": "REFUTED", "confirmed": "confirmed", "observed": "measured", "not_applicable": "not applicable", "not_measured": "not measured"}


def tally(probe: ProbePart | None) -> str:
    """`8 confirmed, 2 not measured`."""
    if probe is None:
        return "nothing was measured"
    counts = Counter(e.outcome for e in probe.experiments)
    return ", ".join(f"{counts[o]} {SAID[o]}" for o in ORDER if counts[o]) or "nothing to measure"


def text(probe: ProbePart) -> list[str]:
    """One line for each experiment, under a line about how it was measured."""
    lines = [f"probe  on {clean(probe.device)}, {probe.dtype}, seed {probe.seed}"]
    lines += [f"  interrupted: {clean(probe.interrupted)}"] if probe.interrupted else []
    rows = [_row(e) for e in probe.experiments]
    widths = [max((len(r[i]) for r in rows), default=0) for i in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
        lines.append(clean("  " + "  ".join(cells) + "  " + row[3]).rstrip())
    return lines


def markdown(probe: ProbePart, pictures: Pictures = (), *, short: bool = False) -> list[str]:
    """A table of experiments, a picture of each where there are files of them, and unless `short` the numbers that the pictures show."""
    lines = [f"Measured on {escaped(probe.device)}, {probe.dtype}, seed {probe.seed}: {tally(probe)}.", ""]
    lines += [f"Interrupted: {escaped(probe.interrupted)}", ""] if probe.interrupted else []
    lines += ["| experiment | what | of | predicted | measured | outcome | why |", "|---|---|---|---|---|---|---|"]
    for e in probe.experiments:
        of = code(_subject(e)) if _subject(e) else "–"
        cells = [e.name, escaped(e.what), of, number(e.predicted, 3, "–"), _measured(e), SAID[e.outcome], escaped(e.reason) if e.reason else "–"]
        lines.append("| " + " | ".join(str(c) for c in cells) + " |")
    for title, file in pictures:
        lines += ["", f"![{escaped(title)}]({quote(file)})"]
    return lines if short else lines + _numbers(probe)


def _numbers(probe: ProbePart) -> list[str]:
    """What the pictures show, and everything else that was measured along the way."""
    rows = [e for e in probe.experiments if e.numbers]
    lines = ["", "<details>", "<summary>More numbers</summary>", "", "| experiment | of | numbers |", "|---|---|---|"] if rows else []
    for e in rows:
        numbers = ", ".join(f"{key} {number(value, 3)}" for key, value in sorted(e.numbers.items(), key=lambda item: _natural(item[0])))
        lines.append(f"| {escaped(e.what)} | {code(_subject(e)) if _subject(e) else '–'} | {escaped(numbers)} |")
    return [*lines, "", "</details>"] if rows else []


def _natural(key: str) -> tuple[str, float]:
    """`at_8` before `at_16`."""
    name, _, digits = key.rpartition("_")
    return (name, float(digits)) if digits.replace(".", "", 1).isdigit() else (key, 0.0)


def _row(e: ExperimentPart) -> tuple[str, str, str, str]:
    said = [f"predicted {number(e.predicted, 3)}{f' ({e.status})' if e.status else ''}"] if e.predicted is not None else []
    said += [f"measured {_measured(e)}"] if e.measured is not None else []
    said += [e.reason] if e.reason else []
    return SAID[e.outcome], e.name, f"{e.what}, {_subject(e)}" if _subject(e) else e.what, "; ".join(said)


def _subject(e: ExperimentPart) -> str:
    return " ".join(part for part in (e.kind, e.sublayer, e.group) if part)


def _measured(e: ExperimentPart) -> str:
    if e.measured is None:
        return "–"
    between = f" [{number(e.interval[0], 3)}, {number(e.interval[1], 3)}]" if e.interval is not None and e.interval[0] != e.interval[1] else ""
    return f"{number(e.measured, 3)}{between}"


__all__ = ["Pictures", "markdown", "tally", "text"]
