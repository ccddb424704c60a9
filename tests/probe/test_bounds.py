"""Bounds under attack: true ones hold, and one that is too small is broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from screen.calculi.bounds.expr import add, largest, mul, num, power, smallest, sym
from screen.calculi.bounds.parts import Part
from screen.calculi.bounds.quantities import Quantity
from screen.probe.bounds.arrays import Arrays
from screen.probe.bounds.weight_norms import evaluate, quantity
from screen.probe.plan.from_facts import program_of
from screen.probe.plan.quantities import quantity_plan
from screen.probe.plan.types import BoundPlan, ProbePlan
from screen.probe.run import experiments
from tests.probe.common import CPU, planned

SMALL = {"hf:gpt2": {"n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 32}}


def bounds_only(plan: ProbePlan) -> ProbePlan:
    return replace(plan, blocks=(), sublayers=tuple(replace(s, degrees=()) for s in plan.sublayers))


def shrunk(plan: ProbePlan, factor: float) -> ProbePlan:
    """Every bound times a factor."""

    def smaller(bound: BoundPlan) -> BoundPlan:
        last = len(bound.program) - 1
        return replace(bound, program=(*bound.program, ("mul", factor, "", (last,), (1.0,))))

    subs = (replace(s, bounds=tuple(map(smaller, s.bounds)), plain=tuple(map(smaller, s.plain))) for s in plan.sublayers)
    return replace(plan, sublayers=tuple(subs))


def outcomes(target: str, factor: float, **settings: Any) -> list[dict[str, Any]]:
    built, plan, watch = planned(target, **settings)
    return [e for e in list(experiments(shrunk(bounds_only(plan), factor), built, watch, CPU))[1:] if e["name"] == "bounds"]


@pytest.mark.by_the_day
@pytest.mark.parametrize("target", ["examples/pre.py", "examples/peri.py", "examples/parallel.py", "examples/dyt.py", "hf:gpt2"])
def test_bounds_hold(target: str) -> None:
    found = outcomes(target, 1.0, **SMALL.get(target, {}))
    assert found and {e["outcome"] for e in found} == {"confirmed"}, found
    assert all(0 < e["measured"] <= 1 for e in found)


def test_bounds_that_are_too_small_are_broken() -> None:
    assert {e["outcome"] for e in outcomes("examples/pre.py", 0.1)} == {"refuted"}


@pytest.mark.by_the_day
def test_weights_come_nearer_to_bounds_than_inputs_do() -> None:
    """A bound that is 0.9 of a true one is broken by turning weights, and not by inputs alone."""
    found = [e for e in outcomes("examples/pre.py", 1.0) if "F(x)" in e["what"]]
    assert len(found) == 2 and all(e["numbers"]["inputs"] < 0.6 and e["numbers"]["inputs and weights"] > 0.92 for e in found), found
    assert {e["outcome"] for e in outcomes("examples/pre.py", 0.9) if "F(x)" in e["what"]} == {"refuted"}


@pytest.mark.by_the_day
def test_a_bound_of_a_norm_is_reached() -> None:
    """Peri: the branch ends in an RMSNorm, so that ‖F(x)‖ comes near to its bound whatever the weights."""
    best = max(e["measured"] for e in outcomes("examples/peri.py", 1.0) if "F(x)" in e["what"])
    assert best > 0.95


def over_all_weights(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [e for e in found if e["status"] == "all weights" and "Hamiltonian" not in e["what"]]


CLAIMS = [("examples/output_norm_qk.py", 3), ("examples/table/designs.py::peri_layer_scale", 2), ("examples/pre.py", 0)]
"""Norm and QK-norm; a norm's gain and a LayerScale behind it, with two norms of each in one bound; none."""


@pytest.mark.by_the_day
@pytest.mark.parametrize(("target", "count"), CLAIMS)
def test_claims_over_all_weights(target: str, count: int) -> None:
    """Outputs behind a norm and logits behind QK-norm, at weights and inputs 10⁴ times as large; a smaller claim is broken."""
    true = over_all_weights(outcomes(target, 1.0))
    assert len(true) == count and all(e["outcome"] == "confirmed" and e["measured"] > 0.85 for e in true), true
    assert all(e["outcome"] == "refuted" for e in over_all_weights(outcomes(target, 0.8)))


def test_a_claim_over_all_weights_that_its_bound_does_not_support_is_not_confirmed() -> None:
    built, plan, watch = planned("examples/pre.py")
    plan = bounds_only(plan)
    false = replace(plan, sublayers=tuple(replace(s, closed=("magnitude",)) for s in plan.sublayers))
    found = over_all_weights(list(experiments(false, built, watch, CPU))[1:])
    assert len(found) == 2 and all(e["outcome"] == "not_measured" and "matrix" in e["reason"] for e in found)


def test_programs_give_what_expressions_give() -> None:
    a, b = sym("a"), sym("b")
    values = {"a": 0.7, "b": 40.0}
    sums = (add(num(2.0), mul(num(3.0), a, power(b, 0.5))), power(add(a, b), -1.0))
    for expr in (*sums, smallest(a, mul(b, num(0.1))), largest(a, b, num(1.5)), num(0.0)):
        assert evaluate(program_of(expr), values) == pytest.approx(expr.evaluate(values), rel=1e-12)


KINDS = [("spectral", "rc"), ("head_rss", "hrc"), ("row_l1", "sa"), ("frobenius", "r"), ("max_exp", "s"), ("row_max", "sr")]


@pytest.mark.parametrize(("kind", "roles"), KINDS)
def test_quantities_are_upper_bounds_of_the_same_norms(kind: Any, roles: str) -> None:
    shape = (4, 6)
    sizes, strides = {2: ((4, 6), (6, 1)), 3: ((2, 2, 6), (12, 6, 1)), 1: ((24,), (1,))}[len(roles)]
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    asked = Quantity("W0", kind, Part("w", shape, 0, sizes, strides, 0.0), roles)
    theirs, ours = asked.measure(weight.numpy().astype(np.float64)), quantity(quantity_plan(asked), Arrays({"w": weight}))
    assert ours == pytest.approx(theirs, rel=2e-9) and ours >= theirs * (1 - 1e-12)
