"""Each rule by itself: what it reads is replaced by measured norms (equalities), and what it says of its own node must hold.

A bound of a whole branch is loose where weights do not align, so that a wrong constant in the middle hides behind it. Here nothing hides: a rule
that gives ‖φ(v)‖ ≤ c‖v‖ is asked with the measured ‖v‖, and for the derivative with the measured norms of one direction.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from screen.calculi.bounds.expr import num
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.mixed_norms import Fact, Facts
from screen.calculi.bounds.value import Value
from tests.soundness.nodewise import broken, mixed_norm
from tests.soundness.quantities import value as quantity_value

UP = 1 + 1e-11
"""Measured norms are rounded up."""


def measured_facts(t: Tensor, flat: tuple[int, ...], rng: random.Random) -> Facts:
    """The entry, the norm over the last atom, all of them, and two random norms, as equalities."""
    count = len(flat)
    keys = {(frozenset[int](), frozenset[int](), 2)}
    if count:
        keys.add((frozenset({count - 1}), frozenset(), 2))
        for _ in range(2):
            roles = [rng.choice("ION--") for _ in flat]
            inner = frozenset(i for i, r in enumerate(roles) if r == "I")
            keys.add((inner, frozenset(i for i, r in enumerate(roles) if r == "O"), rng.choice((1, 2)) if inner else 2))
    return tuple(Fact(num(mixed_norm(t, flat, *key) * UP), *key) for key in sorted(keys, key=str))


def as_measured(held: Value, t: Tensor, slope: Tensor, rng: random.Random) -> Value:
    """A value with measured facts in place of derived ones."""
    flat = held.flat
    low, high = (-math.inf, math.inf) if t.is_complex() else (float(t.min()), float(t.max()))
    if low < -1e3 and high <= 0:  # else a sum would take it for a mask
        high = 1.0
    return replace(
        held, mag=measured_facts(t, flat, rng), der=measured_facts(slope, flat, rng), projection=None, mixture=None, normed=None,
        low=low - 1e-11 * abs(low), high=high + 1e-11 * abs(high),
    )


def broken_rules(
    walk: Walk, found: Mapping[int, tuple[Any, Any]], known: Mapping[str, float], weights: Mapping[str, Tensor], rng: random.Random, tolerance: float
) -> Iterator[tuple[int, str, float, float]]:
    """(node, what, measured, bound) of every rule that fails on measured inputs; `known`: numbers of the symbols so far. The direction
    that `found` was made with has size one."""
    for index, made, values in on_measured(walk, found, known, weights, rng):
        yield from broken({index: made}, {index: found[index]}, values, tolerance)


def on_measured(
    walk: Walk, found: Mapping[int, tuple[Any, Any]], known: Mapping[str, float], weights: Mapping[str, Tensor], rng: random.Random
) -> Iterator[tuple[int, Any, dict[str, float]]]:
    """(node, what its rule says on measured inputs, numbers of the symbols)."""
    values = dict(known)
    table: dict[int, Any] = dict(walk.table)
    for index, (t, slope) in found.items():
        held = table.get(index)
        usable = isinstance(held, Value) and not held.holes and held.part is None and held.shape == tuple(t.shape) and t.numel() > 0
        if usable and walk.flow.data[index] and bool(torch.isfinite(t).all() and torch.isfinite(slope).all()):
            table[index] = as_measured(held, t, slope, rng)
    for index in sorted(walk.table):
        if isinstance(walk.table[index], tuple):
            table[index] = remade(walk, index, table, values)  # what is taken of it is judged
        if index in found:
            made = remade(walk, index, table, values)
            for symbol, quantity in walk.names.quantities.items():
                if symbol not in values:
                    values[symbol] = quantity_value(quantity, weights)
            yield index, made, values


def remade(walk: Walk, index: int, table: Mapping[int, Any], values: dict[str, float]) -> Any:
    """The value that the rule of a node gives on other inputs; numbers for its own symbols are added."""
    shadow = copy.copy(walk)
    shadow.table = {i: v for i, v in table.items() if i < index}
    shadow.floors, shadow.thetas, shadow.spreads, shadow.logits = list(walk.floors), list(walk.thetas), list(walk.spreads), []
    shadow.given, shadow.assumed = {}, {}
    made = shadow.value(index)
    values.update(dict.fromkeys(shadow.thetas, 1.0))
    values.update({floor.symbol: floor.least or 1e-300 for floor in shadow.floors})
    values.update({s.symbol: s.coarse.evaluate(values) for s in shadow.spreads[len(walk.spreads) :]})
    return made
