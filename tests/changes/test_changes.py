"""A change that is made on the graph gives what the same change of the source gives; what cannot be made says nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from screen.changes.norms import NotPossible
from screen.changes.tried import CHANGES, Tried, proposed, tried
from screen.facts import derive
from screen.facts.claims.claim import Measured
from screen.facts.record import Facts
from screen.graph import lint
from screen.recipe import Recipe
from screen.rule import Example
from screen.rules import depth_scaled_init
from screen.testing import facts_of
from screen.verdict.channels import Verdict, fold
from screen.verdict.discover import run_rules
from screen.verdict.risk import features_of
from screen.verdict.risk.constants import LARGEST
from tests.handmade import TargetInfo

pytestmark = pytest.mark.by_the_day

MAKE = {change.id: change.make for change in CHANGES}
PRE, POST, BARE = {"norms": "A"}, {"norms": "C", "final_norm": False}, {"norms": "", "final_norm": False}


@cache
def _facts(words: str) -> Facts:
    head = "from examples.table.designs import GPT, Design\n\nclass Model(GPT):\n    def __init__(self):\n"
    return facts_of(Example("a design", f"{head}        super().__init__(Design({words}))\n", inputs=("ids=int64[2,16]",)))


def facts(depth: int = 4, **design: Any) -> Facts:
    """Those of a row of the design table."""
    return _facts(", ".join(f"{key}={value!r}" for key, value in {**design, "depth": depth, "dim": 32, "vocab": 64}.items()))


def verdict(of: Facts, recipe: Recipe | None = None) -> Verdict:
    return fold(of, run_rules(of), TargetInfo(), recipe)


def deepnorm(depth: int) -> dict[str, Any]:
    return {**POST, "alpha": (2 * depth) ** 0.25, "beta": (8 * depth) ** -0.25}


def placements(of: Facts) -> list[tuple[str, object]]:
    return [(s.placement, s.qk_norm) for stream in of.streams for k in stream.kinds for s in k.sublayers]


@pytest.mark.parametrize("depth", [4, 48])
@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        ("qk-norm", PRE, {**PRE, "qk_norm": True}),
        ("norms-behind", PRE, {"norms": "AB"}),
        ("norms-inside", POST, PRE),
        ("norms-inside", {**POST, "norms": "AC"}, PRE),
        ("norms-before", BARE, PRE),
        ("final-norm", {**PRE, "final_norm": False}, PRE),
        ("deepnorm", POST, None),
    ],
)
def test_a_changed_graph_is_judged_as_the_changed_source(change: str, before: dict[str, Any], after: dict[str, Any] | None, depth: int) -> None:
    edited = MAKE[change](facts(depth, **before)).graph()
    assert not lint(edited)
    found, twin = derive(edited), facts(depth, **(deepnorm(depth) if after is None else after))
    assert set(placements(found)) == set(placements(twin))
    for recipe in (None, Recipe(lr=3e-2, warmup_steps=0, total_steps=1000)):
        one, other = verdict(found, recipe), verdict(twin, recipe)
        assert (one.verdict, [c.state for c in one.channels]) == (other.verdict, [c.state for c in other.channels])
        if len({tuple(f.kappa is None for f in features_of(of)) for of in (found, twin)}) > 1:
            continue  # of rates nothing is said then: after norms moved from block to block, 47 of 48 repeated ones start otherwise for the recursion
        mine, its = ({limit.channel: limit.value for limit in told.limits} for told in (one, other))  # none beyond the largest rate that is told
        for channel in mine.keys() | its.keys():
            assert math.log2(mine.get(channel, LARGEST) / its.get(channel, LARGEST)) == pytest.approx(0, abs=0.2), channel


def test_beta_alone_where_the_stream_is_multiplied_already() -> None:
    found = derive(MAKE["deepnorm"](facts(24, **{**deepnorm(24), "beta": 1.0})).graph())
    assert verdict(found).limits[0].value == pytest.approx(verdict(facts(24, **deepnorm(24))).limits[0].value, rel=0.05)


def test_a_lost_scale_for_depth_is_there_again() -> None:
    lost = facts_of(depth_scaled_init.VIOLATES[0])
    assert "I102" in {f.rule.code for f in run_rules(lost).findings if f.outcome.result == "violated"}
    found = derive(MAKE["depth-scaled-init"](lost).graph())
    assert {f.outcome.result for f in run_rules(found).of("I102")} == {"holds"}


def gains(of: Facts, recipe: Recipe | None = None) -> dict[str, Tried]:
    run = run_rules(of)
    return {t.change.id: t for t in tried(of, run, fold(of, run, TargetInfo(), recipe), TargetInfo(), recipe)}


def test_what_is_tried_is_what_findings_propose() -> None:
    found = gains(facts(24, **POST))
    assert [found[name].closes for name in ("norms-inside", "deepnorm", "qk-norm")] == [("D",), ("D",), ("L",)]
    assert found["norms-inside"].opens == ("R",)
    before, after = found["deepnorm"].before, found["deepnorm"].after
    assert before is not None and after is not None and after.value > 3 * before.value, "24 such blocks tolerate little"
    shallow = gains(facts(6, **POST))["deepnorm"]
    assert shallow.before is not None and shallow.after is not None and shallow.before.value * 5 < shallow.after.value
    assert set(gains(facts(**PRE))) == {"qk-norm", "norms-behind"}
    assert gains(facts(norms="AB", qk_norm=True)) == {}


def test_where_a_statement_was_refuted_nothing_is_promised() -> None:
    post = facts(**POST)
    assert gains(post)
    first, *rest = post.claims
    wrong = post.claims.with_all([replace(first, measured=Measured(None, agrees=False)), *rest])
    assert wrong.refuted
    assert gains(replace(post, claims=wrong)) == {}


@pytest.mark.parametrize(
    ("change", "design"),
    [("norms-behind", {**BARE, "rezero": True}), ("deepnorm", PRE), ("norms-inside", deepnorm(4)), ("depth-scaled-init", {"norms": "AB"})],
)
def test_what_cannot_be_made_is_refused(change: str, design: dict[str, Any]) -> None:
    with pytest.raises(NotPossible):
        MAKE[change](facts(**design))


def test_notes_propose_only_where_nothing_graver_does() -> None:
    run = run_rules(facts(**POST))
    assert [c.id for c in proposed(run)] == ["norms-inside", "deepnorm", "qk-norm"]


VELOCITY = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(6))
        self.maps = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))

    def forward(self, x):
        v = 0 * x
        for norm, layer in zip(self.norms, self.maps):
            v = 0.9 * v + torch.relu(layer(norm(x)))
            x = x + v
        return x
"""


def test_a_final_norm_stands_behind_what_leaves() -> None:
    """The last velocity is added to the last place, and their sum is what leaves."""
    before = facts_of(Example("a velocity", VELOCITY, inputs=("x=float32[2,4,16]",)))
    after = derive(MAKE["final-norm"](before).graph())
    [old], [new] = before.streams, after.streams
    assert (old.final_norm, new.final_norm) == (False, True)
    assert new.identity == old.identity
    assert [n.op for n in after.graph.nodes if n.index in after.graph.outputs] == ["layer_norm"]
