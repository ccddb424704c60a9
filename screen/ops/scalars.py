"""Entry-wise functions: one row for each, from which every calculus reads. Adding an activation is adding a row.

Numbers are those of torch's default arguments; a calculus that reads other arguments off a call corrects them itself. Suprema are rounded up in the
last digit shown; `tests/ops/test_scalars.py` redoes each on a grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Any], Any]
INF = math.inf


@dataclass(frozen=True)
class Shape:
    """What bounds ask of one function φ."""

    slope: float
    """sup |φ(t) − φ(0)|/|t|."""
    lipschitz: float
    at_zero: float = 0.0
    low: float = -INF
    high: float = INF
    """Between them lie all values."""
    rising: bool = False
    """Monotone: an interval goes to the interval of its ends."""

    @property
    def is_bounded(self) -> bool:
        """Whether all values lie between two numbers."""
        return self.low > -INF and self.high < INF


@dataclass(frozen=True)
class Scalar:
    """One function φ."""

    f: Function
    """With numpy, of arrays and of numbers."""
    shape: Shape
    degree: int | Literal["asymptotic", "bounded"] | None = None
    """k where φ(c·t) = c^k·φ(t) for all c > 0; `asymptotic` where φ(c·t)/c tends to a function of degree 1 when c grows; `bounded` where it has no
    degree in magnitude; None: not known, or none."""


_erf = np.vectorize(math.erf, otypes=[np.float64])
"""numpy has none."""


def _sigmoid(x: Array) -> Array:
    """Small where x is far below 0, and not 0."""
    return np.exp(-np.logaddexp(0.0, -x))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def _elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
"""Klambauer et al. 2017, as `torch.selu` has them."""
GELU_LIPSCHITZ = 1.13
"""erf form: max of Φ(t) + tφ(t) at t = √2, 1.12891; tanh form 1.12905."""
SILU_LIPSCHITZ = 1.09984
"""max of σ(t)(1 + t(1 − σ(t))) at t = 2.3994, 1.099839."""

SCALARS: dict[str, Scalar] = {
    "relu": Scalar(lambda x: np.maximum(x, 0.0), Shape(1.0, 1.0, low=0.0, rising=True), 1),
    "gelu": Scalar(_gelu, Shape(1.0, GELU_LIPSCHITZ, low=-0.1701), "asymptotic"),
    "gelu_tanh": Scalar(_gelu_tanh, Shape(1.0, GELU_LIPSCHITZ, low=-0.1701), "asymptotic"),
    "silu": Scalar(lambda x: x * _sigmoid(x), Shape(1.0, SILU_LIPSCHITZ, low=-0.27847), "asymptotic"),
    "mish": Scalar(lambda x: x * np.tanh(_softplus(x)), Shape(1.0, 1.0885, low=-0.30885), "asymptotic"),
    "hardswish": Scalar(lambda x: x * np.clip(x + 3, 0, 6) / 6, Shape(1.0, 1.5, low=-0.375), "asymptotic"),
    "elu": Scalar(_elu, Shape(1.0, 1.0, low=-1.0, rising=True), "asymptotic"),
    "celu": Scalar(_elu, Shape(1.0, 1.0, low=-1.0, rising=True), "asymptotic"),
    "selu": Scalar(
        lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0.0))),
        Shape(1.7581, 1.7581, low=-1.7581, rising=True), "asymptotic",
    ),
    "leaky_relu": Scalar(lambda x: np.where(x > 0, x, 0.01 * x), Shape(1.0, 1.0, rising=True), 1),
    "sigmoid": Scalar(_sigmoid, Shape(0.25, 0.25, 0.5, 0.0, 1.0, rising=True), "bounded"),
    "hardsigmoid": Scalar(lambda x: np.clip(x + 3, 0, 6) / 6, Shape(1 / 6, 1 / 6, 0.5, 0.0, 1.0, rising=True), "bounded"),
    "tanh": Scalar(np.tanh, Shape(1.0, 1.0, 0.0, -1.0, 1.0, rising=True), "bounded"),
    "hardtanh": Scalar(lambda x: np.clip(x, -1, 1), Shape(1.0, 1.0, 0.0, -1.0, 1.0, rising=True), "bounded"),
    "erf": Scalar(_erf, Shape(1.12838, 1.12838, 0.0, -1.0, 1.0, rising=True), "bounded"),
    "atan": Scalar(np.arctan, Shape(1.0, 1.0, 0.0, -1.5708, 1.5708, rising=True), "bounded"),
    "asinh": Scalar(np.arcsinh, Shape(1.0, 1.0, rising=True)),
    "softsign": Scalar(lambda x: x / (1 + np.abs(x)), Shape(1.0, 1.0, 0.0, -1.0, 1.0, rising=True), "bounded"),
    "softplus": Scalar(_softplus, Shape(1.0, 1.0, 0.693148, 0.0, rising=True), "asymptotic"),
    "logsigmoid": Scalar(lambda x: -_softplus(-x), Shape(1.0, 1.0, -0.693148, high=0.0, rising=True), "asymptotic"),
    "relu6": Scalar(lambda x: np.clip(x, 0, 6), Shape(1.0, 1.0, 0.0, 0.0, 6.0, rising=True), "bounded"),
    "sin": Scalar(np.sin, Shape(1.0, 1.0, 0.0, -1.0, 1.0), "bounded"),
    "cos": Scalar(np.cos, Shape(0.72462, 1.0, 1.0, -1.0, 1.0), "bounded"),
    "sinc": Scalar(np.sinc, Shape(1.0, 1.37031, 1.0, -0.21724, 1.0), "bounded"),
    "abs": Scalar(np.abs, Shape(1.0, 1.0, low=0.0), 1),
    "neg": Scalar(np.negative, Shape(1.0, 1.0), 1),
    "tanhshrink": Scalar(lambda x: x - np.tanh(x), Shape(1.0, 1.0, rising=True), "asymptotic"),
    "softshrink": Scalar(lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0.0), Shape(1.0, 1.0, rising=True), "asymptotic"),
    "erfc": Scalar(lambda x: 1 - _erf(x), Shape(1.12838, 1.12838, 1.0, 0.0, 2.0), "bounded"),
    "exp": Scalar(np.exp, Shape(INF, INF, at_zero=1.0, low=0.0, rising=True)),
    "square": Scalar(np.square, Shape(INF, INF, low=0.0), 2),
}
"""Canonical op -> its row; `gelu_tanh` is `gelu` with `approximate="tanh"`."""
OPS = tuple(name for name in SCALARS if name != "gelu_tanh")
"""Those that are ops of the vocabulary."""


def of_degree(degree: object) -> frozenset[str]:
    """Ops of one kind of degree."""
    return frozenset(name for name in OPS if SCALARS[name].degree == degree)


BOUNDED = frozenset(name for name in OPS if SCALARS[name].shape.is_bounded)
"""Ops whose values lie between two numbers."""
NONNEGATIVE = frozenset(name for name in OPS if SCALARS[name].shape.low >= 0.0)

__all__ = ["BOUNDED", "NONNEGATIVE", "OPS", "SCALARS", "SELU_ALPHA", "SELU_SCALE", "Array", "Function", "Scalar", "Shape", "of_degree"]
