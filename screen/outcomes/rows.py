"""Rows and pairs of outcomes as data: what a row states of its recipe, what became of it, and what simple baselines say of its cells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from screen.errors import UsageError
from screen.recipe import Recipe
from screen.recipe.recipe import of_cells

GRADES = {"A": 1.0, "B": 0.5, "C": 0.25, "M": 0.0, "run": 0.1}
"""What evidence of each grade counts; `run`: one of the atlas' short trainings of a small model."""
SMOOTHED = "smooth_silu"
"""The activation cell of a gated branch whose FP8 inputs are scaled channel by channel: the function is that of SiLU."""


@dataclass(frozen=True)
class Row:
    """One outcome."""

    id: str
    source: str
    grade: str
    cells: Mapping[str, Any]
    """The whole line."""
    failed: bool | None
    """None where it is not scored, or the size of a loss is not stated."""
    share: float | None
    """Diverged runs of all, where several were made."""
    accepted: tuple[str, ...]
    """Channels that count as the right reason of a failure."""

    def recipe(self, *, assumed: bool) -> Recipe:
        """What it states of its training. Raises `ValidationError`."""
        found = of_cells(dict(self.cells), assumed=assumed)
        return found.model_copy(update={"fp8_per_channel": True}) if self.cells["design"].get("activation") == SMOOTHED else found


@dataclass(frozen=True)
class Pair:
    """Two rows of one source, the first more stable than the second."""

    id: str
    better: str
    worse: str
    source: str
    weight: float
    gate: int | None
    """The ordering that must never be reversed."""
    kind: str
    """What differs: `design`, `recipe`, `both`, or `unstated`."""


def rows_of(path: Path) -> list[Row]:
    """The rows of a file. Raises `UsageError` with the line that is none."""
    return [_row(data) for data in _lines(path, ("id", "design", "init", "optimizer", "schedule", "precision", "outcome", "failed"))]


def pairs_of(path: Path) -> list[Pair]:
    """The pairs of a file. Raises `UsageError`."""
    found = []
    for data in _lines(path, ("better", "worse")):
        gate = data.get("gate") or {}
        weight = data.get("weight", GRADES.get(data.get("grade", ""), 0.0))
        name = data.get("id", f"{data['better']} > {data['worse']}")
        found.append(Pair(name, data["better"], data["worse"], data.get("source_key", ""), weight, gate.get("ordering") if gate.get("hard") else None,
                          data.get("kind") or ""))  # fmt: skip
    return found


def _row(data: Mapping[str, Any]) -> Row:
    several = data.get("diverged_k_of_n")
    return Row(
        id=data["id"],
        source=data.get("source_key") or "",
        grade=data.get("grade") or "C",
        cells=data,
        failed=data["failed"] if data.get("scorable", True) else None,
        share=several[0] / several[1] if several and several[1] > 1 and data["outcome"] != "degraded" else None,
        accepted=tuple(data.get("channels_accepted") or ()),
    )


def _lines(path: Path, needed: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("a file of outcomes must be text that can be read", str(error), file=str(path)) from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except ValueError as error:
            raise UsageError("each line must be JSON", str(error), file=str(path), line=number) from None
        if not isinstance(data, dict) or any(key not in data for key in needed):
            missing = [key for key in needed if not isinstance(data, dict) or key not in data]
            raise UsageError("each line must be an object of the schema", f"it lacks {', '.join(missing)}", file=str(path), line=number)
        yield data


def baselines(row: Row) -> dict[str, bool] | None:
    """Baseline -> whether it calls the run unstable, from the cells of its design; None where the placement is not known."""
    design, assumed = row.cells["design"], row.cells.get("assumed", {})
    subs = design["sublayers"] or assumed.get("design.sublayers", {}).get("value")
    if not subs or any(s["placement"] is None for s in subs):
        return None
    placements = [s["placement"] for s in subs]
    scaled = (design["residual"]["kind"] or "none") != "none"
    normed = (design["qk_norm"] or "none") != "none" or design["attention_logit_cap"] is not None
    return {
        "always stable": False,
        "K's step 1: output-normalised": not all("B" in p for p in placements),
        "identity path, or scaled": any("C" in p for p in placements) and not scaled,
        "QK-norm, or a cap": not normed,
    }


BASELINES = ("always stable", "K's step 1: output-normalised", "identity path, or scaled", "QK-norm, or a cap")

__all__ = ["BASELINES", "GRADES", "Pair", "Row", "ValidationError", "baselines", "pairs_of", "rows_of"]
