"""Facts written by hand with two claims at a time, on both sides of the numbers at which rules turn: each threshold is crossed alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

from screen.facts.record import Facts
from tests import handmade as h
from tests.said.changed import _bounds, _claims, _first
from tests.said.models import judged
from tests.said.plain import plain

RATIOS = (5e-4, 0.02, 0.5, 3.0, 30.0, 300.0, 3e3)
LAWS = ("flat", "exponential")
Way = tuple[str, Callable[[Facts, Any], Facts], tuple[Any, ...]]


def claim(name: str, weights: str, *values: Any) -> Way:
    """A claim with some values."""
    return name, lambda facts, value: _claims(facts, name, weights, **told(value)), values


def told(value: Any) -> dict[str, Any]:
    """What is proved, or is not known (None)."""
    if value is None:
        return {"status": "unknown", "value": None, "low": None, "high": None, "reason": "it is not known here", "nodes": (5,)}
    ends = (value, value) if isinstance(value, float) else (None, None)
    return {"status": "proved", "value": value, "low": ends[0], "high": ends[1], "reason": "", "nodes": ()}


def stream(field: str, *values: Any) -> Way:
    """A field of the first stream."""
    return field, lambda facts, value: _first(facts, lambda s: replace(s, **{field: value})), values


UNPROVEN: Way = ("unproven", lambda facts, value: _bounds(facts, "unproven", value), (("it converges",),))
TOGETHER: dict[str, tuple[tuple[str, ...], tuple[Way, ...]]] = {
    "law and ratio": (("pre", "post"), (claim("gradient_law", "start", *LAWS), claim("gradient_ratio", "start", *RATIOS))),
    "law and cosine": (("pre",), (claim("gradient_law", "start", *LAWS), claim("one_minus_cos", "start", 1e-5, 3e-3, 0.05, 0.5))),
    "growths": (("pre", "none"), (
        claim("growth", "fixed", "bounded", "linear", "polynomial", None), claim("growth", "all", "bounded", "exponential", None))),
    "growths, unproven": (("peri",), (UNPROVEN, claim("growth", "fixed", "bounded", "linear"), claim("growth", "all", "linear", "exponential"))),
    "growth and size": (("none",), (claim("growth", "fixed", "exponential", None), claim("rms_ratio", "start", 0.5, 5.0, 50.0, 500.0, 5e3))),
    "logits and growth": (("pre", "none"), (
        claim("logits_bounded", "all", True, False, None), claim("growth", "fixed", "bounded", "exponential"))),
    "end": (("pre", "post"), (stream("end_norm", None, h.norm(40), h.norm(40, "batchnorm")), stream("final_norm", True, False))),
    "gain and law": (("post",), (claim("identity_gain", "start", 0.5, 1.0, 1.5), claim("gradient_law", "start", *LAWS))),
}  # fmt: skip


def together(name: str) -> dict[str, str]:
    """What is said of each choice of values."""
    bases, ways = TOGETHER[name]
    found = {}
    for of, numbers in product(bases, product(*(range(len(values)) for _, _, values in ways))):
        facts = h.ALL[of]()
        for (_, way, values), number in zip(ways, numbers, strict=True):
            facts = way(facts, values[number])
        found[f"{of} {plain(numbers)}"] = plain(judged(facts))
    return found


SUBJECTS: dict[str, Callable[[], dict[str, str]]] = {name: lambda name=name: together(name) for name in TOGETHER}  # type: ignore[misc]

__all__ = ["SUBJECTS"]
