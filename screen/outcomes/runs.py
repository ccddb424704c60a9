"""Runs of the atlas against the risk: each design is built from its cell, and judged under the recipe of the run."""

from __future__ import annotations

import math
import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from screen.atlas.cell import BATCH, STEPS, TOKENS, Cell, Task, cell_of, spec_of
from screen.atlas.predictions import Prediction, Predictor
from screen.atlas.split import part
from screen.atlas.tolerance import Group, group_of, labels
from screen.outcomes.build import Design, of_spec
from screen.outcomes.fit import Known
from screen.outcomes.rows import Row
from screen.recipe import Recipe
from screen.verdict.risk import Features, assess, limits
from screen.verdict.risk.assess import largest
from screen.verdict.risk.channels import overall, worst_risks
from screen.verdict.risk.constants import EXPECTED, SMALLEST, VALUES
from screen.verdict.risk.setting import moved, setting_of

TYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
FOLDS_SLOPE, FOLDS_EVEN = 0.35, 7.25
"""Of the log odds of failing per e-fold by which the tokens of a sequence are alike behind the first steps (`screen.atlas.first_steps`), and e-folds
that say nothing: fitted to the atlas' fitting part beside the risk with κ measured (0.35 to 0.4, and 6.5 to 7.5, with any family left out)."""
FAILS_FROM = 0.35
"""Risk from which a run is called failing where the first steps were measured, in the place of `EXPECTED`: of 0.3 to 0.6 that with the best balanced
accuracy on the fitting part with a family of designs left out (0.922; 0.916 at 0.45). The tolerated rate is told as before."""
BASE = Cell("pre", 4, 32, "chain", 1e-3, 0)


def recipe_of(cell: Cell) -> Recipe:
    """The recipe of a run; its warm-up is a share of the steps."""
    return Recipe.model_validate({
        "optimizer": "adamw", "lr": cell.lr, "weight_decay": cell.decay, "warmup_steps": round(cell.warmup * STEPS), "total_steps": STEPS,
        "schedule": "cosine", "eps": cell.eps, "betas": (0.9, cell.beta2), "z_loss": cell.z_loss, "precision": TYPES[cell.precision],
        "params_precision": "float32", "batch_size": BATCH * TOKENS,
    })  # fmt: skip


@cache
def design_of(design: str, depth: int, width: int, init: str) -> Design:
    """What is known of a cell's design, which is traced once."""
    with tempfile.TemporaryDirectory() as folder:
        return of_spec(spec_of(replace(BASE, design=design, depth=depth, width=width, init=init)), Path(folder) / "design.py")


@cache
def measured(design: str, depth: int, width: int, init: str, task: Task) -> tuple[Features, ...]:
    """The streams of a cell's design with κ measured on its task by one step, in the place of its derivation."""
    from screen.atlas.step import kappa  # loads torch

    found = kappa(replace(BASE, design=design, depth=depth, width=width, init=init, task=task))
    return tuple(replace(f, kappa=found) for f in design_of(design, depth, width, init).streams)


@dataclass(frozen=True)
class FirstSteps:
    """What the first steps at several rates of one recipe made of its tokens."""

    folds: tuple[tuple[float, float], ...]
    """(ln of the rate, e-folds by which the tokens of a sequence have become alike), by rate."""

    def at(self, lr: float) -> float:
        """e-folds at a rate: between those that were tried on a line, and never fewer than at a smaller one."""
        rates, risen = [rate for rate, _ in self.folds], list(accumulate((folds for _, folds in self.folds), max))
        after = bisect_left(rates, math.log(lr))
        if after in (0, len(rates)):
            return risen[min(after, len(rates) - 1)]
        share = (math.log(lr) - rates[after - 1]) / (rates[after] - rates[after - 1])
        return risen[after - 1] + share * (risen[after] - risen[after - 1])

    def told(self, risk: float, lr: float) -> float:
        """The risk at a rate, with that."""
        odds = risk / max(1 - risk, 1e-9) * math.exp(FOLDS_SLOPE * (self.at(lr) - FOLDS_EVEN))
        return odds / (1 + odds)


def first_steps(rows: Iterable[Mapping[str, Any]]) -> dict[Group, FirstSteps]:
    """Of every group of runs, at the rates that these rows have."""
    from screen.atlas.first_steps import folds  # loads torch

    found: dict[Group, dict[float, float]] = defaultdict(dict)
    for cell, e_folds in folds(map(cell_of, rows)).items():
        found[group_of(cell)][math.log(cell.lr)] = e_folds
    return {group: FirstSteps(tuple(sorted(rates.items()))) for group, rates in found.items()}


def _measured(cell: Cell, steps: FirstSteps) -> Prediction:
    streams, recipe = measured(cell.design, cell.depth, cell.width, cell.init, cell.task), recipe_of(cell)
    if not streams:
        return Prediction()
    settings = [(f, setting_of(recipe, f)[0]) for f in streams]

    def risk(lr: float) -> float:
        return steps.told(overall(worst_risks(((f, moved(s, "lr", lr)) for f, s in settings), VALUES)), lr)

    return Prediction(largest(risk), risk(cell.lr), FAILS_FROM)


def predictor_of(rows: Iterable[Mapping[str, Any]], progress: Callable[[str], None] = lambda text: None, *, measure: bool = False) -> Predictor:
    """Who is asked about runs: risk, and the rate up to which it is expected to train. Each design of these rows is traced first; `measure`: κ of the
    first update is measured, and not derived, and the first steps at the rates of these rows are made."""
    rows = list(rows)
    steps = first_steps(rows) if measure else {}
    for design, depth, width, init in dict.fromkeys((c.design, c.depth, c.width, c.init) for c in map(cell_of, rows)):
        progress(f"{design}: {depth} blocks of width {width}, {init}")
        design_of(design, depth, width, init)

    def ask(row: Mapping[str, Any]) -> Prediction:
        cell = cell_of(row)
        if measure:
            return _measured(cell, steps[group_of(cell)])
        streams, recipe = design_of(cell.design, cell.depth, cell.width, cell.init).streams, recipe_of(cell)
        seen, told = assess(streams, recipe), limits(streams, recipe)
        return Prediction() if seen is None else Prediction(told[0].value if told else SMALLEST, seen.risk, EXPECTED)

    return ask


def fitting(records: Iterable[Mapping[str, Any]], progress: Callable[[str], None] = lambda text: None) -> tuple[list[Row], Known]:
    """The runs that a fit may see, as rows, with their streams and settings; those that were merely too short to learn are left out."""
    records = list(records)
    told, rows, known = labels(records), list[Row](), Known()
    for record in records:
        cell = cell_of(record)
        if part(cell) == "unseen" or told[record["id"]] == "slow":
            continue
        progress(f"{cell.design}: {cell.depth} blocks of width {cell.width}, {cell.init}")
        streams = design_of(cell.design, cell.depth, cell.width, cell.init).streams
        if streams:
            known[record["id"]] = [(f, setting_of(recipe_of(cell), f)[0]) for f in streams]
            rows.append(Row(record["id"], "atlas", "run", {}, told[record["id"]] == "fails", None, ()))
    return rows, known


__all__ = ["design_of", "fitting", "measured", "predictor_of", "recipe_of"]
