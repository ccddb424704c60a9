"""The design table (docs/theory.md, channels): every row from real code gets its verdict, its channels and its reason."""

from __future__ import annotations

import pytest

import screen
from tests.contradictions import contradictions
from tests.shared import ROOT

FILE = ROOT / "examples" / "table" / "designs.py"

TABLE: dict[str, tuple[str, str, str, str, str]] = {
    # row: (verdict, R, D, L, what the report must say)
    "peri_qk": ("stable", "closed", "closed", "closed", "linearly with depth, whatever the weights"),
    "peri": ("conditional", "closed", "closed", "conditional", "still scale with W_Q and W_K"),
    "pre": ("conditional", "conditional", "closed", "conditional", "unless training bounds them"),
    "pre_qk": ("conditional", "conditional", "closed", "closed", "unless training bounds them"),
    "post_shallow": ("conditional", "closed", "conditional", "conditional", "1 − cos"),
    "post_deep": ("unstable", "closed", "open", "conditional", "tokens are nearly the same"),
    "deepnorm": ("conditional", "closed", "closed", "conditional", "compensate for 24 blocks"),
    "alpha_alone": ("conditional", "closed", "conditional", "conditional", "without weights that start smaller"),
    "pre_post": ("conditional", "closed", "conditional", "conditional", "1 − cos"),
    "output_norm": ("unstable", "closed", "open", "conditional", "exponential in depth"),
    "output_norm_small": ("conditional", "closed", "conditional", "conditional", "grow with `stream`"),
    "output_norm_qk": ("stable", "closed", "closed", "closed", "bounded by QK-norm"),
    "none": ("unstable", "open", "open", "open", "No norm stands on `stream`"),
    "none_scaled": ("conditional", "conditional", "conditional", "conditional", "the branches start small for this depth"),
    "rezero": ("conditional", "conditional", "closed", "conditional", "zero at the start"),
    "dyt": ("conditional", "conditional", "conditional", "conditional", "norms or bounded maps stand on the way"),
    "peri_layer_scale": ("conditional", "closed", "closed", "conditional", "still scale with W_Q and W_K"),
    "parallel_pre": ("conditional", "conditional", "closed", "conditional", "unless training bounds them"),
}


@pytest.mark.by_the_day
@pytest.mark.parametrize("row", TABLE)
def test_row(row: str) -> None:
    verdict, *states, reason = TABLE[row]
    report = screen.check(f"{FILE}::{row}", isolate=False)
    assert row != "peri" or [c.id for c in report.conditions] == ["bounded-logits"], "conditions are few and named"
    channels = {c.id: c for c in report.channels}
    assert not report.coverage.rules_not_run
    assert (report.verdict, [channels[c].state for c in "RDL"]) == (verdict, states), report.summary
    assert any(reason in f.message for f in report.findings), [f.message for f in report.findings]
    assert contradictions(report) == []


@pytest.mark.parametrize(
    ("target", "settings", "never"),
    [
        ("hf:bert:BertModel", {"num_hidden_layers": 6}, {"unstable", "unknown"}),
        ("hf:gemma2", {"attn_logit_softcapping": None}, {"unstable", "stable", "unknown"}),
    ],
)
def test_hard_gates(target: str, settings: dict[str, object], never: set[str]) -> None:
    """Shallow post is never unstable, peri without a cap never stable. Pre and B without QK-norm have verdicts in the README and above."""
    pytest.importorskip("transformers")
    assert screen.check(target, set=settings, isolate=False).verdict not in never
