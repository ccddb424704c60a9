"""The report for a terminal or a log.

On a terminal (`width` given) lines wrap at its width; elsewhere every line is as long as it is, so that the text does not depend on a
width. Colour only on request. Text from the model goes through `Text`, never through rich's markup, and without control characters.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from screen.report import derived, groups, probe, words
from screen.report.schema import FindingPart, KindPart, Report, Reports, Source, StreamPart, SublayerPart
from screen.report.words import clean

UNLIMITED = 10_000
COLOURS = {
    "stable": "bold green", "conditional": "bold yellow", "unknown": "bold magenta", "unstable": "bold red",
    "error": "bold red", "warning": "yellow", "note": "cyan",
    "closed": "green", "guarded": "green", "open": "bold red", "out_of_scope": "dim",
}  # fmt: skip


def render(report: Report | Reports, *, color: bool = False, width: int | None = None, verbose: bool = False, **_: object) -> str:
    """The report as text. `width`: columns of the terminal, None when there is none. `verbose`: also what holds, with assumptions."""
    out = StringIO()
    console = Console(
        file=out, width=width or UNLIMITED, color_system="standard" if color else None, force_terminal=color, no_color=False,
        legacy_windows=False, highlight=False, markup=False, emoji=False, soft_wrap=width is None,
    )  # fmt: skip
    reports = report.reports if isinstance(report, Reports) else [report]
    for i, one in enumerate(reports):
        if i:
            console.print()
        for item in _report(one, verbose, width):
            console.print(item)
    if isinstance(report, Reports):
        console.print()
        console.print(Text(f"{len(reports)} targets, the worst verdict is ").append(report.verdict, COLOURS[report.verdict]))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def render_probe(reports: list[Report], *, quiet: bool = False, **_: object) -> str:
    """One line for each model, and under it one for each experiment unless `quiet`."""
    made = []
    for report in reports:
        lines = [] if quiet or report.probe is None else probe.text(report.probe)
        made.append("".join(f"{line}\n" for line in [f"{clean(report.target.spec)}: {probe.tally(report.probe)}", *lines]))
    return "\n".join(made)


def _report(report: Report, verbose: bool, width: int | None) -> Iterator[RenderableType]:
    yield Text.assemble((words.headline(report), COLOURS[report.verdict]), (f"  {clean(report.summary)}", "bold"))
    yield Text(f"  {clean(' · '.join(words.target_facts(report)))}", "dim")
    yield from (Text(f"  {clean(note)}", "yellow") for note in report.target.notes)
    yield from (Text(f"  {'' if place else 'recipe: '}{clean(line)}", "dim") for place, line in enumerate(words.recipe(report)))
    if report.error:
        yield Text("")
        yield _error(report)
    for stream in report.streams:
        yield Text("")
        yield from _stream(stream, width, verbose)
    yield from _findings(report, verbose)
    if report.streams:
        yield from _channels(report)
    if report.probe is not None:
        yield Text("")
        yield from (Text(line) for line in probe.text(report.probe))
    yield from _coverage(report)


def _error(report: Report) -> Text:
    error = report.error
    assert error is not None
    where = f" ({clean(error.file)}:{error.line})" if error.file else ""
    return Text.assemble((f"not judged, {error.stage}: ", COLOURS["error"]), f"{clean(error.message)}{where}")


def _stream(stream: StreamPart, width: int | None, verbose: bool) -> Iterator[RenderableType]:
    head = f"{stream.name}" if stream.name == "stream" else f"stream {stream.name}"
    yield Text.assemble((clean(head), "bold"), f"  width {words.number(stream.width)} · {words.blocks(stream)} · {clean(stream.dtype)}")
    yield Text("  " + " · ".join(f"{label}: {value}" for label, value in words.stream_facts(stream)))
    for skip in stream.long_skips:
        yield Text(f"  long skip at {_where(skip)}")
    for place in stream.identity_path.breaks:
        yield Text(f"  the identity path breaks at {_where(place)}")
    for kind in stream.kinds:
        yield Text.assemble((f"  {kind.count}× ", "bold"), f"{words.layers(kind)} · {clean(kind.module) or '(root)'}")
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


def _table(kind: KindPart) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for column in ("sublayer", "placement", "formula", "norms", "QK-norm", "residual scale", "maps", "m", "adds", "where"):
        table.add_column(column)
    for sublayer in kind.sublayers:
        group = "" if sublayer.parallel_group is None else " ∥"
        style = COLOURS["unknown"] if sublayer.placement == "unknown" else "bold"
        table.add_row(
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
    return table


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


def _findings(report: Report, verbose: bool) -> Iterator[RenderableType]:
    if not report.findings:
        return
    yield Text("")
    yield Text.assemble(("findings", "bold"), f"  {len(groups.worth_reading(report))} to read; {groups.tally(report)}")
    for group in groups.worth_reading(report):
        yield from _finding(group.first, verbose)
        if group.others:
            yield Text(f"       and {group.count - 1} like it: {clean(', '.join(groups.folded(list(group.others))))}", "dim")
    if verbose:
        for finding in groups.quiet(report):
            yield from _finding(finding, verbose)


def _finding(finding: FindingPart, verbose: bool) -> Iterator[RenderableType]:
    outcome = words.OUTCOMES.get(finding.outcome, finding.outcome)
    name = (f"  {clean(finding.code)} {clean(finding.name)}", COLOURS[finding.severity])
    yield Text.assemble(name, f"  {outcome}: {clean(finding.message)}")
    if finding.file:
        yield Text(f"       {clean(finding.file)}:{finding.line}", "dim")
    if finding.remedy and finding.outcome != "holds":
        yield Text(f"       option: {clean(finding.remedy)}")
    if verbose:
        extra = [f"{k} = {words.number(v)}" for k, v in finding.numbers.items()]
        extra += [finding.theorem] if finding.theorem else []
        extra += [f"assumes {a}" for a in finding.assumptions]
        if extra:
            yield Text("       " + clean(f"{finding.basis}; " + "; ".join(extra)), "dim")


def _channels(report: Report) -> Iterator[RenderableType]:
    yield Text("")
    yield Text("channels", "bold")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False, show_edge=False)
    same: dict[tuple[str, str], list[str]] = {}
    for channel in report.channels:
        same.setdefault((channel.state, channel.reason), []).append(channel.id)
    for (state, reason), ids in same.items():
        shown = Text(words.STATES.get(state, state), COLOURS.get(state, "yellow"))
        table.add_row(Text(" ".join(ids), "bold"), shown, Text(clean(reason)))
    yield Padding(table, (0, 0, 0, 2), expand=False)
    for condition in report.conditions:
        yield Text(f"  condition: {clean(words.condition(condition))}")


def _coverage(report: Report) -> Iterator[RenderableType]:
    coverage = report.coverage
    if not coverage.ops and not coverage.rules_not_run:
        return
    yield Text("")
    yield Text.assemble(("coverage", "bold"), f"  {coverage.ops_modelled} of {coverage.ops} ops modelled")
    for place, line in enumerate(words.spot_check(report)):
        yield Text(f"  {'' if place else 'spot check: '}{clean(line)}", COLOURS["warning"] if place else "")
    for op in coverage.unmodelled:
        where = "on a stream" if op.on_stream else "off the streams"
        yield Text(f"  without a row: {clean(op.op)}, {op.count} time{'' if op.count == 1 else 's'}, {where}, first at {_where(op.source)}")
    for guess in coverage.guesses:
        yield Text(f"  guessed at {clean(guess.file or '?')}:{guess.line}: {clean(guess.assumed)}")
    for part in coverage.stamped:
        yield Text(f"  {clean(part.container)}: {len(part.ran)} of {part.members} equal members ran, the others are taken to be like them")
    for module in groups.folded(coverage.modules_uncalled):
        yield Text(f"  never called: {clean(module)}")
    if coverage.rules_left_out:
        yield Text(f"  left out by choice, counted for the verdict and not for the exit code: {clean(', '.join(coverage.rules_left_out))}")
    for rule in coverage.rules_not_run:
        yield Text(f"  rule not run: {clean(rule.rule)}, {clean(rule.reason)}", COLOURS["warning"])


__all__ = ["render", "render_probe"]
