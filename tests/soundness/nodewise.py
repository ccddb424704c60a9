"""Facts of single nodes against measured values: a broken row is seen where it stands, not only at the end of the branch.

A fact (I, O, p, c) of a value with atoms (see `screen.calculi.bounds.axes`) says √(Σ_{o in O} (sup_{others} ‖v‖_{p over I})²) ≤ c.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from screen.calculi.bounds.value import Value
from screen.structure.types import Unknown
from tests.soundness.measure import Values
from tests.soundness.region import Region


def mixed_norm(t: Tensor, sizes: tuple[int, ...], inner: Iterable[int], outer: Iterable[int], p: int) -> float:
    """The left side of a fact, without overflow of the squares."""
    top = float(t.abs().amax()) if t.numel() else 0.0
    if not 0.0 < top < float("inf"):
        return top
    into, out = sorted(inner), sorted(outer)
    rest = [a for a in range(len(sizes)) if a not in into and a not in out]
    v = (t / top).reshape(sizes or (1,)) if sizes else (t / top).reshape(())
    v = v.permute(*out, *rest, *into) if sizes else v
    shape = tuple(torch.Size(sizes[a] for a in axes).numel() for axes in (out, rest, into))
    v = v.reshape(shape)
    per = v.abs().sum(-1) if p == 1 else v.norm(dim=-1)
    return top * float(per.amax(1).norm())


def tangents(region: Region, point: Values, weights: Mapping[str, Tensor], step: Values) -> dict[int, tuple[Any, Any]]:
    """(value, directional derivative along `step`) of every node."""
    with forward_ad.dual_level():
        dual = {i: forward_ad.make_dual(t, step[i]) if i in step else t for i, t in point.items()}
        found = {}
        for index, value in region.run(dual, weights, copies=True).items():
            if isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex()):
                primal, tangent = forward_ad.unpack_dual(value)
                found[index] = (primal.detach(), torch.zeros_like(primal) if tangent is None else tangent.detach())
        return found


TINY = 1e-150
"""Squares of smaller numbers underflow in float64: a norm below it is 0 to the machine, which is no statement about real arithmetic."""


def broken(
    table: Mapping[int, Any], measured: Mapping[int, tuple[Any, Any]], values: Mapping[str, float], tolerance: float
) -> Iterator[tuple[int, str, float, float]]:
    """(node, what, measured, bound) of every fact that a value, or its derivative in a direction of size one, exceeds."""
    for node, (value, slope) in measured.items():
        held = table.get(node)
        if isinstance(held, Value) and held.shape == tuple(value.shape):
            for what, facts, t in (("value", held.mag, value), ("derivative", held.der, slope)):
                if not isinstance(facts, Unknown):
                    yield from _exceeded(node, what, facts, _finite(t) if held.holes else t, held.flat, values, tolerance)
            shown = value[torch.isfinite(value)] if held.holes else value
            if shown.numel() and not shown.is_complex() and not math.isnan(float(shown.sum())):
                low, high = float(shown.min()), float(shown.max())
                slack = tolerance * max(abs(low), abs(high), 1e-300)
                if low < held.low - slack or high > held.high + slack:
                    yield node, "range", low if low < held.low - slack else high, held.low if low < held.low - slack else held.high


def _finite(t: Tensor) -> Tensor:
    """Entries near −∞ are left out of a masked value's facts."""
    return torch.where(t < -1e30, torch.zeros_like(t), t)


def _exceeded(
    node: int, what: str, facts: Any, t: Tensor, flat: tuple[int, ...], values: Mapping[str, float], tolerance: float
) -> Iterator[tuple[int, str, float, float]]:
    for f in facts:
        found, bound = mixed_norm(t, flat, f.inner, f.outer, f.p), f.bound.evaluate(values)
        if math.isfinite(found) and not found <= bound * (1 + tolerance) + TINY:
            yield node, f"{what} I={sorted(f.inner)} O={sorted(f.outer)} p={f.p} of {flat}", found, bound
