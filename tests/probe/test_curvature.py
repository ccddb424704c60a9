"""The largest eigenvalue of the preconditioned Hessian against a dense one, Lanczos against `eigvalsh`, the edge, and what has none."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import screen
from screen.probe.experiments.curvature import BATCHES, curvatures, sharpness
from screen.probe.measure.determinism import settled
from screen.probe.measure.lanczos import ends
from screen.probe.measure.whole import Whole
from screen.probe.plan.types import Experiment
from screen.recipe import Recipe
from screen.report.probe import markdown, text
from tests.probe.test_update import IDS, Deaf, gpt
from tests.probe.whole import given


def found(model: nn.Module, inputs: Any, recipe: Recipe | None = None, seconds: float = 1e6) -> list[Experiment]:
    plan, session, make = given(model, inputs, recipe, seconds)
    with settled("cpu", 0):
        return list(curvatures(plan, session, make))


def spread(values: list[float]) -> tuple[Tensor, Tensor]:
    """(a symmetric matrix with these eigenvalues, a start)."""
    g = torch.Generator().manual_seed(0)
    q = torch.linalg.qr(torch.randn(len(values), len(values), generator=g, dtype=torch.float64))[0]
    return q @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ q.T, torch.randn(len(values), generator=g, dtype=torch.float64)


def test_both_ends_of_a_spectrum_of_two_signs() -> None:
    """Power iteration would go to and fro: both ends are of one size."""
    matrix, start = spread([-10.0, *(0.01 * i for i in range(200)), 10.0])
    top, bottom, products = ends(lambda v: [matrix @ v[0]], [start], 15, 1e-6)
    assert top.value == pytest.approx(10.0, rel=1e-6) and bottom.value == pytest.approx(-10.0, rel=1e-6) and products <= 15
    assert top.residual < 1e-5


def test_what_has_not_converged_says_so_and_is_a_lower_end() -> None:
    matrix, start = spread([1 + 1e-3 * i for i in range(400)])
    top, _, products = ends(lambda v: [matrix @ v[0]], [start], 5, 1e-6)
    assert products == 5 and not top.has_converged(1e-6) and top.before < top.value <= 1.399
    assert top.value <= 1.399 <= top.value + 2 * top.residual


def test_a_map_of_low_rank_ends_early_and_zero_has_no_top() -> None:
    top, bottom, products = ends(lambda v: [v[0] * torch.tensor([3.0, 3.0, 0.0])], [torch.ones(3)], 15, 0.0)
    assert products == 2 and top.value == pytest.approx(3.0, rel=1e-5) and abs(bottom.value) < 1e-5
    assert ends(lambda v: [0 * v[0]], [torch.ones(3)], 15, 0.02)[0].value == 0.0


class Tiny(nn.Module):
    """A map that is used twice, and an embedding of tokens some of which never come."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.map, self.head = nn.Embedding(40, 4), nn.Linear(4, 4), nn.Linear(4, 40)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x = x + torch.tanh(self.map(x))
        x = x + torch.tanh(self.map(x))
        return self.head(x)


def test_lambda_is_that_of_the_dense_hessian() -> None:
    plan, session, make = given(Tiny(), IDS)
    with settled("cpu", 0):
        twin = Whole(make(0), session, plan.update)
        got = sharpness(Whole(make(0), session, plan.update), 1e-8)
    names, weights = twin.names, {n: w.detach().double() for n, w in twin.weights.items()}
    sizes = [weights[n].numel() for n in names]

    def loss(flat: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        parts = {n: t.view_as(weights[n]) for n, t in zip(names, flat.split(sizes), strict=True)}
        return torch.nn.functional.cross_entropy(functional_call(twin.module, parts, (batch[0],))[:, 1:].flatten(0, 1), batch[1].flatten())

    at = torch.cat([weights[n].flatten() for n in names])
    squares = torch.zeros_like(at)
    for _ in range(BATCHES):
        leaf = at.clone().requires_grad_(True)
        squares += torch.autograd.grad(loss(leaf, twin.batch()), leaf)[0] ** 2 / BATCHES
    last = twin.batch()
    scale = torch.where(squares > 0, (squares.sqrt() + 1e-8).rsqrt(), 0.0)
    dense = torch.autograd.functional.hessian(lambda flat: loss(flat, last), at)
    values = torch.linalg.eigvalsh(scale[:, None] * dense * scale)
    assert got is not None and got.top.value == pytest.approx(float(values[-1]), rel=0.01)
    assert got.bottom.value >= float(values[0]) * 1.001 and got.left_out == int((squares == 0).sum()) > 0


def test_a_gpt_with_attention_has_an_edge() -> None:
    """The kernel of the attention has a second derivative, and 38/λ is the rate; β₁ is the recipe's."""
    lam, edge = found(gpt(), IDS)
    assert lam.outcome == edge.outcome == "observed" and edge.measured == pytest.approx(38 / float(lam.measured or 0), rel=0.01)
    assert lam.interval is not None and edge.interval is not None and float(edge.interval[0]) <= float(edge.measured or 0)
    other = found(gpt(), IDS, Recipe(betas=(0.0, 0.95)))[1]  # type: ignore[call-arg]  # all its fields are optional
    assert other.measured == pytest.approx(2 / float(lam.measured or 0), rel=0.01)
    assert [e.measured for e in found(gpt(), IDS)] == [lam.measured, edge.measured]


def test_weights_that_start_without_a_gradient_are_left_out() -> None:
    """ReZero: with √ε for a denominator the branches' weights would have an eigenvalue of 10⁸."""
    lam = found(gpt("", rezero=True, final_norm=False), IDS)[0]
    assert 0 < float(lam.measured or math.nan) < 1e5 and "have no gradient and are left out" in lam.reason


def test_what_does_not_depend_on_weights_or_is_linear_in_them_has_no_edge() -> None:
    (line,) = found(Deaf(), torch.randn(2, 3, 4))
    assert line.outcome == "not_applicable"
    assert found(gpt(), IDS, seconds=1e-3)[0].outcome == "not_measured"


@pytest.mark.by_the_day
def test_both_stand_in_a_report() -> None:
    report = screen.check(gpt(), example_inputs=IDS, probe=True)
    assert report.probe is not None
    assert {"update", "curvature"} <= {e.name for e in report.probe.experiments}
    for lines in (text(report.probe), markdown(report.probe)):
        assert any("learning rate at the edge of stability" in line for line in lines)
        assert any("κ of these weights alone" in line and "FFN out" in line for line in lines)
