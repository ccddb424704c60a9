"""Values of the symbols of a bound, computed from real weights: by the formulas that the probe uses
(`screen.probe.bounds.weight_norms`), written apart from `screen.calculi.bounds`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from torch import Tensor

from screen.calculi.bounds.quantities import Quantity
from screen.probe.bounds import weight_norms as measures
from screen.probe.bounds.arrays import Arrays
from screen.probe.plan.quantities import quantity_plan
from screen.probe.plan.types import QuantityPlan


def value(quantity: Quantity, weights: Mapping[str, Tensor]) -> float:
    """The number that a symbol stands for."""
    return measures.quantity(_plan(quantity), Arrays(weights))


@cache
def _plan(quantity: Quantity) -> QuantityPlan:
    return quantity_plan(quantity)
