"""Proven ends of functions of one number: never passed by float64 on a fine grid, and nearly reached."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from screen.calculi.bounds.ranges import ROOT, Scalar
from screen.calculi.bounds.scalars import extent, num

T, ABS = ROOT, ("abs", ROOT)


def over(a: Scalar, b: Scalar) -> Scalar:
    return ("div", a, b)


def plus(a: Scalar, b: Scalar) -> Scalar:
    return ("add", a, b)


def _sigmoid(t: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-t))


CASES: dict[str, tuple[Scalar, Callable[[np.ndarray], np.ndarray]]] = {
    "softsign": (over(T, plus(num(1), ABS)), lambda t: t / (1 + abs(t))),
    "small eps": (over(T, plus(num(1e-6), ABS)), lambda t: t / (1e-6 + abs(t))),
    "isru": (("mul", T, ("pow", plus(num(1), ("pow", T, 2.0)), -0.5)), lambda t: t / np.sqrt(1 + t**2)),
    "peak": (over(T, plus(num(1), ("pow", T, 2.0))), lambda t: t / (1 + t**2)),
    "clamped inverse": (("mul", T, ("clamp", over(num(1), ABS), -math.inf, 1.0)), lambda t: t * np.minimum(1 / abs(t), 1)),
    "where": (("where", ("gt", ABS, num(3)), over(("mul", num(3), T), ABS), T), lambda t: np.where(abs(t) > 3, 3 * np.sign(t), t)),
    "falls off": (("mul", T, ("exp", ("neg", ("pow", T, 2.0)))), lambda t: t * np.exp(-(t**2))),
    "one minus tanh": (("mul", T, ("sub", num(1), ("tanh", ABS))), lambda t: t * (1 - np.tanh(abs(t)))),
    "log over": (over(("log1p", ABS), plus(num(1), ABS)), lambda t: np.log1p(abs(t)) / (1 + abs(t))),
    "product": (("mul", ("sigmoid", T), ("tanh", T)), lambda t: _sigmoid(t) * np.tanh(t)),
    "cosine": (("mul", ("sigmoid", T), ("cos", T)), lambda t: _sigmoid(t) * np.cos(t)),
    "larger": (over(T, ("maximum", ABS, num(2))), lambda t: t / np.maximum(abs(t), 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_ends_hold_and_are_near(name: str) -> None:
    term, f = CASES[name]
    size = np.concatenate([np.geomspace(1e-9, 1e9, 400_001), np.linspace(1e-3, 20, 400_001)])
    t = np.sort(np.concatenate([-size, size]))
    with np.errstate(over="ignore"):
        y = f(t)
        steep = np.abs(np.diff(y) / np.diff(t))[np.diff(t) > 1e-9 * np.abs(t[1:])].max()
    found = extent(term)
    assert found.low <= y.min() + 1e-12 and y.max() - 1e-12 <= found.high and steep <= found.steep * (1 + 1e-6)
    assert (np.abs(y) / np.abs(t)).max() <= found.ray * (1 + 1e-9)
    assert found.high <= y.max() * (1 + 1e-5) + 1e-9 or name == "cosine"
    assert found.rises == (0, 0)


def test_growth_has_a_sign_at_each_end() -> None:
    assert extent(("mul", T, ("sigmoid", T))).rises == (0, 1)
    assert extent(over(T, ("pow", plus(num(1), ABS), 0.5))).rises == (-1, 1)
    assert extent(("neg", ("pow", T, 2.0))).rises == (-1, -1)
    assert extent(("mul", T, ("tanh", ("softplus", T)))).rises == (0, 1)


def test_numbers_between_ends() -> None:
    """t/(t + q) for q >= 0 is at most 1 where t >= 0, and may be anything else."""
    term = over(T, plus(T, ("num", 0.0, math.inf)))
    assert extent(term, 0.0).high == 1.0 and extent(term).size == math.inf
