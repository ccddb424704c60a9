"""Stacks of one block against stacks written by hand, and laws against laws that are known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from screen.capture.trace.tracer import run
from screen.probe.budget.budget import Budget
from screen.probe.depth.fits import law
from screen.probe.depth.laws import agreement, depth, gap, measure
from screen.probe.depth.starts import Depths, of_depths
from screen.probe.experiments.start import start
from screen.probe.measure.leaves import Material
from screen.probe.measure.replay import Tape
from screen.probe.measure.session import Session
from screen.probe.measure.stack import Stack
from screen.probe.plan.types import Experiment
from screen.probe.run import experiments
from tests.probe.common import CPU, only, planned

pytestmark = pytest.mark.by_the_day


def session(target: str, **settings: Any) -> tuple[Stack, Session]:
    built, plan, watch = planned(target, **settings)
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    stack = Stack(plan.blocks[0], Material(Tape(trace, torch.float64, "cpu"), built, watch, 0))
    return stack, Session(trace, built, watch, CPU, Budget(1e6, 0, "cpu"))


def stacked(target: str, **settings: Any) -> tuple[Stack, torch.Tensor, str]:
    stack, _ = session(target, **settings)
    with torch.no_grad():
        return (stack, *stack.start(True))


def laws(target: str, **settings: Any) -> dict[str, dict[str, Any]]:
    """The experiment `depth` alone."""
    built, plan, watch = planned(target, **settings)
    return {e["what"]: e for e in list(experiments(only(plan, "depth"), built, watch, CPU))[1:] if e["name"] == "depth"}


def alone(stack: Stack, depths: list[int]) -> Depths:
    return Depths(dict.fromkeys(depths, stack), "")


EMPTY = Experiment("depth", "", "observed")


@pytest.mark.parametrize(
    ("values", "exponent", "name"),
    [
        ({n: [n**2.0] * 2 for n in (4, 8, 16, 32, 64)}, 2.0, "power law"),
        ({n: [math.exp(0.3 * n)] * 2 for n in (4, 8, 16, 32, 64)}, None, "exponential"),
        ({n: [n**0.5] * 2 for n in (4, 8, 16, 32, 64)}, 0.5, "unknown"),
        ({4: [1.0, 30.0], 8: [30.0, 1.0], 16: [2.0, 40.0], 64: [40.0, 90.0]}, None, "unknown"),
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
    found = laws("examples/output_norm_qk.py")
    assert found["rms of the stream, exponent of depth"]["measured"] == pytest.approx(0.5, abs=0.03)
    assert found["gradient of the last block, exponent of depth"]["measured"] == pytest.approx(-0.5, abs=0.03)
    found = laws("examples/post.py")
    assert abs(found["rms of the stream, exponent of depth"]["measured"]) < 1e-3
    assert abs(found["gradient of the last block, exponent of depth"]["measured"]) < 0.1


def test_the_gradient_on_one_way_back_is_that_of_the_whole_network() -> None:
    """Depth 5, by hand: all blocks in one graph, one backward pass."""
    stack, x, _ = stacked("examples/pre.py")
    sample = measure(alone(stack, [4, 5]), {4: x, 5: x})
    weights = [stack.drawn(layer)[stack.weight].clone().requires_grad_(True) for layer in range(1, 6)]
    state = x
    for layer, w in enumerate(weights, 1):
        state = stack.run(state, {**stack.drawn(layer), stack.weight: w})[stack.plan.exit]
    out = stack.finish(state)
    g = torch.randn(out.shape, generator=stack.material.generator(stack.plan.entry, 900), dtype=torch.float64)
    first, last = torch.autograd.grad((out * g).sum(), (weights[0], weights[-1]))
    assert sample.last[5][0] == pytest.approx(float(last.norm()), rel=1e-9)
    assert sample.ratio[5][0] == pytest.approx(float(first.norm() / last.norm()), rel=1e-9)
    assert sample.rms[5][0] == pytest.approx(float(state.detach().square().mean().sqrt()), rel=1e-12)


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
    wrong = replace(stack.plan, ratio=100.0, gap=1e-3)
    said = {e.what: e for e in depth(alone(stack, [4, 6]), {4: x, 6: x}, words, wrong)}
    assert said["first over last gradient, 6 blocks"].outcome == "refuted"
    assert said["1 − cosine of two tokens, 6 blocks"].outcome == "refuted"
    small = x.clone()
    small[:, 0] *= 0.1
    unlike = {e.what: e for e in depth(alone(stack, [4, 6]), {4: small, 6: small}, words, wrong)}["first over last gradient, 6 blocks"]
    assert unlike.outcome == "observed" and "alike" in unlike.reason


@pytest.mark.parametrize(("begun", "outcome"), [(1.0, "refuted"), (0.5, "observed")])
def test_a_cosine_is_compared_where_tokens_arrive_as_the_recursion_takes_them_to_be(begun: float, outcome: str) -> None:
    stack, x, words = stacked("examples/deepnorm.py")
    wrong = replace(stack.plan, depth=6, gap=1e-3, begun=begun)
    said = {e.what: e for e in depth(alone(stack, [4, 6]), {4: x, 6: x}, words, wrong)}
    found = said["1 − cosine of two tokens, 6 blocks"]
    assert found.outcome == outcome and (outcome == "refuted" or "arrive" in found.reason)


def test_gap_is_one_minus_the_mean_cosine_over_pairs() -> None:
    x = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pairs = [1 - torch.cosine_similarity(s[i], s[j], 0) for s in x for i in range(5) for j in range(i)]
    assert gap(x) == pytest.approx(float(sum(pairs)) / len(pairs), rel=1e-12)
    near = torch.ones(1, 2, 2, dtype=torch.float64) + torch.tensor([[[0.0, 0.0], [1e-9, 0.0]]], dtype=torch.float64)
    assert gap(near) == pytest.approx(1.25e-19, rel=1e-6)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("examples/pre.py", "n_layer"),
        ("examples/deepnorm.py", "layers"),
        ("examples/peri.py", "does not depend on the depth"),
        ("examples/table/designs.py::deepnorm", "in the 24 blocks that it was built with"),
    ],
)
def test_the_setting_that_is_the_depth_is_found_by_trial(target: str, words: str) -> None:
    stack, given = session(target)
    found = of_depths(stack, given, [4, 8])
    assert words in found.words and found.follow == ("each depth" in found.words)


def test_models_of_other_depths_take_the_inputs_that_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are searched for once: on others the program would be another one."""
    stack, given = session("examples/pre.py")

    def never(*_: object) -> None:
        raise AssertionError("inputs are looked for again")

    monkeypatch.setattr("screen.capture.build.build.infer", never)
    assert of_depths(stack, given, [4, 8]).follow


SMALL = {"n_embd": 48, "n_layer": 12, "n_head": 12, "vocab_size": 64, "n_positions": 32}


def test_a_setting_that_is_as_large_as_the_depth_but_is_not_the_depth() -> None:
    """GPT-2 with as many heads as blocks: another number of heads builds too, and is another program."""
    stack, given = session("hf:gpt2", **SMALL)
    assert given.built.integers["n_head"] == given.built.integers["n_layer"] == 12
    found = of_depths(stack, replace(given, built=replace(given.built, integers={"n_head": 12})), [4, 24])
    assert not found.follow and "built with" in found.words
    assert "n_layer" in of_depths(stack, given, [4, 24]).words


def test_gradients_follow_the_start_that_belongs_to_each_depth() -> None:
    """GPT-2's 1/√(2N) leaves the last block's gradient alone; DeepNorm's α and β make it fall with N^(−1/2) (review, 33)."""
    found = laws("hf:gpt2", **SMALL)
    assert abs(found["gradient of the last block, exponent of depth"]["measured"]) < 0.05
    assert found["growth of rms from block 4 to the last, 12 blocks"]["outcome"] == "confirmed"
    found = laws("examples/deepnorm.py")
    assert found["gradient of the last block, exponent of depth"]["measured"] == pytest.approx(-0.5, abs=0.03)
    assert abs(found["rms of the stream, exponent of depth"]["measured"]) < 1e-3
    assert found["1 − cosine of two tokens, 18 blocks"]["outcome"] == "confirmed"


def test_weights_that_serve_at_every_depth_are_not_stacked() -> None:
    sizes = {"hidden_size": 48, "embedding_size": 24, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 64, "num_hidden_layers": 5}
    found = laws("hf:albert", **sizes)
    assert [e["reason"] for e in found.values()] == ["the same weights serve at every depth, and there are no fresh ones to stack"]


def test_a_multiplier_of_the_stream_stands_inside_of_the_block() -> None:
    """DeepNorm reads x and adds α·x: the block begins at x, and is a map of x alone."""
    stack, x, _ = stacked("examples/deepnorm.py")
    out = stack.run(x, stack.drawn(1))[stack.plan.exit]
    other = stack.run(x.roll(1, -1), stack.drawn(1))[stack.plan.exit]
    assert float(out.square().mean()) == pytest.approx(1.0, abs=1e-3) and not torch.allclose(out, other)
    assert all(c < stack.plan.entry for c in stack.plan.cuts)
