"""Puts facts, findings and verdict into a `Report`: names become labels, absolute files relative ones, `Unknown` becomes null.

Nothing is decided here.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, Protocol

from pydantic import JsonValue

from screen.changes import Tried
from screen.errors import ScreenError
from screen.facts.blocks import blocks_of
from screen.facts.record import Facts
from screen.graph import BLOCK_DEPTH
from screen.recipe import Recipe, Stated
from screen.report import schema
from screen.report.build_claims import claim_part, limit_parts, rate, spot_part
from screen.report.build_streams import source_part, stream_part
from screen.report.groups import TELLING
from screen.report.paths import relative
from screen.report.source import excerpt
from screen.rule import Finding, RuleRun
from screen.verdict.channels import Verdict, worst
from screen.verdict.sides import Sides

DepthFrom = Literal["model", "option", "recipe", "assumed"]


class Info(Protocol):
    """What the build side tells of a target."""

    @property
    def kind(self) -> str: ...
    @property
    def model_class(self) -> str: ...
    @property
    def parameters(self) -> int | None: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def block(self) -> bool: ...
    @property
    def changed(self) -> Mapping[str, Sequence[object]]: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def weights(self) -> Literal["meta", "real"]: ...


@dataclass(frozen=True)
class Request:
    """What was asked for, as far as the report repeats it."""

    spec: str
    options: tuple[str, ...] = ()
    """Options that change what is screened, as given on the command line."""
    depth: int | None = None
    """How many times a block target is stacked, where somebody says so."""
    depth_from: DepthFrom = "option"
    """Where `depth` comes from."""
    root: str = "."
    """The working directory, which files are shown relative to."""
    recipe: Stated | None = None
    """How the model will be trained, where somebody says so."""


def assemble(
    facts: Facts, run: RuleRun, verdict: Verdict, info: Info, request: Request, left_out: tuple[str, ...] = (), changes: Sequence[Tried] = ()
) -> schema.Report:
    """The report on a target that was traced, to its end or to a failing call. `left_out`: codes of rules whose findings are not in `run`; `changes`:
    those that were tried on the graph."""
    root = os.path.abspath(request.root)
    return schema.Report(
        tool=tool(),
        verdict=verdict.verdict,
        provisional=verdict.provisional,
        summary=verdict.summary,
        error=_failure(facts, root),
        target=_target(facts, info, request),
        channels=[
            schema.Channel(id=c.id, state=c.state, reason=c.reason, codes=list(c.codes), conditions=list(c.conditions), risk=c.risk)
            for c in verdict.channels
        ],
        conditions=[
            schema.Condition(id=c.id, text=c.text, needed_by=list(c.needed_by), recipe=c.recipe, stated=c.stated) for c in verdict.conditions
        ],
        recipe=recipe_part(request.recipe, verdict.sides),
        streams=[stream_part(facts, s, root) for s in facts.streams],
        findings=[_finding(f, root) for f in run.findings],
        changes=[_change(tried) for tried in changes],
        claims=[*(claim_part(c, run, root) for c in facts.claims), *limit_parts(verdict.limits, len(facts.claims.all) + 1)],
        spot_check=spot_part(facts.claims),
        coverage=_coverage(facts, run, root, left_out),
    )


def not_judged(error: ScreenError, request: Request, info: Info | None = None) -> schema.Report:
    """The report on a target without a graph: verdict `unknown`, and the error."""
    root = os.path.abspath(request.root)
    return schema.Report(
        tool=tool(),
        verdict="unknown",
        provisional=False,
        summary=f"{request.spec}: not judged, {_lower(error.found)}",
        error=schema.ErrorPart(stage=error.stage, message=str(error), file=relative(error.file or "", root), line=error.line),
        target=_target(None, info, request) if info else schema.Target(spec=request.spec, options=list(request.options)),
        recipe=recipe_part(request.recipe),
    )


def recipe_part(stated: Stated | None, decides: Sequence[Sides] = ()) -> schema.RecipePart | None:
    """What is stated of the training, with who states it, and what of the rest decides."""
    if stated is None:
        return None
    values = stated.recipe.model_dump(mode="json", exclude_none=True)
    return schema.RecipePart(
        values=values, origins=dict(stated.origins), sources=dict(stated.sources), unused=list(stated.unused), derived=_derived(stated.recipe),
        decides=[schema.SidesPart(**asdict(both)) for both in decides],
    )  # fmt: skip


def _derived(recipe: Recipe) -> dict[str, schema.Real]:
    """What follows from the fields by arithmetic."""
    found = {
        "warmup": recipe.warmup, "tokens": recipe.tokens, "decay_per_step": recipe.decay_per_step, "first_lr": recipe.first_lr,
    }  # fmt: skip
    return {name: float(value) for name, value in found.items() if value is not None}


def settings_part(of_tree: Mapping[str, str], trusted: str | None) -> schema.SettingsPart | None:
    """Where settings come from; None where no file says any. `of_tree`: setting -> file of the judged tree; `trusted`: what counts in its place."""
    return schema.SettingsPart(trusted=trusted, of_tree=dict(of_tree)) if of_tree or trusted else None


def several(reports: list[schema.Report]) -> schema.Reports:
    """Several reports as one object."""
    return schema.Reports(tool=reports[0].tool, verdict=worst([r.verdict for r in reports]), reports=reports)


@cache
def tool() -> schema.Tool:
    """Versions, from package metadata: nothing is imported for it."""
    return schema.Tool(
        name="screen",
        version=_version("archscreen") or "0+unknown",
        python=platform.python_version(),
        torch=_version("torch"),
        libraries=schema.Library(transformers=_version("transformers"), timm=_version("timm")),
    )


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _failure(facts: Facts, root: str) -> schema.ErrorPart | None:
    failure = facts.graph.failure
    if failure is None:
        return None
    return schema.ErrorPart(stage="trace", message=failure.message, file=relative(failure.file, root), line=failure.line or None)


def _target(facts: Facts | None, info: Info, request: Request) -> schema.Target:
    depth: int | None
    if info.block:
        depth, depth_from = (request.depth, request.depth_from) if request.depth else (BLOCK_DEPTH, "assumed")
    else:
        depth, depth_from = blocks_of(facts) if facts else None, "model"
    return schema.Target(
        spec=request.spec,
        kind=info.kind,
        model_class=info.model_class,
        parameters=info.parameters,
        dtype=info.dtype,
        depth=depth,
        depth_from=depth_from,
        changed={key: (_plain(old), _plain(new)) for key, (old, new) in info.changed.items()},
        options=list(request.options),
        notes=list(info.notes),
        weights=info.weights,
    )


def _plain(value: object) -> JsonValue:
    """A value of a config as JSON; what JSON does not know stands as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return str(value)


def _finding(finding: Finding, root: str) -> schema.FindingPart:
    rule, outcome = finding.rule, finding.outcome
    place = outcome.site.place
    return schema.FindingPart(
        code=rule.code,
        name=rule.name,
        step=rule.step,
        channel=rule.channel,
        severity=finding.severity,
        outcome=outcome.result,
        message=_one_stop(outcome.message),
        basis=outcome.basis,
        stream=outcome.site.stream,
        kind=outcome.site.kind,
        sublayer=outcome.site.sublayer,
        module=place.module if place else None,
        file=relative(place.file, root) if place else None,
        line=(place.line or None) if place else None,
        node=place.node if place else None,
        theorem=outcome.theorem,
        assumptions=list(outcome.assumptions),
        numbers=dict(outcome.numbers),
        remedy=outcome.remedy,
        condition=outcome.condition,
        plain=_one_stop(outcome.plain),
        excerpt=excerpt(place.file, place.line, root) if place and outcome.result in TELLING else [],
    )


def _change(tried: Tried) -> schema.ChangePart:
    change, before, after = tried.change, tried.before, tried.after
    return schema.ChangePart(
        id=change.id, what=change.words, codes=list(tried.codes), remedies=list(tried.remedies), verdict=tried.verdict,
        closes=list(tried.closes), eases=list(tried.eases),
        opens=list(tried.opens), untold=list(tried.untold), clears=list(tried.clears), lr_before=None if before is None else rate(before.value),
        lr_after=None if after is None else rate(after.value),
    )  # fmt: skip


def _one_stop(sentence: str) -> str:
    """A sentence that quotes one with a full stop of its own ends in one all the same."""
    return sentence if sentence.endswith("...") else sentence.removesuffix("..") + "." if sentence.endswith("..") else sentence


def _coverage(facts: Facts, run: RuleRun, root: str, left_out: tuple[str, ...]) -> schema.CoveragePart:
    graph, coverage = facts.graph, facts.coverage
    return schema.CoveragePart(
        ops=coverage.ops,
        ops_modelled=coverage.modelled,
        unmodelled=[
            schema.Unmodelled(op=u.op, count=u.count, on_stream=u.on_stream, source=source_part(u.place, root)) for u in coverage.unmodelled
        ],
        guesses=[schema.GuessPart(file=relative(g.file, root), line=g.line or None, assumed=g.assumed) for g in graph.guesses],
        stamped=[
            schema.Stamped(
                container=graph.modules[r.container].path,
                members=len(r.members),
                ran=[position for position, (module, ran) in enumerate(r.members) if module == ran],
            )
            for r in graph.repeats
        ],
        modules_uncalled=[graph.modules[m].path for m in graph.uncalled],
        rules_not_run=[schema.RuleNotRun(rule=f.rule, reason=f.reason) for f in run.not_run],
        rules_left_out=list(left_out),
    )


__all__ = ["DepthFrom", "Info", "Request", "assemble", "not_judged", "settings_part", "several", "tool"]
