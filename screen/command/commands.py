"""What each command does, between the arguments and the pipeline: settings, the child, progress, where reports go, the exit code."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from screen import settings as configuration
from screen.child.host import Host
from screen.command import console
from screen.command.progress import Progress
from screen.command.targets import Wanted, named, wanted, without_models
from screen.errors import INTERRUPTED, UsageError
from screen.graph.target import TargetSpec
from screen.settings import Settings

if TYPE_CHECKING:
    from screen.pipeline.known import Known
    from screen.pipeline.stages import Judged
    from screen.report.schema import Report, Reports
    from screen.trusted import Trusted

STEP_SUMMARY = 1 << 20
"""Bytes that GitHub takes for the summary of a step."""
GATE = ("fail-on", "baseline", "update-baseline")
"""Settings that make findings count for `screen probe`, where they stand on the command line."""
Reason = tuple[int, str]
"""An exit code, and why in a few words; empty where an error has said it."""
GRAPH_FORMATS: tuple[Literal["text", "mermaid", "dot", "json", "graphml"], ...] = ("text", "mermaid", "dot", "json", "graphml")


def check(targets: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """`screen check`: the exit code of the contract's table, 2 over 1 over 0."""
    settings = _settings(options)
    asked = _asked("check", targets, settings, gate=True)
    if not asked:
        return 0
    live = _Live(settings, len(asked) > 1, lambda report: _text([report], settings))
    found, ended = _told(asked, settings, live)
    judged = _all(found)
    live.end(judged)
    _deliver(judged, settings)
    return INTERRUPTED if ended or _interrupted(judged) else exit_code(judged, settings)


def probe(targets: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """`screen probe`: what was measured. 1 when a prediction is refuted, 2 when nothing was measured; findings count where `GATE` says so."""
    settings = _settings({**options, "probe": True})
    _check_measurements(settings.format)
    gate = any(settings.origins[key] == "option" for key in GATE)
    asked = _asked("probe", targets, settings, gate)
    if not asked:
        return 0
    live = _Live(settings, len(asked) > 1, lambda report: _measurements([report], settings))
    found, ended = _told(asked, settings, live)
    judged = _all(found)
    _write_reports(judged, settings)
    shown = [j.report for j in judged if j.captured]
    if shown and not live.prints:
        _out(_measurements(shown, settings), settings)
    if ended or _interrupted(judged):
        return INTERRUPTED
    return _said([*_refuted(found), *(_gate(judged, settings) if gate else _raised(judged, settings))])


def _asked(command: str, targets: tuple[str, ...], settings: Settings, gate: bool) -> list[Wanted]:
    """What the command is about; empty where every file was left out. Folders of reports are made, and a baseline is looked at where findings count
    (`gate`). Raises `UsageError`."""
    asked = wanted(targets, settings, command)
    for one in without_models(asked) if settings.skip_without_model else []:
        console.line(f"skipped `{one.spec.text}`: no model can be read in it")
        asked.remove(one)
    if not asked:
        return []
    if gate:
        _check_baseline(settings)
    for _, path in settings.report:
        _make_folder(path)
    _check_places(asked, settings)
    return asked


def _told(asked: list[Wanted], settings: Settings, live: _Live) -> tuple[list[list[Judged]], bool]:
    """The reports on each target, told as they come, and whether Ctrl-C left some out."""
    judged: list[list[Judged]] = []
    try:
        for found in _judge(asked, settings):
            live(found)
            judged.append(found)
    except KeyboardInterrupt:
        if not judged:
            raise
        console.line(f"interrupted: the report holds what was judged before, of {len(asked)} targets")
        return judged, True
    return judged, False


class _Live:
    """What is said while targets are judged: errors, and the text of each report on stdout. A format that is one document waits for the last."""

    def __init__(self, settings: Settings, several: bool, text: Callable[[Report], str]) -> None:
        self._settings, self._several, self._text = settings, several, text
        self._begun = False

    def __call__(self, found: list[Judged]) -> None:
        """Everything about one target, or several."""
        _complain(found)
        if not self.prints:
            return
        for one in found:  # without a graph the text would only repeat stderr; in a list of lines none is missing
            if one.captured or (self._settings.quiet and self._several):
                self._print(self._text(one.report))

    def end(self, judged: list[Judged]) -> None:
        """How many of each verdict, where there are several."""
        if self.prints and len(judged) > 1 and not self._settings.quiet:
            from screen.report.formats.text import totals

            self._print(totals([j.report for j in judged], **_terminal(self._settings)))

    @property
    def prints(self) -> bool:
        """Whether each report goes to stdout as it comes."""
        return self._settings.format == "text" and self._settings.output is None

    def _print(self, text: str) -> None:
        if self._begun and not self._settings.quiet:
            sys.stdout.write("\n")
        self._begun = True
        sys.stdout.write(text)
        sys.stdout.flush()


def _measurements(shown: list[Report], settings: Settings) -> str:
    from screen.report import render_probe

    plots = _plots(settings.format, settings.output, shown)
    color = _terminal(settings)["color"]
    return render_probe(shown, settings.format, quiet=settings.quiet, short=settings.short, color=color, pictures=plots)


def _refuted(found: list[list[Judged]]) -> list[Reason]:
    """Of each target that exits with more than 0 the code, and why where no error says it."""
    reasons: list[Reason] = []
    for judged in found:
        outcomes = [e.outcome for j in judged if j.captured and j.report.probe for e in j.report.probe.experiments]
        of = f"`{judged[0].report.target.spec}`: " if judged and len(found) > 1 else ""
        failed = any(j.report.error for j in judged)
        if refuted := outcomes.count("refuted"):
            reasons.append((1, f"{of}{refuted} prediction{'s are' if refuted > 1 else ' is'} refuted"))
        elif failed or not any(o in ("confirmed", "observed") for o in outcomes):
            reasons.append((2, "" if failed else f"{of}nothing was measured"))
    return reasons


def _check_measurements(format: str) -> None:
    """A format of findings alone says nothing of measurements."""
    from screen import report

    if not report.has_probe(format):
        required = "`--format` must be one that has measurements: `text`, `markdown` or `json`"
        raise UsageError(required, f"it is `{format}`", f"`--report {format}=FILE` writes the whole report")


def _interrupted(judged: list[Judged]) -> bool:
    """Whether Ctrl-C ended the work; what was found before it was printed."""
    if not any(j.interrupted for j in judged):
        return False
    console.line("interrupted: the report holds what was found before")
    return True


def _settings(options: Mapping[str, Any]) -> Settings:
    settings = configuration.load(options)
    console.verbose = settings.verbose
    if settings.verbose:
        from screen.child.sandbox import described

        console.line(f"sandbox: {'off' if settings.sandbox == 'off' else described()}")
    return settings


def exit_code(judged: list[Judged], settings: Settings) -> int:
    """0, 1 or 2 by `screen.report.gate`, 2 over 1 over 0; what no error explains is explained on stderr."""
    return _said(_gate(judged, settings))


def _said(reasons: list[Reason]) -> int:
    """The highest of the codes, with why on stderr."""
    code = max((one for one, _ in reasons), default=0)
    for why in dict.fromkeys(why for one, why in reasons if one == code and why):
        console.line(f"exit {code}: {why}")
    return code


def _gate(judged: list[Judged], settings: Settings) -> list[Reason]:
    """The code of each report by `screen.report.gate`; what is known of a baseline is said on stderr. A rule that raised alone, where that counts."""
    from screen.report.gate import decide

    known = _known([j.report for j in judged], settings)
    unknown = settings.allow_unknown
    found = [(j, decide(j.report, j.fail_on or settings.fail_on, allow_unknown=unknown, verdict=j.chosen, known=known)) for j in judged]
    for complaint in known.complaints():
        console.line(f"warning: {complaint}")
    if known.count:
        console.line(f"{known.count} known finding{'s do' if known.count > 1 else ' does'} not count")
    if raised := _raised(judged, settings):
        return raised
    reasons: list[Reason] = []
    for one, decision in found:
        of = f"`{one.report.target.name or one.report.target.spec}`: " if len(found) > 1 else ""
        lets = " (`--allow-unknown` lets it pass)" if decision.code == 2 else ""
        reasons.append((decision.code, f"{of}{decision.why}{lets}" if decision.why else ""))
    return reasons


def _raised(judged: list[Judged], settings: Settings) -> list[Reason]:
    """With `--strict-rules` the rules that did not run."""
    raised = {f"`{rule.rule}` {rule.reason}" for j in judged for rule in j.report.coverage.rules_not_run} if settings.strict_rules else set()
    return [(2, f"every rule must run with `--strict-rules`; {'; '.join(sorted(raised))}")] if raised else []


def _known(reports: list[Report], settings: Settings) -> Known:
    """The baseline, written anew where that was asked for, and the comments in the files that findings and targets name."""
    from screen.pipeline.known import Known, baseline_of, comments_of, read_baseline
    from screen.report.annotation import annotations_of, file_of

    if settings.baseline and settings.update_baseline:
        _write(settings.baseline, baseline_of(reports))
    files = [file for r in reports for file in (file_of(r.target.spec), *(a.file for a in annotations_of(r)))]
    comments, faults = comments_of(files, settings.trusted)
    return Known(read_baseline(settings.baseline, _elsewhere(settings)) if settings.baseline else frozenset(), comments, faults)


def _elsewhere(settings: Settings) -> Trusted | None:
    """The commit that the baseline stands in; None for a file that is here, as one of the command line is."""
    return settings.trusted if settings.origins["baseline"] != "option" else None


def _judge(asked: list[Wanted], settings: Settings, *, changes: bool = True) -> Iterator[list[Judged]]:
    """The reports on each target, in their order, as they come. `changes`: whether what findings propose is tried."""
    progress = Progress(settings.quiet, len(asked), settings.probe_seconds)
    run = _one_by_one if settings.jobs == 1 or len(asked) == 1 else _side_by_side
    with contextlib.closing(run(asked, settings, progress, changes)) as reports, progress:
        for one, found in zip(asked, reports, strict=False):
            if len(asked) == len(found) == 1 and found[0].error is not None and found[0].error.stage == "usage":
                raise found[0].error
            progress.clear()
            yield [_named(j, one) for j in found]
            if any(j.interrupted for j in found):
                break


def _one_by_one(asked: list[Wanted], settings: Settings, progress: Progress, changes: bool) -> Generator[list[Judged], None, None]:
    """Start the child first: it imports torch while this process imports what it needs itself."""
    with Host(preload=preload([one.spec for one in asked])) as host:
        from screen.pipeline.stages import job_of
        from screen.pipeline.workers import RARELY, safely

        gc.freeze()
        gc.set_threshold(*RARELY)
        for one, job in [(one, job_of(one.spec.text, one.settings)) for one in asked]:
            yield safely(replace(job, changes=changes), host.capture, progress.of(one.spec.text))


def _side_by_side(asked: list[Wanted], settings: Settings, progress: Progress, changes: bool) -> Generator[list[Judged], None, None]:
    from screen.pipeline.stages import job_of
    from screen.pipeline.workers import in_order

    jobs = [replace(job_of(one.spec.text, one.settings), changes=changes) for one in asked]
    yield from in_order(jobs, settings.jobs, preload([one.spec for one in asked]), progress.of)


def _named(judged: Judged, asked: Wanted) -> Judged:
    """With the name, the gate and the origin of the settings of its target."""
    from screen.report.build import settings_part

    settings = asked.settings
    target = judged.report.target.model_copy(update={"name": asked.name or None})
    origin = settings_part(settings.of_tree, settings.trusted.name if settings.trusted else None)
    report = judged.report.model_copy(update={"target": target, "settings": origin})
    return replace(judged, report=report, fail_on=settings.fail_on)


def _all(found: Iterable[list[Judged]]) -> list[Judged]:
    return [one for some in found for one in some]


def preload(specs: list[TargetSpec]) -> list[str]:
    """What the child should import before it forks: what every capture, the second one and the spot check would have to import for themselves.

    Ops on meta import `torch._dynamo` (about a second)."""
    modules = ["torch._dynamo"]
    if any(spec.kind in ("hf", "config") for spec in specs):
        modules += ["transformers.modeling_utils", "transformers.models.auto"]
    return modules


def _complain(judged: list[Judged]) -> None:
    """Every error on stderr; a partial graph's failure stands in its report as well. With `-v` also what the targets printed."""
    for one in judged:
        if console.verbose and one.log and one.error is None:  # an error carries it among its details
            console.block(f"`{one.report.target.spec}` printed:\n{one.log}")
        if one.error is not None:
            console.about(one.error)
        elif one.report.error is not None:
            where = f" ({one.report.error.file}:{one.report.error.line})" if one.report.error.file else ""
            console.line(
                f"error: `forward` of `{one.report.target.spec}` must run to its end; it raised `{one.report.error.message}`{where}. "
                f"{_advice(one.report.error.message, one.report.target.notes)}"
            )


def _advice(failed: str, notes: Sequence[str]) -> str:
    """What to do about a forward that fails: make the name that it lacks, or give it other inputs."""
    left_out = [note for note in notes if " did not run (" in note]
    if failed.startswith("NameError") and left_out:
        package = re.search(r"No module named '(\w+)", left_out[0])
        return f"{left_out[0]}. " + (f"Install `{package[1]}`, or run `screen` where it can be imported." if package else "Mend that first.")
    return (
        f"{'; '.join([n for n in notes if 'were tried' in n]) or 'Call it yourself first'}. "
        "Give it inputs with `--input 'x=float32[2,16,512]'`, `example_inputs` in the file, or a function `build_model()` that returns what runs."
    )


def _one(judged: list[Judged]) -> Report | Reports:
    from screen.report.build import several

    return judged[0].report if len(judged) == 1 else several([j.report for j in judged])


def _deliver(judged: list[Judged], settings: Settings) -> None:
    """The report to stdout or `--output`, and wherever else it is wanted."""
    from screen.report import render

    report = _one(judged)
    every = [j.report for j in judged]
    _write_reports(judged, settings)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with console.writer(summary, "a") as file:
                file.write(_summary(report, settings))
        except OSError as error:  # what a runner shows beside the log is no part of the gate
            console.line(f"warning: `$GITHUB_STEP_SUMMARY` cannot be written: {error.strerror}")
    if settings.format == "text" and settings.output is None:
        return  # it stands there already
    plots = _plots(settings.format, settings.output, every)
    _out(_text(every, settings) if settings.format == "text" else render(report, settings.format, plots=plots, short=settings.short), settings)


def _write_reports(judged: list[Judged], settings: Settings) -> None:
    """What `--report` asks for."""
    from screen.report import render

    for name, path in settings.report:
        _write(path, render(_one(judged), name, plots=_plots(name, path, [j.report for j in judged]), short=settings.short))


def _out(text: str, settings: Settings) -> None:
    """To `--output`, else to stdout."""
    if settings.output:
        _write(settings.output, text)
    else:
        sys.stdout.write(text)


def _summary(report: Report | Reports, settings: Settings) -> str:
    """The report for the page of a job, short where GitHub would refuse the whole one."""
    from screen.report import render

    whole = render(report, "markdown", short=settings.short)
    return whole if len(whole.encode()) < STEP_SUMMARY else render(report, "markdown", short=True)


def _plots(format: str, path: str | None, reports: list[Report]) -> list[list[tuple[str, str]]]:
    """Pictures of what was measured, beside a Markdown report that is a file; a line on stderr where they cannot be drawn."""
    probes = [r.probe for r in reports]
    if format != "markdown" or path is None or not any(probes):
        return []
    from screen.report import plots

    if plots.can_draw():
        return plots.beside(Path(path), probes)
    console.line(plots.ADVICE)
    return []


def _text(shown: list[Report], settings: Settings) -> str:
    from screen.report import render
    from screen.report.build import several

    report = shown[0] if len(shown) == 1 else several(shown)
    return render(report, "text", **_terminal(settings), verbose=settings.verbose, quiet=settings.quiet)


def _terminal(settings: Settings) -> dict[str, Any]:
    """Whether text has colours, and how wide it is, where stdout is a terminal."""
    terminal = settings.output is None and sys.stdout.isatty()
    width = os.get_terminal_size(sys.stdout.fileno()).columns or None if terminal else None
    return {"color": settings.output is None and _color(settings.color, terminal), "width": width}


def _color(when: str, terminal: bool) -> bool:
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return terminal or bool(os.environ.get("FORCE_COLOR"))


def _check_places(asked: Iterable[Wanted], settings: Settings) -> None:
    """Say now, not after a minute of work, that a report cannot be written, or would take the place of what is judged or of another report."""
    taken = {_file(one.spec.path): "a target" for one in asked if one.spec.path}
    taken |= {_file(settings.file): "the file of settings"} if settings.file else {}
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary and (whose := taken.get(_file(summary))):
        raise UsageError("`$GITHUB_STEP_SUMMARY` must be a file of its own", f"it is {whose} too", "Name another one")
    reports = [*([settings.output] if settings.output else []), *(path for _, path in settings.report)]
    for path, what in [*([(settings.baseline, "the baseline")] if settings.baseline else []), *((path, "another report") for path in reports)]:
        if what == "another report":
            _check_writable(path)
        if whose := taken.get(_file(path)):
            raise UsageError(f"`{path}` must be a file of its own", f"it is {whose} too", "Name another one")
        if what == "another report":
            _check_no_source(path)
        elif settings.update_baseline and os.path.isfile(path) and not _is_baseline(path):
            required = "`--update-baseline` must write over nothing but a baseline"
            raise UsageError(required, f"`{path}` is another file", "Name another one, or take that away")
        if not os.path.exists(path) or os.path.isfile(path):  # two may go to a terminal or to `/dev/null`
            taken[_file(path)] = what


def _file(path: str) -> object:
    """What two names of one file have in common, links among them."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return os.path.realpath(path)


def _check_no_source(path: str) -> None:
    """A file of Python that is there may be what is judged, by its name as a module, or what that imports."""
    if path.endswith((".py", ".pyi", ".ipynb")) and os.path.exists(path):
        raise UsageError(f"`{path}` must be a file of its own", "it is Python source that is there already", "Name another one")


def _check_writable(path: str) -> None:
    if path == "-":
        raise UsageError("`-` must be a file to write", "it is none", "`--format` is for stdout, and `./-` is a file")
    folder = Path(path).parent
    if not folder.is_dir():
        raise UsageError(f"`{path}` must lie in a folder that exists", f"there is no folder `{folder}`", "Make it first")
    if Path(path).is_dir():
        raise UsageError(f"`{path}` must be a file to write", "it is a folder", "Name a file in it")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"`{path}` must be a file that can be written", "its permissions forbid it", "Name another one")


def _check_baseline(settings: Settings) -> None:
    """Before a minute of work: that it is named where it is to be written, can be written, and can be read."""
    if settings.update_baseline:
        if settings.baseline is None:
            raise UsageError("`--update-baseline` must know which file", "`--baseline` is not given", "For example `--baseline screen-baseline.json`")
        _check_writable(settings.baseline)
    elif settings.baseline is not None:
        from screen.pipeline.known import read_baseline  # not without need: the child is not started yet

        read_baseline(settings.baseline, _elsewhere(settings))


def _is_baseline(path: str) -> bool:
    """Whether a file is empty, or looks like what `--update-baseline` writes, of whichever version."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        text = Path(path).read_text(encoding="utf-8")
        return not text.strip() or "findings" in json.loads(text)
    return False


def _make_folder(path: str) -> None:
    """The folders above a report, as pytest makes them for its own."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder of `{path}` must be one that can be made", str(error), "Name another one") from None


def _write(path: str, text: str) -> None:
    try:
        with console.writer(path) as file:
            file.write(text)
    except OSError as error:
        raise console.unwritable(path, error) from None


def graph(target: str, options: Mapping[str, Any]) -> int:
    """`screen graph`: the streams, whatever the verdict: no claim is compared, no change is tried. 0, or 2 when there is no whole graph."""
    options = dict(options)
    wanted = options.pop("format") or "text"
    name = next((known for known in GRAPH_FORMATS if known == wanted), None)
    if name is None:
        near = configuration.near(wanted, GRAPH_FORMATS)
        raise UsageError("`--format` must be one of " + ", ".join(f"`{f}`" for f in GRAPH_FORMATS), f"it is `{wanted}`", near)
    settings = replace(_settings(options), spot_check=False, require_opinion=False)
    asked = named(target, settings)
    _check_places(asked, settings)
    judged = _all(_judge(asked, settings, changes=False))
    _complain(judged)
    from screen.report.graph import render

    shown = [j for j in judged if j.captured]
    text = render(_one(shown), name) if shown else ""
    if settings.output and text:
        _write(settings.output, text)
    else:
        sys.stdout.write(text)
    return 2 if any(j.report.error for j in judged) else 0


def compare(targets: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """`screen compare`: 0, 1 when a channel is worse in a later target than in the first, 2 when one was not judged."""
    options = dict(options)
    name = options.pop("format") or "text"
    from screen.report.compare import FORMATS, render
    from screen.report.compare import compare as beside

    if name not in FORMATS:
        raise UsageError("`--format` must be one of " + ", ".join(f"`{f}`" for f in FORMATS), f"it is `{name}`", configuration.near(name, FORMATS))
    settings = _settings(options)
    if len(targets) < 2:
        raise UsageError("`screen compare` must be given two targets or reports, or more", f"there is {'one' if targets else 'none'}")
    read = {place: report for place, text in enumerate(targets) if (report := _saved(text)) is not None}
    asked = [found for place, text in enumerate(targets) if place not in read for found in named(text, settings)]
    _check_places(asked, settings)
    judged = _all(_judge(asked, settings, changes=False)) if asked else []
    _complain(judged)
    made = iter(j.report for j in judged)
    reports = [read[place] if place in read else next(made) for place in range(len(targets))] if len(judged) + len(read) == len(targets) else []
    if not reports:
        found = f"{len(judged) + len(read)} models were found"
        raise UsageError("each target of `screen compare` must name one model", found, "Name the class: `FILE::Name`")
    comparison = beside(reports)
    text = render(comparison, name, verbose=settings.verbose)
    if settings.output:
        _write(settings.output, text)
    else:
        sys.stdout.write(text)
    return 2 if any(r.error for r in reports) else 1 if comparison.worse else 0


def _saved(target: str) -> Report | None:
    """A report that `--format json` wrote; None for any other target. Raises `UsageError` for a file of another version."""
    path = Path(target)
    if path.suffix != ".json" or not path.is_file():
        return None
    from pydantic import ValidationError

    from screen.report.schema import Report

    text = path.read_text(encoding="utf-8", errors="replace")
    if '"schema_version"' not in text:
        return None
    try:
        return Report.model_validate_json(text)
    except ValidationError as error:
        found = f"{error.error_count()} of its fields differ"
        raise UsageError(f"`{target}` must be a report of this version of `screen`", found, "Make it again with `--format json`") from None


__all__ = ["Progress", "check", "compare", "exit_code", "graph", "probe"]
