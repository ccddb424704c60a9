"""The main job: target -> capture -> graph -> facts -> rules -> verdict -> report. Every stage is named here and happens elsewhere."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from screen.changes import tried
from screen.child.draw import AGAIN
from screen.child.hash_seeds import draws
from screen.child.protocol import Request
from screen.child.results import Capture, Captured, Progress, silent
from screen.child.sandbox import ADVICE, missing
from screen.errors import InternalError, Interrupted, LimitError, LoadError, ScreenError, TraceError, UsageError, swallowed, whole_model
from screen.facts import derive
from screen.facts.record import Facts
from screen.graph import Graph
from screen.graph.target import OPTIONAL, did_you_mean, parse
from screen.report.gate import of_chosen
from screen.pipeline.outside import changed, outside
from screen.pipeline.probe import probe_request, with_narrower, with_probe
from screen.pipeline.spot import again_request, spot_request, unasked, unconfirmed, with_spot, with_weights
from screen.pipeline.variants import Elsewhere, others
from screen.probe.plan.from_facts import plan_of
from screen.probe.plan.spot import spot_plan
from screen.probe.plan.spot import weights_of_each
from screen.probe.plan.spot_types import OTHER, Again, Found, SpotPlan, again_from_json, found_from_json, too_large
from screen.probe.plan.types import Options, ProbePlan
from screen.recipe import Recipe, Stated
from screen.report.build import Request as Asked
from screen.report.build import assemble, not_judged
from screen.report.paths import relative
from screen.report.schema import Report
from screen.rule import RuleRun
from screen.settings import FAIL_ON, Settings
from screen.verdict.channels import VerdictName, fold
from screen.verdict.discover import catalogue, run_rules

Capturer = Callable[[Request, Progress], Capture]
"""`screen.child.host.Host.capture`, or the same in this process."""


SAME = "`{}` must be the same model each time it is built and run"
SAME_ADVICE = (
    "Look for random numbers without a seed, for sets and hashes that order layers, and for what depends on the clock, the process, a file, the "
    "device of a tensor or its values"
)
EMPTY_ADVICE = "Give it sizes above zero (`--set`, `--input`)"
LATER = "a later call of it gives something else than the program that was traced does on the buffers that it has then"
ELSEWHERE_ADVICE = "Look for what `train` does, and what `forward` asks of the sizes of its inputs or keeps between calls"
CONFIRMED_ADVICE = "Judge a smaller model of the same code, or leave `--require-opinion` out where its authors are trusted"
LARGEST, CONFIRMED = 20_000_000, 200_000_000
"""Parameters of a model beyond which no spot check is made, since of its own size it would take longer than the analysis; and beyond which it is
not run once for a second opinion either."""


@dataclass(frozen=True)
class Job:
    """One target and how it is to be judged."""

    request: Request
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    probe: Options | None = None
    """How to measure; None: nothing is measured."""
    spot: bool = True
    """Whether claims are compared with the program on real tensors before anything is said."""
    recipe: Stated | None = None
    """How the model will be trained; None: nothing is stated."""
    second: bool = False
    """Whether a model of a file or a module is captured twice, and the captures compared."""
    live: bool = False
    """Whether it is an object of the caller's own process."""
    confirmed: bool = False
    """Whether one of which no second opinion was had is not judged."""
    changes: bool = True
    """Whether the changes that findings propose are tried."""

    @property
    def stated(self) -> Recipe | None:
        """The recipe alone."""
        return self.recipe.recipe if self.recipe is not None else None


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
    chosen: VerdictName | None = None
    """The verdict of the rules that `--select` and `--ignore` leave, for the exit code; None where no rule was left out."""
    interrupted: bool = False
    """Ctrl-C ended its probe; the report holds what was measured before."""
    fail_on: tuple[str, ...] | None = None
    """What fails this target, where it has a gate of its own."""


def judge(job: Job, capture: Capturer, progress: Progress = silent) -> list[Judged]:
    """The reports on every model that the target names, in their order."""
    captured = capture(job.request, progress)
    if not captured.models and captured.error is None:
        required, found = f"`{job.request.target}` must hold a model", "its process said that it was done, and of no model"
        captured = replace(captured, error=LoadError(required, found, "Look for code that writes to file descriptors that it did not open"))
    judged: list[Judged] = []
    plans: dict[str, ProbePlan] = {}
    differing, elsewhere = second_opinion(job, captured, capture, progress)
    trained = {m.name: m.graph.training for m in captured.models if m.graph is not None and m.graph.training}
    job = replace(job, request=replace(job.request, trained=trained))
    known = _known(job, captured, elsewhere, capture, progress)
    for model in captured.models:
        asked = _asked(job, model, alone=len(captured.models) == 1)
        if model.graph is None:
            judged.append(_refused(captured.error or _missing(model), asked, model))
            continue
        progress("judge")
        try:
            if model.name in differing:
                raise differing[model.name]
            read = known[model.name]
            if isinstance(read, Exception):
                raise read
            model, facts = read
            run = run_rules(facts)
            assumed = model.info.block and job.request.depth is None
            verdict = fold(facts, run, model.info, job.stated, depth_assumed=assumed)
            kept, left_out = _divided(job, run)
            changes = tried(facts, kept, verdict, model.info, job.stated, depth_assumed=assumed) if job.changes else ()
            report = assemble(facts, replace(kept, not_run=run.not_run), verdict, model.info, asked, left_out, changes)
            chosen = of_chosen(fold(facts, kept, model.info, job.stated)) if left_out else None
            judged.append(Judged(report, captured.error, True, name=model.name, chosen=chosen))
            if job.probe is not None and facts.graph.failure is None:
                plans[model.name] = plan_of(facts, job.stated)
        except Exception as error:  # whatever the model, an exception of facts or rules is ours
            if not isinstance(error, ScreenError | MemoryError | RecursionError):
                swallowed("judging", error)
            judged.append(_refused(_ours(error), asked, model))
    if captured.error and all(model.graph for model in captured.models):  # it ended before the next model, or before the first
        judged.append(_refused(captured.error, _asked(job, None, alone=True), None))
    if job.probe is not None and plans:
        measured = capture(probe_request(job.request, plans, job.probe), progress)
        if measured.error is not None and measured.error.stage == "usage":
            raise measured.error  # what was asked for cannot be had of any model
        measured = with_narrower(job.request, measured, job.probe, capture, lambda model: plan_of(_read(job, model)[1], job.stated), progress)
        ended = isinstance(measured.error, Interrupted)
        told = {name: with_probe(j.report, measured, name, job.probe) for j in judged if (name := j.name) in plans}
        judged = [_measured(j, told[j.name], ended) if j.name in plans else j for j in judged]
    return [replace(judged[0], log=captured.log), *judged[1:]] if judged else judged


def second_opinion(
    job: Job, captured: Capture, capture: Capturer, progress: Progress
) -> tuple[dict[str, ScreenError], dict[str, Elsewhere]]:
    """The models of a file or a module that are other ones in a second capture, by their names, with what differs; and what all are elsewhere.

    Graphs may differ in what nobody asks; a model is another one where what is said of it differs."""
    if not job.second or captured.error is not None or _is_of_library(job):
        return {}, {}
    first = {model.name: model for model in captured.models if model.graph is not None}
    graphs = [model.graph for model in first.values() if model.graph is not None]
    files = {node.file for graph in graphs for node in graph.nodes} | {module.file for graph in graphs for module in graph.modules}
    found: dict[str, ScreenError] = {}
    elsewhere: dict[str, Elsewhere] = {}
    for number, (words, turned) in enumerate(draws(sorted(files)) if first else ()):
        again = capture(replace(job.request, draw=AGAIN, words=words, turned=turned, variants=not number), progress)
        second = {model.name: model for model in again.models if model.graph is not None}
        for name, model in first.items():
            other = second.get(name)
            if not number and other is not None and other.graph is not None:
                elsewhere[name] = others(other.graph, other.variants, partial(_violated, job, other))
                if differs := elsewhere[name].differs:
                    found[name] = TraceError(SAME.format(name), differs, ELSEWHERE_ADVICE)
            if other is None or other.graph != model.graph:
                progress("judge")
                if other is None or _said(job, model) != _said(job, other):
                    found[name] = _other_model(name, model, other, again.error)
    return found, elsewhere


def _violated(job: Job, model: Captured, graph: Graph) -> dict[str, str]:
    """What is violated where a model has another graph, of what can fail a gate: code -> what is said."""
    run, _ = _divided(job, run_rules(_read(job, replace(model, graph=graph))[1]))
    return {f.rule.code: f.outcome.message for f in run.findings if f.outcome.result == "violated" and f.severity != "note"}


def _not_looked_at(job: Job, name: str, seen: Capture) -> ScreenError | None:
    """Why a model is another one where a spot check gave nothing: its process said that it was done, ended itself, or built no such model.

    One that measured for too long, or took too much memory, says nothing of the model."""
    error = seen.error
    spot = _spot_of(seen, name)
    if spot is not None and spot.get("reason") == OTHER and not job.live and not _is_of_library(job):
        return TraceError(SAME.format(name), f"before it ran on real tensors {OTHER}", SAME_ADVICE)
    if spot is not None or (error is not None and (error.stage == "internal" or (error.stage == "limits" and not seen.left))):
        return None
    return TraceError(SAME.format(name), f"on real tensors it was not there: {error.found if error else 'nothing was said of it'}", SAME_ADVICE)


def _spot_of(seen: Capture, name: str) -> dict[str, object] | None:
    """What the spot check of a model sent, unread."""
    return next((model.spot for model in seen.models if model.name == name and model.spot is not None), None)


def _is_of_library(job: Job) -> bool:
    return parse(job.request.target).kind in ("hf", "config", "timm")


def _said(job: Job, model: Captured) -> str:
    """Everything that is said of a model without a spot check, as text; of one that cannot be analysed, why."""
    try:
        model, facts = _read(job, model)
        run = run_rules(facts)
        return assemble(facts, run, fold(facts, run, model.info, job.stated), model.info, _asked(job, model, alone=True)).to_json()
    except Exception as error:  # `judge` says it of the first one
        return str(error)


def _other_model(name: str, model: Captured, other: Captured | None, error: ScreenError | None) -> ScreenError:
    """Two captures that differ, with the first place."""
    required = SAME.format(name)
    if other is None or model.graph is None or other.graph is None:
        return TraceError(required, f"the second time it was not captured: {error.found if error else 'it was not there'}", SAME_ADVICE)
    pairs = ((a, b) for a, b in zip_longest(model.graph.nodes, other.graph.nodes) if a != b)
    one, two = next(pairs, (None, None))
    here = next((node for node in (one, two) if node is not None), None)
    texts = [f"`{node.op}` at {os.path.basename(node.file)}:{node.line}" if node is not None else "nothing" for node in (one, two)]
    what = f"{texts[0]} and {texts[1]}" if texts[0] != texts[1] else f"the numbers in {texts[0]}" if here is not None else "how weights start"
    file, line = (here.file or None, here.line or None) if here is not None else (None, None)
    return TraceError(required, f"two captures differ, first in {what}", SAME_ADVICE, file=file, line=line)


def _known(
    job: Job, captured: Capture, elsewhere: Mapping[str, Elsewhere], capture: Capturer, progress: Progress
) -> dict[str, tuple[Captured, Facts] | Exception]:
    """Every model that gave a graph with its facts, whose claims were compared with a spot check; an exception is a result."""
    found: dict[str, tuple[Captured, Facts] | Exception] = {}
    plans: dict[str, SpotPlan] = {}
    doubts: dict[str, str] = {}
    asked = job.second and not _is_of_library(job)
    for model in captured.models:
        if model.graph is None:
            continue
        progress("judge")
        try:
            found[model.name] = model, facts = _read(job, model)
            if not job.spot or facts.graph.failure is not None or not facts.streams:
                continue
            weights = 0 if model.info.block else model.info.parameters or 0  # stamped layers are many in the module itself
            why = too_large(weights) if weights > LARGEST else ""
            if asked and model.name in elsewhere and elsewhere[model.name].doubt:
                doubts[model.name] = elsewhere[model.name].doubt
            if asked and (doubt := f"it has more than {CONFIRMED:,} weights" if weights > CONFIRMED else unasked(facts)):
                doubts[model.name] = doubt
            plan = spot_plan(facts)
            told = asked and not (why and model.name in doubts)
            passed_over = max(facts.graph.times.values(), default=1) > 1  # building so many layers once more costs more than it tells
            if why and not told and (passed_over or weights_of_each(facts, plan) > LARGEST):
                found[model.name] = model, with_spot(facts, Found(reason=why))
            elif plan.streams or plan.deeper:
                plans[model.name] = replace(with_weights(plan, facts) if told else plan, parts=why)
            elif asked:
                doubts.setdefault(model.name, "nothing of it can be looked at")
        except Exception as error:
            if not isinstance(error, ScreenError | MemoryError | RecursionError):
                swallowed("facts", error)
            found[model.name] = error
    if plans:
        found |= _spotted(job, captured, found, plans, doubts, elsewhere, capture, progress)
    return {name: _with_doubt(job, name, one, doubts.get(name, "")) for name, one in found.items()}


def _with_doubt(job: Job, name: str, known: tuple[Captured, Facts] | Exception, doubt: str) -> tuple[Captured, Facts] | Exception:
    """A model with the word that no second opinion of it was had, or why it is not judged without one."""
    if isinstance(known, Exception) or not doubt:
        return known
    if job.confirmed:
        return TraceError(f"`{name}` must be confirmed by a second opinion (`--require-opinion`)", f"there is none: {doubt}", CONFIRMED_ADVICE)
    return known[0], unconfirmed(known[1], doubt)


def _spotted(
    job: Job, captured: Capture, found: Mapping[str, tuple[Captured, Facts] | Exception], plans: Mapping[str, SpotPlan], doubts: dict[str, str],
    elsewhere: Mapping[str, Elsewhere], capture: Capturer, progress: Progress,
) -> dict[str, tuple[Captured, Facts] | Exception]:
    """Models beside what a spot check of them gave. `doubts`: why no second opinion was had, by the names of models; more are put in."""
    beside = tuple(model.name for model in captured.models if model.info.weights == "real")
    seen = capture(spot_request(job.request, plans, beside), progress)
    looked = {name: _found(seen, name) for name in plans}
    late = {name: replace(plan, only=plan.only or looked[name].reason) for name, plan in plans.items() if plan.weights and looked[name].plain is None}
    late = late if seen.error is not None and seen.error.stage == "limits" and not seen.left else {}
    if late and not all(plans[name].only for name in plans):  # what was given up for measuring has the rest of the time for the plain run
        seen = capture(spot_request(job.request, late, beside), progress)
        looked |= {name: _found(seen, name) for name in late}
    differing, unsure = _differing(job, found, looked, elsewhere, capture, progress)
    doubts |= {name: why for name, why in unsure.items() if name not in doubts}
    silent = {name for name, plan in plans.items() if plan.weights and looked[name].plain is None and _spot_of(seen, name) is not None}
    differing |= {name: TraceError(SAME.format(name), "on real tensors it does not say what it gives", SAME_ADVICE) for name in silent}
    told: dict[str, tuple[Captured, Facts] | Exception] = {}
    for name, plan in plans.items():
        known = found[name]
        assert not isinstance(known, Exception)
        lacks = plan.weights and looked[name].plain is None
        if lacks:
            doubts.setdefault(name, looked[name].reason)
        never = seen.error if lacks and name in late else None  # it had all the time and the memory that it may have
        told[name] = never or _not_looked_at(job, name, seen) or differing.get(name) or (known[0], with_spot(known[1], looked[name]))
    return told


def _differing(
    job: Job, known: Mapping[str, tuple[Captured, Facts] | Exception], looked: Mapping[str, Found], elsewhere: Mapping[str, Elsewhere],
    capture: Capturer, progress: Progress,
) -> tuple[dict[str, ScreenError], dict[str, str]]:
    """The models whose graph, run in a process that runs nothing of the target, gives something else than they gave when they were run plainly; and
    those of which that is not known, with the reason."""
    ran = {name: found.plain for name, found in looked.items() if found.plain is not None}
    plain = {name: one for name, one in ran.items() if one.output is not None}
    doubts = {name: one.reason for name, one in ran.items() if one.output is None}
    if not plain:
        return {}, doubts
    facts = {name: one[1] for name, one in known.items() if not isinstance(one, Exception)}
    beside = outside(job.request, plain, {name: facts[name].graph for name in plain}, capture, progress)
    plain |= {name: one.plain for name, one in beside.items() if one.plain is not None}
    told = capture(again_request(job.request, facts, plain), progress).again
    changes = {name: changed(ran[name], beside.get(name), elsewhere.get(name, Elsewhere())) for name in plain}
    errors: dict[str, ScreenError] = {name: TraceError(SAME.format(name), why, SAME_ADVICE) for name, why in changes.items() if why}
    for name in plain.keys() - errors.keys():
        again = again_from_json(dict(told[name])) if name in told else Again(reason="the process that was asked gave no answer")
        doubt = beside[name].doubt if name in beside else ""
        if again.agrees is False:
            by = "" if again.difference is None else f" (by {again.difference:.2g} of the largest entry)"
            errors[name] = TraceError(SAME.format(name), f"on real tensors it gives something else than the program that was traced{by}", SAME_ADVICE)
        elif again.later is False and "call" in elsewhere.get(name, Elsewhere()).one and not facts[name].graph.guesses:  # else a value that it reads
            errors[name] = TraceError(SAME.format(name), LATER, SAME_ADVICE)
        elif again.agrees is None or ran[name].reason or doubt:
            doubts[name] = again.reason or ran[name].reason or doubt
    return errors, doubts


def _found(seen: Capture, name: str) -> Found:
    """What a spot check gave for one model; why not, where it gave nothing that can be read."""
    model = next((m for m in seen.models if m.name == name), None)
    if model is None or model.spot is None:
        return Found(reason=f"the spot check did not end: {seen.error.found}" if seen.error else "the spot check gave nothing")
    try:
        return found_from_json(model.spot)
    except ValueError as error:
        return Found(reason=f"what the spot check sent cannot be read: {str(error).splitlines()[0]}")


def _measured(judged: Judged, report: Report, interrupted: bool) -> Judged:
    """With what was measured; a verdict that this takes back is no verdict of the chosen rules either."""
    refuted = report.verdict != judged.report.verdict
    return replace(judged, report=report, interrupted=interrupted, chosen=None if refuted else judged.chosen)


def _read(job: Job, model: Captured) -> tuple[Captured, Facts]:
    """The facts of a model; what was taken for one block may be a whole model by its facts. Raises `UsageError` where `--depth` was said of one,
    and `TraceError` where no stream has an entry."""
    assert model.graph is not None
    facts = derive(model.graph, is_block=job.request.depth is not None)
    shapes = [facts.graph.nodes[stream.states[0]].shape or () for stream in facts.streams if stream.states]
    if shapes and all(0 in shape for shape in shapes):
        raise TraceError(f"`{model.name}` must compute something", f"what runs through its blocks has the shape {shapes[0]}", EMPTY_ADVICE)
    if not model.info.block or facts.is_loop:
        return model, facts
    if job.request.depth is not None:
        raise whole_model(model.name, max(s.depth for s in facts.streams))
    return replace(model, graph=facts.graph, info=replace(model.info, block=False)), facts


def job_of(target: str, settings: Settings) -> Job:
    """The job that the settings describe. Raises `UsageError` for codes that no rule has."""
    _check_codes(settings)
    given = {**{OPTIONAL + key: value for key, value in settings.config.items()}, **settings.set}
    depth = settings.depth or (settings.recipe.recipe.depth if settings.recipe is not None else None)
    sandbox, hidden = settings.sandbox, tuple(os.path.abspath(path) for path in (settings.output, *(path for _, path in settings.report)) if path)
    if sandbox == "require" and (why := missing()):
        raise UsageError("`--sandbox require` must find a sandbox", why, ADVICE)
    limits = settings.timeout, settings.memory
    request = Request(target, given, settings.input, depth, *limits, width=settings.width, sandbox=sandbox, hidden=hidden)
    chosen, recipe = (settings.select, settings.ignore), settings.recipe
    measured = settings.probe or settings.stress
    options = Options(settings.seed, settings.device, settings.dtype, settings.probe_seconds, settings.memory, settings.stress)  # type: ignore[arg-type]
    return Job(request, *chosen, options if measured else None, settings.spot_check, recipe, settings.second_opinion, settings.require_opinion)


def _check_codes(settings: Settings) -> None:
    """Every code names a rule, and the gate asks for no rule that is left out; with `--strict-rules` every rule loads. Raises `UsageError`."""
    if settings.strict_rules and (faults := catalogue().faults):
        found = "; ".join(f"`{fault.rule}` did not: {fault.reason}" for fault in faults)
        raise UsageError("every rule must load with `--strict-rules`", found, "Mend or remove the distribution that it comes from")
    named = [code for code in settings.fail_on if code not in FAIL_ON]
    known = [r.rule.code for r in catalogue().rules] if settings.select or settings.ignore or named else []
    for what, codes in (("`--select` and `--ignore`", (*settings.select, *settings.ignore)), ("`--fail-on`", named)):
        for code in codes:
            if not any(k.startswith(code) for k in known):
                hint = did_you_mean(code, known) or "`screen rule` lists them"
                found = f"no rule starts with `{code}`{_said_by(settings, code)}"
                raise UsageError(f"{what} must name rules by their codes or the beginnings of these", found, hint)
    if known and not any(_is_chosen(k, settings.select, settings.ignore) for k in known):
        raise UsageError("`--select` and `--ignore` must leave a rule", "they leave none", "Leave one of them out")
    for code in named:
        if not any(k.startswith(code) and _is_chosen(k, settings.select, settings.ignore) for k in known):
            found = f"`{code}` is left out by `--select` or `--ignore`"
            raise UsageError("`--fail-on` must name a rule whose findings are looked at", found, "Leave it out, or select it")


def _said_by(settings: Settings, code: str) -> str:
    """The file that a code comes from, as the end of a sentence; empty where the command line says it."""
    keys = {"select": settings.select, "ignore": settings.ignore, "fail-on": settings.fail_on}
    said = [settings.origins.get(key, "option") for key, codes in keys.items() if code in codes]
    files = [origin for origin in said if origin not in ("default", "option")]
    return f", which is in `{files[0]}`" if files else ""


def _is_chosen(code: str, select: tuple[str, ...], ignore: tuple[str, ...]) -> bool:
    return code.startswith(select or "") and not (ignore and code.startswith(ignore))


def _divided(job: Job, run: RuleRun) -> tuple[RuleRun, tuple[str, ...]]:
    """What the chosen rules found, and the codes of the others."""
    others = tuple(r.rule.code for r in catalogue().rules if not _is_chosen(r.rule.code, job.select, job.ignore))
    found = tuple(f for f in run.findings if f.rule.code not in others)
    return RuleRun(found, tuple(f for f in run.not_run if f.rule not in others)), others


def _asked(job: Job, model: Captured | None, *, alone: bool) -> Asked:
    """What the report repeats of the request. Of a target with several models each report names its own."""
    request, root = job.request, os.getcwd()
    stated = {key: value for key, value in request.set.items() if not key.startswith(OPTIONAL)}
    options = [word for key, value in stated.items() for word in ("--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}")]
    options += ["--config", request.set[OPTIONAL]] if OPTIONAL in request.set else []
    options += [word for text in request.inputs for word in ("--input", text)]
    options += [word for text in (job.recipe.words if job.recipe else ()) for word in ("--recipe", text)]
    filed = job.stated is not None and job.stated.depth is not None and job.stated.depth == request.depth
    options += ["--depth", str(request.depth)] if request.depth and not filed else []
    options += ["--width", str(request.width)] if request.width else []
    spec = request.target if alone or model is None else model.name
    spec = (relative(spec, root) or spec) if os.path.isabs(spec) else spec
    return Asked(spec, tuple(options), request.depth, "recipe" if filed else "option", root, job.recipe)


def _refused(error: ScreenError, asked: Asked, model: Captured | None) -> Judged:
    return Judged(not_judged(error, asked, model.info if model else None), error, False)


def unjudged(job: Job, error: Exception) -> Judged:
    """A target of which nothing is known but why."""
    return _refused(_ours(error), _asked(job, None, alone=True), None)


def _missing(model: Captured) -> ScreenError:
    return InternalError(f"the graph of `{model.name}` never came")


def _ours(error: Exception) -> ScreenError:
    if isinstance(error, ScreenError):
        return error
    if isinstance(error, MemoryError):
        return LimitError("the analysis must fit into `--memory`", "it needed more", "Raise it, or build a smaller model")
    if isinstance(error, RecursionError):
        return LimitError("the analysis must follow how values are computed from each other", "more of them stand in a row than it can follow")
    return InternalError(f"judging raised `{type(error).__name__}: {error}`", details="".join(traceback.format_exception(error)))


__all__ = ["Capturer", "Job", "Judged", "job_of", "judge", "unjudged"]
