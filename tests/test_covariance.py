"""The token covariance recursion against random networks: hand-made stacks, then traced models at their recorded initialisation."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from screen.facts.nouns import Unknown
from screen.facts.recursion import recursion_of
from screen.facts.recursion.attention import Softmax, rows
from screen.facts.recursion.kernels import FUNCTIONS, Kernel, kernel
from screen.facts.recursion.laws import CROSS_ENTROPY, collapse_factor, deepnorm_number, last_map_gradient, lemma_two
from screen.facts.recursion.moments import Gradient, Moments
from screen.facts.recursion.result import Recursion, read
from screen.facts.recursion.stack import Add, Inlet, Stack, backward, forward
from screen.facts.recursion.steps import Attend, Entrywise, Linear, Normalise, Product, Program, Step
from tests.covariance_models import MODELS, traced, trained_run
from tests.simulation import Design, Sample, simulate

TOKENS = 32
NORM = Normalise(0, 0, True, 1e-5, 1.0)


# -- hand-made stacks: the same designs as steps ---------------------------------------------------------------------------------------


class Draft:
    """Steps with slots that count themselves."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.size = 1

    def slot(self) -> int:
        self.size += 1
        return self.size - 1

    def norm(self, source: int) -> int:
        self.steps.append(Normalise(source, slot := self.slot(), True, 1e-5, 1.0))
        return slot

    def linear(self, source: int, gain: float, ratio: float = 1.0) -> int:
        self.steps.append(Linear(source, slot := self.slot(), gain, gain * ratio, 0.0, ()))
        return slot

    def program(self, output: int) -> Program:
        return Program(tuple(self.steps), self.size, output)


def _attention(design: Design, width: int, heads: int, tokens: int) -> Program:
    draft = Draft()
    x = draft.norm(0) if design.a else 0
    q, k, v = draft.linear(x, design.qk), draft.linear(x, design.qk), draft.linear(x, design.v)
    if design.qk_norm:
        q, k = draft.norm(q), draft.norm(k)
    scale = 0.0 if design.uniform else (width // heads) ** -0.5
    draft.steps.append(Attend(q, k, v, o := draft.slot(), Softmax(width // heads, scale, design.causal, tokens, heads)))
    out = draft.linear(o, design.o)
    return draft.program(draft.norm(out) if design.b else out)


def _feed(design: Design) -> Program:
    draft, ratio = Draft(), float(design.ratio)
    x = draft.norm(0) if design.a else 0
    draft.steps.append(Entrywise(draft.linear(x, design.w1, ratio), hidden := draft.slot(), kernel(design.act)))
    if design.gated:
        draft.steps.append(Product(hidden, draft.linear(x, design.w1, ratio), both := draft.slot()))
        hidden = both
    out = draft.linear(hidden, design.w2, 1 / ratio)
    return draft.program(draft.norm(out) if design.b else out)


def stack_of(design: Design, depth: int, *, width: int = 128, tokens: int = TOKENS, heads: int = 4) -> Stack:
    close = NORM if design.c else None
    adds = [Add((Inlet("attention", _attention(design, width, heads, tokens)),), design.alpha**2, close)] if design.attention else []
    adds += [Add((Inlet("ffn", _feed(design)),), design.alpha**2, close)] if design.feed else []
    return Stack(Moments(1.0, 1.0), (tuple(adds),) * depth, NORM if design.final else None, design.tied, tokens)


def predicted(design: Design, depth: int, **sizes: int) -> Recursion:
    return read(stack_of(design, depth, **sizes), {}, ())


def sampled(design: Design, depth: int, seeds: int = 2, *, width: int = 128, tokens: int = TOKENS) -> list[Sample]:
    return [simulate(design, depth, seed=seed, width=width, tokens=tokens) for seed in range(seeds)]


def number(value: float | Unknown | str) -> float:
    assert isinstance(value, float), value
    return value


def geometric(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def deepnorm(depth: int) -> Design:
    beta = (8 * depth) ** -0.5
    return Design(c=True, alpha=(2 * depth) ** 0.25, v=beta, o=beta, w1=beta, w2=beta)


SMALL = {"v": 0.554**2, "o": 0.554**2, "w1": 0.554**2, "w2": 0.554**2, "qk": 0.554**2}
DESIGNS = {
    "pre": (Design(a=True), 24),
    "pre relu": (Design(a=True, act="relu"), 24),
    "pre silu": (Design(a=True, act="silu"), 24),
    "pre tanh": (Design(a=True, act="tanh"), 24),
    "pre gated": (Design(a=True, act="silu", gated=True), 24),
    "pre causal": (Design(a=True, causal=True), 24),
    "peri": (Design(a=True, b=True), 24),
    "peri gated": (Design(a=True, b=True, act="silu", gated=True), 24),
    "B and QK": (Design(b=True, qk_norm=True), 24),
    "B, small Q and K": (Design(b=True, qk=0.0625), 24),
    "post": (Design(c=True), 6),
    "post relu": (Design(c=True, act="relu"), 6),
    "post at 0.554": (Design(c=True, **SMALL), 24),  # type: ignore[arg-type]
    "A and C": (Design(a=True, c=True), 6),
    "DeepNorm": (deepnorm(24), 24),
    "GPT-2 init": (Design(a=True, o=1 / 48, w2=1 / 48), 24),
}


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


# -- the parts, one by one -------------------------------------------------------------------------------------------------------------


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


# -- laws of depth (review, 29, 31, 33, 36; theorems T3, T4) ----------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.25, 0.554, 0.8, 1.0])
def test_the_gradient_ratio_of_b_alone_depends_on_the_init_of_q_and_k(factor: float) -> None:
    """Depth 64: 6 to 1e5; within 0.8 in log10 of three random networks each."""
    design = Design(b=True, qk=factor**2)
    seen = geometric([s.ratio for s in sampled(design, 64, seeds=3)])
    said = predicted(design, 64)
    assert math.log10(number(said.gradient_ratio)) == pytest.approx(math.log10(seen), abs=0.8)
    assert said.ratio_law == ("exponential" if factor >= 0.8 else "polynomial")
    assert said.predicted_ratio == pytest.approx(6.6, abs=0.3)
    assert number(said.ratio_without_logits) == pytest.approx(6.4, abs=0.6)


def test_the_ratio_of_b_alone_rises_with_q_and_k_and_falls_back_with_qk_norm() -> None:
    ratios = [number(predicted(Design(b=True, qk=f**2), 64).gradient_ratio) for f in (0.1, 0.25, 0.5, 0.64, 0.8, 1.0, 1.28)]
    assert ratios == sorted(ratios)
    assert ratios[0] < 8
    assert ratios[-1] > 1e6
    assert number(predicted(Design(b=True, qk_norm=True), 64).gradient_ratio) < 8


@pytest.mark.parametrize(
    ("design", "depth", "low", "high"),
    [
        (Design(a=True), 64, 5.9 / 1.6, 5.9 * 1.6),
        (Design(a=True, b=True), 64, 6.4 / 1.6, 6.4 * 1.6),
        (Design(a=True, o=1 / 128, w2=1 / 128), 64, 1.15, 1.3),
        (deepnorm(64), 64, 0.98, 1.03),
    ],
    ids=["pre", "peri", "GPT-2 init", "DeepNorm"],
)
def test_the_gradient_ratios_of_the_review(design: Design, depth: int, low: float, high: float) -> None:
    """5.9, 6.4, 1.23 and 1.01 at depth 64."""
    said = predicted(design, depth)
    assert low < number(said.gradient_ratio) < high
    assert said.ratio_law == "polynomial"


def test_a_gated_branch_breaks_the_law_of_the_stream_ratio() -> None:
    """T3 needs branches of degree one. A gated FFN has degree two: its Jacobian carries twice the mean square that its output has, and
    the ratio of gradients goes well above rms_N/rms_1 without any fault of the logits: 12 against 6 at depth 64, in random networks too."""
    design = Design(a=True, b=True, act="silu", gated=True)
    said, seen = predicted(design, 64), geometric([s.ratio for s in sampled(design, 64)])
    assert number(said.gradient_ratio) == pytest.approx(seen, rel=0.35)
    assert number(said.gradient_ratio) > 1.5 * said.predicted_ratio
    assert number(said.gradient_ratio) < 1.2 * number(said.ratio_without_logits)
    assert said.ratio_law == "polynomial"


DEPTHS = (4, 8, 16, 32, 64)


@pytest.mark.parametrize(("depth", "rms"), [(4, 1.07), (8, 1.08), (16, 1.05), (32, 1.05), (64, 1.05)])
def test_a_stream_without_norms_stays_small_when_its_init_falls_with_depth(depth: int, rms: float) -> None:
    """0.67·N^(−1/4) on V, O and the FFN (review, 29)."""
    gain = 0.67**2 * depth**-0.5
    assert predicted(Design(v=gain, o=gain, w1=gain, w2=gain, final=False), depth).rms[-1] == pytest.approx(rms, abs=0.05)


@pytest.mark.parametrize(("depth", "rms"), [(4, 6), (8, 79), (16, 9e3), (32, 4e7), (64, 1e15)])
def test_a_stream_without_norms_grows_exponentially_at_one_over_fan_in(depth: int, rms: float) -> None:
    """The review's own figures within a factor 5 over fifteen decades; a network of ours within 20 % below."""
    said = predicted(Design(final=False), depth)
    assert abs(math.log10(said.rms[-1] / rms)) < 0.7
    if depth <= 16:
        assert said.rms[-1] == pytest.approx(statistics.fmean(s.rms[-1] for s in sampled(Design(final=False), depth)), rel=0.2)


def test_a_stream_that_leaves_the_range_of_floats_says_so() -> None:
    said = predicted(Design(), 2000)
    assert said.rms[-1] == math.inf
    assert isinstance(said.cosine, Unknown)
    assert isinstance(said.gradient_ratio, Unknown)


@pytest.mark.parametrize("depth", [6, 12, 24])
def test_rank_collapse_of_post(depth: int) -> None:
    """log10(1 − cos) within 0.3 of random networks, down to 1e-6 at 24 layers; at half that init most of it is left."""
    seen = statistics.fmean(math.log10(1 - s.cosine[-1]) for s in sampled(Design(c=True), depth))
    assert math.log10(number(predicted(Design(c=True), depth).one_minus_cos)) == pytest.approx(seen, abs=0.3)
    assert number(predicted(Design(c=True, **SMALL), 24).one_minus_cos) == pytest.approx(0.5, abs=0.2)  # type: ignore[arg-type]


@pytest.mark.parametrize("gain", [0.3, 1.0])
def test_one_post_block_near_collapse_multiplies_one_minus_cos_by_its_v_o_gain(gain: float) -> None:
    """1/(1+v), the FFN being neutral (review, T4)."""
    stack = stack_of(Design(c=True, act="relu", qk=0.0, v=gain, o=1.0), 1)
    start = Moments(1.0, 1e-6)
    found = forward(Stack(start, stack.blocks, None, False, TOKENS)).states[-1]
    assert found.gap / found.power / start.gap == pytest.approx(collapse_factor(gain), rel=0.01)


def _last(design: Design, depth: int) -> float:
    stack = stack_of(design, depth)
    return math.sqrt(backward(stack, forward(stack), depth, depth - 1).weights[-1])


def _exponent(values: list[float]) -> float:
    return float(np.polyfit(np.log(DEPTHS), np.log(values), 1)[0])


LAST: dict[str, tuple[Callable[[int], Design], float]] = {
    "pre": (lambda n: Design(a=True), -0.45),
    "peri": (lambda n: Design(a=True, b=True), -0.43),
    "B": (lambda n: Design(b=True, qk=0.06), -0.43),
    "post": (lambda n: Design(c=True), 0.08),
    "GPT-2 init": (lambda n: Design(a=True, o=1 / (2 * n), w2=1 / (2 * n)), 0.01),
    "DeepNorm": (deepnorm, -0.51),
}


@pytest.mark.parametrize("name", LAST)
def test_the_exponent_of_the_last_gradient(name: str) -> None:
    """Depths 4 to 64, with the init that belongs to each depth (review, 33)."""
    make, measured = LAST[name]
    said = _exponent([_last(make(n), n) for n in DEPTHS])
    assert said == pytest.approx(measured, abs=0.13)
    seen = _exponent([sampled(make(n), n, seeds=1, width=96, tokens=16)[0].gradients[-1] for n in DEPTHS])
    assert said == pytest.approx(seen, abs=0.12)


def test_without_a_final_norm_the_exponent_is_that_of_the_loss() -> None:
    """The gradient that enters the last state is the loss's own: 0 for a linear loss, and that of rms for half a square (+0.43)."""
    design = Design(a=True, final=False)
    assert _exponent([_last(design, n) for n in DEPTHS]) == pytest.approx(0.0, abs=1e-6)
    ends = {q: [simulate(design, n, width=96, tokens=16, quadratic=q).gradients[-1] for n in DEPTHS] for q in (False, True)}
    assert _exponent(ends[False]) == pytest.approx(0.0, abs=0.06)
    assert _exponent(ends[True]) == pytest.approx(_exponent([predicted(design, n).rms[-1] for n in DEPTHS]), abs=0.12)


def test_weights_that_serve_at_every_depth_add_sums_and_not_root_sums() -> None:
    design = Design(a=True, tied=True)
    said = predicted(design, 64)
    seen = simulate(design, 64)
    assert seen.rms[-1] < said.rms[-1] < 2 * seen.rms[-1]
    assert number(said.rms_exponent) == pytest.approx(1.05, abs=0.15)
    assert number(predicted(replace(design, tied=False), 64).rms_exponent) == pytest.approx(0.53, abs=0.05)
    assert isinstance(said.cosine, Unknown)
    assert isinstance(said.gradient_ratio, Unknown)


# -- the papers' own settings ----------------------------------------------------------------------------------------------------------

XAVIER = Design(a=True, act="relu", ratio=1, uniform=True)
"""X: W of d×d at Xavier's gain, uniform attention. Its attention has no output map; one at gain 1 leaves mean squares as they are."""


def test_lemma_two_of_x_with_its_exact_factor() -> None:
    """(1+l/2)d ≤ E‖x_l‖² ≤ (1+3l/2)d; what attention adds per layer is c + (1−c)/n, c the cosine of the tokens that it reads."""
    depth = 24
    said = predicted(XAVIER, depth)
    seen = sampled(XAVIER, depth, seeds=3, width=192)
    run = forward(stack_of(XAVIER, depth))
    size, state = 1.0, Moments(1.0, 1.0)
    for layer, after in enumerate(run.states, 1):
        low, high = lemma_two(layer)
        assert low < after.power < high
        size += state.cosine + (1 - state.cosine) / TOKENS + 0.5
        assert after.power == pytest.approx(size, rel=1e-3)
        state = after
    assert said.rms[-1] ** 2 == pytest.approx(statistics.fmean(s.rms[-1] ** 2 for s in seen), rel=0.1)


def test_the_decay_that_x_names_for_post_is_not_there() -> None:
    """(2/3)^((L−l)/2) would be 1.22 per layer; the recursion and networks at X's own init have 1.00 to 1.03."""
    design, depth = replace(XAVIER, a=False, c=True), 24
    said = number(predicted(design, depth).gradient_ratio) ** (1 / (depth - 1))
    seen = geometric([s.ratio for s in sampled(design, depth, seeds=3)]) ** (1 / (depth - 1))
    assert said == pytest.approx(1.0, abs=0.03)
    assert seen == pytest.approx(1.0, abs=0.05)


def test_deepnorm_constants_make_its_number_one() -> None:
    n = 18
    beta, alpha = (8 * n) ** -0.25, (2 * n) ** 0.25
    assert deepnorm_number(n, beta**2, beta**2, alpha) == pytest.approx(1.0)


def _p_gradient(hidden: Tensor, stream: Tensor, w2: Tensor, peri: bool, final: bool) -> tuple[float, float]:
    """(‖∂L/∂W2‖, bound) of proposition 3.1 for one token and a softmax cross-entropy on the output itself."""
    w = w2.clone().requires_grad_()
    a = w @ hidden
    sigma = {"branch": float((a.detach().square().mean() + 1e-5).sqrt())}
    o = stream + (a / (a.square().mean() + 1e-5).sqrt() if peri else a)
    sigma["final"] = float((o.detach().square().mean() + 1e-5).sqrt())
    out = o / (o.square().mean() + 1e-5).sqrt() if final else o
    torch.nn.functional.cross_entropy(out[None], torch.tensor([0])).backward()  # type: ignore[no-untyped-call]
    assert w.grad is not None
    branch, last = ((1.0, sigma[n]) if on else None for n, on in (("branch", peri), ("final", final)))
    return float(w.grad.norm()), last_map_gradient(CROSS_ENTROPY, float(hidden.norm()), branch=branch, final=last)


@pytest.mark.parametrize("peri", [False, True])
@pytest.mark.parametrize("final", [False, True])
def test_proposition_31_of_p_with_and_without_the_final_norm(peri: bool, final: bool) -> None:
    """The bound is never broken, is reached within a factor two, and only pre without a final norm grows with the hidden activation."""
    draw = torch.Generator().manual_seed(0)
    best, grown = 0.0, []
    for _ in range(40):
        hidden = torch.randn(64, generator=draw, dtype=torch.float64).relu()
        stream, w2 = (torch.randn(*s, generator=draw, dtype=torch.float64) / 8 for s in ((16,), (16, 64)))
        found = [_p_gradient(hidden * c, stream, w2, peri, final) for c in (1.0, 1e3, 1e6)]
        assert all(g <= bound * (1 + 1e-9) for g, bound in found)
        best = max(best, *(g / bound for g, bound in found))
        grown.append(found[2][1] / found[1][1])
    assert best > 0.5
    assert max(grown) < 1.01 if peri or final else min(grown) > 999


def test_a_small_output_map_under_b_raises_the_gradient_until_epsilon() -> None:
    """1/c until σ(a) ≈ √ε, then γ/√ε: × 316 at the most for ε = 1e-5 and σ = 1."""
    bounds = [last_map_gradient(1.0, 1.0, branch=(1.0, math.sqrt(c**2 + 1e-5))) for c in (1.0, 0.1, 0.01, 1e-4, 1e-8)]
    assert bounds[1] / bounds[0] == pytest.approx(10, rel=0.01)
    assert bounds[-1] == pytest.approx(316.2, rel=0.001)


# -- traced models at their recorded initialisation -------------------------------------------------------------------------------------


def said_of(source: str, **settings: int) -> Recursion:
    facts = traced(source)
    found = recursion_of(facts.streams[0], facts.graph, **settings)
    assert isinstance(found, Recursion), found
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_traced_model_starts_as_its_facts_say(name: str) -> None:
    """The graph and the record of its initialisers alone, on meta, against the model itself with real weights."""
    said = said_of(MODELS[name], tokens=32)
    seen = [trained_run(MODELS[name], seed) for seed in range(2)]
    for layer in range(said.depth):
        assert said.rms[layer] == pytest.approx(statistics.fmean(s.rms[layer] for s in seen), rel=0.12)
    assert number(said.cosine) == pytest.approx(statistics.fmean(s.cosine[-1] for s in seen), abs=0.06)
    assert number(said.gradient_ratio) == pytest.approx(geometric([s.ratio for s in seen]), rel=0.35)


def test_a_block_is_repeated_as_often_as_one_asks() -> None:
    short, long = said_of(MODELS["peri"]), said_of(MODELS["peri"], depth=48)
    assert (short.depth, long.depth) == (12, 48)
    assert long.rms[:12] == short.rms
    assert number(long.rms_exponent) == pytest.approx(0.5, abs=0.05)


def test_the_gains_are_those_of_the_record() -> None:
    said = said_of(MODELS["llama"])
    assert said.gains["attention"] == pytest.approx((math.sqrt(0.5), 1.0))
    assert said_of(MODELS["alpha"]).deepnorm_number == pytest.approx(12 * (4 * 128 * 0.04**2 + 0) / 2.2**2 * (1 + 2) / 2, rel=0.01)


CANNOT = {
    "`cumsum` has no row": ("self.attention(self.one(x))", "self.attention(self.one(x)).cumsum(1)"),
    "a weight acts over tokens": ("self.mlp(self.two(x))", "self.mlp(self.two(x).transpose(1, 2)[..., :1].expand(-1, -1, D)).transpose(1, 2)[:, :1]"),
    "one weight is used twice": ("self.mlp(self.two(x))", "self.mlp[0](self.mlp[2](self.mlp[0](self.two(x))))[..., :D]"),
    "no initialiser of": ("self.mlp(self.two(x))", "self.gamma * self.mlp(self.two(x))"),
    "dependent values": ("self.mlp(self.two(x))", "self.mlp(self.two(x) * self.three(x))"),
    "earlier state": (
        "x = x + self.attention(self.one(x))",
        "y = x; x = x + self.attention(self.one(x)); x = x + self.extra(self.three(x)); x = x + self.four(self.mlp(self.two(y)))",
    ),
    "the forward failed": ("self.mlp(self.two(x))", "self.nowhere(self.two(x))"),
    "added to it again": ("x = x + self.mlp(self.two(x))", "x = x + self.mlp(self.two(x)); x = x + y"),
    "different initialisers": ("self.mlp(self.two(x))", "self.mlp(self.two(x)) "),
}


@pytest.mark.parametrize("reason", CANNOT)
def test_what_cannot_be_told_is_said_with_its_reason(reason: str) -> None:
    old, new = CANNOT[reason]
    source = MODELS["pre"].replace(old, new.replace("; ", "\n        "))
    if reason == "added to it again":
        source = source.replace("def forward(self, x):\n        x = x + self", "def forward(self, x):\n        y = x\n        x = x + self")
    source = source.replace("self.one, ", "self.gamma = nn.Parameter(torch.linspace(0, 1, D)); self.one, ")
    if reason == "different initialisers":
        source = source.replace("self.apply(self._init)", "self.apply(self._init); nn.init.normal_(self.blocks[3].mlp[2].weight, 0, 0.01)")
    facts = traced(source)
    found = recursion_of(facts.streams[0], facts.graph)
    assert isinstance(found, Unknown), found
    assert reason in found.reason


def test_an_activation_written_out_is_the_one_that_it_is() -> None:
    """GPT-2's GELU: `pow`, `mul`, `add` and `tanh` of one value, a multiple of it among them."""
    plain = MODELS["pre"].replace("nn.GELU()", 'nn.GELU(approximate="tanh")')
    written = plain.replace('nn.GELU(approximate="tanh")', "New()").replace("class MLP", NEW + "\n\nclass MLP", 1)
    one, two = said_of(plain), said_of(written)
    assert two.rms == pytest.approx(one.rms, rel=1e-9)
    assert two.gradient_ratio == pytest.approx(one.gradient_ratio, rel=1e-9)
    assert one.rms != pytest.approx(said_of(MODELS["pre"].replace("nn.GELU()", "nn.Tanh()")).rms, rel=0.01)


NEW = """class New(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))"""


def test_two_angle_tables_make_a_rotation_only_when_they_are_of_one_angle() -> None:
    facts = traced(MODELS["llama"].replace("angles), -1).sin()", "2 * angles), -1).sin()"))
    found = recursion_of(facts.streams[0], facts.graph)
    assert isinstance(found, Unknown)
    assert "rotation" in found.reason


def test_a_cap_on_the_logits_quiets_them() -> None:
    """c·tanh(u/c): far above the logits it changes nothing, below them it takes the gradient through them away."""
    product = "q @ k.transpose(-2, -1) * 0.5"
    loud = MODELS["llama"].replace("q @ k.transpose(-2, -1) / math.sqrt(D // H)", product)
    far, near = (said_of(loud.replace(f"({product})", f"({c} * torch.tanh({product} / {c}))")) for c in (1e4, 0.3))
    assert far.gradient_ratio == pytest.approx(number(said_of(loud).gradient_ratio), rel=0.01)
    assert number(near.gradient_ratio) < 0.8 * number(far.gradient_ratio)


def test_a_law_that_was_given_to_some_entries_alone_is_not_the_law_of_all() -> None:
    """The padding row of a table is left out; anything else is not known."""
    table = MODELS["pre"].replace("nn.Embedding(VOCAB, D)", "nn.Embedding(VOCAB, D, padding_idx=0)")
    assert said_of(table).rms == said_of(MODELS["pre"]).rms
    partly = "self.apply(self._init); [nn.init.zeros_(b.mlp[2].weight[:5]) for b in self.blocks]"
    facts = traced(MODELS["pre"].replace("self.apply(self._init)", partly))
    found = recursion_of(facts.streams[0], facts.graph)
    assert isinstance(found, Unknown)
    assert "some entries" in found.reason


def test_shared_blocks_are_found_without_their_names() -> None:
    source = MODELS["pre"].replace("(Block() for _ in range(DEPTH))", "([Block()] * DEPTH)")
    said = said_of(source)
    assert isinstance(said.cosine, Unknown)
    assert said.rms[-1] > 1.4 * said_of(MODELS["pre"]).rms[-1]


def test_a_hundred_layers_take_twenty_milliseconds() -> None:
    """Processor time of the fastest of five runs, with room for a slow machine."""
    for design in (Design(a=True), Design(b=True)):
        stack = stack_of(design, 100)
        times = []
        for _ in range(5):
            start = time.process_time()
            read(stack, {}, ())
            times.append(time.process_time() - start)
        assert min(times) < 0.04
