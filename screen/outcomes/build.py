"""From the cells of a row to facts: the design is built by `screen.designs` and captured in this process, once for rows of one design."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from screen.child.protocol import Request
from screen.designs import NotExpressible, Spec, resolve
from screen.facts import derive
from screen.facts.record import Facts
from screen.outcomes.rows import Row
from screen.recipe import Recipe
from screen.rule import RuleRun
from screen.verdict.channels import Verdict, fold
from screen.verdict.discover import run_rules
from screen.verdict.risk import Features, features_of

UNSTATED: Mapping[str, Any] = {
    "gain": None, "side": None, "rms_first": None, "rms_read": None, "one_minus_cos": None, "gradient_ratio": None, "exponential": False,
    "update": None, "logit_rms": None, "kappa": None,
}  # fmt: skip
"""Features that say nothing where the initialisation of a row was filled in with what is usual."""
SOURCE = """
from json import loads
from screen.designs import Spec
from screen.designs.build import build, inputs

SPEC = Spec.of_plain(loads({text!r}))
example_inputs = inputs(SPEC)


def build_model():
    return build(SPEC)
"""


@dataclass(frozen=True)
class Info:
    """What a fold needs to know of a target that is a whole model."""

    model_class: str | None = "model"
    block: bool = False


@dataclass(frozen=True)
class Design:
    """What is known of a row's design."""

    streams: tuple[Features, ...] = ()
    verdict: str = ""
    """Without a recipe."""
    reason: str = ""
    """Why it could not be built, or not be read; empty where it was."""
    judge: Callable[[Recipe], Verdict] | None = None
    """The verdict under a recipe."""


def designs_of(
    rows: Iterable[Row], *, assumed: bool, built: dict[str, Design] | None = None, progress: Callable[[str], None] = lambda text: None
) -> dict[str, Design]:
    """Row -> design. `assumed`: cells that are empty are filled from the row's own assumptions, else only with general defaults. `built` keeps each
    design for the next call."""
    found: dict[str, Design] = {}
    built = {} if built is None else built
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            try:
                spec = resolve(row.cells, assume=assumed)
            except NotExpressible as error:
                found[row.id] = Design(reason=str(error))
                continue
            key = json.dumps(spec.plain() | {"filled": None}, sort_keys=True)
            if key not in built:
                progress(f"{row.id}: {spec.design.family}, {spec.design.blocks} blocks of width {spec.design.width}")
                built[key] = of_spec(spec, Path(folder) / f"design_{len(built)}.py")
            found[row.id] = _masked(built[key], spec, assumed)
    return found


def of_spec(spec: Spec, file: Path) -> Design:
    """The design of a complete spec; `file` is written, to be captured."""
    from screen.child.in_process import capture  # loads torch

    file.write_text(SOURCE.format(text=json.dumps(spec.plain())), encoding="utf-8")
    captured = capture(Request(f"{file}::build_model"))
    graph = captured.models[0].graph if captured.models else None
    if graph is None:
        return Design(reason=f"it was not captured: {captured.error.found if captured.error else 'no graph came'}")
    facts = derive(graph)
    run = run_rules(facts)
    return Design(features_of(facts), fold(facts, run, Info()).verdict, "", _judge(facts, run))


def _judge(facts: Facts, run: RuleRun) -> Callable[[Recipe], Verdict]:
    return lambda recipe: fold(facts, run, Info(), recipe)


def _masked(design: Design, spec: Spec, assumed: bool) -> Design:
    """Without what rests on an initialisation that nobody states."""
    filled = {spec.filled.get("init.kind"), spec.filled.get("init.std")}
    if not filled & ({"general default"} if assumed else {"general default", "assumed"}):
        return design
    return replace(design, streams=tuple(Features(**{**asdict(f), **UNSTATED}) for f in design.streams))


__all__ = ["Design", "Info", "designs_of", "of_spec"]
