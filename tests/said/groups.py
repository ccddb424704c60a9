"""Facts written by hand with two to six fields changed at once, drawn at random, and risks with two to four: what follows from several together."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from screen.calculi.bounds.expr import sym
from screen.calculi.meanfield.first_update import FirstUpdate
from screen.calculi.meanfield.start import Start
from screen.facts.claims.claim import Claim, Measured
from screen.facts.record import Facts
from screen.recipe import Recipe
from screen.rule import RuleFault, RuleRun
from screen.structure.types import IdentityPath, Kind, MapCount, Stream, Sublayer
from screen.verdict.discover import run_rules
from screen.verdict.risk.channels import channel_risks
from screen.verdict.risk.constants import VALUES
from screen.verdict.risk.setting import setting_of
from tests import handmade as h
from tests.said.changed import CHANGES, LEARNED, WHY, Changed
from tests.said.models import folded, judged
from tests.said.plain import chosen, plain
from tests.said.risks import OF_FEATURES, OF_RECIPE, STATED, UNSTATED
from tests.verdict.test_risk import DESIGNS

FACTS, RISKS, LEFT_OUT, RUNS = 350, 400, 60, 120
OF_SUBLAYER: dict[str, tuple[Any, ...]] = {
    "unknown": ((WHY,),),
    "norm_type": ("rmsnorm", "groupnorm", None), "qk_norm": ("per_head", "cosine", WHY), "q_norm": ("none",), "k_norm": ("none", "cosine"),
    "v_norm": (True, WHY), "parallel_group": (0, 1), "gated_output": (True,), "m": (MapCount(1, ("blocks.0.attention.w0",)), MapCount(7, ())),
    "role": ("attention", "ffn", "cross_attention", "ssm"), "name": ("mixer",), "depends_on_stream": (False,), "ports": ((),),
}  # fmt: skip
PLACED = (("A",), ("B",), ("C",), ("A", "B"), ("A", "C"), ("A2",), ("A", "A2"), ("A", "S"))
"""Positions of norms."""
OF_KIND: dict[str, tuple[Any, ...]] = {"count": (1, 2, 60), "module": ("layers.3",), "layers": (((0, 0), (2, 5)),)}
OF_STREAM: dict[str, tuple[Any, ...]] = {
    "depth": (1, 3, 96), "embed_factor": (0.02, 8.0), "copies": (4,), "width": (8, None), "name": ("encoder",), "role": ("memory",),
    "dtype": ("float16",), "final_norm": (False, True),
    "identity": (
        IdentityPath(False, None, 0, (h.place(9),)), IdentityPath(False, None, 5, (h.place(9),)), IdentityPath(WHY, None, 0),
        IdentityPath(True, "1", 0), IdentityPath(False, None, 24),
    ),
}  # fmt: skip
OF_RECURSION: dict[str, tuple[Any, ...]] = {
    "rms_exponent": (0.0, 2.0, WHY), "cosine": (0.0, 0.999, WHY), "last_gradient_exponent": (-2.0, 0.5, WHY), "gains": ({"blocks.0": (0.5, 3.0)},),
    "tied": (True,), "ratio_without_logits": (0.1, 30.0), "last_weight_ratio": (0.1, 1e3), "last_weight_without_logits": (0.1, 1e3),
    "words": (Start(10.0, 50_000, 0.5, None), Start(400.0, 50_000, 90.0, 60.0)), "depth": (1, 96),
    "first_update": (FirstUpdate(10.0, {"attention": 1.0}), FirstUpdate(1e5, {"attention": 0.2, "ffn": 0.8}), WHY),
    "gradient_ratio": (1.0, 80.0, 1e-3), "ratio_exponent": (1.5, -1.0), "rms": ((1.0, 1.0), (1.0, 12.0), (50.0, 50.0)), "one_minus_cos": (0.3, 1e-3),
    "logits": ({"attention": {0: 3.0}}, {"attention": {0: WHY}}),
}  # fmt: skip
OF_BOUNDS: dict[str, tuple[Any, ...]] = {
    "logits_bounded": (True, False, None, WHY), "lipschitz": (sym("W"), WHY), "lipschitz_local": (sym("B"),), "magnitude": (sym("B"), sym("W")),
    "bounded": (True, False), "bounded_in_stream": (True, False), "breaker": (h.place(8),), "axis": (-2,), "held": (frozenset({LEARNED[0]}),),
    "coarse": ({"magnitude": sym("W")},), "logits": ((), (sym("B"),), (sym("W"),)),
}  # fmt: skip
OF_ORDERS: dict[str, tuple[Any, ...]] = {"degree": (0, 1, 9, WHY), "distinct": (1, 9, WHY), "min_degree": (0, 1, 9, WHY), "path": ((),)}
OF_DEGREE: dict[str, tuple[Any, ...]] = {
    "predicted": (0.0, 0.5, 5.0), "status": ("bound", "asymptotic"), "output": (None, 0.0, 2.0), "rows": ("0:32",),
}  # fmt: skip


def _streams(facts: Facts, of: Callable[[Stream], Stream]) -> Facts:
    return h.claimed(replace(facts, streams=tuple(map(of, facts.streams))))


def _kinds(facts: Facts, of: Callable[[Kind], Kind]) -> Facts:
    return _streams(facts, lambda s: replace(s, kinds=tuple(map(of, s.kinds))))


def _placed(facts: Facts, _: str, at: tuple[str, ...]) -> Facts:
    """With norms at these positions in every sublayer."""
    def of(sublayer: Sublayer) -> Sublayer:
        return replace(sublayer, positions=at, norms=tuple((p, h.norm(sublayer.add - 3 + n)) for n, p in enumerate(at)))  # type: ignore[arg-type]

    return _kinds(facts, lambda k: replace(k, sublayers=tuple(map(of, k.sublayers))))


def _last(kind: Kind, field: str, value: Any) -> Kind:
    """With its last sublayer changed."""
    return replace(kind, sublayers=(*kind.sublayers[:-1], replace(kind.sublayers[-1], **{field: value})))


def _recursions(facts: Facts, field: str, value: Any) -> Facts:
    return h.claimed(replace(facts, recursions=tuple(replace(r, **{field: value}) for r in facts.recursions)))  # type: ignore[arg-type]


def _analyses(facts: Facts, part: str, field: str, value: Any) -> Facts:
    def of(whole: Any) -> Any:
        if part == "bounds":
            return replace(whole, bounds=replace(whole.bounds, **{field: value}))
        degrees = whole.degrees
        if part == "orders":
            return replace(whole, degrees=replace(degrees, orders=replace(degrees.orders, **{field: value})))
        return replace(whole, degrees=replace(degrees, groups=tuple(replace(g, **{field: value}) for g in degrees.groups)))

    return h.claimed(replace(facts, analyses={k: of(a) for k, a in facts.analyses.items()}))


def refuted(facts: Facts, why: str) -> Facts:
    """Where the module, run plainly, is not what was traced."""
    claim = Claim("replay", "start", "measured", True, reason=why, measured=Measured(0.3, False))
    return replace(facts, claims=facts.claims.with_all([*facts.claims, claim]))


WAYS: dict[str, tuple[dict[str, tuple[Any, ...]], Callable[[Facts, str, Any], Facts]]] = {
    "all": (OF_SUBLAYER, lambda f, n, v: _kinds(f, lambda k: replace(k, sublayers=tuple(replace(s, **{n: v}) for s in k.sublayers)))),
    "last": (OF_SUBLAYER, lambda f, n, v: _kinds(f, lambda k: _last(k, n, v))),
    "placed": ({"positions": PLACED}, _placed),
    "kinds": (OF_KIND, lambda f, n, v: _kinds(f, lambda k: replace(k, **{n: v}))),
    "streams": (OF_STREAM, lambda f, n, v: _streams(f, lambda s: replace(s, **{n: v}))),
    "recursions": (OF_RECURSION, _recursions),
    "of bounds": (OF_BOUNDS, lambda f, n, v: _analyses(f, "bounds", n, v)),
    "of orders": (OF_ORDERS, lambda f, n, v: _analyses(f, "orders", n, v)),
    "of degrees": (OF_DEGREE, lambda f, n, v: _analyses(f, "degrees", n, v)),
}
MORE: dict[str, Changed] = {
    f"{what}.{field}-{n}": lambda f, way=way, field=field, value=value: way(f, field, value)  # type: ignore[misc]
    for what, (table, way) in WAYS.items() for field, values in table.items() for n, value in enumerate(values)
}  # fmt: skip
REPLAYS = ("its outputs differ by 0.3", "its gradients differ by 0.3")
"""Why the traced program is not the module."""
MORE |= {f"replay.start-{n}": lambda f, why=why: refuted(f, why) for n, why in enumerate(REPLAYS)}  # type: ignore[misc]
ALL = {**CHANGES, **MORE}
KINDS = {kind: [name for name in ALL if name.startswith(f"{kind}.")] for kind in dict.fromkeys(name.partition(".")[0] for name in ALL)}
"""What is changed -> its changes: streams as often as claims."""


def made(number: int) -> Facts:
    """Some facts written by hand with some changes; one that cannot be made is left out."""
    rng = random.Random(number)
    of = chosen(rng.random(), h.ALL)
    found = h.ALL[of]()
    for _ in range(rng.choice((2, 3, 4, 5, 6))):
        change = chosen(rng.random(), KINDS[chosen(rng.random(), KINDS)])
        try:
            found = ALL[change](found)
        except (IndexError, TypeError):  # of what an earlier change has made unknown, or has left without an entry
            continue
    return found


def group(number: int) -> dict[str, str]:
    """What is said of them."""
    return {"all": plain(judged(made(number)))}


def run(number: int) -> dict[str, str]:
    """The verdict on some of them under a recipe."""
    with patch("screen.verdict.channels.limits", lambda *_: ()):
        return {"all": plain(folded(f := made(number), run_rules(f), recipe_of(random.Random(number))))}


def left_out(number: int) -> dict[str, str]:
    """The verdict on some of them where some rules are left out and some did not run."""
    facts, rng = made(number), random.Random(number)
    run, share = run_rules(facts), rng.choice((0.1, 0.4, 0.8))
    drawn = {f.rule.code: rng.random() for f in run.findings}
    faults = tuple(RuleFault(code, "it is not known here") for code, at in drawn.items() if at < share / 4)
    run = RuleRun(tuple(f for f in run.findings if drawn[f.rule.code] >= share), faults)
    return {"all": plain(folded(facts, run, None))}


def recipe_of(rng: random.Random) -> Recipe:
    """With some fields that are not the usual ones."""
    fields: dict[str, Any] = dict(STATED)
    for _ in range(rng.choice((1, 2, 3, 4))):
        field = chosen(rng.random(), OF_RECIPE)
        tried = {**fields, UNSTATED.get(field, field): None, field: rng.choice(OF_RECIPE[field])}
        with suppress(ValueError):  # two fields contradict each other
            Recipe(**tried)
            fields = tried
    return Recipe(**fields)


def risk(number: int) -> dict[str, str]:
    """Each channel's of a design with some features and some of the recipe changed."""
    rng = random.Random(number)
    features = DESIGNS[chosen(rng.random(), DESIGNS)]
    for _ in range(rng.choice((1, 2, 3))):
        field = chosen(rng.random(), OF_FEATURES)
        features = replace(features, **{field: rng.choice(OF_FEATURES[field])})
    setting = setting_of(recipe_of(rng), features)[0]
    return {"all": plain((channel_risks(features, setting, VALUES), setting))}


SUBJECTS: dict[str, Callable[[], dict[str, str]]] = {
    **{f"facts {n}": lambda n=n: group(n) for n in range(FACTS)},  # type: ignore[misc]
    **{f"run {n}": lambda n=n: run(n) for n in range(2000, 2000 + RUNS)},  # type: ignore[misc]
    **{f"left out {n}": lambda n=n: left_out(n) for n in range(3000, 3000 + LEFT_OUT)},  # type: ignore[misc]
    **{f"risk {n}": lambda n=n: risk(n) for n in range(RISKS)},  # type: ignore[misc]
}  # fmt: skip

__all__ = ["SUBJECTS"]
