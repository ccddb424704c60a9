"""The attack on the bounds of a branch; and where it is beyond the budget, the bounds at one point as it is drawn, with nothing climbed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from screen.probe.adversary import Attempts, Best, attack, compare, verdict, weights_of
from screen.probe.attempts import Session, tried
from screen.probe.branch import BranchRun
from screen.probe.budget import ATTACK
from screen.probe.climb import Spot
from screen.probe.material import Missing
from screen.probe.plan import Experiment

ALONE = ", at one drawn input"
"""Behind what was measured."""


def attempted(run: BranchRun, session: Session, nothing: list[Experiment], work: float, brief: float) -> Iterator[Experiment]:
    """The attack, of so many operations; else why not, and before that the bounds at one point, of `brief` operations."""
    budget, large = session.budget, ""
    try:
        budget.room(run.plan, session.trace.graph, ATTACK)
    except Missing as error:
        large = str(error)
    if (large or not budget.holds(work)) and budget.holds(brief):
        yield from tried(partial(drawn, run), [replace(e, what=e.what + ALONE) for e in nothing], budget, brief)
    if large:
        yield from (replace(e, reason=large) for e in nothing)
    else:
        yield from tried(partial(attack, run), nothing, budget, work)


def drawn(run: BranchRun) -> list[Experiment]:
    """Every bound against the branch's point."""
    best: Attempts = {(b.name, b.node): Best() for b in run.plan.bounds}
    compare(run, Spot(run.point), weights_of(run, {}), best)
    found = [verdict(run, b, best[b.name, b.node]) for b in run.plan.bounds]
    return [replace(e, what=e.what + ALONE) for e in found]


__all__ = ["ALONE", "attempted", "drawn"]
