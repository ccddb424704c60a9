"""Facts written by hand with one field changed at a time, to what rules, claims and the verdict must not take for what it was."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from screen.facts.claims import claims_of
from screen.facts.claims.claim import Measured
from screen.facts.operator.polynomial import ONE, Range
from screen.facts.operator.recurrence import State, StreamOperator
from screen.facts.operator.steps import StateBound
from screen.facts.record import Facts
from screen.graph import Failure, Guess, Initialiser, Loop
from screen.structure.types import (
    Coverage, DoubledNorm, HollowNorm, IdentityPath, Kind, LongSkip, MapCount, Port, Scale, Stream, Sublayer, Unknown, UnmodelledOp,
)  # fmt: skip
from tests import handmade as h

WHY = Unknown("it is not known here", (5,))
LEARNED = ("blocks.0.scale",)
OF_SUBLAYER: dict[str, tuple[Any, ...]] = {
    "role": ("cross_attention", "linear_attention", "ssm", "fourier", "moe", "gated_ffn", "other"),
    "placement": ("unknown",),
    "norm_type": ("l2", "batchnorm"),
    "alpha": (Scale("constant", 2.0), Scale("constant", 0.5), Scale("learned", None, LEARNED, 1.0), Scale("learned", None, LEARNED), Scale("data")),
    "branch": (Scale("constant", 0.1), Scale("learned", None, LEARNED, 0.0), Scale("learned", None, LEARNED), Scale("data")),
    "m": (MapCount(WHY, ()),),
    "depends_on_stream": (False, WHY),
    "normed_skip": (True,),
    "multiplies_stream": (True,),
    "multiplies_norm": (True,),
    "ports": ((Port("x", "partly", "stream"),),),
    "q_norm": ("per_head", "full", "cosine", WHY),
    "k_norm": ("per_head", "l2", WHY),
}
OF_ALL: dict[str, tuple[Any, ...]] = {
    "m": (MapCount(0, ()),),
    "branch": (Scale("learned", None, LEARNED, 0.0), Scale("constant", 0.01)),
    "ports": ((Port("memory", False, "memory"),),),
    "alpha": (Scale("learned", None, LEARNED, 1.0),),
    "positions": ((),),
}  # fmt: skip
"""In every sublayer of every kind."""
OF_STREAM: dict[str, tuple[Any, ...]] = {
    "width": (None, 12288),
    "role": ("inner",),
    "dtype": ("float16", "bfloat16", "float64"),
    "embed_norm": (True, WHY),
    "embed_scale": (True,),
    "final_norm": (True, False, WHY),
    "identity": (
        IdentityPath(False, None, 0, (h.place(9),)), IdentityPath(WHY, None, 0), IdentityPath(True, "0.9**24", 0), IdentityPath(False, None, 3),
    ),
    "long_skips": ((LongSkip(30, 2, h.place(30)),),),
    "end_norm": (h.norm(40, "rmsnorm"),),
    "cuts": ((h.place(11),),),
    "joins": ((h.place(12),),),
}  # fmt: skip
NUMBERS = (0.0, 1e-5, 0.3, 40.0, 1e5, math.inf, WHY)
OF_RECURSION: dict[str, tuple[Any, ...]] = {
    "one_minus_cos": (0.0, 1e-5, 0.005, 0.05, 0.9, WHY),
    "gradient_ratio": NUMBERS,
    "predicted_ratio": NUMBERS[:-1],
    "ratio_law": ("exponential", WHY),
    "ratio_exponent": (0.0, 0.2, WHY),
    "deepnorm_number": (0.5, 50.0, WHY),
    "logits": ({"attention": {0: 30.0, 5: 60.0}}, {"attention": {0: 0.01, 5: 0.02}}),
    "rms": ((1.0, math.inf), (0.0, 0.0), (1e-3, 30.0)),
}
OF_FACTS: dict[str, tuple[Any, ...]] = {
    "doubled": ((DoubledNorm(h.norm(4), h.norm(5)),),),
    "hollow": ((HollowNorm("it only multiplies", h.place(7)),),),
    "coverage": tuple(Coverage(64, 63, (UnmodelledOp("bessel_j0", 2, on, h.place(7)),)) for on in (True, False)),
    "guessed_nodes": (frozenset({8}),),
    "recursions": ((WHY, WHY),),
    "operators": ((WHY, WHY),),
    "softmax": (False, WHY),
    "written_softmaxes": ({(9, 8): (3,)},),
    "state_bounds": ({}, {(9, 8): StateBound(False, False, 2.0)}, {(9, 8): StateBound(True, False, 0.5)}, {(9, 8): StateBound(WHY, WHY, None)}),
}
OF_GRAPH: dict[str, tuple[Any, ...]] = {
    "failure": (Failure("boom", h.FILE, 3), Failure("boom", h.FILE, 3, 7)),
    "guesses": ((Guess(h.FILE, 3, "yes", 8),), (Guess(h.FILE, 3, "yes", 8, False),)),
    "uncalled": ((1,),),
    "loop": (Loop((0,), 24),),
    "initialisers": (tuple((f"blocks.0.attention.w{n}", (Initialiser("normal_", (0.0, 3.0)),)) for n in range(4)),),
}
OF_BOUNDS: dict[str, tuple[Any, ...]] = {
    "bounded": (True, False, WHY), "bounded_in_stream": (True, WHY), "magnitude": (WHY,), "logits": ((WHY,),),
    "given": (("the gain of a norm",),), "unproven": (("the sum",),), "softmaxes": ((),), "opaque": ((3,),),
}  # fmt: skip
OF_CLAIM: dict[tuple[str, str], tuple[Any, ...]] = {
    ("identity_gain", "start"): (0.0, 0.5, 1.5, 30.0, 1e3), ("growth", "fixed"): ("bounded", "linear", "polynomial", "exponential"),
    ("growth", "all"): ("bounded", "linear", "exponential"), ("gradient_law", "start"): ("flat", "power", "exponential"),
    ("gradient_ratio", "start"): (1e-5, 1e5), ("rms_ratio", "start"): (1e-3, 1e6), ("one_minus_cos", "start"): (1e-6, 0.05),
    ("output_bounded", "all"): (True, False), ("logits_bounded", "all"): (True, False), ("step_bound", "start"): (0.1, 100.0),
    ("softmax", "all"): (True, False), ("logit_rms", "start"): (50.0,), ("degree", "all"): (5.0,),
}  # fmt: skip
STRAIGHT = StreamOperator(0, (State(9, {0: ONE}, None, None, False),), Range(1.0, 1.0), Range(1.0, 1.0), (), "constant", False, True, False, False)
OF_OPERATOR: dict[str, tuple[Any, ...]] = {
    "start": (Range(1.0, 1.0), Range(3.0, 3.0), Range(0.5, 2.0), Range(0.0, math.inf), WHY), "gain": (Range(0.0, 0.0), Range(0.5, 2.0), WHY),
    "carried": ("exponential", "polynomial", "decaying", WHY), "grows": (True,), "clean": (False, WHY), "convex": (True,), "trained": (True,),
    "reads_other": (True,), "lost": (7,), "through": ((8,),), "beside": (3,), "breaks": ((9,),), "shares": ({8: 0.5},),
}  # fmt: skip
OF_MEASURED: dict[str, tuple[Any, ...]] = {
    "rms_ratio": (3.0, 1e9, math.inf), "gradient_ratio": (2.0, 1e6), "identity_gain": (1.0, 5.0), "logit_rms": (40.0,),
}  # fmt: skip
BASES = ("pre", "post", "peri", "none", "hybrid", "encoder_decoder")
Changed = Callable[[Facts], Facts]


def _first(facts: Facts, of: Callable[[Stream], Stream]) -> Facts:
    return h.claimed(replace(facts, streams=(of(facts.streams[0]), *facts.streams[1:])))


def _sublayers(facts: Facts, field: str, value: Any) -> Facts:
    """In the first sublayer of every kind of the first stream."""

    def of(sublayer: Sublayer) -> Sublayer:
        return replace(sublayer, **{field: value})

    return _first(facts, lambda s: replace(s, kinds=tuple(replace(k, sublayers=(of(k.sublayers[0]), *k.sublayers[1:])) for k in s.kinds)))


def _everywhere(facts: Facts, field: str, value: Any) -> Facts:
    """In all sublayers of the first stream."""

    def of(kind: Kind) -> Kind:
        return replace(kind, sublayers=tuple(replace(b, **{field: value}) for b in kind.sublayers))

    return _first(facts, lambda s: replace(s, kinds=tuple(map(of, s.kinds))))


def _bounds(facts: Facts, field: str, value: Any) -> Facts:
    return h.claimed(replace(facts, analyses={k: replace(a, bounds=replace(a.bounds, **{field: value})) for k, a in facts.analyses.items()}))


def _recursion(facts: Facts, field: str, value: Any) -> Facts:
    return h.claimed(replace(facts, recursions=tuple(replace(r, **{field: value}) for r in facts.recursions)))  # type: ignore[arg-type]


def _operator(facts: Facts, field: str, value: Any) -> Facts:
    """With claims as they follow from it, and none that the hand writes."""
    made = replace(facts, operators=tuple(replace(STRAIGHT, **{field: value}) for _ in facts.streams))
    return replace(made, claims=made.claims.with_all(claims_of(made)))


def _measured(facts: Facts, name: str, value: float) -> Facts:
    """Where nothing was derived, and a run gave a number."""
    untold = {"status": "unknown", "value": None, "low": None, "high": None, "reason": "it is not known here"}
    return _claims(facts, name, "start", **untold, measured=Measured(value, None))


def _claims(facts: Facts, name: str, weights: str, **changes: Any) -> Facts:
    """In all claims of this kind over these weights."""
    claims = [replace(c, **changes) if (c.claim, c.weights) == (name, weights) else c for c in facts.claims]
    return replace(facts, claims=facts.claims.with_all(claims))


def changes() -> Iterator[tuple[str, Changed]]:
    """Each with its name."""
    ways: tuple[tuple[str, dict[str, tuple[Any, ...]], Callable[[Facts, str, Any], Facts]], ...] = (
        ("sublayer", OF_SUBLAYER, _sublayers),
        ("stream", OF_STREAM, lambda f, name, value: _first(f, lambda s: replace(s, **{name: value}))),
        ("every", OF_ALL, _everywhere),
        ("recursion", OF_RECURSION, _recursion),
        ("facts", OF_FACTS, lambda f, name, value: h.claimed(replace(f, **{name: value}))),
        ("graph", OF_GRAPH, lambda f, name, value: h.claimed(replace(f, graph=replace(f.graph, **{name: value})))),
        ("bounds", OF_BOUNDS, _bounds),
        ("operator", OF_OPERATOR, _operator),
        ("measured", OF_MEASURED, _measured),
    )
    for what, table, way in ways:
        for field, values in table.items():
            for number, value in enumerate(values):
                yield f"{what}.{field}-{number}", lambda f, way=way, field=field, value=value: way(f, field, value)  # type: ignore[misc]
    unknown = {"status": "unknown", "value": None, "low": None, "high": None, "reason": "it is not known here", "nodes": (5,)}
    for (name, weights), values in OF_CLAIM.items():
        told = [{**unknown, "status": "proved", "value": v, "reason": "", "nodes": (), **_ends(v)} for v in values]
        if (name, weights) == ("growth", "fixed"):
            told += [{**unknown, "status": "measured", "value": v} for v in ("exponential", "linear")]
        for number, given in enumerate([unknown, {"measured": Measured(values[0], False)}, *told]):
            yield f"claim.{name}.{weights}-{number}", lambda f, n=name, w=weights, g=given: _claims(f, n, w, **g)  # type: ignore[misc]


def _ends(value: Any) -> dict[str, float]:
    return {"low": value, "high": value} if isinstance(value, float) else {}


CHANGES: dict[str, Changed] = dict(changes())


def pairs(count: int) -> Iterator[tuple[str, str, str]]:
    """(facts, a change, another of another field), drawn: a word that follows from two things follows from neither alone."""
    rng, known = random.Random(0), list(CHANGES)
    while count:
        of, first, second = rng.choice(BASES), rng.choice(known), rng.choice(known)
        if first.rpartition("-")[0] != second.rpartition("-")[0]:
            count -= 1
            yield of, first, second


PAIRS = {f"{of}: {first} and {second}": (of, first, second) for of, first, second in pairs(400)}


def crowd(number: int) -> tuple[str, tuple[str, ...]]:
    """(facts, three to five changes of fields of their own), drawn: a guard behind two others is asked where all of them let it be."""
    rng = random.Random(number)
    by_field: dict[str, list[str]] = {}
    for name in CHANGES:
        by_field.setdefault(name.rpartition("-")[0], []).append(name)
    fields = rng.sample([f for f in by_field if f != "facts.recursions"], rng.choice((3, 4, 5)))  # a field of what is not known cannot be changed
    return rng.choice(BASES), tuple(rng.choice(by_field[f]) for f in fields)


__all__ = ["BASES", "CHANGES", "Changed", "PAIRS", "crowd"]
