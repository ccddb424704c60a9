"""Channels under a stated recipe: guarded, conditional where one missing thing decides, open where it is expected to fail."""

from __future__ import annotations

from dataclasses import replace

from screen.recipe import Recipe
from screen.verdict.channels import CHANNELS, Verdict, fold
from screen.verdict.discover import run_rules
from screen.verdict.risk import Assessment, Dependence
from screen.verdict.risk.constants import RISKY
from screen.verdict.sides import sides
from screen.verdict.state import ChannelState
from screen.verdict.under_recipe import OPENING, QUIET, under_recipe
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


SEEN = Assessment(dict.fromkeys(CHANNELS, 0.0), 0.0, 0.0, 0.0, (), (), None)


def _alone(channel: ChannelState, seen: Assessment, recipe: Recipe = ORDINARY) -> ChannelState:
    """One channel under a recipe, with risks given by hand."""
    return under_recipe([channel], seen, [], recipe)[0]


def test_a_channel_that_is_likely_to_fail_is_not_guarded_while_an_item_of_another_decides() -> None:
    """Few steps make the whole trainable, by what the head's logits are then; those of attention, likelier to fail as it stands, need the same."""
    found = Dependence("total_steps", 25_000.0, 1e5, True, "O", 1e4, 1e6)
    risks = {"D": 0.01, "R": 0.2, "L": 0.83, "O": 0.5, "I": 0.05, "N": 0.6, "S": 0.01}
    seen = Assessment(risks, 0.92, 0.4, 0.99, ("total_steps",), (found,), 1e-3)  # type: ignore[arg-type]
    channels = [ChannelState(c, "conditional", "", (), ("bounded-weights",)) for c in CHANNELS]
    states = {c.id: c for c in under_recipe(channels, seen, [], ORDINARY)}
    assert [states[c].state for c in ("O", "L", "R")] == ["conditional", "conditional", "guarded"]
    assert states["L"].reason == states["O"].reason and "number of steps, which is not stated: expected to fail above 2.5e+04" in states["L"].reason
    assert "float32" in states["N"].reason  # its own reason


def test_a_range_that_is_left_opens_nothing_and_says_what_would_hold_it() -> None:
    risk = max(RISKY, OPENING)
    seen = replace(SEEN, risks={**SEEN.risks, "N": risk}, risk=risk)
    found = _alone(ChannelState("N", "out_of_scope", ""), seen)
    assert (found.state, found.conditions) == ("conditional", ("float16-range",)) and "kept in float32" in found.reason
    kept = _alone(ChannelState("N", "conditional", "", conditions=("run-time-scale",)), seen)
    assert (kept.state, kept.conditions) == ("conditional", ("run-time-scale",))
    for below in (replace(seen, risk=RISKY / 2), replace(seen, risks=SEEN.risks)):
        assert _alone(ChannelState("N", "out_of_scope", ""), below).state == "guarded"


def test_what_no_recipe_can_meet_stays_as_it_is() -> None:
    given = ChannelState("R", "conditional", "so", conditions=("bounded-weights", "run-time-scale"))
    assert _alone(given, SEEN) == replace(given, risk=0.0)
    assert _alone(replace(given, conditions=("bounded-weights",)), SEEN).state == "guarded"


def test_decay_alone_may_not_hold_a_head_that_drifts_and_z_loss_does() -> None:
    seen = replace(SEEN, risks={**SEEN.risks, "O": QUIET})
    found = _alone(ChannelState("O", "out_of_scope", ""), seen)
    assert (found.state, found.conditions) == ("conditional", ("bounded-head",)) and "z-loss holds them" in found.reason
    for recipe, risks in ((ORDINARY.model_copy(update={"z_loss": 1e-4}), seen.risks), (ORDINARY, SEEN.risks)):
        assert _alone(ChannelState("O", "out_of_scope", ""), replace(seen, risks=risks), recipe).state == "guarded"


def test_a_type_that_decides_alone_is_named_and_has_two_sides() -> None:
    item = Dependence("precision", "float16", "bfloat16", True, "N", "bfloat16", "float16")
    seen = replace(SEEN, missing=("precision",), depends=(item,))
    assert _alone(ChannelState("N", "out_of_scope", ""), seen).reason == (
        "it depends on the precision, which is not stated: it fails in float16 and holds in bfloat16."
    )
    (both,) = sides(seen, Recipe(), lambda recipe: "unstable" if recipe.precision == "float16" else "stable")
    assert (both.kind, both.harsh, both.when_kind, both.when_harsh) == ("bfloat16", "float16", "stable", "unstable")
    assert (both.holds_to, both.fails_from) == ("bfloat16", "float16")
    assert sides(seen, Recipe(), lambda recipe: "stable") == ()


def test_a_channel_depends_on_its_own_item_before_those_of_others() -> None:
    others = Dependence("weight_decay", 0.01, 0.1, False, "R", 0.1, 0.0)
    own = Dependence("z_loss", 9e-17, 0.0, False, "O", 1e-4, 0.0)
    seen = replace(SEEN, missing=("weight_decay", "z_loss"), depends=(others, own), risks={**SEEN.risks, "O": OPENING, "D": OPENING})
    given = {name: _alone(ChannelState(name, "conditional", ""), seen).reason for name in ("O", "D")}  # type: ignore[arg-type]
    assert "z-loss" in given["O"] and "weight decay" in given["D"]


def test_what_is_there_or_not_has_no_value_below_which_it_fails() -> None:
    for item, kind, flips in (("z_loss", 1e-4, 9e-17), ("warmup_steps", 1e4, 0.0)):
        found = Dependence(item, flips, 0.0, False, "O", kind, 0.0)
        reason = _alone(ChannelState("O", "out_of_scope", ""), replace(SEEN, missing=(item,), depends=(found,))).reason
        assert reason.endswith(", which is not stated: expected to fail without it.")


def test_clipping_of_queries_and_keys_guards_logits() -> None:
    found = _alone(ChannelState("L", "conditional", "", conditions=("bounded-logits",)), SEEN, ORDINARY.model_copy(update={"qk_clip": 100.0}))
    assert found.state == "guarded" and found.reason.startswith("guarded by the stated QK-clip at 100:")


def test_without_a_rate_a_channel_that_structure_leaves_out_says_what_is_missing() -> None:
    seen = replace(SEEN, missing=("lr",))
    found = _alone(ChannelState("S", "out_of_scope", ""), seen, ORDINARY.model_copy(update={"lr": None}))
    assert (found.state, found.reason) == ("out_of_scope", "the recipe does not state its learning rate.")


def test_a_rate_of_another_optimiser_is_no_rate_and_is_named() -> None:
    sgd = ORDINARY.model_copy(update={"optimizer": "sgd", "lr": 0.02})
    verdict = _under(h.pre(), sgd)
    assert _states(verdict)["R"] == "conditional"
    assert "It is judged by learning rates of Adam's kind, of which the 0.02 of sgd says nothing, and up to " in _reason(verdict, "R")
    found = _alone(ChannelState("S", "out_of_scope", ""), replace(SEEN, missing=("lr",)), sgd)
    assert found.reason == "it is judged by learning rates of Adam's kind, of which the 0.02 of sgd says nothing."


def test_thresholds_are_what_they_are_said_to_be() -> None:
    assert (QUIET, OPENING) == (0.2, 0.5)
