"""Intervals of the Jacobian's norms: against dense matrices, and how often they miss."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.capture.trace.tracer import run as traced
from screen.probe.experiments.jacobian import DOUBT, PRODUCTS, frobenius_interval, gap, maps, norms, spectral
from screen.probe.measure.branch import BranchRun, branch_run
from screen.probe.measure.leaves import Material
from screen.probe.measure.replay import Tape
from tests.probe.common import planned


def branch(target: str, place: int, **settings: Any) -> BranchRun:
    built, plan, watch = planned(target, **settings)
    trace = traced(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    return branch_run(plan.sublayers[place], Material(Tape(trace), built, watch, 0))


@pytest.mark.by_the_day
@pytest.mark.parametrize("place", [0, 1])
def test_against_the_dense_jacobian(place: int) -> None:
    run = branch("hf:gpt2", place, n_embd=16, n_layer=2, n_head=2, vocab_size=64, n_positions=16)
    with sdpa_kernel(SDPBackend.MATH):
        columns, back, forth = maps(run)
        size, spread = norms(run)
    each = torch.eye(columns, dtype=torch.float64)
    dense = torch.stack([back(e) for e in each])  # square: the branch keeps the stream's shape
    assert torch.allclose(torch.stack([forth(e) for e in each[:9]], 1), dense[:, :9], atol=1e-12)
    largest, whole = float(torch.linalg.matrix_norm(dense, 2)), float(dense.norm())
    low, high = size.interval or (0.0, 0.0)
    assert float(low) * 0.995 <= largest <= float(high) * 1.005 and float(high) <= 1.1 * float(low)
    low, high = spread.interval or (0.0, 0.0)
    assert float(low) * 0.995 <= whole <= float(high) * 1.005 and size.samples == PRODUCTS


def test_the_upper_end_holds_as_often_as_it_says() -> None:
    """One eigenvalue a tenth above many that crowd below it: six steps do not find it, and the lower end alone would miss."""
    generator = torch.Generator().manual_seed(2)
    n, steps, draws = 400, 6, 200
    values = 0.9 - 0.9 * torch.arange(n, dtype=torch.float64) / n
    values[0] = 1.0
    ends = [spectral(lambda v: values * v, torch.randn(n, generator=generator, dtype=torch.float64), steps) for _ in range(draws)]
    assert all(low <= 1 + 1e-12 for low, _ in ends) and sum(low < 0.98 for low, _ in ends) > draws / 2
    assert sum(high < 1 for _, high in ends) <= 2 * draws * DOUBT and gap(n, 3) > 1
    assert math.isinf(spectral(lambda v: values * v, torch.ones(n, dtype=torch.float64), 3)[1])


def test_all_directions_leave_no_doubt() -> None:
    values = torch.tensor([4.0, 1.0, 0.0], dtype=torch.float64)
    assert spectral(lambda v: values * v, torch.ones(3, dtype=torch.float64), 3) == pytest.approx((2.0, 2.0))
    assert 0 < gap(10**9, PRODUCTS) < 0.2


def test_the_interval_of_the_frobenius_norm_holds_as_often_as_it_says() -> None:
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(40, 30, generator=generator, dtype=torch.float64) @ torch.diag(torch.linspace(0.1, 2, 30, dtype=torch.float64))
    held = 0
    for _ in range(400):
        signs = torch.randn(12, 40, generator=generator, dtype=torch.float64).sign()
        _, (low, high) = frobenius_interval([float((g @ matrix).square().sum()) for g in signs])
        held += low <= float(matrix.norm()) <= high
    assert 0.91 <= held / 400 <= 0.99
