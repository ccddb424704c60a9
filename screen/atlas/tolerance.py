"""Up to which peak rate a design trains: what the runs of one (design, sizes, recipe) say together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

from screen.atlas.cell import Cell, cell_of

Label = Literal["trains", "fails", "slow"]
Record = Mapping[str, Any]
Group = tuple[str, int, int, tuple[Any, ...]]
"""Design, depth, width and the recipe but for its rate."""


@dataclass(frozen=True)
class Tolerance:
    """`largest` is the largest rate at which at least half of the seeds trained, `failing` the smallest above it; None where no run says so."""

    design: str
    depth: int
    width: int
    recipe: tuple[Any, ...]
    largest: float | None
    failing: float | None
    runs: int


def group_of(cell: Cell) -> Group:
    """What runs share whose rates are compared."""
    return cell.design, cell.depth, cell.width, cell.recipe


def tolerances(rows: Iterable[Record]) -> dict[Group, Tolerance]:
    """The tolerated rate of each group, in the order in which groups come."""
    seen: dict[Group, dict[float, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cell = cell_of(row)
        seen[group_of(cell)][cell.lr].append(row["trained"])
    return {group: _tolerance(group, rates) for group, rates in seen.items()}


def _tolerance(group: Group, rates: Mapping[float, list[bool]]) -> Tolerance:
    good = {rate: 2 * sum(trained) >= len(trained) for rate, trained in rates.items()}
    above = sorted(takewhile(lambda rate: not good[rate], sorted(rates, reverse=True)))
    largest = max((rate for rate in good if good[rate]), default=None)
    return Tolerance(*group, largest, above[0] if above else None, sum(map(len, rates.values())))


def labels(rows: Iterable[Record]) -> dict[str, Label]:
    """By id: `trains`; `slow` where it did not learn and a larger rate of its group trained, so that 100 steps were too few; else `fails`."""
    rows = list(rows)
    known = tolerances(rows)
    found: dict[str, Label] = {}
    for row in rows:
        cell, largest = cell_of(row), known[group_of(cell_of(row))].largest
        slow = row["outcome"] == "no_learning" and largest is not None and cell.lr < largest
        found[row["id"]] = "trains" if row["trained"] else "slow" if slow else "fails"
    return found


__all__ = ["Group", "Label", "Record", "Tolerance", "group_of", "labels", "tolerances"]
