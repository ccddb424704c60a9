"""The risk of each channel: monotone where theory says so, and what hangs on things that a recipe does not say."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from screen.calculi.meanfield import Recursion, Start
from screen.recipe import Recipe
from screen.rule import Example
from screen.structure.types import Unknown
from screen.testing import facts_of
from screen.verdict.risk import Features, assess, features_of
from screen.verdict.risk.channels import channel_risks, kappa, overall, quantities
from screen.verdict.risk.constants import EXPECTED, LARGEST, PRIORS, RISKY, TABLE, VALUES
from screen.verdict.risk.limits import limits
from screen.verdict.risk.setting import ITEMS, burst, moved, persistence, setting_of
from tests import handmade as h

PRE = Features(
    stream="stream", depth=12, branches=24, width=768, identity=True, crossed=0, bounded=False, normed=True, raw_inputs=False, renewed=True,
    scaled=False, branch_scale=1.0, alpha=1.0, softmax=True, logits_bounded=False, gain=0.6, side=1536.0, mean_gain=0.6, mean_side=1536.0,
    rms_first=0.02, rms_read=0.3, one_minus_cos=0.45, gradient_ratio=3.6, exponential=False, update=11.5, logit_rms=0.3, kappa=None, routed=False,
    dtype="float32", gated=False, has_final_norm=True, words=50304,
)  # fmt: skip
DESIGNS = {
    "pre": PRE,
    "pre, unknown start": replace(
        PRE, gain=None, side=None, mean_gain=None, mean_side=None, rms_first=None, rms_read=None, one_minus_cos=None, update=None, logit_rms=None
    ),
    "pre, first update": replace(PRE, kappa=9e3),
    "Mix-LN": replace(PRE, identity=False, crossed=6, kappa=9e3),
    "pre, QK-norm": replace(PRE, logits_bounded=True),
    "peri": replace(PRE, bounded=True),
    "post": replace(PRE, bounded=True, identity=False, crossed=24),
    "DeepNorm": replace(PRE, bounded=True, identity=False, crossed=24, alpha=2.2, update=1.0),
    "output only": replace(PRE, bounded=True, raw_inputs=True, exponential=True, gradient_ratio=90.0, rms_read=5.0),
    "none": replace(PRE, normed=False, renewed=False, raw_inputs=True),
    "ReZero": replace(PRE, normed=False, renewed=False, raw_inputs=True, scaled=True, branch_scale=0.0),
    "LayerScale": replace(PRE, scaled=True, branch_scale=1e-4, kappa=9.0),
    "tanh for norms": replace(PRE, renewed=False),
    "pre, float16": replace(PRE, dtype="float16", width=8192),
}
RECIPES = {
    "usual": Recipe(lr=6e-4, warmup_steps=2000, weight_decay=0.1, total_steps=100_000, precision="bfloat16"),
    "no decay": Recipe(lr=2e-3, warmup_steps=0, weight_decay=0.0, total_steps=20_000, precision="float16"),
    "relative": Recipe(lr=1e-2, warmup_steps=10, weight_decay=0.0, optimizer="adafactor", schedule="inverse_sqrt", z_loss=1e-4),
    "nothing": Recipe(),
}


def _risk(features: Features, recipe: Recipe, **changed: float) -> float:
    setting = setting_of(recipe, features)[0]
    for name, value in changed.items():
        setting = moved(setting, name, value)
    return overall(channel_risks(features, setting, VALUES))


@pytest.mark.parametrize("design, recipe", list(itertools.product(DESIGNS, RECIPES)))
def test_what_is_worse_never_lowers_the_risk(design: str, recipe: str) -> None:
    features, stated = DESIGNS[design], RECIPES[recipe]
    rising = [
        [_risk(features, stated, lr=10.0**e) for e in range(-6, 1)],
        [_risk(features, stated, warmup_steps=w) for w in (1e5, 1e4, 1e3, 1e2, 10, 1, 0)],
        [_risk(features, stated, weight_decay=w) for w in (1.0, 0.3, 0.1, 0.01, 1e-4, 0.0)],
        [_risk(features, stated, total_steps=t) for t in (1e3, 1e4, 1e5, 1e6)],
        [_risk(features, stated, z_loss=z) for z in (1e-4, 0.0)],
        [_risk(replace(features, depth=n, branches=2 * n, crossed=2 * n if features.crossed else 0), stated) for n in (2, 6, 12, 24, 96)],
        [_risk(_larger(features, c), stated) for c in (0.1, 0.5, 1.0, 2.0, 8.0)],
    ]
    for risks in rising:
        assert all(b >= a - 1e-12 for a, b in itertools.pairwise(risks)), risks
        assert all(0 < r <= 1 for r in risks)


def _larger(f: Features, c: float) -> Features:
    """The same with every initial weight times c, as far as a number says so: gains and logits of normed inputs grow with c², tokens grow alike."""
    if f.gain is None or f.logit_rms is None or f.rms_first is None or f.one_minus_cos is None:
        return f
    apart = f.one_minus_cos ** max(c, 1.0)
    gains = {"gain": f.gain * c * c, "mean_gain": f.mean_gain and f.mean_gain * c * c, "logit_rms": f.logit_rms * c * c}
    return replace(f, **gains, rms_first=f.rms_first * c, one_minus_cos=apart)


def test_structure_that_closes_a_channel_lowers_its_risk() -> None:
    harsh = Recipe(lr=3e-2, warmup_steps=10, weight_decay=0.0, total_steps=100_000, precision="bfloat16")

    def of(name: str) -> dict[str, float]:
        found = assess([DESIGNS[name]], harsh)
        assert found is not None
        return {str(c): r for c, r in found.risks.items()}

    assert of("pre, QK-norm")["L"] < of("pre")["L"] and of("peri")["R"] < of("pre")["R"] < of("none")["R"]
    assert of("DeepNorm")["D"] < of("post")["D"] and of("pre")["S"] < of("post")["S"] and of("pre")["L"] < of("output only")["L"]


def test_a_learned_scale_that_steps_outgrow_is_no_protection() -> None:
    recipes = [Recipe(lr=lr, warmup_steps=10, weight_decay=0.1, total_steps=1000, precision="float32") for lr in (5e-5, 0.3)]
    tiny, plain = DESIGNS["LayerScale"], replace(PRE, scaled=True, kappa=9e3)
    small, large = ([channel_risks(f, setting_of(r, f)[0], {**VALUES, "floor": 0.0})["S"] for f in (tiny, plain)] for r in recipes)
    assert small[0] < small[1] / 100 and large[0] > 0.5
    assert channel_risks(DESIGNS["tanh for norms"], setting_of(recipes[1], PRE)[0], VALUES)["R"] > VALUES["R_most"]


def test_a_scale_that_starts_at_zero_passes_as_much_as_one_step_makes_it() -> None:
    """s = η behind the first step, so that κ is η times that of the same stack without scales, and grows with the rate up to it."""
    whole, scaled = replace(PRE, kappa=None), DESIGNS["ReZero"]
    assert [kappa(scaled, lr) for lr in (1e-3, 0.1, 5.0)] == pytest.approx([kappa(whole) * s for s in (1e-3, 0.1, 1.0)])


def test_what_no_norm_brings_back_to_its_size_tolerates_a_smaller_first_update() -> None:
    setting = setting_of(RECIPES["no decay"], PRE)[0]
    found = [channel_risks(replace(PRE, kappa=9e3, renewed=renewed), setting, VALUES)["S"] for renewed in (True, False)]
    assert found[0] < found[1]


def test_without_an_identity_path_tokens_that_start_alike_add_no_more_than_stacks_of_that_size_have() -> None:
    post = DESIGNS["post"]
    assert kappa(replace(post, kappa=1e9)) == kappa(post) and kappa(replace(post, kappa=10.0)) == 10.0


def test_a_burst_is_the_largest_step_of_adam_after_gradients_grow() -> None:
    """Against Adam's own averages, of gradients that are 1 before and 10,000 from then on."""
    for beta1, beta2, before in ((0.9, 0.999, 500), (0.9, 0.98, 50), (0.9, 0.95, 3)):
        m = v = largest = 0.0
        for step in range(1, before + 60):
            g = 1.0 if step <= before else 1e4
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
            largest = max(largest, m / (1 - beta1**step) / math.sqrt(v / (1 - beta2**step)))
        assert burst(beta1, beta2, before) == pytest.approx(largest, rel=1e-3)
    assert burst(0.9, 0.999, 0) == 1
    lrs = [limits([DESIGNS["post"]], Recipe(betas=(0.9, beta2), total_steps=100_000))[0].value for beta2 in (0.95, 0.98, 0.999)]
    assert lrs == sorted(lrs, reverse=True) and len({*lrs}) == 3


def test_steps_of_lion_are_as_large_as_adams_first_and_wander_farther() -> None:
    """η·sign of two averages of noise: the mean square of the sum over the steps, in η², against the same of independent ones."""
    draws = np.random.default_rng(0)
    m, walked = np.zeros(200), np.zeros(200)
    for step in range(2400):
        g = draws.standard_normal(200)
        walked = walked + np.sign(0.9 * m + 0.1 * g) if step >= 400 else walked
        m = 0.99 * m + 0.01 * g
    assert np.square(walked).mean() / 2000 == pytest.approx(persistence(0.9, 0.99), rel=0.15)
    adam, lion = (quantities(PRE, setting_of(Recipe(optimizer=name, lr=1e-4), PRE)[0]) for name in ("adamw", "lion"))
    assert lion.first_update == adam.first_update and lion.drift == pytest.approx(adam.drift * persistence(0.9, 0.99))
    assert limits([PRE], Recipe(optimizer="lion"))[0].value < limits([PRE], Recipe())[0].value
    assert limits([PRE], Recipe(optimizer="muon")) == ()


def test_a_step_of_adafactor_is_the_rate_itself_where_the_recipe_says_so() -> None:
    relative, plain = (setting_of(Recipe(lr=1e-3, optimizer="adafactor", lr_times_rms=said), PRE)[0] for said in (None, False))
    assert quantities(PRE, plain).lr == 1e-3 > 10 * quantities(PRE, relative).lr
    assert setting_of(Recipe(lr=1e-3, optimizer="adamw", lr_times_rms=False), PRE)[0].relative is False


def test_fp8_and_half_precision_cost_what_they_do_not_scale() -> None:
    gated = replace(PRE, gated=True, width=4096)
    risks = [assess([gated], Recipe(lr=3e-4, precision=p, fp8_per_channel=s)) for p, s in (("bfloat16", None), ("fp8", True), ("fp8", None))]
    assert [r.risks["N"] for r in risks if r] == sorted(r.risks["N"] for r in risks if r)
    kept, rounded = (assess([PRE], Recipe(lr=3e-4, precision="bfloat16", attention_output_precision=p)) for p in ("float32", "bfloat16"))
    assert kept is not None and rounded is not None and kept.risk < rounded.risk
    wide = [assess([replace(PRE, width=w, dtype="float16")], Recipe(lr=1e-4, weight_decay=0.1)) for w in (256, 2560, 12288)]
    assert [r.risk > RISKY for r in wide if r] == [False, False, True] and len({r.risks["N"] for r in wide if r}) == 3


def test_what_is_missing_and_decides_is_named_with_its_value() -> None:
    post = replace(PRE, bounded=True, identity=False, depth=6, branches=12, width=512)
    found = assess([post], Recipe(lr=1e-3, weight_decay=0.0, total_steps=100_000, precision="float32", z_loss=0.0))
    assert found is not None and [d.item for d in found.depends] == ["warmup_steps"] and found.low < RISKY <= found.high
    flip = found.depends[0].flips_at
    assert isinstance(flip, float) and not found.depends[0].holds_below
    sides = [assess([post], Recipe(lr=1e-3, weight_decay=0.0, total_steps=100_000, precision="float32", warmup_steps=w)) for w in (0, 10_000)]
    assert [s.risk >= RISKY for s in sides if s] == [True, False] and all(not s.depends for s in sides if s)


def test_the_tolerated_rate_is_where_training_is_no_longer_expected() -> None:
    recipe = Recipe(lr=6e-4, warmup_steps=2000, weight_decay=0.1, total_steps=100_000, precision="bfloat16", z_loss=0.0)
    found = assess([PRE], recipe)
    assert found is not None and found.lr is not None and found.risk < RISKY and found.missing == ()
    assert found.risks[found.main] == max(found.risks.values())
    below, above = (assess([PRE], recipe.model_copy(update={"lr": found.lr * by})) for by in (0.99, 1.01))
    assert below is not None and above is not None and below.risk < EXPECTED <= above.risk
    bears = replace(PRE, bounded=True, logits_bounded=True, kappa=10.0, words=None)
    ends = (assess([f], recipe) for f in (bears, DESIGNS["none"]))
    assert [e.lr for e in ends if e] == [LARGEST, None]  # no larger rate was tried than by the limit that a report has; at none
    sgd = assess([PRE], recipe.model_copy(update={"optimizer": "sgd"}))
    assert sgd is not None and sgd.missing == ("lr",)  # its rate is no rate of Adam's


def test_logits_of_a_raw_stream_grow_with_the_square_of_what_its_blocks_read() -> None:
    """In the middle of the depth, not at its end: output norms alone add 1 to the mean square in every branch, and the last block is one of many."""
    setting = setting_of(Recipe(lr=3e-3, weight_decay=0.1, warmup_steps=100, total_steps=10_000, precision="float32", z_loss=0.0), PRE)[0]
    raw = [channel_risks(replace(DESIGNS["output only"], rms_read=r, logit_rms=0.3 * r * r), setting, VALUES)["L"] for r in (1.0, 2.0, 4.0)]
    assert raw == sorted(raw) and len({*raw}) == 3
    assert channel_risks(replace(DESIGNS["output only"], rms_read=1.0, raw_inputs=False), setting, VALUES)["L"] == pytest.approx(raw[0])
    made = """
from examples.table.designs import GPT, Design


class Model(GPT):
    def __init__(self):
        super().__init__(Design(depth=8, norms="B"))
"""
    facts = facts_of(Example("output norms", made, inputs=("ids=int64[2,16]",)))
    (seen,) = features_of(facts)
    found = facts.recursion(facts.streams[0])
    assert isinstance(found, Recursion) and seen.rms_read is not None and found.rms[0] < seen.rms_read < found.rms[-1] / 1.4
    ((first, last),) = found.logit_rms.values()
    assert seen.logit_rms == pytest.approx(math.sqrt(first * last)) and first < last


def test_the_limit_of_the_whole_is_where_it_is_no_longer_expected_to_train_and_no_channel_has_a_smaller_one() -> None:
    stated = {"weight_decay": 0.1, "total_steps": 100_000, "precision": "bfloat16", "z_loss": 0.0, "warmup_steps": 2000}
    for name in DESIGNS:
        features = [DESIGNS[name], replace(DESIGNS[name], depth=24)]
        told = limits(features, Recipe(**stated))
        whole = told[0] if told else None
        assert whole is None or (whole.channel == "all" and whole.low == whole.value == whole.high <= min(x.value for x in told) * (1 + 1e-9))
        by = [(0.99, False)] if whole and whole.value == LARGEST else [(0.99, False), (1.01, True)] if whole else []
        for factor, fails in by:
            seen = assess(features, Recipe(lr=whole.value * factor, **stated)) if whole else None
            assert seen is not None and (seen.risk >= EXPECTED) is fails
    names = [limit.channel for limit in limits([DESIGNS["pre, first update"]], Recipe())]
    assert names[0] == "all" and {"R", "L"} <= set(names) and limits([PRE], Recipe(optimizer="sgd")) == ()
    wide = limits([PRE], Recipe())[0]
    assert wide.low < wide.value < wide.high  # what is usual stands in for what is not stated
    assert limits([DESIGNS["none"]], Recipe()) == ()  # it fails at any rate


SHARES = "the logits of routers, poolings, stored values or trained shares grow"


@pytest.mark.parametrize(("routed", "said"), [(False, "attention logits grow"), (True, SHARES)])
def test_what_limits_a_rate_is_called_what_it_is(routed: bool, said: str) -> None:
    assert {limit.channel: limit.by for limit in limits([replace(PRE, routed=routed)], Recipe())}["L"] == said


def test_an_optimiser_that_rectifies_itself_has_warmed_up() -> None:
    """RAdam: for 1/(1 − 0.999) steps; a longer warm-up that is stated counts."""
    assert [setting_of(Recipe(optimizer=o, warmup_steps=w), PRE)[0].warmup for o in ("adamw", "radam") for w in (0, 2000)] == [0, 2000, 1000, 2000]


def test_a_share_of_warm_up_and_a_decay_that_is_on_stand_for_usual_numbers() -> None:
    found = setting_of(Recipe(warmup_fraction=0.02), PRE)[0]
    assert found.warmup == 2000.0  # of 100,000 steps, which are usual
    assert [setting_of(Recipe(weight_decay_on=on), PRE)[0].decay for on in (True, False)] == [0.1, 0.0]
    assert setting_of(Recipe(weight_decay_on=True, weight_decay=0.3), PRE)[0].decay == 0.3


def test_of_no_stream_nothing_is_assessed() -> None:
    assert assess([], Recipe()) is None


def test_a_type_that_decides_alone_is_a_dependence_on_its_name() -> None:
    """A wide model may leave the range of float16; bfloat16 has that of float32."""
    found = assess([replace(PRE, width=24576)], Recipe(lr=3e-4, warmup_steps=2000, weight_decay=0.1, total_steps=100_000, z_loss=1e-4))
    assert found is not None and [(d.item, d.flips_at, d.usual, d.channel) for d in found.depends] == [("precision", "float16", "bfloat16", "N")]


def test_beyond_the_rates_of_all_runs_nothing_is_said() -> None:
    safe = replace(PRE, width=16, bounded=True, logits_bounded=True, words=None, kappa=1.0)
    told = limits([safe], Recipe())
    assert {x.channel for x in told} == {"all", *"DRLOINS"}
    assert {(x.value, x.high) for x in told} == {(LARGEST, LARGEST)}
    assert all("no larger rate" in x.by for x in told if x.low == LARGEST or x.channel == "all")
    assert {x.channel for x in told if x.low == LARGEST} >= {"D", "R", "L", "O", "I"}


def test_every_constant_says_where_it_comes_from() -> None:
    assert len({c.name for c in TABLE}) == len(TABLE) and set(VALUES) == set(PRIORS)
    assert all(c.unit and c.source and c.moved_by for c in TABLE)
    assert all(c.value == c.prior for c in TABLE if c.spread == 0)
    assert all(abs(c.value - c.prior) <= 2 * c.spread for c in TABLE), "a constant that the data took far from theory"
    assert all(math.isfinite(c.value) for c in TABLE) and all(VALUES[n] > 0 for n in VALUES if n.endswith("_slope"))
    assert [item.name for item in ITEMS if item.source == ""] == []


def test_what_a_branch_adds_counts_by_the_square_of_its_scale() -> None:
    """Powers add, so the logit of R falls by its slope times 2·ln 10 where every branch is scaled by a tenth."""
    setting, constants = setting_of(RECIPES["no decay"], PRE)[0], {**VALUES, "floor": 0.0, "R_most": 1.0}
    whole, tenth = (channel_risks(replace(PRE, branch_scale=s), setting, constants)["R"] for s in (1.0, 0.1))
    assert math.log(whole / (1 - whole)) - math.log(tenth / (1 - tenth)) == pytest.approx(constants["R_slope"] * 2 * math.log(10))


def test_large_maps_are_likelier_to_fail_at_the_start_in_half_precision() -> None:
    setting, constants = setting_of(Recipe(), PRE)[0], {**VALUES, "floor": 0.0}
    full, half = (channel_risks(replace(PRE, dtype=dtype), setting, constants)["I"] for dtype in ("float32", "float16"))
    assert half > full


def test_steps_of_an_optimiser_that_is_not_a_sign_of_a_mean_last_as_they_are() -> None:
    adam, lion = (setting_of(Recipe(optimizer=name), PRE)[0].kept for name in ("adamw", "lion"))
    assert adam == 1.0 != lion


def test_the_maps_between_a_stream_and_its_last_add_are_read_with_their_gains() -> None:
    """σ²·√(in·out) of the largest, √(in·out) beside it, and their geometric means; vectors and what stands behind the last add are no maps of it."""
    source = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down, self.head = nn.LayerNorm(16), nn.Linear(16, 64), nn.Linear(64, 16), nn.Linear(16, 1000)
        nn.init.normal_(self.up.weight, std=0.5)
        nn.init.normal_(self.down.weight, std=0.25)
        nn.init.normal_(self.head.weight, std=9.0)

    def forward(self, x):
        x = x + self.down(torch.relu(self.up(self.norm(x))))
        return self.head(x)
"""
    [found] = features_of(facts_of(Example("a block", source, inputs=("x=float32[2,5,16]",))))
    assert (found.gain, found.side) == pytest.approx((8.0, 32.0)) and (found.mean_gain, found.mean_side) == pytest.approx((4.0, 32.0))


def test_gradients_are_exponential_where_that_is_claimed() -> None:
    facts = h.pre()

    def told(law: str) -> bool:
        claims = [replace(c, status="proved", value=law) if c.claim == "gradient_law" else c for c in facts.claims.all]
        return features_of(replace(facts, claims=facts.claims.with_all(claims)))[0].exponential

    assert (told("exponential"), told("power")) == (True, False)


def test_the_size_of_a_vocabulary_is_that_of_the_recursion() -> None:
    facts = h.pre()
    found = facts.recursion(facts.streams[0])
    assert isinstance(found, Recursion)
    known = replace(facts, recursions=(replace(found, words=Start(11.0, 50304, 0.5, None)),))
    assert (features_of(known)[0].words, features_of(facts)[0].words) == (50304, None)


def test_what_is_usual_lies_between_what_is_kind_and_what_is_harsh() -> None:
    numbers = {i.name: (i.usual(PRE), i.kind(PRE), i.harsh(PRE)) for i in ITEMS if i.name not in ("lr", "precision")}
    assert numbers == {
        "warmup_steps": (2000.0, 10_000.0, 0.0), "weight_decay": (0.1, 0.1, 0.0), "total_steps": (1e5, 1e4, 1e6), "z_loss": (0.0, 1e-4, 0.0),
    }  # fmt: skip


def test_the_first_update_is_that_of_the_recursion() -> None:
    facts = h.pre()
    found = facts.recursion(facts.streams[0])
    assert isinstance(found, Recursion)
    told = features_of(replace(facts, recursions=(replace(found, deepnorm_number=7.0),)))[0].update
    assert (told, features_of(replace(facts, recursions=(Unknown("no row"),)))[0].update) == (7.0, None)
