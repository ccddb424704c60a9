"""The token covariance recursion against random networks: whole stacks, and every part of it against what it is the mean of."""

from __future__ import annotations

import math
import statistics
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from screen.calculi.meanfield.activation_kernels import FUNCTIONS, Kernel, kernel
from screen.calculi.meanfield.attention import Softmax, rows
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.result import read
from tests.calculi.meanfield.covariance_stacks import DESIGNS, geometric, number, predicted, sampled, stack_of
from tests.calculi.meanfield.simulation import Design


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", DESIGNS)
def test_a_random_network_is_as_the_recursion_says(name: str) -> None:
    """rms within 10 %, cosine within 0.05 (causal 0.08: tokens are not exchangeable there), gradient ratio within a factor 1.6."""
    design, depth = DESIGNS[name]
    said, seen = predicted(design, depth), sampled(design, depth)
    for layer in (depth // 2, depth):
        assert said.rms[layer - 1] == pytest.approx(statistics.fmean(s.rms[layer - 1] for s in seen), rel=0.1)
    cosine = statistics.fmean(s.cosine[-1] for s in seen)
    assert number(said.cosine) == pytest.approx(cosine, abs=0.08 if design.causal else 0.05)
    ratio = geometric([s.ratio for s in seen])
    assert 1 / 1.6 < number(said.gradient_ratio) / ratio < 1.6


def test_what_blocks_read_is_the_geometric_mean_of_the_states_before_them() -> None:
    few, more = predicted(Design(), 6), predicted(Design(), 7)
    assert more.rms_read**7 / few.rms_read**6 == pytest.approx(few.rms[-1])
    assert few.rms_read < statistics.fmean(few.rms) < few.rms[-1]


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"exp"}))
@pytest.mark.parametrize(("power", "cosine"), [(1.0, 0.0), (0.3, 0.6), (4.0, 0.97)])
def test_a_kernel_is_the_mean_over_gaussian_pairs(name: str, power: float, cosine: float) -> None:
    draw = np.random.default_rng(0)
    one, two = draw.standard_normal((2, 1_000_000))
    x = math.sqrt(power) * one
    y = math.sqrt(power) * (cosine * one + math.sqrt(1 - cosine**2) * two)
    function = FUNCTIONS[name]
    a, b = function(x), function(y)
    found = kernel(name).forward(Moments(power, power * (1 - cosine)))
    size = float((a * a).mean())
    assert found.power == pytest.approx(size, rel=0.01)
    assert found.gap == pytest.approx(float(((a - b) ** 2).mean() / 2), abs=0.01 * size)
    assert found.mean == pytest.approx(float(a.mean()), abs=0.01 * math.sqrt(size))
    slopes = [(function(t + 1e-5) - function(t - 1e-5)) / 2e-5 for t in (x, y)]
    back = kernel(name).backward(Moments(power, power * (1 - cosine)), Gradient(1.0, 1.0))
    assert back.power == pytest.approx(float((slopes[0] ** 2).mean()), rel=0.05)
    assert back.shared == pytest.approx(float((slopes[0] * slopes[1]).mean()), abs=0.05 * back.power)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_kernel_of_nothing_is_the_function_at_zero(name: str) -> None:
    at = [float(FUNCTIONS[name](np.array([t]))[0]) for t in (-1e-6, 0.0, 1e-6)]
    assert kernel(name).forward(Moments(0.0, 0.0)) == Moments(at[1] ** 2, 0.0, at[1])
    slope = (at[2] - at[0]) / 2e-6
    assert kernel(name).backward(Moments(0.0, 0.0), Gradient(1.0, 0.0)).power == pytest.approx(slope**2, rel=0.01, abs=1e-4)


def test_the_closed_form_of_relu_is_its_series() -> None:
    series = Kernel("series", FUNCTIONS["relu"], {})
    for gap in (1.0, 0.5, 0.1, 1e-3, 1e-7):
        one, two = kernel("relu").forward(Moments(1.0, gap)), series.forward(Moments(1.0, gap))
        assert one.gap == pytest.approx(two.gap, rel=0.02)


def test_a_gap_far_below_rounding_keeps_its_digits() -> None:
    """1 − cos = 1e-14: cos itself has two digits left there."""
    for name in ("relu", "gelu", "tanh"):
        small, smaller = (kernel(name).forward(Moments(1.0, gap)).gap for gap in (1e-13, 1e-14))
        assert small / smaller == pytest.approx(10.0, rel=1e-4)


def _pair(draw: torch.Generator, moments: Moments, heads: int, tokens: int, width: int) -> Tensor:
    """Values with the given power and gap."""
    own, common = (torch.randn(heads, n, width, generator=draw, dtype=torch.float64) for n in (tokens, 1))
    return own * math.sqrt(moments.gap) + common * math.sqrt(moments.power - moments.gap)


@pytest.mark.parametrize("power", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_and_its_three_gradients(power: float, causal: bool) -> None:
    """Moments of A·v and of the gradients at q, k, v against autograd over many heads."""
    heads, tokens, width = 384, 24, 32
    draw = torch.Generator().manual_seed(1)
    moments = [Moments(power, 0.7 * power), Moments(1.0, 0.8), Moments(2.0, 1.5)]
    q, k, v = (_pair(draw, m, heads, tokens, width).requires_grad_() for m in moments)
    logits = q @ k.transpose(1, 2) / math.sqrt(width)
    if causal:
        logits = logits.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), -math.inf)
    out = logits.softmax(-1) @ v
    upstream = Gradient(1.0, 0.3)
    (out * _pair(draw, Moments(1.0, 0.7), heads, tokens, width)).sum().backward()  # type: ignore[no-untyped-call]
    core = Softmax(width, width**-0.5, causal, tokens, heads)
    said = core.forward(moments[0], moments[1], moments[2])
    assert said.power == pytest.approx(float(out.detach().square().mean()), rel=0.06)
    assert said.gap == pytest.approx(_gap(out.detach()), rel=0.12, abs=0.02)
    gradients = core.backward(moments[0], moments[1], moments[2], upstream)
    for value, gradient in zip((q, k, v), gradients, strict=True):
        assert value.grad is not None
        assert gradient.power == pytest.approx(float(value.grad.square().mean()), rel=0.6 if causal else 0.2)


def _gap(values: Tensor) -> float:
    """δ, over all pairs of different tokens."""
    n = values.shape[1]
    shared = (values.sum(1).square() - values.square().sum(1)).mean() / (n * (n - 1))
    return float(values.square().mean() - shared)


def test_the_rows_of_uniform_attention() -> None:
    pick, jump, meet = rows(50, False).at(0.0, 0.4)
    assert (pick, meet) == pytest.approx((0.02, 0.02))
    assert jump == pytest.approx(0.02 - 2 * 0.02**2 + 0.02**2)
    steep, small, _ = rows(50, False).at(1e4, 0.4)
    assert steep > 0.998
    assert small < 1e-3


def test_a_hundred_layers_take_few_calls() -> None:
    """Counted, not timed: about 1,800 calls for a layer, whatever its width, and what a stack takes once."""

    def calls(layers: int, design: Design) -> int:
        stack, seen = stack_of(design, layers), [0]

        def count(_frame: object, event: str, _arg: object) -> None:
            seen[0] += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            read(stack, {}, ())
        finally:
            sys.setprofile(None)
        return seen[0]

    for design in (Design(a=True), Design(b=True)):
        calls(2, design)  # what is found once is kept
        few, many = calls(10, design), calls(100, design)
        assert 0 < few < many <= 220_000
