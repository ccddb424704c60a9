"""The table of the zoo in docs/probe.md: `python -m tests.probe … --record FILE --write`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.expected import between
from tests.probe.zoo import OUTCOMES, Result, table
from tests.shared import ROOT

PAGE = ROOT / "docs" / "probe.md"
SLOW = 20.0
"""Seconds of processor time from which a model has a line of its own."""
MOSTLY = 0.5
"""Share of predictions that were not measured from which it has one."""


def write(results: Sequence[Result]) -> None:
    """Put it into the page."""
    before, _, after = between(PAGE.read_text(encoding="utf-8"), "zoo")
    PAGE.write_text(f"{before}\n{page(results)}\n\n{after}", encoding="utf-8")


def page(results: Sequence[Result]) -> str:
    """Totals, every model that stands out, and why something was not measured."""
    run = [r for r in results if r.found]
    seconds = sorted(r.seconds for r in run)
    exact = Counter(e["outcome"] for r in run for e in r.found if e["name"] == "invariance" and e["status"] == "exact")
    took = f"{seconds[len(seconds) // 2]:.0f} s of processor time in the median, {seconds[-1]:.0f} s at most" if seconds else ""
    lines = [
        f"{len(run)} models, {took}: {exact['confirmed']} exact degrees confirmed, {exact['refuted']} refuted, {exact['not_measured']} not measured,"
        f" {exact['not_applicable']} of branches with J = 0.", "", *table(results)[: _totals(results)],
    ]  # fmt: skip
    rows = [f"| `{r.name}` | {r.seconds:.0f} | {_said(r)} |" for r in results if _said(r)]
    heading = ["", "Models that stand out:", "", "| model | seconds | why |", "|---|---|---|", *rows] if rows else []
    why = Counter(e["reason"] for r in run for e in r.found if e["outcome"] == "not_measured")
    reasons = [f"| {n} | {_cell(w)} |" for w, n in why.most_common()]
    return "\n".join([*lines, *heading, "", "Why something was not measured:", "", "| predictions | reason |", "|---|---|", *reasons])


def _totals(results: Sequence[Result]) -> int:
    """Lines of the table of totals."""
    return table(results).index("")


def _said(result: Result) -> str:
    """What is to be told of a model; empty where all went well."""
    if result.error:
        return _cell(f"not built: {result.error}")
    predictions = [e for e in result.found if e["outcome"] in OUTCOMES[:3]]
    said = [f"refuted: {e['name']}, {e['what']} of {e['sublayer']}: {e['reason']}" for e in predictions if e["outcome"] == "refuted"]
    said += ["slow"] if result.seconds > SLOW else []
    lost = Counter(e["reason"] for e in predictions if e["outcome"] == "not_measured")
    if predictions and lost.total() > MOSTLY * len(predictions):
        said.append(f"{lost.total()} of {len(predictions)} not measured: {lost.most_common(1)[0][0]}")
    return _cell("; ".join(said))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


__all__ = ["page", "write"]
