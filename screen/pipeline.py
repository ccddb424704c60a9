"""The main job: target -> capture -> graph -> facts -> rules -> verdict -> report. Every stage is named here and happens elsewhere."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

from screen.assemble import Request as Asked
from screen.assemble import assemble, not_judged
from screen.capture.protocol import Request
from screen.capture.state import Capture, Captured, Progress, silent
from screen.config import Settings
from screen.discover import Catalogue, catalogue, run_rules
from screen.errors import InternalError, Interrupted, ScreenError, UsageError
from screen.facts import derive
from screen.facts.nouns import Facts
from screen.model import Report
from screen.plan import plan_of
from screen.probe.plan import Options, ProbePlan
from screen.probing import probe_request, with_narrower, with_probe
from screen.paths import relative
from screen.verdict import BLOCK_DEPTH, fold

Capturer = Callable[[Request, Progress], Capture]
"""`screen.capture.client.Host.capture`, or the same in this process."""


@dataclass(frozen=True)
class Job:
    """One target and how it is to be judged."""

    request: Request
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    probe: Options | None = None
    """How to measure; None: nothing is measured."""


@dataclass(frozen=True)
class Judged:
    """One model's report, with the exception behind its `error` where there is one (for `-v`)."""

    report: Report
    error: ScreenError | None
    captured: bool
    """Whether there is a graph: else the report says only what went wrong."""
    log: str = ""
    """The tail of what the target printed, with its first model."""
    name: str = ""
    """Of the model, where a target has several."""
    interrupted: bool = False
    """Ctrl-C ended its probe; the report holds what was measured before."""


def judge(job: Job, capture: Capturer, progress: Progress = silent) -> list[Judged]:
    """The reports on every model that the target names, in their order."""
    captured = capture(job.request, progress)
    judged: list[Judged] = []
    plans: dict[str, ProbePlan] = {}
    for model in captured.models:
        asked = _asked(job, model, alone=len(captured.models) == 1)
        if model.graph is None:
            judged.append(_refused(captured.error or _missing(model), asked, model))
            continue
        progress("judge")
        try:
            facts = _facts(job, model)
            run = run_rules(facts, _chosen(job))
            verdict = fold(facts, run, model.info, depth_assumed=model.info.block and job.request.depth is None)
            judged.append(Judged(assemble(facts, run, verdict, model.info, asked), captured.error, True, name=model.name))
            if job.probe is not None and model.graph.failure is None:
                plans[model.name] = plan_of(facts)
        except Exception as error:  # whatever the model, an exception of facts or rules is ours
            judged.append(_refused(_ours(error), asked, model))
    if captured.error and all(model.graph for model in captured.models):  # it ended before the next model, or before the first
        judged.append(_refused(captured.error, _asked(job, None, alone=True), None))
    if job.probe is not None and plans:
        measured = capture(probe_request(job.request, plans, job.probe), progress)
        measured = with_narrower(job.request, measured, job.probe, capture, lambda model: plan_of(_facts(job, model)), progress)
        ended = isinstance(measured.error, Interrupted)
        told = {name: with_probe(j.report, measured, name, job.probe) for j in judged if (name := j.name) in plans}
        judged = [replace(j, report=told[j.name], interrupted=ended) if j.name in plans else j for j in judged]
    return [replace(judged[0], log=captured.log), *judged[1:]] if judged else judged


def _facts(job: Job, model: Captured) -> Facts:
    assert model.graph is not None
    return derive(model.graph, (job.request.depth or BLOCK_DEPTH) if model.info.block else None)


def job_of(target: str, settings: Settings) -> Job:
    """The job that the settings describe. Raises `UsageError` for codes that no rule has."""
    known = [r.rule.code for r in catalogue().rules] if settings.select or settings.ignore else []
    for code in (*settings.select, *settings.ignore):
        if not any(k.startswith(code) for k in known):
            raise UsageError("`--select` and `--ignore` must name rules by their codes or the beginnings of these", f"no rule starts with `{code}`",
                             "`screen rule` lists them")
    request = Request(target, dict(settings.set), settings.input, settings.depth, settings.timeout, settings.memory, width=settings.width)
    measured = settings.probe or settings.stress
    options = Options(settings.seed, settings.device, settings.dtype, settings.probe_seconds, settings.memory, settings.stress)  # type: ignore[arg-type]
    return Job(request, settings.select, settings.ignore, options if measured else None)


def _chosen(job: Job) -> Catalogue:
    """The rules that the job does not leave out."""
    found = catalogue()
    kept = (r for r in found.rules if r.rule.code.startswith(job.select or "") and not (job.ignore and r.rule.code.startswith(job.ignore)))
    return replace(found, rules=tuple(kept))


def _asked(job: Job, model: Captured | None, *, alone: bool) -> Asked:
    """What the report repeats of the request. Of a target with several models each report names its own."""
    request, root = job.request, os.getcwd()
    options = [word for key, value in request.set.items() for word in ("--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}")]
    options += [word for text in request.inputs for word in ("--input", text)]
    options += ["--depth", str(request.depth)] if request.depth else []
    options += ["--width", str(request.width)] if request.width else []
    spec = request.target if alone or model is None else model.name
    return Asked((relative(spec, root) or spec) if os.path.isabs(spec) else spec, tuple(options), request.depth, "option", root)


def _refused(error: ScreenError, asked: Asked, model: Captured | None) -> Judged:
    return Judged(not_judged(error, asked, model.info if model else None), error, False)


def _missing(model: Captured) -> ScreenError:
    return InternalError(f"the graph of `{model.name}` never came")


def _ours(error: Exception) -> ScreenError:
    if isinstance(error, ScreenError):
        return error
    return InternalError(f"judging raised `{type(error).__name__}: {error}`", details="".join(traceback.format_exception(error)))


__all__ = ["Job", "Judged", "job_of", "judge"]
