"""Claims on both sides of the numbers at which rules turn, several at once, drawn at random: of facts written by hand, and of the examples of
the rules and blocks of the adversarial rounds, whose graphs are real. A clause behind three others is asked where all of them let it be."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from screen.facts.claims.claim import FROM_LARGE_STATES, Claim, Measured
from screen.facts.record import Facts
from screen.testing import cases, facts_of
from screen.verdict.discover import catalogue
from tests import handmade as h
from tests.said import rounds
from tests.said.groups import ALL, KINDS
from tests.said.models import judged
from tests.said.plain import chosen, plain

COUNT, OF_ROUNDS, TIMES = 320, 160, 10
RATIOS = (0.0, 1e-8, 1e-4, 8e-4, 2e-3, 0.02, 0.08, 0.3, 0.6, 1.0, 1.3, 3.0, 8.0, 15.0, 40.0, 80.0, 200.0, 500.0, 1.5e3, 5e3, 2e4, 1e6, 1e9, math.inf)
LAWS = ("bounded", "linear", "polynomial", "exponential")
OF: dict[str, tuple[Any, ...]] = {
    "identity_gain": (1e-9, 1e-6, 0.03, 0.3, 0.6, 0.9, 1.0, 1.1, 1.6, 3.0, 12.0, 50.0, 300.0, 2e3, 1e6), "growth": LAWS,
    "gradient_law": ("flat", "power", "exponential"), "gradient_ratio": RATIOS, "rms_ratio": RATIOS,
    "one_minus_cos": (0.0, 1e-7, 1e-5, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0),
    "loss_at_start": (0.1, 4.0, 8.0, 11.0, 15.0, 40.0, 1e3), "logit_rms": (0.01, 0.5, 2.0, 6.0, 10.0, 20.0, 60.0, 400.0),
    "step_bound": RATIOS, "degree": (0.0, 1.0, 2.0, 5.0, 12.0), "output_bounded": (True, False), "logits_bounded": (True, False),
    "softmax": (True, False),
}  # fmt: skip
"""Kind of a claim -> its values."""
NOT_READ = frozenset({
    "recursions.logits-1", "recursion.gradient_ratio-0", "recursion.predicted_ratio-0", "of orders.min_degree-1", "of orders.min_degree-2",
})  # fmt: skip
"""Logits that are not known, ratios of 0, degrees of what has no weights: no calculus gives these, and what is said takes the others alone."""
WHY = {"value": None, "low": None, "high": None, "reason": "it is not known here", "nodes": (5,)}


def changed(rng: random.Random, claim: Claim) -> Claim:
    """Proved, measured, refuted or not known."""
    value, other = rng.choice(OF[claim.claim]), rng.choice(OF[claim.claim])
    ends = {"low": value, "high": value} if isinstance(value, float) else {"low": None, "high": None}
    told = {"value": value, "reason": "", "nodes": (), "measured": None, **ends}
    way = rng.choice(("proved",) * 4 + ("measured", "unknown", "refuted", "agrees", "seen", "large"))
    if way == "unknown":
        return replace(claim, status="unknown", measured=None, **WHY)
    if way == "seen":  # nothing was derived, and a run gave a number
        return replace(claim, status="unknown", measured=Measured(value, None), **WHY)
    if way == "large" and claim.claim == "growth":
        return replace(claim, **{**told, "status": "measured", "value": "exponential", "measured": Measured(FROM_LARGE_STATES, None)})
    if way in ("refuted", "agrees"):
        return replace(claim, **{**told, "status": "proved", "measured": Measured(other, way == "agrees")})
    return replace(claim, **{**told, "status": "measured" if way == "measured" else "proved"})  # type: ignore[arg-type]


@cache
def base(name: str) -> Facts:
    """Facts written by hand, or those of an example, or of a block of a round."""
    if name in rounds.BLOCKS:
        return rounds.BLOCKS[name]()
    return h.ALL[name]() if name in h.ALL else facts_of(examples()[name])


@cache
def examples() -> dict[str, Any]:
    """Of all rules."""
    return {c.id: c.example for c in cases(catalogue().rules)}


def made(found: Facts, rng: random.Random) -> Facts:
    """Some facts with no, one or two fields and two to five claims changed."""
    fields = [kind for kind in KINDS if kind not in ("claim", "measured", "replay")]
    for _ in range(rng.choice((0, 0, 1, 2))):
        try:
            found = ALL[chosen(rng.random(), [n for n in KINDS[chosen(rng.random(), fields)] if n not in NOT_READ])](found)
        except (IndexError, TypeError):  # of what an earlier change has made unknown, or of what there is none
            continue
    claims = list(found.claims)
    of_streams = [n for n, c in enumerate(claims) if c.claim in OF and c.stream is not None and c.sublayer is None]
    others = [n for n, c in enumerate(claims) if c.claim in OF and n not in of_streams]
    for _ in range(rng.choice((2, 3, 4, 5))):
        places = of_streams if of_streams and (rng.random() < 0.75 or not others) else others
        if places:
            at = rng.choice(places)
            claims[at] = changed(rng, claims[at])
    return replace(found, claims=replace(found.claims.with_all(claims), checked=rng.random() < 0.3))


def crossed(number: int) -> dict[str, str]:
    """What is said of some facts, changed so many times."""
    rng = random.Random(number)
    found = base(chosen(rng.random(), rounds.BLOCKS if number >= COUNT else h.ALL if rng.random() < 0.4 else examples()))
    return {f"{n}": plain(judged(made(found, rng))) for n in range(TIMES)}


SUBJECTS: dict[str, Callable[[], dict[str, str]]] = {f"claims {n}": lambda n=n: crossed(n) for n in range(COUNT + OF_ROUNDS)}  # type: ignore[misc]

__all__ = ["SUBJECTS"]
