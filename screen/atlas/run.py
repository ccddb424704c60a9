"""Trains what is missing of the plan and appends it to the file of runs."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from screen.atlas.cell import Cell
from screen.atlas.language import language
from screen.atlas.outcome import classify
from screen.atlas.plan import stacks
from screen.atlas.records import append, manifest, read, record
from screen.atlas.train import train


def results(cells: list[Cell]) -> list[dict[str, Any]]:
    """The records of one stack."""
    torch.set_num_threads(1)
    known = language(cells[0].task)
    found = []
    for cell, curve in zip(cells, train(cells), strict=True):
        result = classify(curve.loss, curve.finite, known.chance, known.floor)
        measured = {"attention": curve.attention, "head": curve.head, "gradient": curve.gradient}
        found.append(record(cell, result, measured, curve.loss))
    return found


def _trained(work: list[list[Cell]], jobs: int, going: Callable[[], bool]) -> Iterator[list[dict[str, Any]]]:
    """Results of stack after stack, in order, in one process or in several; what has not begun when `going` says no is left."""
    if jobs == 1:
        for cells in work:
            if not going():
                return
            yield results(cells)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for start in range(0, len(work), 2 * jobs):
            if not going():
                return
            yield from pool.imap(results, work[start : start + 2 * jobs])


def run(cells: Iterable[Cell], path: Path, jobs: int = 1, budget: float | None = None, say: Callable[[str], None] = print) -> int:
    """Trains those cells that the file does not hold yet, and writes its manifest; how many. No stack begins after `budget` seconds of the clock."""
    done = {row["id"] for row in read(path)}
    work = list(stacks(cell for cell in cells if cell.id not in done))
    began, count = time.monotonic(), 0
    for rows in _trained(work, jobs, lambda: budget is None or time.monotonic() - began < budget):
        append(path, rows)
        count += len(rows)
        say(f"{count} runs, {time.monotonic() - began:.0f} s: {rows[0]['design']} {rows[0]['depth']}×{rows[0]['width']} {rows[0]['task']}")
    if count:
        text = json.dumps(manifest(read(path), torch.__version__), indent=1, ensure_ascii=False)
        path.with_name("manifest.json").write_text(text + "\n", encoding="utf-8")
    return count


__all__ = ["results", "run"]
