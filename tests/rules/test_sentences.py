"""Sentences about designs that everybody knows, against what is known of them."""

from __future__ import annotations

from screen.rule import Example, Outcome
from screen.testing import facts_of
from screen.verdict.conditions import CONDITIONS
from screen.verdict.discover import lookup
from tests.calculi.meanfield.covariance_models import MODELS


def said(code: str, source: str) -> tuple[Outcome, ...]:
    rule = lookup(code)
    assert rule is not None
    return rule.check(facts_of(Example("a design", source.partition("import torch\n")[2], ("ids=int64[2,16]",))))


def test_tokens_that_stay_apart_are_not_said_to_be_what_warm_up_makes_up_for() -> None:
    """Post-norm from N(0, 0.02): 1 − cos is near 1, and what is missing is an identity path."""
    small = MODELS["post"].replace("0.05", "0.02")
    [outcome] = said("D201", small)
    assert "so that no gradient arrives as it left" in outcome.plain
    assert "at the start tokens stay apart (1 − cos 1 after 12 blocks" in outcome.plain


def test_a_condition_on_branches_is_true_of_those_with_norms_too() -> None:
    """A pre-norm state space model has the condition, and no branch without a norm."""
    assert "without norm" not in CONDITIONS["small-gain"]
