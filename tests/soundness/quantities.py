"""Values of the symbols of a bound, computed from real weights; written apart from `screen.facts.bounds`, from its documented formulas alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from screen.facts.bounds import Quantity


def value(quantity: Quantity, weights: Mapping[str, Tensor]) -> float:
    """The number that a symbol stands for."""
    w = weights[quantity.parameter]
    if quantity.rows is not None:
        w = w[quantity.rows[0] : quantity.rows[1]]
    return float(_KINDS[quantity.kind](quantity, w))


def _matrix(w: Tensor) -> Tensor:
    return w.reshape(w.shape[0], -1) if w.dim() > 1 else w.reshape(1, -1)


def _spectral(quantity: Quantity, w: Tensor) -> Tensor:
    top = w.abs().amax()
    return top * torch.linalg.matrix_norm(_matrix(w) / top, 2) if bool(top > 0) else top


def _norm(quantity: Quantity, w: Tensor) -> Tensor:
    top = w.abs().amax()
    return top * (w / top).norm() if bool(top > 0) else top


def _heads(quantity: Quantity, w: Tensor) -> Tensor:
    matrix = _matrix(w.t() if quantity.transposed else w)
    parts = matrix.reshape(quantity.heads or 1, -1, matrix.shape[-1])
    top = w.abs().amax().clamp(min=1e-300)
    return top * torch.linalg.matrix_norm(parts / top, 2).norm()


_KINDS: dict[str, Callable[[Quantity, Tensor], Tensor]] = {
    "spectral": _spectral,
    "head_rss": _heads,
    "max_abs": lambda q, w: w.abs().amax(),
    "frobenius": _norm,
    "l2": _norm,
}
