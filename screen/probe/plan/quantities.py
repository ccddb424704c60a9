"""What bounds are functions of, as plain data for whoever measures it: norms of parts of weights, and norms of the branch with their divisors."""

from __future__ import annotations

from screen.calculi.bounds.arrays import Fold, Rows, Share
from screen.calculi.bounds.head_products import Logit, Through
from screen.calculi.bounds.parts import Made, Part
from screen.calculi.bounds.quantities import Quantity
from screen.probe.plan.types import MadePlan, NormPlan, PartPlan, QuantityPlan
from screen.structure.branches.branch import Branch
from screen.structure.types import Norm


def quantity_plan(q: Quantity) -> QuantityPlan:
    """One symbol."""
    return QuantityPlan(q.symbol, q.kind, q.roles, part_plan(q.part))


def part_plan(part: Part) -> PartPlan:
    """A view, with what it is a view of."""
    return PartPlan(part.parameter, part.offset, part.sizes, part.strides, part.shift, None if part.fold is None else _made(part.fold))


def _made(fold: Made) -> MadePlan:
    if isinstance(fold, Fold):
        if fold.shift is not None:
            return MadePlan("constant", _parts(fold.matrix, fold.shift, fold.bias))
        return MadePlan("map", _parts(fold.matrix, fold.gain), fold.centred)
    if isinstance(fold, Rows):
        return MadePlan("rows", _parts(fold.matrix, fold.gains))
    if isinstance(fold, Logit):
        return MadePlan("logit", _parts(*fold.parts), heads=fold.heads)
    if isinstance(fold, Through):
        return MadePlan("through", _parts(*fold.parts))
    assert isinstance(fold, Share)
    if fold.left is not None:
        return MadePlan("share", _parts(fold.matrix, fold.gain, fold.left, fold.right))
    return MadePlan("frobenius" if fold.frobenius else "spectral", _parts(fold.matrix, fold.gain))


def _parts(*parts: Part | None) -> tuple[PartPlan | None, ...]:
    return tuple(None if p is None else part_plan(p) for p in parts)


def norm_plan(branch: Branch, norm: Norm, symbol: str, least: float | None) -> NormPlan:
    """One norm, with the symbol of its divisor."""
    op = branch.flow.graph.nodes[norm.node].op
    fused, clamped = op in ("layer_norm", "rms_norm"), op == "normalize"
    eps = norm.eps if norm.eps is not None else 2.220446049250313e-16 if fused else 0.0
    grouping = "groups" if op == "group_norm" else "channels" if op == "batch_norm" else ""
    return NormPlan(symbol, norm.node, norm.source, norm.centred, norm.axes, norm.size, eps, fused, clamped, least, grouping)  # type: ignore[arg-type]


__all__ = ["norm_plan", "part_plan", "quantity_plan"]
