"""What was measured, as text, Markdown and JSON: one line for each prediction."""

from __future__ import annotations

import json
from collections import Counter

from screen.model import ExperimentPart, ProbePart, Report
from screen.probe.plan import Outcome
from screen.report.words import clean

ORDER: tuple[Outcome, ...] = ("refuted", "confirmed", "observed", "not_applicable", "not_measured")
SAID = {"refuted": "REFUTED", "confirmed": "confirmed", "observed": "measured", "not_applicable": "not applicable", "not_measured": "not measured"}


def render(reports: list[Report], name: str, *, quiet: bool = False) -> str:
    """`screen probe`: the probes of some models in one format."""
    if name == "json":
        if len(reports) == 1:
            return reports[0].to_json()
        return json.dumps([json.loads(r.to_json()) for r in reports], indent=2, sort_keys=True) + "\n"
    made = []
    for report in reports:
        if name == "markdown":
            made.append(f"# Probe of `{clean(report.target.spec)}`\n\n" + "\n".join(markdown(report.probe)) + "\n" if report.probe else "")
        else:
            lines = text(report.probe) if report.probe else []
            made.append("".join(f"{line}\n" for line in [f"{clean(report.target.spec)}: {tally(report.probe)}", *([] if quiet else lines)]))
    return "\n".join(made)


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


def markdown(probe: ProbePart) -> list[str]:
    """A table of experiments."""
    from screen.report.markdown import code
    from screen.report.markdown import text as escaped

    lines = [f"Measured on {escaped(probe.device)}, {probe.dtype}, seed {probe.seed}: {tally(probe)}.", ""]
    lines += [f"Interrupted: {escaped(probe.interrupted)}", ""] if probe.interrupted else []
    lines += ["| experiment | of | predicted | measured | outcome | why |", "|---|---|---|---|---|---|"]
    for e in probe.experiments:
        of = code(_subject(e)) if _subject(e) else "–"
        cells = [e.name, of, _number(e.predicted), _measured(e), SAID[e.outcome], escaped(e.reason) if e.reason else "–"]
        lines.append("| " + " | ".join(str(c) for c in cells) + " |")
    return lines


def _row(e: ExperimentPart) -> tuple[str, str, str, str]:
    said = [f"predicted {_number(e.predicted)}{f' ({e.status})' if e.status else ''}"] if e.predicted is not None else []
    said += [f"measured {_measured(e)}"] if e.measured is not None else []
    said += [e.reason] if e.reason else []
    return SAID[e.outcome], e.name, f"{e.what}, {_subject(e)}" if _subject(e) else e.what, "; ".join(said)


def _subject(e: ExperimentPart) -> str:
    return " ".join(part for part in (e.kind, e.sublayer, e.group) if part)


def _measured(e: ExperimentPart) -> str:
    if e.measured is None:
        return "–"
    between = f" [{_number(e.interval[0])}, {_number(e.interval[1])}]" if e.interval is not None and e.interval[0] != e.interval[1] else ""
    return f"{_number(e.measured)}{between}"


def _number(value: float | str | None) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.3g}"


__all__ = ["markdown", "render", "tally", "text"]
