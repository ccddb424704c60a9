"""A recipe on its way: options and files of settings, the depth of a block, the verdict's conditions, and what the report says of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import screen
from screen import settings as config
from screen.errors import UsageError
from screen.pipeline.stages import job_of
from screen.recipe import Recipe
from screen.recipe.read import recipe_of
from screen.report import render
from screen.report.schema import Report
from screen.verdict.channels import fold
from screen.verdict.conditions import CONDITIONS, JUDGES, under
from screen.verdict.discover import run_rules
from tests import handmade as h


def _file(folder: Path, text: str, name: str = "screen.toml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def _recipe(settings: config.Settings) -> dict[str, Any]:
    assert settings.recipe is not None
    return settings.recipe.recipe.stated


def test_without_one_there_is_none(tmp_path: Path) -> None:
    assert config.load({"recipe": ()}, tmp_path).recipe is None and job_of("x.py", config.load({}, tmp_path)).recipe is None


@pytest.mark.parametrize(
    "text",
    [
        "[recipe]\nlr = 1e-3\nwarmup_steps = 10",
        'recipe = ["lr=1e-3", "warmup_steps=10"]',
        "[recipe.optimizer]\nlr = 1e-3\n[recipe.schedule]\nwarmup_steps = 10",
    ],
)
def test_a_file_of_settings_states_it(tmp_path: Path, text: str) -> None:
    settings = config.load({}, _file(tmp_path, text))
    assert _recipe(settings) == {"lr": 1e-3, "warmup_steps": 10} and settings.origins["recipe"] == "screen.toml"
    assert settings.recipe is not None and set(settings.recipe.origins.values()) == {"`recipe` in `screen.toml`"}


def test_pyproject_has_it_too(tmp_path: Path) -> None:
    settings = config.load({}, _file(tmp_path, '[tool.screen.recipe]\nbase = "llama-2-7b"\nlr = 1e-4', "pyproject.toml"))
    assert _recipe(settings)["lr"] == 1e-4 and _recipe(settings)["eps"] == 1e-5


def test_changes_are_laid_over_the_file_and_another_recipe_takes_its_place(tmp_path: Path) -> None:
    folder = _file(tmp_path, "[recipe]\nlr = 1e-3\nwarmup_steps = 10\nqk_clip = 100")
    changed = config.load({"recipe": ("lr=2e-3", "dropout=0.1")}, folder)
    assert _recipe(changed) == {"lr": 2e-3, "warmup_steps": 10, "qk_clip": 100, "dropout": 0.1} and changed.origins["recipe"] == "option"
    other = config.load({"recipe": ("gpt3-125m", "lr=2e-3")}, folder)
    assert _recipe(other)["lr"] == 2e-3 and _recipe(other)["warmup_tokens"] == 375_000_000 and not {"warmup_steps", "qk_clip"} & set(_recipe(other))


def test_screen_config_shows_every_field_with_who_states_it(tmp_path: Path) -> None:
    text = config.show(config.load({"recipe": ("lr=2e-3",)}, _file(tmp_path, "[recipe]\nbetas = [0.9, 0.95]")))
    rows = {line.partition(" = ")[0].strip(): line for line in text.splitlines()}
    assert '["lr=2e-3"]' in rows["recipe"] and "0.002" in rows["recipe.lr"] and rows["recipe.lr"].endswith("# `--recipe`")
    assert rows["recipe.betas"].endswith("# `recipe` in `screen.toml`")


def test_its_depth_is_that_of_a_block_where_no_option_says_one(tmp_path: Path) -> None:
    assert job_of("x.py", config.load({"recipe": ("depth=7",)}, tmp_path)).request.depth == 7
    assert job_of("x.py", config.load({"recipe": ("depth=7",), "depth": "9"}, tmp_path)).request.depth == 9


def test_every_judge_is_of_a_condition() -> None:
    assert set(JUDGES) <= set(CONDITIONS)


@pytest.mark.parametrize(
    ("condition", "recipe", "answer", "said"),
    [
        ("bounded-weights", {}, "not_stated", ""),
        ("bounded-weights", {"weight_decay": 0.1, "optimizer": "adamw", "lr": 1e-3}, "met", "weight decay 0.1, decoupled, 0.0001 of a weight"),
        ("bounded-weights", {"weight_decay": 0.1, "decoupled": False}, "met", "L2"),
        ("bounded-weights", {"weight_decay_on": True}, "met", "weight decay on"),
        ("bounded-weights", {"weight_decay": 0}, "not_met", "do not decay"),
        ("bounded-weights", {"lr": 1e-3}, "not_stated", ""),
        ("bounded-logits", {"qk_clip": 100, "weight_decay": 0}, "met", "QK-clip at 100"),
        ("bounded-logits", {"weight_decay": 0}, "not_met", "do not decay"),
        ("warm-up", {"warmup_steps": 2000, "lr": 6e-4}, "met", "2,000 steps to a peak of 0.0006"),
        ("warm-up", {"warmup_fraction": 0.1}, "met", "0.1 of all steps"),
        ("warm-up", {"warmup_tokens": 375_000_000}, "met", "375,000,000 tokens"),
        ("warm-up", {"warmup_steps": 0}, "not_met", "no warm-up (0 steps)"),
        ("warm-up", {"lr": 1e-3}, "not_stated", ""),
        ("float16-range", {"precision": "float16"}, "not_met", "float16"),
        ("float16-range", {"precision": "bfloat16"}, "met", "bfloat16"),
        ("initialisation", {"init": "normal(0.02)"}, "not_stated", ""),
    ],
)
def test_what_a_recipe_says_of_a_condition(condition: str, recipe: dict[str, Any], answer: str, said: str) -> None:
    found = under(condition, Recipe(**recipe))
    assert found.recipe == answer and said in found.stated and bool(found.stated) is (answer != "not_stated")


def test_the_verdict_carries_the_answers() -> None:
    facts = h.pre()
    plain = fold(facts, run_rules(facts), h.TargetInfo())
    stated = fold(facts, run_rules(facts), h.TargetInfo(), Recipe(weight_decay=0))
    assert [c.id for c in plain.conditions] == [c.id for c in stated.conditions] == ["bounded-weights", "bounded-logits"]
    assert {c.recipe for c in plain.conditions} == {"not_stated"} and {c.recipe for c in stated.conditions} == {"not_met"}


class Block(nn.Module):
    """Pre-norm FFN."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.map(self.norm(x))


class Stack(nn.Module):
    """Three of them: a whole model."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.norm = nn.Sequential(Block(), Block(), Block()), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.norm(self.blocks(x))
        return out


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("recipe") / "run.yaml"
    path.write_text("learning_rate: 3e-4\nseed: 1\nmax_steps: 1000\n")
    given = ["gpt3-125m", str(path), {"weight_decay": 0.2, "depth": 12, "warmup_fraction": 0.1}]
    return screen.check(Block(), recipe=given, spot_check=False)


def test_the_report_holds_the_recipe_with_its_origins(report: Report) -> None:
    assert report.recipe is not None and (report.target.depth, report.target.depth_from) == (12, "recipe")
    found = json.loads(report.to_json())["recipe"]
    assert (found["values"]["lr"], found["values"]["betas"], found["values"]["weight_decay"]) == (3e-4, [0.9, 0.95], 0.2)
    assert found["origins"]["weight_decay"] == "`recipe=`" and found["origins"]["betas"] == "preset `gpt3-125m`"
    assert found["origins"]["lr"].endswith("run.yaml`") and "appendix B" in found["sources"]["betas"] and "lr" not in found["sources"]
    assert found["derived"]["warmup"] == 100 and found["derived"]["decay_per_step"] == pytest.approx(6e-5)
    assert [entry.partition(" of")[0] for entry in found["unused"]] == ["`seed`"]
    assert [c.recipe for c in report.conditions if c.id == "bounded-weights"] == ["met"]
    assert not any(os.path.isabs(word.strip("`")) for word in (*found["origins"].values(), *report.target.options))


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_people_read_it_too(report: Report, name: str) -> None:
    text = render(report, name).replace("\\", "")
    assert "weight_decay 0.2" in text and "preset" in text and "steps of warm-up 100" in text and "not used" in text


def test_without_one_nothing_is_said() -> None:
    found = screen.check(Block(), spot_check=False)
    assert found.recipe is None and "recipe:" not in render(found, "text") and {c.recipe for c in found.conditions} == {"not_stated"}


def test_its_depth_is_an_error_on_a_whole_model() -> None:
    with pytest.raises(UsageError, match=r"a recipe's `depth`.*whole model"):
        screen.check(Stack(), recipe={"depth": 4})


def test_a_recipe_object_states_itself() -> None:
    assert recipe_of(Recipe(lr=1e-3), "`recipe=`").origins == {"lr": "`recipe=`"}
