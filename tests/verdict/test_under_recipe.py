"""Channels under a stated recipe: guarded, conditional where one missing thing decides, open where it is expected to fail."""

from __future__ import annotations

from screen.recipe import Recipe
from screen.verdict.channels import Verdict, fold
from screen.verdict.discover import run_rules
from tests import handmade as h

ORDINARY = Recipe(
    lr=6e-4, optimizer="adamw", warmup_steps=2000, weight_decay=0.1, total_steps=100_000, precision="bfloat16", z_loss=0.0, schedule="cosine"
)


def _under(facts: h.Facts, recipe: Recipe | None) -> Verdict:
    return fold(facts, run_rules(facts), h.TargetInfo(), recipe)


def _states(verdict: Verdict) -> dict[str, str]:
    return {c.id: c.state for c in verdict.channels}


def _reason(verdict: Verdict, channel: str) -> str:
    return next(c.reason for c in verdict.channels if c.id == channel)


def test_without_a_recipe_no_channel_has_a_risk() -> None:
    verdict = _under(h.pre(), None)
    assert verdict.assessment is None and {c.risk for c in verdict.channels} == {None} and verdict.verdict == "conditional"


def test_pre_with_decay_at_an_ordinary_rate_is_guarded() -> None:
    verdict = _under(h.pre(), ORDINARY)
    states = _states(verdict)
    assert states["R"] == states["L"] == states["S"] == "guarded" and states["D"] == "closed" and verdict.verdict == "stable"
    assert "learning rate 0.0006" in _reason(verdict, "R") and "weight decay 0.1" in _reason(verdict, "L")
    assert verdict.assessment is not None and all(c.risk == verdict.assessment.risks[c.id] for c in verdict.channels)


def test_decay_guards_nothing_without_a_learning_rate() -> None:
    verdict = _under(h.pre(), ORDINARY.model_copy(update={"lr": None}))
    assert _states(verdict)["R"] == _states(verdict)["L"] == "conditional" and verdict.verdict == "conditional"
    assert "does not state the learning rate, and up to " in _reason(verdict, "R")


def test_what_does_not_decide_makes_nothing_conditional() -> None:
    verdict = _under(h.pre(), ORDINARY.model_copy(update={"weight_decay": None, "total_steps": None}))
    assert verdict.verdict == "stable" and "whatever the weight decay is in its usual range" in _reason(verdict, "R")


def test_a_rate_that_is_far_too_high_opens_a_channel_and_says_up_to_which_it_holds() -> None:
    verdict = _under(h.pre(), ORDINARY.model_copy(update={"lr": 1.0}))
    assert verdict.verdict == "unstable" and "A learning rate below" in next(c.reason for c in verdict.channels if c.state == "open")
    post = _under(h.post(), ORDINARY)
    assert post.verdict == "stable" and _states(post)["D"] == "guarded"
    assert _under(h.post(), ORDINARY.model_copy(update={"lr": 1e-2, "warmup_steps": 0})).verdict == "unstable"


def test_z_loss_guards_the_head_and_closed_channels_stay_closed() -> None:
    assert _states(_under(h.peri(), ORDINARY))["R"] == "closed"
    head = _reason(_under(h.pre(), ORDINARY.model_copy(update={"z_loss": 1e-4})), "O")
    assert head.startswith("guarded by the stated z-loss 0.0001")


def test_what_was_not_read_stays_unknown() -> None:
    assert _under(h.unknown(), ORDINARY).verdict == "unknown"


def test_what_decides_alone_has_a_verdict_on_either_side_as_if_it_were_stated() -> None:
    recipe = ORDINARY.model_copy(update={"lr": 3e-3, "warmup_steps": None})
    verdict = _under(h.post(), recipe)
    assert [both.item for both in verdict.sides] == ["warmup_steps"] and verdict.verdict == "conditional"
    both = verdict.sides[0]
    assert (both.harsh, both.kind) == (0, 10_000) and both.when_harsh == "unstable" != both.when_kind
    assert not isinstance(both.holds_to, str) and 0 < both.holds_to < 10_000 and both.fails_from == both.holds_to - 1
    assert f"expected to fail below {both.fails_from:.2g}." in next(c.reason for c in verdict.channels if c.state == "conditional")
    for steps, failing in ((both.fails_from, True), (both.holds_to, False)):
        stated = _under(h.post(), recipe.model_copy(update={"warmup_steps": steps}))
        assert stated.sides == () and (stated.verdict == "unstable") is failing
    assert _under(h.pre(), ORDINARY).sides == () and _under(h.pre(), None).sides == ()
