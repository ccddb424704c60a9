"""The loss and the attention logits that a model starts with, from the graph and the record of its initialisers, against the model itself."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from screen.calculi.meanfield import Start, recursion_of
from screen.calculi.meanfield.cross_entropy import mean_cross_entropy
from screen.calculi.meanfield.result import Recursion
from screen.structure.types import Unknown
from tests.calculi.meanfield.covariance_models import traced
from tests.calculi.meanfield.covariance_words import WORDS, seen_in


def said_of(source: str) -> Recursion:
    facts = traced(source)
    found = recursion_of(facts.streams[0], facts.graph, tokens=32, norms={n.node: n for n in facts.norms})
    assert isinstance(found, Recursion), found
    return found


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", WORDS)
def test_a_model_of_words_starts_with_the_loss_that_is_said(name: str) -> None:
    """Within 6 % and 0.1 nats of the mean over three networks and eight sequences; rms of the logits within a quarter: what all tokens have in common
    is one draw for each head."""
    said, seen = said_of(WORDS[name]), [seen_in(WORDS[name], seed) for seed in range(3)]
    assert isinstance(said.words, Start), said.words
    assert said.words.uniform == pytest.approx(math.log(512))
    assert said.words.value == pytest.approx(statistics.fmean(loss for loss, _ in seen), rel=0.06, abs=0.1)
    first, last = said.logit_rms["attention"] if said.logit_rms else (0.0, 0.0)
    if said.logit_rms:
        assert first == pytest.approx(statistics.fmean(u[0] for _, u in seen), rel=0.25)
        assert last == pytest.approx(statistics.fmean(u[-1] for _, u in seen), rel=0.25)


@pytest.mark.parametrize(("words", "spread", "own"), [
    (1000, 0.0, None), (1000, 0.5, None), (1000, 2.0, None), (1000, 4.0, None), (1000, 8.0, None), (50_000, 6.0, None), (1000, 8.0, 64.0),
    (1000, 8.0, 20.0), (1000, 0.5, 5.0), (1000, 1.0, -5.0), (2, 1.0, None), (100, 30.0, 900.0),
])  # fmt: skip
def test_the_mean_of_a_log_sum_is_that_of_draws(words: int, spread: float, own: float | None) -> None:
    draw = spread * np.random.default_rng(0).standard_normal((400, words))
    if own is not None:
        draw[:, 0] += own
    top = draw.max(1)
    seen = float((top + np.log(np.exp(draw - top[:, None]).sum(1))).mean())
    assert mean_cross_entropy(words, spread, own) == pytest.approx(seen, rel=0.01, abs=5 * spread / math.sqrt(400))


def test_small_logits_give_half_their_variance() -> None:
    assert mean_cross_entropy(50_257, 0.5) == pytest.approx(math.log(50_257) + 0.125, abs=0.01)


def test_what_is_no_model_of_words_has_no_such_loss() -> None:
    found = said_of(WORDS["untied"].replace("return z", "return z[..., :100]"))
    assert isinstance(found.words, Unknown)
