"""What is trained, in which order: a prefix of the plan is balanced over designs, and what is cheap comes before what is deep or wide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from screen.atlas.cell import Cell
from screen.atlas.split import FIT_SEED, UNSEEN_DESIGNS
from screen.designs.table import QK, TABLE

DESIGNS = tuple(name + qk for name in TABLE for qk in ("", QK) if name + qk != "sandwich+qk")
"""All of the table with and without QK-norm; a sandwich with it differs from peri with it in the embedding's norm alone."""
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
"""Peak rates, two a decade."""
BETWEEN = (1.8e-3, 5.6e-3, 1.8e-2, 5.6e-2, 1.8e-1)
"""What halves the steps of `RATES` where edges lie."""
UPPER = (1e-2, 3e-2, 1e-1, 3e-1)
"""Where the edges of most designs lie at 4 blocks."""
DEPTHS = (6, 24, 2, 12)
"""Blocks, in the order in which a prefix takes them."""
DEEP = 24
"""Blocks from which a design has its second seed only towards the end: depth is what costs."""
WIDTH = 32
VARIED: tuple[dict[str, Any], ...] = (
    {}, {"warmup": 0.0}, {"init": "normal"}, {"init": "large"}, {"decay": 0.0}, {"warmup": 0.3}, {"eps": 1e-5}, {"warmup": 0.0, "beta2": 0.999},
    {"precision": "fp16"}, {"precision": "bf16"}, {"init": "small"}, {"beta2": 0.999}, {"decay": 1.0}, {"z_loss": 1e-2}, {"init": "gpt2"},
    {"init": "xavier"},
)  # fmt: skip
"""Nothing, and changes of the base recipe, one factor at a time but for one pair that is known to matter together."""
FLOATS = 8_000_000
"""Most weights of one stack: beyond it a stack no longer fits into caches and memory shared with others."""


def plan() -> list[Cell]:
    """Every cell once, in the order of running."""
    return list(dict.fromkeys(cell for stack in _stacks() for cell in stack))


def _stacks() -> Iterator[list[Cell]]:
    for i, design in enumerate(DESIGNS):
        yield _base(design, DEPTHS[i % len(DEPTHS)])
    for design in DESIGNS:
        yield _base(design, 6)
        yield _base(design, 2)
    yield from _variations(VARIED[:4], 4)
    yield from ([replace(c, task="repeat") for c in _rates(design, 4, RATES, (_seed(design),))] for design in DESIGNS)
    yield from (_base(design, DEEP) for design in DESIGNS)
    yield from (_rates(design, 12, RATES[1:], (_seed(design),)) for design in DESIGNS)
    yield from _variations(VARIED[4:8], 4)
    yield from ([replace(c, width=64) for c in _rates(design, 2, RATES[1:], (_seed(design),))] for design in DESIGNS)
    yield from _variations(VARIED[8:10], 4)
    yield from (_base(design, 12) for design in DESIGNS)
    yield from _variations(VARIED[10:], 4)
    yield from (_rates(design, 6, BETWEEN, (0, 1)) for design in DESIGNS)
    yield from ([replace(c, width=128) for c in _rates(design, 2, RATES[1:-1], (_seed(design),))] for design in DESIGNS[1::3])
    yield from (_rates(design, 48, RATES[1:-1], (_seed(design),)) for design in DESIGNS[::3])
    yield from (_rates(design, DEEP, RATES[:-1], (0, 1)) for design in DESIGNS)
    yield from (_rates(design, 12, BETWEEN, (0, 1)) for design in DESIGNS)
    yield from ([replace(c, task="repeat") for c in _rates(design, 12, RATES, (0, 1))] for design in DESIGNS)
    yield from ([replace(c, width=64) for c in _rates(design, 6, RATES, (0, 1))] for design in DESIGNS)


def _base(design: str, depth: int) -> list[Cell]:
    """The base recipe at all rates and with two seeds; deep stacks, which cost most, without the largest rate and with one seed."""
    return _rates(design, depth, RATES, (0, 1)) if depth < DEEP else _rates(design, depth, RATES[:-1], (_seed(design),))


def _seed(design: str) -> int:
    """The seed of a cell that has only one: that which fits see, unless they do not see the design."""
    return 1 if design in UNSEEN_DESIGNS else FIT_SEED


def _rates(design: str, depth: int, rates: Iterable[float], seeds: Iterable[int]) -> list[Cell]:
    return [Cell(design, depth, WIDTH, "chain", rate, seed) for seed in seeds for rate in rates]


def _variations(varied: Iterable[dict[str, Any]], depth: int) -> Iterator[list[Cell]]:
    """Each change at the upper rates."""
    changes = sorted(varied, key=lambda change: "precision" in change)
    for design in DESIGNS:
        yield [replace(c, **change) for change in changes for c in _rates(design, depth, UPPER, (_seed(design),))]


def stacks(cells: Iterable[Cell]) -> Iterator[list[Cell]]:
    """Neighbours of a plan that can be trained at once, in stacks of at most `FLOATS` weights."""
    for _, group in groupby(cells, key=lambda cell: cell.stack):
        mine = list(group)
        most = max(1, FLOATS // mine[0].parameters)
        yield from (mine[i : i + most] for i in range(0, len(mine), most))


__all__ = ["BETWEEN", "DEPTHS", "DESIGNS", "FLOATS", "RATES", "VARIED", "plan", "stacks"]
