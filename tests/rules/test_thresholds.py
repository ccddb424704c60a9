"""One example on either side of every threshold of the rules and of the claims: what is said just below the number, and what just above it."""

from __future__ import annotations

import ast
import importlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest
import torch.nn.functional as F

from screen.calculi.bounds.expr import num
from screen.calculi.degrees import _walked
from screen.calculi.meanfield import Start
from screen.calculi.meanfield.far import Far
from screen.facts.claims import gradients
from screen.facts.claims.claim import ClaimKind
from screen.facts.claims.derive import output_bounded, rising, stands_once
from screen.facts.claims.gradients import _may_be_made, gradient_law, size_later
from screen.facts.operator.polynomial import Range
from screen.facts.operator.recurrence import StreamOperator, _of_sequence, _told
from screen.facts.record import Facts
from screen.facts.queries import STARVED
from screen.rule import Outcome
from screen.rules import depth_scaled_init, gradient_ratio, loss_at_start
from screen.structure.branches.role import Mixer
from screen.structure.types import MapCount, Port, Scale, Unknown
from screen.verdict.summary import summarise
from tests import handmade as h
from tests.copies import ROOT
from tests.rows.block import Call
from tests.rules.test_rules import check, initialised, outcomes

DEPTH = h.pre().streams[0].depth
CLOSE = 1e-6
"""Relative distance from the number on either side."""


def started(facts: Facts, **changes: object) -> Facts:
    """With other numbers at the start."""
    first = h.recursion(facts.streams[0])
    return h.claimed(replace(facts, recursions=(replace(first, **changes), *facts.recursions[1:])))  # type: ignore[arg-type]


def said(facts: Facts, claim: ClaimKind, value: object, weights: str = "") -> Facts:
    """With a claim that is proved."""
    end = value if isinstance(value, float) else None
    changed = [
        replace(c, status="proved", value=value, low=end, high=end, reason="", node=None, nodes=())  # type: ignore[arg-type]
        if c.claim == claim and weights in ("", c.weights)
        else c
        for c in facts.claims.all
    ]
    return replace(facts, claims=facts.claims.with_all(changed))


def one(code: str, facts: Facts) -> str:
    """The outcome on the first stream."""
    return outcomes(code, facts)[0]


def multiplied(gain: float) -> str:
    return one("R301", said(said(h.pre(), "growth", "exponential", "fixed"), "identity_gain", gain))


def law(**changes: object) -> object:
    found = gradient_law(replace(h.recursion(h.pre().streams[0]), **changes))  # type: ignore[arg-type]
    return "unknown" if isinstance(found, Unknown) else found


def steep(ratio: float) -> str:
    """Of gradients that are exponential in depth."""
    return one("D202", said(started(h.pre(), far=Far(1.1, "steady"), gradient_ratio=ratio), "gradient_law", "exponential"))


def measured_law(ratio: float) -> str:
    """The same where no factor of a block is known, as of a law that was measured."""
    return one("D202", said(started(h.pre(), gradient_ratio=ratio), "gradient_law", "exponential"))


def drawn(ratio: float, known: Literal["proved", "measured"] = "measured") -> str:
    """Of a ratio that one draw of the weights gave, and that nothing else contradicts."""
    facts = said(h.pre(), "gradient_ratio", ratio)
    changed = [replace(c, status=known) if c.claim == "gradient_ratio" else c for c in facts.claims.all]
    facts = replace(facts, claims=facts.claims.with_all(changed))
    return gradient_ratio._of_one_draw(facts, facts.streams[0], ratio, Outcome("holds", "it holds.")).result


def test_a_derived_ratio_is_of_all_draws() -> None:
    assert (drawn(900.0, "proved"), drawn(900.0), drawn(1 / 900)) == ("holds", "conditional", "conditional")


def made_for_depth(log: float) -> bool:
    gain = Range(math.exp(log), math.exp(log))
    operator = StreamOperator(0, (), gain, gain, (), "constant", False, True, False, False)
    facts = h.pre()
    return _may_be_made(replace(facts, operators=(operator,)), facts.streams[0], [], 24)


def later(blocks: float) -> float:
    """Behind `HORIZON` blocks, of a stream whose size is 3 behind as many as these."""
    return size_later([math.sqrt(1.0 + 8.0 * (n / (blocks - 1))) for n in range(100)], 100)


def deepnorm(update: float) -> str:
    alpha = Scale("constant", (2 * 18) ** 0.25)
    std = 0.125 * (8 * 18) ** -0.25 * math.sqrt(update)
    return one("D102", initialised(std, 36, alpha=alpha, positions=("C",), placement="post"))


def unnormed(total: float, count: int = 12) -> Facts:
    """Branches without a norm whose g² add up to a number."""
    return initialised(math.sqrt(math.sqrt(total / count) / 64), count)


def uneven(share: float) -> str:
    """Five branches, four of which have this share of the g² of the first."""
    b = h.GraphBuilder()
    x = b.op("input")
    kinds, law, state = [], [], x
    for name, size, count in (("a", 0.9, 1), ("b", 0.9 * share, 4)):
        w1, w2 = b.parameter(f"{name}1", 64, 64), b.parameter(f"{name}2", 64, 64)
        y = b.op("linear", b.op("linear", state, w1), w2)
        state = b.op("add", state, y)
        law += [(n, (h_normal(math.sqrt(math.sqrt(size) / 64)),)) for n in (f"{name}1", f"{name}2")]
        sub = h.sublayer("ffn", "none", output=y, add=state, m=MapCount(2, (f"{name}1", f"{name}2")), name=name)
        kinds.append(h.kind(sub, count=count, first=len(kinds), id_=name))
    made = h.facts(h.stream(*kinds, states=(x, state), final_norm=False), graph=b.graph(initialisers=tuple(law)))
    return one("R101", started(made, predicted_ratio=2.0))


def h_normal(std: float) -> object:
    from screen.graph import Initialiser

    return Initialiser("normal_", (0.0, std))


def collecting(times: float) -> str:
    """Branches of its own beside twelve that read other streams alone."""
    own = h.sublayer("ffn", "none", at=20, name="own")
    fed = h.sublayer("attention", "none", at=30, ports=(Port("memory", False, "encoder"),), name="fed")
    made = h.facts(h.stream(h.kind(own, count=int(times)), h.kind(fed, id_="k1", first=int(times)), final_norm=False))
    (found,) = check("R101", made)
    return "collects" if "it collects" in found.message else "other"


def logits(size: float) -> str:
    return one("I202", started(h.pre(), logits={"attention": {0: size}}))


def loss(times: float) -> str:
    stream = h.pre().streams[0]
    return loss_at_start._told(stream, loss_at_start.at(stream), Start(times * math.log(100), 100, 1.0, None)).result


def filled(value: float) -> str:
    from screen.graph import Initialiser

    made = initialised(0.1)
    law = tuple((name, (Initialiser("constant_", (value,)),)) for name, _ in made.graph.initialisers)
    return one("I205", replace(made, graph=replace(made.graph, initialisers=law)))


def collapse(apart: float) -> str:
    """A post-norm stream."""
    return one("D201", started(h.post(), one_minus_cos=apart))


def starved(ratio: float) -> str:
    """A post-norm stream whose gradients are exponential in depth."""
    return one("D201", said(started(h.post(), one_minus_cos=0.2, gradient_ratio=ratio), "gradient_law", "exponential"))


def in_the_band(apart: float) -> bool:
    (found,) = check("D201", started(h.post(), one_minus_cos=apart))
    return "hardly a run says if" in found.message


def little(apart: float) -> bool:
    (found,) = check("D201", started(h.post(), one_minus_cos=apart))
    return ", which is little" in found.message


def bound_of(size: float) -> object:
    """The claim on a branch whose bound is this number in rms."""
    facts = h.peri()
    sub = facts.streams[0].kinds[0].sublayers[0]
    analysis = facts.analyses[sub.add, sub.output]
    width = facts.streams[0].width or 1
    bounds = replace(analysis.bounds, bounded=True, bound=num(size * math.sqrt(width)))
    found = output_bounded(replace(facts, analyses={(sub.add, sub.output): replace(analysis, bounds=bounds)}), sub)
    return "unknown" if isinstance(found, Unknown) else found


def alone(blocks: int) -> bool:
    """Whether the first of so many blocks, which is like no other, is taken to stand once."""
    first, others = (h.kind(h.sublayer("ffn", at=20 + n), count=c, first=n, id_=f"k{n}") for n, c in enumerate((1, blocks - 1)))
    return stands_once(h.stream(first, others), first)


def risen(more: float, blocks: int = 8) -> bool:
    """Whether a rise is seen where all blocks add so many times twice what the first half adds."""
    half = blocks // 2
    late = 2 * more - 1
    subs = [h.sublayer("ffn", at=20, name="early"), h.sublayer("ffn", at=24, name="late")]
    kinds = [h.kind(s, count=half, first=n * half, id_=s.name) for n, s in enumerate(subs)]
    made = h.facts(h.stream(*kinds))
    sizes = dict(zip([(s.add, s.output) for s in subs], (1.0, late), strict=True))
    analyses = {k: replace(made.analyses[k], bounds=replace(made.analyses[k].bounds, magnitude=num(v))) for k, v in sizes.items()}
    made = replace(made, analyses=analyses)
    return rising(made, made.streams[0]) is not None


def sequence(*highs: float, branches: int | None = None) -> str:
    found = _of_sequence(highs, branches)
    return "unknown" if isinstance(found, Unknown) else found


def quarters(*ends: float) -> str:
    """The law of a sequence of twelve whose quarters end at these numbers."""
    return sequence(*(e for e in ends for _ in range(3)))


def ends(*values: float) -> str:
    """The law of a sequence of twelve whose first eighth and whose quarters end at these numbers."""
    return sequence(*(v for v, times in zip(values, (2, 1, 3, 3, 3), strict=True) for _ in range(times)))


def epsilon(eps: float) -> str:
    """What the weight before a norm is said to do to the norm's output."""
    call = Call("layer_norm", lambda x: F.layer_norm(x, (4,), eps=eps))
    walk = _walked(call.region.branch, Mixer(call.region.branch))
    found = walk.values[call.results[-1].index].laws.get(0)
    return "not homogeneous" if found is None else "exact" if found[1] else "asymptotic"


def layouts(count: float) -> str:
    placements = ("pre", "post", "peri", "output_only", "pre_post")
    kinds = [h.kind(h.sublayer("ffn", p, at=20), count=1, first=n, id_=f"k{n}") for n, p in enumerate(placements[: int(count)])]
    return "more" if "more layouts" in summarise(h.facts(h.stream(*kinds)), "Model") else "all"


def few_raw(times: float) -> bool:
    """Whether a branch that reads the stream as it is counts as one of few."""
    made = h.facts(h.stream(h.kind(h.sublayer("ffn", "none", at=20), count=int(times)), h.kind(h.sublayer("ffn", at=30), id_="k1", first=int(times))))
    return "over the whole depth" in check("D202", said(made, "identity_gain", 1.0))[0].message


def in_sequence(count: float) -> bool:
    """Whether streams one after the other count as many."""
    made = h.facts(*(h.stream(h.kind(h.sublayer("ffn", at=6 * n + 2)), name=f"s{n}", states=(6 * n, 6 * n + 3)) for n in range(int(count))))
    return "streams follow each other" in check("D202", made)[0].message


def growing(grown: float) -> str:
    return one("L202", started(h.none(), predicted_ratio=grown))


def grown_law(grown: float) -> object:
    found = started(h.none(), predicted_ratio=grown, gradient_ratio=2.0).claims.of("gradient_law", "start", "stream").known
    return "unknown" if isinstance(found, Unknown) else found


def untold(gain: float, growth: str, carried: Literal["constant", "exponential"], product: float = 1.0) -> object:
    """Of a stream without a recursion, whose branches start at such a product of their gains."""
    facts, size = h.pre(), Range(gain, gain)
    operator = StreamOperator(0, (), size, size, (), carried, carried == "exponential", True, False, False)
    changed = replace(facts, operators=(operator,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "MODERATE", 1e9)
        patch.setattr(gradients, "start_product", lambda facts, sublayer: product**2)
        patch.setattr(gradients, "_is_by_width", lambda facts, sublayer: True)
        found = gradients.law_of_gradients(changed, changed.streams[0], Unknown("no row"), growth)
    return "unknown" if isinstance(found, Unknown) else found


def law_of_untold(product: float) -> object:
    return untold(1.0, "linear", "constant", product)


def doubled(rate: float) -> object:
    """Of one that is multiplied in each of its blocks."""
    return untold(math.exp(rate * 12), "exponential", "exponential")


def of_width(apart: float) -> object:
    return gradients._of_width((1 - apart) * 48**-0.5, 16, 48)


Row = tuple[str, Callable[[float], object], object, object]
ROWS: tuple[Row, ...] = (
    ("facts.queries.MODEST", multiplied, "holds", "conditional"),
    ("rules.stream_growth.EXPONENTIAL", multiplied, "conditional", "violated"),
    ("facts.queries.EXPLOSIVE", growing, "conditional", "violated"),
    ("facts.queries.STARVED", lambda r: one("D202", started(h.pre(), predicted_ratio=r)), "holds", "violated"),
    ("facts.queries.STARVED", lambda r: one("D202", said(h.pre(), "gradient_ratio", r)), "holds", "violated"),
    ("facts.queries.STARVED", lambda r: one("D202", said(h.pre(), "gradient_ratio", 1 / r)), "holds", "violated"),
    ("facts.queries.COLLAPSED", lambda a: one("D202", started(h.pre(), one_minus_cos=a)), "violated", "holds"),
    ("facts.queries.EXPLOSIVE", starved, "conditional", "violated"),
    ("facts.queries.EXPLOSIVE", lambda r: starved(1 / r), "conditional", "violated"),
    ("facts.queries.FEWER", lambda times: collapse(4e-4 / times), "conditional", "violated"),
    ("facts.queries.UPDATE_LIMIT", deepnorm, "holds", "violated"),
    ("rules.token_collapse.APART", little, True, False),
    ("rules.token_collapse.BAND", in_the_band, True, False),
    ("rules.norm_on_stream.GROWTH_LIMIT", lambda t: one("R101", unnormed(t)), "conditional", "violated"),
    ("rules.norm_on_stream.USUAL_GAIN", lambda g: one("R101", unnormed(0.9 * g * 4, 4)), "conditional", "violated"),
    ("rules.norm_on_stream.UNEVEN", lambda u: uneven((5 / u - 1) / 4), "violated", "conditional"),
    ("facts.queries.FEW", collecting, "collects", "other"),
    ("rules.gradient_ratio.DRAWS", lambda r: drawn(STARVED / r), "conditional", "holds"),
    ("rules.gradient_ratio.DRAWS", lambda r: drawn(r / STARVED), "conditional", "holds"),
    ("facts.queries.FEW", few_raw, True, False),
    ("facts.queries.STEEP", steep, "conditional", "violated"),
    ("facts.queries.STEEP", lambda r: steep(1 / r), "conditional", "violated"),
    ("facts.queries.STEEP", measured_law, "conditional", "violated"),
    ("facts.queries.DEEPER", lambda d: one("D202", started(h.pre(), far=Far(3.0 ** (1 / (d * DEPTH)), "steady"))), "conditional", "holds"),
    ("facts.claims.gradients.MODERATE", made_for_depth, True, False),
    ("rules.gradient_ratio.STAGES", in_sequence, False, True),
    ("rules.logits_at_start.FROZEN", logits, "holds", "violated"),
    ("rules.loss_at_start.TIMES", loss, "holds", "violated"),
    ("rules.weights_at_start.LARGE", lambda g: one("I203", initialised(math.sqrt(g / 64))), "holds", "violated"),
    ("rules.weights_filled.HUGE", filled, "holds", "violated"),
    ("rules.depth_scale.LARGE", lambda g: one("D301", initialised(math.sqrt(g / 64))), "conditional", "violated"),
    ("rules.depth_scaled_init.TOLERANCE", lambda t: depth_scaled_init._scale(12**-0.5 * (1 + t), 12) is None, False, True),
    ("rules.depth_scaled_init.CLEAR", lambda c: depth_scaled_init._scale(1 - c, 1.5) is None, True, False),  # type: ignore[arg-type]
    ("facts.claims.gradients.ORDINARY", lambda r: law(gradient_ratio=r), "power", "exponential"),
    ("facts.claims.gradients.ORDINARY", lambda r: law(gradient_ratio=1 / r), "power", "exponential"),
    ("facts.claims.gradients.FLAT", lambda r: law(gradient_ratio=r, ratio_exponent=0.05), "flat", "unknown"),
    ("facts.claims.gradients.LEVEL", lambda e: law(ratio_exponent=e), "flat", "unknown"),
    ("facts.claims.gradients.SLOPING", lambda e: law(ratio_exponent=-e), "unknown", "power"),
    ("facts.claims.gradients.HORIZON", lambda n: later(n) > 3.0, True, False),
    ("facts.claims.gradients.GROWN", grown_law, "power", "unknown"),
    ("facts.claims.gradients.FELT", law_of_untold, "unknown", "power"),
    ("facts.claims.gradients.DOUBLING", doubled, "unknown", "exponential"),
    ("facts.claims.gradients.NEAR", of_width, True, False),
    ("facts.claims.derive.USEFUL", bound_of, True, "unknown"),
    ("facts.claims.derive.STRAIGHT", risen, False, True),
    ("facts.claims.derive.SEVERAL", lambda n: alone(math.floor(n)), False, True),
    ("facts.claims.gradients.FEWEST", lambda n: risen(3.0, 2 * round(n / 2) if n > 7.9 else 6), False, True),
    ("facts.operator.recurrence.BLOCKS", lambda n: sequence(*[1.0] * math.floor(n), branches=24), "unknown", "constant"),
    ("facts.operator.recurrence.FEWEST", lambda n: sequence(*[1.0] * math.floor(n + 0.5)), "unknown", "constant"),
    ("facts.operator.recurrence.SETTLED", lambda s: quarters(1.0, 1.0, 1.0, s), "constant", "unknown"),
    ("facts.operator.recurrence.SETTLING", lambda s: ends(1, 8, 16, 32, 32 * 2**s), "constant", "polynomial"),
    ("facts.operator.recurrence.STEADY", lambda s: ends(1, 8, 16, 32, 32 * 2**s), "polynomial", "exponential"),
    ("facts.operator.recurrence.FAST", lambda f: ends(1, 1.1, 1.2, 1.2 * f, 1.2 * f * f), "unknown", "exponential"),
    ("facts.operator.recurrence.FALLING", lambda f: quarters(1.0, 1.0, 0.5, 0.5 * f), "decaying", "constant"),
    ("facts.operator.recurrence.FORGOTTEN", lambda kept: _told(Range(0.0, kept)), "decaying", "constant"),
    ("calculi.degrees.rules.LARGE_EPSILON", epsilon, "exact", "asymptotic"),
    ("calculi.degrees.rules.IDLE_EPSILON", epsilon, "asymptotic", "not homogeneous"),
    ("verdict.summary.KINDS_SHOWN", layouts, "all", "more"),
)
NUMBERS: dict[str, float] = {
    "facts.queries.MODEST": 2,
    "rules.stream_growth.EXPONENTIAL": 100,
    "facts.queries.EXPLOSIVE": 100,
    "facts.queries.STARVED": 1000,
    "facts.queries.COLLAPSED": 4e-4,
    "facts.queries.UPDATE_LIMIT": 2,
    "rules.token_collapse.APART": 0.1,
    "rules.token_collapse.BAND": 0.0176,
    "facts.queries.FEWER": 10,
    "rules.norm_on_stream.GROWTH_LIMIT": 1,
    "rules.norm_on_stream.USUAL_GAIN": 1 / 9,
    "rules.norm_on_stream.UNEVEN": 4,
    "facts.queries.FEW": 2,
    "rules.gradient_ratio.DRAWS": 10,
    "rules.gradient_ratio.STAGES": 8,
    "facts.queries.STEEP": 10,
    "facts.queries.DEEPER": 4,
    "facts.claims.gradients.MODERATE": 4.2,
    "rules.logits_at_start.FROZEN": math.sqrt(2 * math.log(2048)),
    "rules.loss_at_start.TIMES": 1.5,
    "rules.weights_at_start.LARGE": 25,
    "rules.weights_filled.HUGE": 1e15,
    "rules.depth_scale.LARGE": 1.000001,
    "rules.depth_scaled_init.TOLERANCE": 0.02,
    "rules.depth_scaled_init.CLEAR": 0.1,
    "facts.claims.gradients.ORDINARY": 1000,
    "facts.claims.gradients.FLAT": 3,
    "facts.claims.gradients.LEVEL": 0.1,
    "facts.claims.gradients.SLOPING": 0.3,
    "facts.claims.gradients.HORIZON": 1000,
    "facts.claims.gradients.GROWN": 30,
    "facts.claims.gradients.FELT": 0.15,
    "facts.claims.gradients.DOUBLING": 0.4,
    "facts.claims.gradients.NEAR": 0.03,
    "facts.claims.derive.USEFUL": 1000,
    "facts.claims.derive.STRAIGHT": 1.3,
    "facts.claims.derive.SEVERAL": 6,
    "facts.claims.gradients.FEWEST": 8,
    "facts.operator.recurrence.BLOCKS": 3,
    "facts.operator.recurrence.FEWEST": 12,
    "facts.operator.recurrence.SETTLED": 1.02,
    "facts.operator.recurrence.SETTLING": 0.6,
    "facts.operator.recurrence.STEADY": 0.85,
    "facts.operator.recurrence.FAST": 1.5,
    "facts.operator.recurrence.FALLING": 0.9,
    "facts.operator.recurrence.FORGOTTEN": 0.5,
    "calculi.degrees.rules.LARGE_EPSILON": 0.02,
    "calculi.degrees.rules.IDLE_EPSILON": 1,
    "verdict.summary.KINDS_SHOWN": 3,
}  # fmt: skip
"""As they are meant, not as they are read: a number that is changed alone is seen."""
WHOLE = (
    "facts.queries.FEW", "rules.gradient_ratio.STAGES", "verdict.summary.KINDS_SHOWN",
)  # fmt: skip
"""Numbers of things: at most so many, and one more."""
ELSEWHERE = {
    "facts.advice.ONE_KEY": "a number that advice speaks of, no threshold", "rules.logits_bounded.FAR": "tests/rules/test_far_caps.py",
    "rules.logits_at_start.KEYS": "FROZEN is made of it",
    "facts.handed_logits.HUGE": "where a power and a slope are read off",
    "facts.handed_logits.LEAST": "a slope that rounding does not make",
    "rules.identity_path.MOST_KINDS": "a matter of length",
    "rules.identity_path.SAME": "rounding of two gains", "rules.softmax_over_summed_axis.MOST": "ops that are followed",
    "facts.beyond.SEVERAL": "tests/structure/test_conditions_in_branches.py", "facts.beyond.GUARD": "tests/facts/test_exponentials.py",
    "facts.FEW": "tests/capture/test_loops.py", "facts.descent.LARGEST": "tests/rules/test_descent.py", "facts.queries.ROUNDING": "of floats",
    "facts.advice.BETTER": "tests/facts/test_smaller_weights.py",
    "facts.output_map._LONGEST": "ops that are followed", "facts.operator.recurrence.EVEN": "of floats",
    "facts.operator.whole.EVEN": "of floats", "facts.operator.carried.EVEN": "of floats",
    "facts.claims.claim.LARGEST": "tests/facts/test_measured_laws.py",
    "facts.claims.derive.SLACK": "of floats", "facts.claims.gradients.EVEN": "of floats",
    "facts.operator.polynomial.MOST_MONOMIALS": "of memory", "facts.operator.polynomial.MOST_GATES": "of time",
    "facts.claims.states_read.FEW": "tests/facts/test_keys_of_another_block.py",
    "facts.operator.gates.DEEPEST": "steps that are followed", "facts.operator.gates.LARGEST": "of floats",
    "facts.operator.shares.DEEPEST": "steps of an iteration that are followed",
    "facts.operator.steps.FARTHEST": "states that are followed", "facts.operator.steps.ROUNDING": "of floats",
    "facts.operator.steps.LOW": "where a slope is read off", "facts.operator.steps.HIGH": "where a slope is read off",
    "facts.operator.steps.LARGER": "where a slope is read off", "facts.operator.steps.LARGEST": "where a slope is read off",
    "verdict.risk.assess.HALVINGS": "how exactly a flip is found", "verdict.risk.channels.TINY": "of floats",
    "verdict.risk.channels.BLOCKS": "a unit", "verdict.risk.channels.STEP": "a factor that S_identity takes up",
    "verdict.risk.channels.STEP_POST": "a factor that S_post takes up", "verdict.risk.channels.COMPENSATED": "an exponent",
    "verdict.risk.constants.SMALLEST": "an end of a search", "verdict.risk.constants.LARGEST": "tests/verdict/test_risk.py",
    "rules.norm_of_its_own.MOST": "ops that are followed",
    "verdict.risk.constants.EXPECTED": "tests/verdict/test_risk.py", "verdict.risk.constants.RISKY": "tests/verdict/test_risk.py",
    "verdict.risk.setting.RECTIFIED": "steps that RAdam is worth",
    "verdict.risk.setting.ROOT_FROM": "a unit of a schedule", "verdict.under_recipe.OPENING": "tests/verdict/test_under_recipe.py",
    "verdict.under_recipe.QUIET": "tests/verdict/test_under_recipe.py",
}  # fmt: skip
"""Numbers that are no threshold, or are on both sides of elsewhere."""


@pytest.mark.parametrize(("path", "of", "below", "above"), ROWS, ids=[f"{row[0]}-{n}" for n, row in enumerate(ROWS)])
def test_both_sides(path: str, of: Callable[[float], object], below: object, above: object) -> None:
    value = NUMBERS[path]
    sides = (value, value + 1) if path in WHOLE else (value * (1 - CLOSE), value * (1 + CLOSE))
    if path.endswith("FEWEST"):
        sides = (value - 1, value)
    assert (of(sides[0]), of(sides[1])) == (below, above)


def numbers() -> set[str]:
    """Every number with a name, at the top of a module of the rules, the facts and the verdict."""
    found = set()
    for folder, name in ((ROOT / "rules", "rules"), (ROOT / "screen/facts", "facts"), (ROOT / "screen/verdict", "verdict")):
        for file in folder.rglob("*.py"):
            module = ".".join([name, *file.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__")
            for statement in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(statement, ast.Assign):
                    names = [n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                    imported = importlib.import_module(f"screen.{module}")
                    found |= {f"{module}.{n}" for n in names if isinstance(getattr(imported, n), int | float)}
    return found


def test_every_number_stands_here() -> None:
    rows = {path for path, *_ in ROWS if not path.startswith("calculi.")}
    assert numbers() - rows == set(ELSEWHERE)
    assert rows <= numbers()
    assert set(NUMBERS) == {path for path, *_ in ROWS}


def test_a_learned_factor_on_a_normed_sum_is_told_with_its_start() -> None:
    facts = h.post()
    (stream,), kinds = facts.streams, []
    for kind in stream.kinds:
        kinds.append(replace(kind, sublayers=tuple(replace(s, alpha=Scale("learned", None, ("a",), 0.8)) for s in kind.sublayers)))
    (found,) = check("D201", replace(facts, streams=(replace(stream, kinds=tuple(kinds)),)))
    assert (found.result, found.condition) == ("conditional", "stream-gain") and "a learned scale, 0.8 at the start" in found.message
