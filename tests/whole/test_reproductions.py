"""Blocks of which a report once said something false (`../shared/false`, each with its cause): what is said of them now."""

from __future__ import annotations

import re

import pytest

import screen
from tests.contradictions import contradictions
from tests.shared import SHARED

FALSE = SHARED / "false"
NOW = {
    "addcmul_explodes_all_closed": "open open closed",
    "backward_of_custom_function": "unknown conditional closed",
    "block_target_drops_both_ends": "open open closed",
    "clip_and_softsign_unbounded": "closed closed closed",
    "constrained_weights_unbounded": "closed closed closed",
    "coverage_words": "closed closed closed",
    "data_temperature_on_cosine_logits": "closed conditional conditional",
    "denorm_by_division": "conditional conditional closed",
    "foreign_quotient_cancels_degrees": "closed conditional closed",
    "l202_norm_behind_the_softmax": "conditional closed conditional",
    "leapfrog_exponential": "conditional conditional closed",
    "lerp_of_norm_unstable": "closed conditional closed",
    "matrix_norm_is_not_frobenius": "closed closed closed",
    "mix_ln_taken_for_one_block": "conditional conditional closed",
    "post_norm_with_data_gain": "conditional open closed",
    "recursion_forgets_ops_on_the_stream": "conditional conditional closed",
    "reversible_without_norms_linear": "open open closed",
    "sine_levels_off": "open conditional closed",
    "softmax_not_seen_talking_heads": "closed conditional conditional",
    "step_at_most_twice_the_norm": "conditional conditional closed",
    "sum_of_gated_norms_bounded": "closed conditional closed",
    "threshold_is_not_homogeneous": "closed conditional closed",
    "trained_bias_on_normed_logits": "closed conditional conditional",
    "unknown_constant_counts_as_one": "open open closed",
    "violated_though_bounded": "closed conditional closed",
    "weightless_add_token_mean": "open open closed",
    "x_plus_x": "open open closed",
}
"""Channels D, R and L."""


@pytest.mark.by_the_day
@pytest.mark.skipif(not FALSE.exists(), reason="needs `../shared/false` beside the repository")
@pytest.mark.parametrize("name", NOW)
def test_what_was_false_is_said_no_more(name: str) -> None:
    path = FALSE / f"{name}.py"
    found = re.search(r"screen check \S+::(\S+)(?: --depth (\d+))?", path.read_text(encoding="utf-8"))
    assert found is not None
    report = screen.check(f"{path}::{found[1]}", isolate=False, depth=int(found[2]) if found[2] else None)
    states = {c.id: c.state for c in report.channels}
    assert " ".join(states[c] for c in "DRL") == NOW[name]
    assert contradictions(report) == []
