"""Stacks of one block against stacks written by hand, and laws against laws that are known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from screen.probe.depth import agreement, depth, measure
from screen.probe.depth import _law as law
from screen.probe.material import Material
from screen.probe.plan import Experiment
from screen.probe.replay import Tape
from screen.probe.stack import Stack
from screen.probe.start import start
from screen.capture.tracer import run
from tests.probe.common import measured, planned


def stacked(target: str, **settings: Any) -> tuple[Stack, torch.Tensor, str]:
    built, plan, watch = planned(target, **settings)
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    stack = Stack(plan.blocks[0], Material(Tape(trace, torch.float64, "cpu"), built, watch, 0))
    with torch.no_grad():
        return (stack, *stack.start(True))


EMPTY = Experiment("depth", "", "observed")


@pytest.mark.parametrize(
    ("values", "exponent", "name"),
    [
        ({n: [n**2.0] * 2 for n in (4, 8, 16, 32, 64)}, 2.0, "power law"),
        ({n: [math.exp(0.3 * n)] * 2 for n in (4, 8, 16, 32, 64)}, None, "exponential"),
        ({n: [n**0.5] * 2 for n in (4, 8, 16, 32, 64)}, 0.5, "unknown"),
    ],
)
def test_laws(values: dict[int, list[float]], exponent: float | None, name: str) -> None:
    found = law(EMPTY, values)
    assert found.numbers["law"] == name
    assert exponent is None or found.measured == pytest.approx(exponent)


def test_values_that_overflow_have_no_exponent() -> None:
    assert law(EMPTY, {4: [1.0], 8: [math.inf]}).measured == "nan"


@pytest.mark.parametrize(("factor", "outcome"), [(1.2, "confirmed"), (2.0, "observed"), (3.5, "refuted")])
def test_agreement(factor: float, outcome: str) -> None:
    assert agreement(EMPTY, factor).outcome == outcome


def test_exponents_of_peri_and_post_are_those_of_the_theory() -> None:
    """rms and the last block's gradient of B + QK-norm go with ±1/2; a stream that is normed stays where it is."""
    found = {e["what"]: e for e in measured("examples/output_norm_qk.py") if e["name"] == "depth"}
    assert found["rms of the stream, exponent of depth"]["measured"] == pytest.approx(0.5, abs=0.03)
    assert found["gradient of the last block, exponent of depth"]["measured"] == pytest.approx(-0.5, abs=0.03)
    found = {e["what"]: e for e in measured("examples/post.py") if e["name"] == "depth"}
    assert abs(found["rms of the stream, exponent of depth"]["measured"]) < 1e-3
    assert abs(found["gradient of the last block, exponent of depth"]["measured"]) < 0.1


def test_the_gradient_on_one_way_back_is_that_of_the_whole_network() -> None:
    """Depth 5, by hand: all blocks in one graph, one backward pass."""
    stack, x, _ = stacked("examples/pre.py")
    sample = measure(stack, x, [4, 5])
    weights = [stack.drawn(layer)[stack.weight].clone().requires_grad_(True) for layer in range(1, 6)]
    state = x
    for layer, w in enumerate(weights, 1):
        state = stack.run(state, layer, 0, w)[stack.plan.exit]
    out = stack.finish(state)
    g = torch.randn(out.shape, generator=stack.material.generator(stack.plan.end, 900), dtype=torch.float64)
    first, last = torch.autograd.grad((out * g).sum(), (weights[0], weights[-1]))
    assert sample.last[5][0] == pytest.approx(float(last.norm()), rel=1e-9)
    assert sample.ratio[5][0] == pytest.approx(float(first.norm() / last.norm()), rel=1e-9)
    assert sample.rms[5][0] == pytest.approx(float(state.square().mean().sqrt()), rel=1e-12)


def test_blocks_get_fresh_weights() -> None:
    stack, _, _ = stacked("examples/pre.py")
    one, two = (stack.drawn(layer)[stack.weight] for layer in (1, 2))
    assert not torch.equal(one, two) and torch.equal(one, stack.drawn(1)[stack.weight])
    assert not torch.equal(one, stack.drawn(1, network=1)[stack.weight])


def test_start_and_prediction() -> None:
    stack, x, words = stacked("examples/peri.py")
    with torch.no_grad():
        found = start(stack, x, words)
    branches = [e for e in found if "adds" in e.what]
    assert [e.measured for e in branches] == [1.0, 1.0]  # both end in an RMSNorm with gain 1
    logits = next(e for e in found if "logit" in e.what)
    assert 0 < logits.numbers["entropy_share"] <= 1 and 0 < logits.numbers["theta"] <= 1
    wrong = replace(stack.plan, ratio=100.0)
    stack.plan = wrong
    said = depth(stack, x, words, 8)
    assert [e.outcome for e in said if "first over last gradient, 6" in e.what] == ["refuted"]
