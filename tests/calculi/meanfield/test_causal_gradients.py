"""Gradients under a causal mask, position by position: one attention in float64, and whole models against what they do at their own start."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from screen.calculi.meanfield import recursion_of
from screen.calculi.meanfield.attention import Softmax
from screen.calculi.meanfield.causal import even, states_of
from screen.calculi.meanfield.causal_gradients import Start, attended, backward
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.result import Recursion
from screen.calculi.meanfield.transfer import Attend
from tests.calculi.meanfield.covariance_models import FUSED, model_of, traced, trained_run
from tests.calculi.meanfield.covariance_stacks import Design, geometric, number, stack_of

TOKENS, WIDTH, DRAWS = 16, 32, 1500


@pytest.mark.parametrize(("spread", "cosine", "causal"), [(0.5, 0.0, True), (2.0, 0.0, True), (1.0, 0.9, True), (0.5, 0.0, False)])
def test_one_attention_gives_back_what_its_positions_receive(spread: float, cosine: float, causal: bool) -> None:
    """Gradients at queries, keys and values of every position, of gradients that have something in common, and grow along a causal sequence."""
    torch.manual_seed(0)

    def draw(common: float) -> torch.Tensor:
        each = torch.randn(DRAWS, TOKENS, WIDTH, dtype=torch.float64)
        return math.sqrt(common) * torch.randn(DRAWS, 1, WIDTH, dtype=torch.float64) + math.sqrt(1 - common) * each

    q, k, v = (draw(cosine).requires_grad_() for _ in range(3))
    scale = spread / math.sqrt(WIDTH * (1 - cosine))
    size = torch.linspace(0.5 if causal else 1.0, 2.0 if causal else 1.0, TOKENS, dtype=torch.float64)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    seen = torch.autograd.grad(out, (q, k, v), draw(0.3) * size[:, None])
    given = torch.outer(size, size).numpy() * (0.3 + 0.7 * np.eye(TOKENS))
    state, step = even(Moments(1.0, 1.0 - cosine), TOKENS), Attend(1, 2, 3, 4, Softmax(WIDTH, scale, causal, TOKENS, DRAWS), 0)
    said = dict(attended(step, {1: state, 2: state, 3: state}, given[None], np.array([True])))
    for slot, gradient in enumerate(seen, 1):
        wanted = (torch.einsum("hia,hja->ij", gradient, gradient) / DRAWS / WIDTH).numpy()
        whole = float(np.trace(wanted))
        assert float(np.trace(said[slot][0])) == pytest.approx(whole, rel=0.06), slot
        assert float(said[slot][0].sum()) == pytest.approx(float(wanted.sum()), abs=0.2 * whole), slot
        late = np.diag(wanted)[3:]
        assert np.diag(said[slot][0])[3:] == pytest.approx(late, rel=0.2), slot


RMS = """
def rms(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
"""
def causal(attention: str, body: str, std: str = "1") -> str:
    """24 blocks of nothing but a causal attention."""
    parts = RMS + FUSED.replace("attention(q, k, v)", f"attention({attention}, v, is_causal=True)")
    source = model_of(parts, body, std=f"{std} / math.sqrt(m.in_features)")
    return source.replace("DEPTH, VOCAB = 128, 32, 4, 12", "DEPTH, VOCAB = 128, 32, 4, 24")


MODELS = {
    "queries scaled behind their norm": causal("rms(q) * 4.0, rms(k)", "x = x + self.three(self.attention(self.one(x)))"),
    "a raw stream": causal("q, k", "x = x + self.three(self.attention(x))", "0.7"),
}


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", MODELS)
def test_a_causal_model_starts_as_its_facts_say(name: str) -> None:
    """First over last gradient within a factor of 1.7 of three networks, the first of which has twice as much where tokens count as exchangeable."""
    facts = traced(MODELS[name])
    said = recursion_of(facts.streams[0], facts.graph, tokens=32)
    assert isinstance(said, Recursion), said
    seen = geometric([trained_run(MODELS[name], seed).ratio for seed in range(3)])
    assert abs(math.log(number(said.gradient_ratio) / seen)) < math.log(1.7)


def test_passes_that_are_run_together_are_those_that_are_run_alone() -> None:
    """In any order: each begins behind a block of its own."""
    stack = stack_of(Design(causal=True), 8, tokens=TOKENS)
    states = states_of(stack)
    starts = (Start(3), Start(8, silent=True), Start(8), Start(5))
    together = backward(stack, starts, states)
    for one, found in zip(starts, together, strict=True):
        [alone] = backward(stack, (one,), states)
        for name in ("streams", "weights", "lasts"):
            assert getattr(found, name) == pytest.approx(getattr(alone, name), rel=1e-12)
    assert [len(b.weights) for b in together] == [3, 8, 8, 5] and min(together[0].weights) > 0
