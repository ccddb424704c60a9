"""Reports side by side: what differs in structure, in channels and in claims, one row for each thing that can be said of every target."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from io import StringIO

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from screen.report import answer, derived, words
from screen.report.escape import text as escaped
from screen.report.schema import Channel, ClaimPart, Report, State, StreamPart, Tool
from screen.verdict.channels import CHANNELS
from screen.visible import clean, quoted

ORDER: tuple[State, ...] = ("closed", "guarded", "out_of_scope", "conditional", "unknown", "open")
"""States of a channel from best to worst."""
SECTIONS = ("verdict", "learning rate", "channels", "structure", "claims")
FORMATS = ("text", "markdown", "json")


class Row(BaseModel):
    """One thing, with what is said of it for each target; null where a target has nothing of the kind."""

    section: str
    what: str
    values: list[str | None]
    differs: bool


class Comparison(BaseModel):
    """Several reports side by side."""

    schema_version: str = "1"
    tool: Tool
    targets: list[str]
    rows: list[Row]
    worse: list[str]
    """Channels that are worse in a later target than in the first."""

    def __str__(self) -> str:
        return render(self, "text")

    def _repr_markdown_(self) -> str:
        """Shows itself in a notebook."""
        return render(self, "markdown")


def compare(reports: Sequence[Report]) -> Comparison:
    """All rows, those that are equal everywhere as well."""
    tables = [dict(_rows(report)) for report in reports]
    keys = sorted(dict.fromkeys(key for table in tables for key in table), key=lambda key: SECTIONS.index(key[0]))
    rows = []
    for section, what in keys:
        values = [table.get((section, what)) for table in tables]
        rows.append(Row(section=section, what=what, values=values, differs=len(set(values)) > 1))
    return Comparison(tool=reports[0].tool, targets=_names(reports), rows=rows, worse=_worse(reports))


def _names(reports: Sequence[Report]) -> list[str]:
    """What the targets are called; with their settings where two have one name."""
    specs = [clean(r.target.spec) for r in reports]
    changed = [", ".join(f"{key}={json.dumps(new)}" for key, (_, new) in r.target.changed.items()) for r in reports]
    return [f"{spec} ({said})" if said and specs.count(spec) > 1 else spec for spec, said in zip(specs, changed, strict=True)]


def _worse(reports: Sequence[Report]) -> list[str]:
    first = {c.id: ORDER.index(c.state) for c in reports[0].channels}
    return [c for c in CHANNELS if any(ORDER.index(o.state) > first.get(c, 0) for r in reports[1:] for o in r.channels if o.id == c)]


def _rows(report: Report) -> Iterator[tuple[tuple[str, str], str]]:
    yield ("verdict", "verdict"), words.headline(report)
    yield ("verdict", "summary"), clean(report.summary)
    for name, said in answer.rates_by_channel(report):
        yield ("learning rate", words.risk(report, name) if name in words.RISKS else "expected to train"), said
    for channel in report.channels:
        yield ("channels", f"{channel.id} {CHANNELS[channel.id]}"), _channel(channel)
    yield ("structure", "parameters"), words.count(report.target.parameters)
    for stream in report.streams:
        yield from ((("structure", f"{stream.name}: {what}"), value) for what, value in _structure(stream, report.claims))
    for claim in report.claims:
        if claim.claim not in ("degree", "lr_max"):
            of = [w for w in (claim.stream, claim.kind, claim.sublayer, claim.group) if w]
            yield ("claims", f"{claim.claim.replace('_', ' ')} ({claim.weights}){': ' if of else ''}{' '.join(of)}"), _claim(claim)


def _channel(channel: Channel) -> str:
    return words.STATES.get(channel.state, channel.state)


def _structure(stream: StreamPart, claims: list[ClaimPart]) -> Iterator[tuple[str, str]]:
    yield "width", words.number(stream.width)
    yield "blocks", words.blocks(stream)
    yield from ((what, value) for what, value in words.stream_facts(stream, claims))
    for kind in stream.kinds:
        for sublayer in kind.sublayers:
            yield f"{kind.id} {sublayer.name}", f"{words.role(sublayer)} {words.placement(sublayer)}: {words.formula(sublayer)}"
            yield f"{kind.id} {sublayer.name}, norms", "; ".join(words.norms(sublayer)) or "none"
            yield f"{kind.id} {sublayer.name}, QK-norm", words.qk_norm(sublayer)
            yield f"{kind.id} {sublayer.name}, residual scale", words.residual(sublayer.residual)
            yield f"{kind.id} {sublayer.name}, m", derived.orders(sublayer.m)
            yield f"{kind.id} {sublayer.name}, adds", derived.adds(sublayer)


def _claim(claim: ClaimPart) -> str:
    if claim.status == "unknown" or (claim.measured is not None and claim.measured.agrees is False):
        return "unknown"
    if claim.value is None and (claim.low is not None or claim.high is not None):
        return f"{words.number(claim.low)} to {words.number(claim.high)}"
    return words.value_of(claim.value)


# -- formats --------------------------------------------------------------------------------------------------------------------------------


def render(comparison: Comparison, format: str, *, verbose: bool = False, width: int | None = None) -> str:
    """As text, Markdown or JSON. `verbose`: also the rows that are equal everywhere, which JSON always has."""
    if format == "json":
        return quoted(json.dumps(comparison.model_dump(mode="json"), indent=2, sort_keys=True)) + "\n"
    rows = [row for row in comparison.rows if verbose or row.differs or row.section in ("verdict", "learning rate", "channels")]
    return _markdown(comparison, rows) if format == "markdown" else _text(comparison, rows, width)


def _ending(comparison: Comparison) -> str:
    if comparison.worse:
        return f"worse than in {comparison.targets[0]}: {', '.join(comparison.worse)}"
    return f"no channel is worse than in {comparison.targets[0]}"


def _text(comparison: Comparison, rows: list[Row], width: int | None) -> str:
    out = StringIO()
    console = Console(file=out, width=width or 10_000, color_system=None, highlight=False, markup=False, emoji=False, soft_wrap=width is None)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for title in ("", *comparison.targets):
        table.add_column(Text(title), overflow="fold")
    section = ""
    for row in rows:
        if row.section != section:
            table.add_row(Text(row.section), *(Text("") for _ in comparison.targets))
            section = row.section
        table.add_row(Text(f"{'*' if row.differs else ' '} {clean(row.what)}"), *(Text(v if v is not None else "–") for v in row.values))
    console.print(table)
    console.print(Text(_ending(comparison)))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _markdown(comparison: Comparison, rows: list[Row]) -> str:
    lines = ["# " + " against ".join(escaped(f"`{t}`") for t in comparison.targets), ""]
    for section in SECTIONS:
        mine = [row for row in rows if row.section == section]
        if mine:
            lines += [f"## {section.capitalize()}", "", "| | " + " | ".join(escaped(t) for t in comparison.targets) + " |"]
            lines += ["|---" * (len(comparison.targets) + 1) + "|"]
        for row in mine:
            cells = [escaped(v) if v is not None else "–" for v in row.values]
            lines.append(f"| {'**' if row.differs else ''}{escaped(row.what)}{'**' if row.differs else ''} | " + " | ".join(cells) + " |")
        lines += [""] if mine else []
    return "\n".join([*lines, f"{escaped(_ending(comparison))}.", ""])


__all__ = ["FORMATS", "Comparison", "Row", "compare", "render"]
