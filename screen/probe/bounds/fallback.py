"""The attack on the bounds of a branch; and where it is beyond the budget, the bounds at one point as it is drawn, with nothing climbed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from screen.probe.bounds.ascent import Spot
from screen.probe.bounds.attack import Attempts, Best, attack, compare, verdict, weights_of
from screen.probe.budget.allocation import Key
from screen.probe.budget.budget import ATTACK
from screen.probe.budget.narrower import BEYOND
from screen.probe.measure.branch import BranchRun
from screen.probe.measure.leaves import Missing
from screen.probe.measure.session import Session, tried
from screen.probe.plan.types import Experiment, SublayerPlan

ALONE = ", at one drawn input"
"""Behind what was measured."""


def key(plan: SublayerPlan, purse: str, what: str = "") -> Key:
    """Of an experiment on one branch."""
    return purse, plan.output, what


def too_large(plan: SublayerPlan, session: Session) -> str:
    """Why there is no memory for the attack; empty where there is."""
    try:
        session.budget.room(plan, session.trace.graph, ATTACK)
    except Missing as error:
        return str(error)
    return ""


def attempted(run: BranchRun, session: Session, nothing: list[Experiment]) -> Iterator[Experiment]:
    """The attack; else why not, and before that the bounds at one point where that is affordable."""
    budget, own = session.budget, key(run.plan, "bounds")
    large, form = too_large(run.plan, session), budget.form(own)
    if form == 0 and not large:
        yield from tried(partial(attack, run), nothing, budget, own)
        return
    if form is not None:
        yield from tried(partial(drawn, run), [replace(e, what=e.what + ALONE) for e in nothing], budget, own)
    yield from (replace(e, reason=large or f"{BEYOND}, by counted work") for e in nothing)


def drawn(run: BranchRun) -> list[Experiment]:
    """Every bound against the branch's point."""
    best: Attempts = {(b.name, b.node): Best() for b in run.plan.bounds}
    compare(run, Spot(run.point), weights_of(run, {}), best)
    found = [verdict(run, b, best[b.name, b.node]) for b in run.plan.bounds]
    return [replace(e, what=e.what + ALONE) for e in found]


__all__ = ["ALONE", "attempted", "drawn", "key", "too_large"]
