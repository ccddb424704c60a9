"""The papers' laws of depth at the smallest size that shows them (the whole: `python -m tests.probe.laws all`)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.probe import trainings
from tests.probe.law_runs import SMALL, Size
from tests.probe.laws import LAWS, main, table
from tests.probe.trainings import Recipe, trained
from tests.shared import ROOT

PAGE = (ROOT / "docs" / "probe.md").read_text(encoding="utf-8")


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", LAWS)
def test_a_law_holds(name: str) -> None:
    rows = LAWS[name](SMALL)
    assert any(r.holds for r in rows) and not any(r.holds is False for r in rows), table(rows)


def test_a_law_that_does_not_hold_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(size: Size) -> list[object]:
        return [replace(row, holds=False) for row in LAWS["lemma_two"](size)]

    assert main(["lemma_two", "--small"]) == 0
    assert "FAILS" not in capsys.readouterr().out
    monkeypatch.setattr("tests.probe.laws.LAWS", {**LAWS, "broken": broken})
    assert main(["broken", "--small"]) == 1
    assert "FAILS" in capsys.readouterr().out


@pytest.mark.parametrize("name", LAWS)
def test_the_page_shows_what_each_command_found(name: str) -> None:
    assert f"`python -m tests.probe.laws {name}`" in PAGE


RECIPE = Recipe("A", rate=1e-2, steps=4, start=1.0, depth=2)


def test_a_training_is_the_same_again_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers depend on the recipe alone; what is kept is read back whole, and only for the same recipe."""
    once = trained(RECIPE)
    torch.rand(3)
    monkeypatch.setattr(trainings, "KEEP", [tmp_path])
    assert trained(RECIPE) == once and len(once.losses) == 4 and once.before[0].reach > once.before[0].read
    assert trained(replace(RECIPE, seed=1)).losses != once.losses

    def never(recipe: Recipe) -> None:
        raise AssertionError(recipe)

    monkeypatch.setattr(trainings, "_train", never)
    assert trained(RECIPE) == once and len(list(tmp_path.iterdir())) == 2
    with pytest.raises(AssertionError):
        trained(replace(RECIPE, rate=2e-2))


@pytest.mark.parametrize(("norms", "bounded"), [("A", False), ("AB", True), ("C", True)])
def test_norms_bound_entries_of_the_stream(norms: str, bounded: bool) -> None:
    """By gains alone: a factor on all maps moves no bound, and the largest entry stays below it (pre has none)."""
    found = trained(replace(RECIPE, norms=norms, start=30.0))
    layers = [*found.before, *found.after]
    assert all(x.entry < x.bound for x in layers) and all(math.isfinite(x.bound) is bounded for x in layers)
    assert all(x.read <= x.reach + 1e-6 for x in layers)
