"""The file of runs: one line of JSON each, with its cell and what became of it; appended to, so that a run of the generator can go on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from screen.atlas import cell as constants
from screen.atlas.cell import Cell, cell_of
from screen.atlas.outcome import LAST_STEPS, Result
from screen.atlas.split import FIT_SEED, UNSEEN_DESIGNS, part

RUNS = Path("docs/atlas/runs.jsonl")
"""Where the runs of the repository stand, from its root."""
DIGITS = 4
"""Significant digits that are kept of what was measured."""


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def record(cell: Cell, result: Result, measured: dict[str, float], curve: Iterable[float]) -> dict[str, Any]:
    """One line: `id`, the cell, `part` (fit or unseen), the outcome, what was measured, and `curve`, the mean loss of each tenth of the run."""
    numbers = {"final": _short(result.final), "best": _short(result.best), "rise": _short(result.rise), "failed_at": result.failed_at}
    losses = list(curve)
    tenths = [losses[i : i + LAST_STEPS] for i in range(0, len(losses), LAST_STEPS)]
    means = [round(sum(t) / len(t), 2) for t in tenths]
    return {
        "id": cell.id, **asdict(cell), "part": part(cell), "outcome": result.outcome, "trained": result.trained,
        **numbers, **{name: _short(value) for name, value in measured.items()}, "curve": means,
    }  # fmt: skip


def read(path: Path) -> list[dict[str, Any]]:
    """All lines of a file; none where there is no file. A last line that was cut off is left out."""
    return list(_lines(path)) if path.exists() else []


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def append(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Adds lines to a file, which is made where there is none; a last line that was cut off is taken away before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    old = path.read_bytes() if path.exists() else b""
    if old and not old.endswith(b"\n"):
        path.write_bytes(old[: old.rfind(b"\n") + 1])
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def manifest(rows: list[dict[str, Any]], torch_version: str) -> dict[str, Any]:
    """What a file of runs needs beside it to be understood and made again."""
    names = ("VERSION", "STEPS", "BATCH", "TOKENS", "VOCAB", "HEADS", "BETA1", "CLIP", "LAST")
    cells = [cell_of(row) for row in rows]
    return {
        "generator": {name.lower(): getattr(constants, name) for name in names},
        "inits": constants.INITS,
        "torch": torch_version,
        "runs": len(rows),
        "fit": sum(part(c) == "fit" for c in cells),
        "work": sum(c.work for c in cells),
        "split": {"unseen_designs": sorted(UNSEEN_DESIGNS), "fit_seed": FIT_SEED},
    }


__all__ = ["RUNS", "append", "manifest", "read", "record"]
