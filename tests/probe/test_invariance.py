"""Exponents against real Jacobians: right ones are confirmed, wrong ones are refuted, and nothing is said where nothing can be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from screen.probe.experiments.invariance import judged
from screen.probe.measure.branch import rows
from screen.probe.measure.leaves import Watch
from screen.probe.plan.types import Experiment, ProbePlan
from screen.probe.run import experiments
from tests.probe.common import CPU, measured, only, planned, turned

pytestmark = pytest.mark.by_the_day

EXAMPLES = [
    "pre", "peri", "post", "deepnorm", "dyt", "linear_attention", "mix_ln", "moe", "none", "normed_skip", "output_norm_qk", "parallel", "vit_block",
]  # fmt: skip
WHOLE = ("linear_attention", "mix_ln", "moe", "normed_skip", "vit_block")
"""Of these all else is measured too; of the others it is the same program as of one of these, or is asked in `test_depth.py` and `test_bounds.py`."""


def degrees(plan: ProbePlan, built: Any, watch: Watch) -> list[dict[str, Any]]:
    """The experiments on exponents alone."""
    return [e for e in list(experiments(only(plan, "invariance"), built, watch, CPU))[1:] if e["name"] == "invariance"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_agree_in_every_degree(name: str) -> None:
    built, plan, watch = planned(f"examples/{name}.py")
    if name in WHOLE:
        whole = list(experiments(plan, built, watch, CPU))[1:]
        found = [e for e in whole if e["name"] == "invariance"]
        assert not [e for e in whole if e["outcome"] == "refuted"]
    else:
        found = degrees(plan, built, watch)
    assert not [e for e in found if e["outcome"] == "refuted"]
    silent = [e for e in found if e["outcome"] == "not_measured" and e["status"] != "bound"]
    assert not silent, silent
    assert any(e["outcome"] == "confirmed" for e in found)


def test_they_are_the_same_alone() -> None:
    built, plan, watch = planned("examples/vit_block.py")
    whole = list(experiments(plan, built, watch, CPU))[1:]
    assert [e for e in whole if e["name"] == "invariance"] == degrees(plan, built, watch)


def test_wrong_degrees_are_refuted() -> None:
    built, plan, watch = planned("examples/peri.py")
    found = [e for e in degrees(turned(plan, 1.0), built, watch) if e["status"] != "bound"]
    assert found and all(e["outcome"] == "refuted" for e in found)


def test_a_zero_output_is_not_applicable() -> None:
    built, plan, watch = planned("examples/rezero.py")
    found = {e["group"]: e["outcome"] for e in degrees(plan, built, watch)}
    assert "not_applicable" in found.values() and "refuted" not in found.values()


EMPTY = Experiment("invariance", "", "not_measured", status="exact", predicted=1.0)


@pytest.mark.parametrize(("slope", "outcome"), [(1.0, "confirmed"), (1.019, "confirmed"), (1.021, "refuted"), (0.979, "refuted")])
def test_the_tolerance_of_exact_degrees(slope: float, outcome: str) -> None:
    scales = (0.5, 1.0, 2.0, 4.0, 8.0)
    assert judged(EMPTY, scales, [c**slope for c in scales], 0.0).outcome == outcome


def test_one_bend_is_enough_to_refute() -> None:
    """A regression over all scales would average it away."""
    scales = (0.5, 1.0, 2.0, 4.0, 8.0)
    sizes = [0.5, 1.0, 2.0, 4.0, 8.0 * 1.06]
    assert judged(EMPTY, scales, sizes, 0.0).outcome == "refuted"
    assert judged(EMPTY, scales, sizes, 0.1).outcome == "confirmed"  # unless ε may be the reason
    assert judged(EMPTY, scales, sizes, 0.5).outcome == "not_measured"


ODD = [([0.0] * 5, "not_applicable"), ([0.0, 1, 1, 1, 1], "not_measured"), ([float("nan")] * 5, "not_measured")]


@pytest.mark.parametrize(("sizes", "outcome"), ODD)
def test_nothing_is_said_of_zeros_and_nans(sizes: list[float], outcome: str) -> None:
    assert judged(EMPTY, (0.5, 1.0, 2.0, 4.0, 8.0), sizes, 0.0).outcome == outcome


def test_rows_of_groups() -> None:
    assert rows(None, 3).tolist() == [0, 1, 2]
    assert rows("1:3", 4).tolist() == [1, 2]
    assert rows("0:1 of every 3", 6).tolist() == [0, 3]


def test_the_same_seed_gives_the_same_numbers() -> None:
    torch.manual_seed(1)
    first = measured("examples/post.py")
    torch.manual_seed(2)
    assert measured("examples/post.py") == first


def test_another_program_is_not_measured() -> None:
    built, plan, watch = planned("examples/post.py")
    found = list(experiments(replace(plan, ops="0"), built, watch, CPU))[1:]
    assert [e["outcome"] for e in found] == ["not_measured"]


def test_a_budget_of_nothing_measures_nothing() -> None:
    found = [e for e in measured("examples/post.py", replace(CPU, seconds=1e-9)) if e["name"] == "invariance"]
    assert {e["outcome"] for e in found} == {"not_measured"}
    assert all("--probe-seconds" in e["reason"] for e in found)


def test_weights_that_do_not_fit_are_told() -> None:
    found = [e for e in measured("examples/post.py", replace(CPU, memory=1 << 16)) if e["name"] == "invariance"]
    assert all(e["outcome"] == "not_measured" and "--memory" in e["reason"] for e in found)
