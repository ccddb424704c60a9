"""Relative positions, temperatures, stored tables and scales, weight norm: what the facts say of the start against real models at theirs."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
import torch
from torch import Tensor

from screen.calculi.meanfield import recursion_of
from screen.calculi.meanfield.attention import Softmax
from screen.calculi.meanfield.lower.context import MASKED
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.result import Recursion
from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.graph.target import parse
from screen.structure.types import Unknown
from tests.calculi.meanfield.covariance_logits import FOURIER, MASKS, MODELS, NO_SINKS, OVER_QUERIES
from tests.calculi.meanfield.covariance_models import traced, trained_run
from tests.calculi.meanfield.covariance_stacks import geometric, number
from tests.calculi.meanfield.simulation import mean_cosine
from tests.calculi.meanfield.test_covariance import _gap, _pair
from tests.calculi.meanfield.test_covariance_models import said_of
from tests.shared import ROOT

APART = 0.1
"""Of the cosine: networks of this width differ by 0.08 among themselves; near positions of a table are also more alike than distant ones, where the
recursion has one cosine for all pairs."""


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", MODELS)
def test_a_block_starts_as_its_facts_say(name: str) -> None:
    """rms within 12 %, the cosine between tokens within APART, first over last gradient within 1.35, of three networks."""
    said = said_of(MODELS[name], tokens=32)
    seen = [trained_run(MODELS[name], seed) for seed in range(3)]
    for layer in range(said.depth):
        assert said.rms[layer] == pytest.approx(statistics.fmean(s.rms[layer] for s in seen), rel=0.12)
    assert number(said.cosine) == pytest.approx(statistics.fmean(s.cosine[-1] for s in seen), abs=APART)
    assert number(said.gradient_ratio) == pytest.approx(geometric([s.ratio for s in seen]), rel=0.35)


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", NO_SINKS)
def test_what_is_no_sink_and_no_rotation_is_not_read_as_one(name: str) -> None:
    facts = traced(NO_SINKS[name])
    assert isinstance(recursion_of(facts.streams[0], facts.graph), Unknown)


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", OVER_QUERIES)
def test_shares_of_queries_are_not_read_as_those_of_keys(name: str) -> None:
    facts = traced(OVER_QUERIES[name])
    assert isinstance(recursion_of(facts.streams[0], facts.graph), Unknown)


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", MASKS)
def test_only_a_comparison_of_positions_hides_the_future(name: str) -> None:
    source, hides = MASKS[name]
    assert (MASKED in said_of(source).assumptions) is hides


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("power", [0.3, 1.0, 3.0])
def test_logits_of_relative_positions(power: float, repeats: int) -> None:
    """A·v and the gradient at the positions' queries against autograd, many heads: u_ij = τ(q_i·k_j + q_i·p_{i−j}), rows p independent."""
    heads, tokens, width = 384, 24, 32
    draw = torch.Generator().manual_seed(repeats)
    moments = [Moments(power, 0.7 * power), Moments(1.0, 0.8), Moments(2.0, 1.5)]
    q, k, v = (_pair(draw, m, heads, tokens, width).requires_grad_() for m in moments)
    places = repeats * torch.randn(heads, 2 * tokens - 1, width, generator=draw, dtype=torch.float64)
    other, order = q.detach().clone().requires_grad_(), torch.arange(tokens)
    logits = q @ k.transpose(1, 2) + torch.einsum("hid,hijd->hij", other, places[:, order[:, None] - order + tokens - 1])
    out = (logits / math.sqrt(width)).softmax(-1) @ v
    (out * _pair(draw, Moments(1.0, 0.7), heads, tokens, width)).sum().backward()  # type: ignore[no-untyped-call]
    core = Softmax(width, width**-0.5, False, tokens, heads)
    square = repeats**2  # τ²·d_h·δ_p
    said = core.forward(*moments, square * power)
    assert said.power == pytest.approx(float(out.detach().square().mean()), rel=0.06)
    assert said.gap == pytest.approx(_gap(out.detach()), rel=0.12, abs=0.02)
    steepness = core.steepness(*moments, square * power)
    assert square * steepness == pytest.approx(float(_grad(other).square().mean()), rel=0.25)
    gradients = core.backward(*moments, Gradient(1.0, 0.3), square * power)
    for value, gradient in zip((q, k, v), gradients, strict=True):
        assert gradient.power == pytest.approx(float(_grad(value).square().mean()), rel=0.25)


def _grad(value: Tensor) -> Tensor:
    assert value.grad is not None
    return value.grad


def test_sinusoids_make_tokens_more_alike() -> None:
    """The example of post-norm, whose first state is a scaled embedding and a stored table: 1 − cos after six blocks within a factor of two of four
    networks (without the table the recursion says 0.12)."""
    path = ROOT / "examples" / "post.py"
    [built] = build(parse(str(path)), set={}, inputs=(), depth=None)
    found = derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)).recursions[0]
    assert isinstance(found, Recursion)
    space: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), "post.py", "exec"), space)
    seen = []
    for seed in range(4):
        torch.manual_seed(seed)
        model, states = space["Encoder"]().eval(), list[Tensor]()
        model.layers[-1].register_forward_hook(lambda m, i, out, states=states: states.append(out))
        model(torch.randperm(200)[None, :64])
        seen.append(1 - mean_cosine(states[0][0].detach().double()))
    assert 0.5 < number(found.one_minus_cos) / geometric(seen) < 2


@pytest.mark.parametrize("name", ["post", "post, large maps"])
def test_fourier_mixing_keeps_tokens_apart_under_a_norm_on_the_stream(name: str) -> None:
    """1 − cos within 0.03 after every block's end, of three networks: what tokens have in common goes to one frequency. Large maps of the FFN
    make them alike by more in each block, and each transform undoes it."""
    said = said_of(FOURIER[name], tokens=32)
    seen = [trained_run(FOURIER[name], seed) for seed in range(3)]
    assert number(said.cosine) == pytest.approx(statistics.fmean(s.cosine[-1] for s in seen), abs=0.03)
    assert said.rms[-1] == pytest.approx(1.0, rel=0.02)
    assert isinstance(said.gradient_ratio, Unknown)


def test_fourier_mixing_on_a_plain_stream_is_not_told() -> None:
    facts = traced(FOURIER["pre"])
    found = recursion_of(facts.streams[0], facts.graph)
    assert isinstance(found, Unknown)
    assert "no norm on the stream follows" in found.reason
