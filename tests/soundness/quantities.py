"""Values of the symbols of a bound, computed from real weights: by the formulas that the probe uses (`screen.probe.measures`), written apart from
`screen.facts.bounds`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from torch import Tensor

from screen.facts.bounds.quantities import Quantity
from screen.plan_quantities import quantity_plan
from screen.probe import measures
from screen.probe.made import Arrays
from screen.probe.plan import QuantityPlan


def value(quantity: Quantity, weights: Mapping[str, Tensor]) -> float:
    """The number that a symbol stands for."""
    return measures.quantity(_plan(quantity), Arrays(weights))


@cache
def _plan(quantity: Quantity) -> QuantityPlan:
    return quantity_plan(quantity)
