"""The report for a terminal or a log: what `screen.report.answer` says, findings, channels in words, then tables.

On a terminal (`width` given) lines wrap at its width, what belongs to a line below its beginning; elsewhere every line is as long as it is, so that
the text does not depend on a width. Colour only on request, and none that is hard to read on a light or a dark ground. Text from the model goes
through `Text`, never through rich's markup, and without control characters.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from functools import partial
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from screen.report import answer as first
from screen.report import derived, groups, probe, words
from screen.report.schema import ClaimPart, FindingPart, KindPart, Report, Reports, Source, StreamPart, SublayerPart
from screen.verdict.channels import ORDER
from screen.visible import clean

UNLIMITED = 10_000
INDENT = 7
"""Columns before what belongs to a finding."""
GREEN, MAGENTA, RED = "color(29)", "color(133)", "color(167)"
"""Of xterm's cube of 256, which are the same everywhere: what a terminal shows for its own 16 is at times hard to read (xterm's green on white has a
contrast of 2.1, the magenta of Windows on its black 2.4). Each of these has 3.6 at least on white and on black, and 3 on grounds between."""
COLOURS = {
    "stable": f"bold {GREEN}", "conditional": f"bold {MAGENTA}", "unknown": "bold reverse", "unstable": f"bold {RED}",
    "error": f"bold {RED}", "warning": MAGENTA, "note": "bold",
    "closed": GREEN, "guarded": GREEN, "open": f"bold {RED}", "out_of_scope": "dim",
}  # fmt: skip
MEASURED = {probe.SAID["refuted"]: f"bold {RED}", probe.SAID["confirmed"]: GREEN}
"""Colours of outcomes that say something of a prediction."""


def render(
    report: Report | Reports, *, color: bool = False, width: int | None = None, verbose: bool = False, quiet: bool = False, **_: object
) -> str:
    """The report as text. `width`: columns of the terminal, None when there is none. `verbose`: also what holds, with assumptions, formulas and the
    reasons of channels. `quiet`: `path:line: verdict: reason` for each target and nothing else."""
    reports = report.reports if isinstance(report, Reports) else [report]
    if quiet:
        return "".join(f"{first.line(one)}\n" for one in reports)
    out = StringIO()
    console = _console(out, color, width)
    for i, one in enumerate(reports):
        if i:
            console.print()
        for item in _report(one, verbose, width):
            console.print(item)
    if isinstance(report, Reports):
        console.print()
        console.print(_totals(reports, width))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _console(out: StringIO, color: bool, width: int | None) -> Console:
    return Console(
        file=out, width=width or UNLIMITED, color_system="256" if color else None, force_terminal=color, no_color=False,
        legacy_windows=False, highlight=False, markup=False, emoji=False, soft_wrap=width is None,
    )  # fmt: skip


def totals(reports: list[Report], *, color: bool = False, width: int | None = None, **_: object) -> str:
    """The last line under several reports: how many of each verdict."""
    out = StringIO()
    console = _console(out, color, width)
    console.print(_totals(reports, width))
    return out.getvalue()


def _totals(reports: list[Report], width: int | None) -> Text:
    counts = Counter(r.verdict for r in reports)
    each = ", ".join(f"{counts[v]} {v}" for v in reversed(ORDER) if counts[v])
    return _hang(f"{len(reports)} targets: {each}", "", 2, width)


def _hang(head: str, body: str, indent: int, width: int | None, *, style: str = "", rest: str = "") -> Text:
    """A line that begins with `head` in a style; where it is too wide for the terminal it goes on further to the right."""
    text = head + body
    if width is not None and len(text) > width:
        text = "\n".join(textwrap.wrap(text, max(width, indent + 8), subsequent_indent=" " * indent, break_on_hyphens=False))
    found = Text(text, rest)
    if style:
        found.stylize(style, 0, len(head))
    return found


def render_probe(reports: list[Report], *, color: bool = False, quiet: bool = False, **_: object) -> str:
    """One line for each model, and under it one for each experiment unless `quiet`."""
    out = StringIO()
    console = _console(out, color, None)
    for place, report in enumerate(reports):
        if place and not quiet:
            console.print()
        console.print(f"{clean(report.target.spec)}: {probe.tally(report.probe)}")
        for line in _measured(report) if not quiet else ():
            console.print(line)
    return out.getvalue()


def _measured(report: Report) -> Iterator[Text]:
    """Lines of what was measured, where it was; its outcome is coloured."""
    for line in probe.text(report.probe) if report.probe is not None else ():
        word = next((word for word in MEASURED if line.lstrip().startswith(word)), "")
        yield _hang(line[: line.index(word) + len(word)], line[line.index(word) + len(word) :], 0, None, style=MEASURED.get(word, ""))


def _report(report: Report, verbose: bool, width: int | None) -> Iterator[RenderableType]:
    said = first.answer(report)
    yield _hang(words.headline(report), f": {clean(said.verdict)}", 2, width, style=COLOURS[report.verdict], rest="bold")
    if report.error:
        yield _error(report, width)
    elif said.reason:
        yield _hang(f"  {clean(said.reason)}", "", 2, width)
    yield _hang(f"  {clean(said.model)}", "", 4, width)
    yield _hang(f"  {clean(' · '.join(words.target_facts(report)))}", "", 4, width, rest="dim")
    yield from (_hang(f"  {clean(note)}", "", 4, width) for note in report.target.notes)
    yield from (_hang("  " if place else "  recipe: ", clean(line), 4, width, rest="dim") for place, line in enumerate(words.recipe(report)))
    if origin := words.settings(report):
        yield _hang("  settings: ", clean(origin), 4, width, rest="dim")
    yield from _first(said, width)
    yield from _findings(report, verbose, width)
    if report.streams:
        yield from _channels(report, said, verbose, width)
    for stream in report.streams:
        yield Text("")
        yield from _stream(stream, report.claims, width, verbose)
    if gain := words.whole_gain(report):
        yield Text("")
        yield _hang("model  gain of all identity paths together: ", clean(gain), 2, width)
    if report.probe is not None:
        yield Text("")
        yield from _measured(report)
    yield from _coverage(report, width)
    if report.streams or report.findings:
        yield Text("")
        yield _hang("`screen explain TERM` says what a word means, `screen rule CODE` what a check looks for.", "", 2, width, rest="dim")


def _first(said: first.Answer, width: int | None) -> Iterator[RenderableType]:
    """The learning rate, and what to change."""
    for place, tolerated in enumerate(said.rates):
        if not place:
            yield Text("")
        head = "learning rate" if not place else ""
        yield _hang(f"{head:<15}", clean(tolerated), 17, width, style="bold")
    for place, both in enumerate(said.sides):
        yield _hang(f"{'what decides' if not place else '':<15}", clean(both), 17, width, style="bold")
    if said.changes:
        yield Text("")
        yield Text("what would help most", "bold")
    for number, change in enumerate(said.changes, 1):
        where = clean(", ".join(change.places))
        yield _hang(f"  {number}. {where}{': ' if where else ''}", clean(_aimed(change.what, change.against)), 5, width, style="bold")
        for gain in change.gains:
            yield _hang("     predicted: ", clean(gain), 7, width)


def _aimed(what: str, against: str) -> str:
    return f"{what} (for: {against})" if against else what


def _error(report: Report, width: int | None) -> Text:
    error = report.error
    assert error is not None
    where = f" ({clean(error.file)}:{error.line})" if error.file else ""
    return _hang(f"  not judged, {error.stage}: ", f"{clean(error.message)}{where}", 4, width, style=COLOURS["error"])


def _stream(stream: StreamPart, claims: list[ClaimPart], width: int | None, verbose: bool) -> Iterator[RenderableType]:
    head = f"{stream.name}" if stream.name == "stream" else f"stream {stream.name}"
    yield Text.assemble((clean(head), "bold"), f"  width {words.number(stream.width)} · {words.blocks(stream)} · {clean(stream.dtype)}")
    yield _hang("  ", " · ".join(f"{label}: {value}" for label, value in words.stream_facts(stream, claims)), 4, width)
    for place, times in groups.counted(stream.long_skips):
        yield _hang("  long skip at ", f"{_where(place)}{times}", 4, width)
    for place, times in groups.counted(stream.identity_path.breaks):
        yield _hang("  the identity path breaks at ", f"{_where(place)}{times}", 4, width)
    for same in [[kind] for kind in stream.kinds] if verbose else groups.read_alike(stream.kinds, partial(_lines, stream)):
        kind = groups.joined(same)
        alike = f" · {len(same)} kinds that read alike" if len(same) > 1 else ""
        yield Text.assemble((f"  {kind.count}× ", "bold"), f"{words.layers(kind)} · {clean(kind.module) or '(root)'}{alike}")
        table = _table(kind)
        if width is None or Console(width=UNLIMITED).measure(table).maximum + 4 <= width:
            yield Padding(table, (0, 0, 0, 4), expand=False)
        else:
            yield from _narrow(kind)
        for sublayer in kind.sublayers:
            for remark in words.remarks(sublayer, stream):
                yield Text(f"    {clean(sublayer.name)}: {clean(remark)}")
            if verbose:
                yield from _calculus(sublayer)


def _calculus(sublayer: SublayerPart) -> Iterator[Text]:
    """Expressions, degrees and symbols of one sublayer."""
    name = clean(sublayer.name)
    if sublayer.m.path:
        yield Text(f"    {name}: weights {clean(words.names(sublayer.m.path))}")
    for label, expression in derived.expressions(sublayer):
        yield Text(f"    {name}: {label} {_plain(expression)}")
    for group, degree in (sublayer.degrees or {}).items():
        yield Text(f"    {name}: ‖J‖ ~ {clean(group)}^{words.number(degree.predicted)} ({degree.status})", "dim")
    for symbol, meaning in sublayer.symbols.items():
        yield Text(f"    {name}: {clean(symbol)} = {clean(meaning)}", "dim")


def _plain(expression: str) -> str:
    """SymPy is loaded for the first one."""
    from screen.report.printers import plain

    return expression if expression == "infinite" else plain(expression)


def _lines(stream: StreamPart, kind: KindPart) -> tuple[object, ...]:
    """All that is shown of a kind without its bounds."""
    return tuple((*(str(cell) for cell in _row(s)), *words.remarks(s, stream)) for s in kind.sublayers)


def _table(kind: KindPart) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for column in ("sublayer", "placement", "formula", "norms", "QK-norm", "residual scale", "maps", "m", "adds", "where"):
        table.add_column(column)
    for sublayer in kind.sublayers:
        table.add_row(*_row(sublayer))
    return table


def _row(sublayer: SublayerPart) -> tuple[Text, ...]:
    group = "" if sublayer.parallel_group is None else " ∥"
    style = COLOURS["unknown"] if sublayer.placement == "unknown" else "bold"
    return (
        Text(clean(words.title(sublayer)) + group),
        Text(words.placement(sublayer), style),
        Text(clean(words.formula(sublayer))),
        Text("\n".join(words.norms(sublayer)) or "–"),
        Text(words.qk_norm(sublayer)),
        Text(words.residual(sublayer.residual)),
        Text(words.number(sublayer.m.maps)),
        Text(derived.orders(sublayer.m)),
        Text(derived.adds(sublayer)),
        Text(_where(sublayer.source), "dim"),
    )


def _narrow(kind: KindPart) -> Iterator[Text]:
    """What the table says, below each other: for a terminal that the table does not fit in."""
    for sublayer in kind.sublayers:
        group = "" if sublayer.parallel_group is None else " ∥"
        style = COLOURS["unknown"] if sublayer.placement == "unknown" else "bold"
        name = f"    {clean(words.title(sublayer))}{group}: "
        yield Text.assemble(name, (clean(words.placement(sublayer)), style), f"   {clean(words.formula(sublayer))}")
        for norm in words.norms(sublayer):
            yield Text(f"      {norm}")
        said = [("QK-norm", words.qk_norm(sublayer), ("–", "none")), ("residual", words.residual(sublayer.residual), ("none",))]
        rest = [f"{label} {value}" for label, value, quiet in said if value not in quiet]
        counts = f"{words.number(sublayer.m.maps)} maps, m {derived.orders(sublayer.m)}, adds {derived.adds(sublayer)}"
        yield Text(f"      {', '.join([*rest, counts])}")
        yield Text(f"      {_where(sublayer.source)}", "dim")


def _where(source: Source) -> str:
    return clean(f"{source.file or '?'}:{source.line}" if source.line else source.file or source.module or "?")


def _findings(report: Report, verbose: bool, width: int | None) -> Iterator[RenderableType]:
    if not report.findings:
        return
    yield Text("")
    yield _hang("findings", f"  {len(groups.worth_reading(report))} to read; {groups.tally(report)}", 2, width, style="bold")
    for family in groups.families(report):
        yield from _finding(family[0].first, verbose, width)
        for group in family[1:]:
            about, at = words.subject(group.first, report), words.place(group.first)
            beside = f" at {at}" if at and about != f"`{at}`" else ""
            yield _hang(" " * INDENT, clean(f"also {about}{beside}"), INDENT + 2, width, rest="dim")
        for group in family:
            if group.others:
                more = f"and {group.count - 1} like it: {clean(', '.join(groups.folded(list(group.others))))}"
                yield _hang(" " * INDENT, more, INDENT + 2, width, rest="dim")
    if verbose:
        for finding in groups.quiet(report):
            yield from _finding(finding, verbose, width)


def _finding(finding: FindingPart, verbose: bool, width: int | None) -> Iterator[RenderableType]:
    outcome = words.OUTCOMES.get(finding.outcome, finding.outcome)
    head = f"  {clean(finding.code)} {clean(finding.name)}"
    yield _hang(head, f"  {outcome}: {clean(finding.said)}", INDENT, width, style=COLOURS[finding.severity])
    if finding.file:
        yield Text(f"{' ' * INDENT}{clean(finding.file)}:{finding.line}", "dim")
    if finding.remedy and finding.outcome != "holds":
        yield _hang(" " * INDENT, f"option: {clean(finding.remedy)}", INDENT + 2, width)
    if verbose:
        extra = [finding.message] if finding.plain else []
        extra += [f"{k} = {words.number(v)}" for k, v in finding.numbers.items()]
        extra += [finding.theorem] if finding.theorem else []
        extra += [f"assumes {a}" for a in finding.assumptions]
        if extra:
            yield _hang(" " * INDENT, clean(f"{finding.basis}; " + "; ".join(extra)), INDENT + 2, width, rest="dim")


def _channels(report: Report, said: first.Answer, verbose: bool, width: int | None) -> Iterator[RenderableType]:
    """What can go wrong, in words; `verbose`: also the reason of each state."""
    yield Text("")
    yield Text("what can go wrong", "bold")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False, show_edge=False)
    reasons: dict[str, str] = {c.id: c.reason for c in report.channels}
    for risk in said.risks:
        words_ = [clean(risk.said), *(dict.fromkeys(clean(reasons[i]) for i in risk.ids) if verbose else ())]
        table.add_row(Text(" ".join(risk.ids), "bold"), Text(risk.name), Text("\n".join(words_), COLOURS.get(risk.state, "")))
    yield Padding(table, (0, 0, 0, 2), expand=False)
    for text in said.assumed:
        yield _hang("  assumed: ", clean(text), 4, width)


def _coverage(report: Report, width: int | None) -> Iterator[RenderableType]:
    coverage = report.coverage
    if not coverage.ops and not coverage.rules_not_run:
        return
    yield Text("")
    yield Text.assemble(("coverage", "bold"), f"  {coverage.ops_modelled} of {coverage.ops} ops modelled")
    for place, line in enumerate(words.spot_check(report)):
        yield _hang(f"  {'' if place else 'spot check: '}", clean(line), 4, width, rest=COLOURS["warning"] if place else "")
    for op in coverage.unmodelled:
        where = "on a stream" if op.on_stream else "off the streams"
        times = f"{op.count} time{'' if op.count == 1 else 's'}"
        yield _hang("", f"  without a row: {clean(op.op)}, {times}, {where}, first at {_where(op.source)}", 4, width)
    for guess, times in groups.counted(coverage.guesses):
        yield _hang("", f"  guessed at {clean(guess.file or '?')}:{guess.line}: {clean(guess.assumed)}{times}", 4, width)
    for part in coverage.stamped:
        ran = f"{len(part.ran)} of {part.members} equal members ran, the others are taken to be like them"
        yield _hang("", f"  {clean(part.container)}: {ran}", 4, width)
    for module in groups.folded(coverage.modules_uncalled):
        yield _hang("", f"  never called: {clean(module)}", 4, width)
    if coverage.rules_left_out:
        left_out = clean(", ".join(coverage.rules_left_out))
        yield _hang("", f"  left out by choice, counted for the verdict and not for the exit code: {left_out}", 4, width)
    for rule in coverage.rules_not_run:
        yield _hang("", f"  rule not run: {clean(rule.rule)}, {clean(rule.reason)}", 4, width, rest=COLOURS["warning"])


__all__ = ["render", "render_probe", "totals"]
