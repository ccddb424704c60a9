"""The table of entry-wise functions: every number of every row is redone on a grid, against torch's own function."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from screen.ops import CLASSES
from screen.ops.scalars import BOUNDED, NONNEGATIVE, OPS, SCALARS

GRID = np.concatenate([-np.logspace(3, -6, 4001), np.logspace(-6, 3, 4001)])
SPARE = 2e-4
"""Relative room above a supremum: numbers are rounded up in the last digit shown."""
TORCH = {"gelu_tanh": lambda t: F.gelu(t, approximate="tanh")}


def _values(name: str, at: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(SCALARS[name].f(at), dtype=np.float64)


@pytest.mark.parametrize("name", SCALARS)
def test_it_is_torchs_function(name: str) -> None:
    own = TORCH.get(name) or getattr(F, name, None) or getattr(torch, name)
    at = torch.tensor(GRID[np.abs(GRID) < 300])
    assert torch.allclose(torch.tensor(_values(name, at.numpy())), own(at), rtol=1e-10, atol=3e-9)  # softplus of torch is the identity above 20


@pytest.mark.parametrize("name", SCALARS)
def test_slope_lipschitz_constant_and_range(name: str) -> None:
    row, y = SCALARS[name].shape, _values(name, GRID)
    at_zero = float(_values(name, np.zeros(1))[0])
    assert abs(at_zero) <= abs(row.at_zero) + 1e-12 and abs(row.at_zero) - abs(at_zero) < 1e-5
    assert (y >= row.low).all() and (y <= row.high).all()
    if math.isfinite(row.slope):
        seen = float(np.max(np.abs(y - at_zero) / np.abs(GRID)))
        assert seen <= row.slope * (1 + 1e-9) and row.slope <= max(seen * (1 + SPARE), 1e-9) * 1.001
        fine = np.linspace(-12, 12, 2_000_001)
        steep = float(np.max(np.abs(np.diff(_values(name, fine)) / np.diff(fine)))) if name not in ("gelu", "erf") else 0.0
        assert steep <= row.lipschitz * (1 + 1e-6) and (not steep or row.lipschitz <= steep * 1.002)
    if row.rising:
        z = y[np.isfinite(y)]
        assert (np.diff(z) >= -1e-12 * np.maximum(np.abs(z[1:]), 1)).all()
    if math.isfinite(row.low):
        assert float(y.min()) - row.low < 1e-3 * max(abs(row.low), 1) + 1e-5


@pytest.mark.parametrize("name", SCALARS)
def test_degree(name: str) -> None:
    degree = SCALARS[name].degree
    t = np.array([-3.0, -1.5, -0.7, 0.4, 1.1, 2.5])
    with np.errstate(over="ignore", invalid="ignore"):
        small, large, larger = (_values(name, c * t) for c in (1.0, 1e4, 1e8))
    if isinstance(degree, int):
        assert np.allclose(large, 1e4**degree * small) and np.allclose(larger, 1e8**degree * small)
    elif degree == "asymptotic":  # φ(c·t)/c has a limit that is homogeneous of degree 1, and is no multiple of φ itself
        assert np.allclose(large / 1e4, larger / 1e8, atol=1e-3) and np.abs(larger).max() > 1e7
    elif degree == "bounded":
        shape = SCALARS[name].shape
        assert shape.is_bounded and np.abs(larger).max() <= max(abs(shape.low), abs(shape.high))
    else:
        assert not SCALARS[name].shape.is_bounded


def test_every_row_but_one_is_an_op() -> None:
    assert set(SCALARS) - set(OPS) == {"gelu_tanh"} and set(OPS) <= set(CLASSES)
    assert "sigmoid" in BOUNDED and "relu" not in BOUNDED and "relu" in NONNEGATIVE
