"""Both sides of what a recipe leaves open: the verdict where one item that it does not state has the kindest of its usual values, and where it has
the harshest, each judged as if the recipe stated it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from screen.recipe import Recipe
from screen.verdict.risk import Assessment
from screen.verdict.risk.assess import Dependence, edge
from screen.verdict.state import VerdictName

WHOLE = frozenset({"warmup_steps", "total_steps"})
"""Items that are counts."""


@dataclass(frozen=True)
class Sides:
    """What one item decides. Values in the unit of the recipe's field."""

    item: str
    holds_to: float | str
    """The last value, seen from the kind side, at which the verdict is `when_kind`."""
    fails_from: float | str
    """The first at which it is `when_harsh`: the same but for rounding, unless a third verdict lies between."""
    kind: float | str
    """The kindest usual value."""
    harsh: float | str
    """The harshest."""
    when_kind: VerdictName
    """The verdict there."""
    when_harsh: VerdictName


def sides(seen: Assessment, recipe: Recipe, judge: Callable[[Recipe], VerdictName]) -> tuple[Sides, ...]:
    """Of each item on which the risk hangs alone, where the verdict is not the same on both sides; `judge` gives the verdict under a recipe."""
    each = (_of(found, recipe, judge) for found in seen.depends)
    return tuple(both for both in each if both.when_kind != both.when_harsh)


def _of(found: Dependence, recipe: Recipe, judge: Callable[[Recipe], VerdictName]) -> Sides:
    def whole(value: float) -> float:
        return round(value) if found.item in WHOLE else value

    def at(value: float | str) -> VerdictName:
        return judge(recipe.model_copy(update={found.item: value if isinstance(value, str) else whole(value)}))

    kind, harsh = at(found.kind), at(found.harsh)
    if isinstance(found.kind, str) or isinstance(found.harsh, str):
        return Sides(found.item, found.kind, found.harsh, found.kind, found.harsh, kind, harsh)
    holds, _ = edge(lambda v: at(v) == kind, found.kind, found.harsh)
    _, fails = edge(lambda v: at(v) != harsh, found.kind, found.harsh)
    return Sides(found.item, whole(holds), whole(fails), found.kind, found.harsh, kind, harsh)


__all__ = ["Sides", "sides"]
