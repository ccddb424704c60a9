"""What is said of the runs of the atlas: each cell's design is built and screened as a row's is, its recipe stated in full."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from screen.atlas.cell import BATCH, BETA1, CLIP, LAST, STEPS, TOKENS, Cell, cell_of, spec_of
from screen.atlas.split import part
from screen.atlas.tolerance import labels
from screen.outcomes.build import Design, of_spec
from screen.outcomes.fit import Known
from screen.outcomes.rows import Row
from screen.recipe import Recipe
from screen.verdict.risk import assess
from screen.verdict.risk.setting import setting_of

PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
BASE = Cell("pre", 4, 32, "chain", 1e-3, 0)


def recipe_of(cell: Cell) -> Recipe:
    """All that a cell says of its training."""
    return Recipe.model_validate({
        "optimizer": "adamw", "lr": cell.lr, "betas": (BETA1, cell.beta2), "eps": cell.eps, "weight_decay": cell.decay, "grad_clip": CLIP,
        "schedule": "cosine", "warmup_steps": round(cell.warmup * STEPS), "total_steps": STEPS, "min_lr": cell.lr * LAST, "z_loss": cell.z_loss,
        "batch_size": BATCH * TOKENS, "precision": PRECISIONS[cell.precision],
    })  # fmt: skip


@cache
def design_of(design: str, depth: int, width: int, init: str) -> Design:
    """What is known of a cell's design, captured once."""
    with tempfile.TemporaryDirectory() as folder:
        return of_spec(spec_of(replace(BASE, design=design, depth=depth, width=width, init=init)), Path(folder) / "design.py")


def predicted(record: Mapping[str, Any]) -> dict[str, float] | None:
    """The risk of one run and the largest rate that is expected to train, from design, initialisation and recipe alone (`python -m screen.atlas score
    --predictor screen.outcomes.runs:predicted`)."""
    cell = cell_of(record)
    seen = assess(design_of(cell.design, cell.depth, cell.width, cell.init).streams, recipe_of(cell))
    if seen is None:
        return None
    return {"risk": seen.risk, "tolerated": 10.0 if seen.lr is None else seen.lr}


def fitting(path: Path) -> tuple[list[Row], Known]:
    """The runs of a file that a fit may see, as rows with their streams and settings; those that were merely too short to learn are left out."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    told, rows, known = labels(records), list[Row](), Known()
    for record in records:
        cell = cell_of(record)
        if part(cell) == "unseen" or told[cell.id] == "slow":
            continue
        streams = design_of(cell.design, cell.depth, cell.width, cell.init).streams
        if streams:
            known[cell.id] = [(f, setting_of(recipe_of(cell), f)[0]) for f in streams]
            rows.append(Row(cell.id, "atlas", "run", {}, told[cell.id] == "fails", None, ()))
    return rows, known


__all__ = ["design_of", "fitting", "predicted", "recipe_of"]
