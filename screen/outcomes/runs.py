"""Runs of the atlas against the risk: each design is built from its cell, and judged under the recipe of the run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from screen.atlas.cell import BATCH, STEPS, TOKENS, Cell, Task, cell_of, spec_of
from screen.atlas.predictions import Prediction, Predictor
from screen.atlas.split import part
from screen.atlas.tolerance import labels
from screen.outcomes.build import Design, of_spec
from screen.outcomes.fit import Known
from screen.outcomes.rows import Row
from screen.recipe import Recipe
from screen.verdict.risk import Features, assess, limits
from screen.verdict.risk.constants import EXPECTED
from screen.verdict.risk.limits import SMALLEST
from screen.verdict.risk.setting import setting_of

TYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
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


def predictor_of(rows: Iterable[Mapping[str, Any]], progress: Callable[[str], None] = lambda text: None, *, measure: bool = False) -> Predictor:
    """Who is asked about runs: risk, and the rate up to which it is expected to train. Each design of these rows is traced first; `measure`: κ of the
    first update is measured, and not derived."""
    for design, depth, width, init in dict.fromkeys((c.design, c.depth, c.width, c.init) for c in map(cell_of, rows)):
        progress(f"{design}: {depth} blocks of width {width}, {init}")
        design_of(design, depth, width, init)

    def ask(row: Mapping[str, Any]) -> Prediction:
        cell = cell_of(row)
        sizes, recipe = (cell.design, cell.depth, cell.width, cell.init), recipe_of(cell)
        streams = measured(*sizes, cell.task) if measure else design_of(*sizes).streams
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
