"""What a budget is given to."""

from __future__ import annotations

import math

import pytest

from screen.capture.trace.tracer import run
from screen.probe.budget.allocation import SHARES, Want, allotted
from screen.probe.budget.budget import Budget
from screen.probe.measure.session import Session
from screen.probe.run import wants
from tests.probe.common import CPU, planned


def _want(purse: str, node: int, *costs: float) -> Want:
    return Want((purse, node, ""), costs)


def test_every_purse_has_its_share_first() -> None:
    """What is dear in one does not keep the others from being made."""
    dear = [_want("invariance", n, 9.0) for n in range(10)]
    cheap = [_want(purse, 99, SHARES[purse]) for purse in SHARES if purse != "invariance"]
    chosen = allotted([*dear, *cheap], 60.0)
    assert all(w.key in chosen for w in cheap)
    assert sum(w.key in chosen for w in dear) == 1  # of 15 seconds; 6 are left, and one costs 9


def test_what_is_left_goes_round() -> None:
    """Without other wants one purse may have all; nothing is ever more than the budget."""
    chosen = allotted([_want("invariance", n, 9.0) for n in range(10)], 60.0)
    assert len(chosen) == 6 and sum(cost for _, cost in chosen.values()) == 54.0


def test_a_lesser_form_comes_before_what_is_fuller() -> None:
    """The comparison at one input is not lost to more exponents."""
    bounds, many = _want("bounds", 0, math.inf, 14.0), [_want("invariance", n, 9.0) for n in range(10)]
    chosen = allotted([bounds, *many], 60.0)
    assert chosen[bounds.key] == (1, 14.0) and len(chosen) == 6
    stacks = _want("depth", 0, 80.0, 40.0, 19.0, 9.0)
    assert allotted([stacks], 60.0)[stacks.key] == (1, 40.0)
    assert allotted([stacks, *many], 60.0)[stacks.key] == (2, 19.0)
    assert stacks.key not in allotted([stacks], 8.0)


@pytest.mark.by_the_day
def test_what_is_decided_is_made_and_nothing_else() -> None:
    """Every experiment of a model has a want of its own, and no two share one."""
    built, plan, watch = planned("examples/pre.py")
    session = Session(run(built.model, built.args, built.kwargs, initialisers=built.initialisers), built, watch, CPU, Budget(60, 0, "cpu"))
    found = list(wants(plan, session, True))
    assert len({w.key for w in found}) == len(found) and {w.key[0] for w in found} == set(SHARES)
    assert all(cost > 0 for w in found for cost in w.costs)
