"""The presets: every value with its source, names that are found, and what is printed of them can be read again."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from screen import plugins
from screen.errors import UsageError
from screen.recipe import presets
from screen.recipe.read import FORMATS, recipe_of
from screen.recipe.recipe import CELLS, Recipe, of_cells
from screen.recipe.write import toml
from tests.shared import ROOT, shared

WANTED = (
    "gpt2-small gpt2-xl nanogpt-gpt2 gpt3-175b llama-7b llama-2-7b llama-3-8b bert-base bert-large roberta-base t5-base opt-175b "
    "bloom-176b palm-540b pythia-160m olmo-7b olmo-2-7b qwen-7b deepseek-v3 vit-b16 deit-base transformer-base transformer-big mamba-130m "
    "glm-130b cerebras-gpt-111m"
)
"""Names that users were promised."""


def test_the_names_that_were_promised_are_there() -> None:
    assert len(presets.names()) >= 25 and set(WANTED.split()) <= set(presets.names())


@pytest.mark.parametrize("name", presets.names())
def test_every_value_of_a_preset_has_its_source(name: str) -> None:
    table = tomllib.loads((presets.FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    assert set(table) <= {"title", "source", "base", "recipe", "sources"} and table["title"]
    assert any(mark in table["source"] for mark in ("arXiv:", "https://", "et al. 20")), "a paper or an address"
    assert set(table["sources"]) == set(table["recipe"]) <= set(Recipe.model_fields) and all(map(str.strip, table["sources"].values()))
    assert "depth" not in table["recipe"], "how often a block is stacked is the user's"


@pytest.mark.parametrize("name", presets.names())
def test_what_is_printed_of_a_preset_can_be_read_again(name: str, tmp_path: Path) -> None:
    stated = recipe_of(name, "x")
    assert stated.recipe.stated and set(stated.sources) == set(stated.recipe.stated)
    (tmp_path / "r.toml").write_text(toml(stated, *presets.about(name)), encoding="utf-8")
    assert recipe_of(str(tmp_path / "r.toml"), "x").recipe == stated.recipe


def test_facts_that_hold_of_all_of_them() -> None:
    """Slips of the pen would show here: published transformers all lie inside of these."""
    for name in presets.names():
        r = recipe_of(name, "x").recipe
        assert r.lr is None or 1e-5 < r.lr <= 1e-2, name
        assert r.betas is None or (r.betas[0] == 0.9 and 0.9 < r.betas[1] <= 0.999), name
        assert r.weight_decay is None or 1e-4 <= r.weight_decay <= 0.2, name
        assert r.eps is None or 1e-9 <= r.eps <= 1e-5, name
        assert r.min_lr is None or r.lr is None or r.min_lr <= 0.11 * r.lr, name
        assert r.warmup is None or r.total_steps is None or r.warmup <= 0.25 * r.total_steps, name


@pytest.mark.parametrize(("word", "found"), [("GPT2_Small", "gpt2-small"), ("llama-2-7b", "llama-2-7b"), ("llama-2", None), ("", None)])
def test_names_are_found_whatever_their_case(word: str, found: str | None) -> None:
    assert (path.stem if (path := presets.find(word)) else None) == found


@pytest.mark.parametrize(("word", "near"), [("gpt2", "gpt2-small"), ("llama-2-7", "llama-2-7b"), ("13b", ""), ("olmo2-7b", "olmo-2-7b")])
def test_a_wrong_name_is_answered_with_near_ones(word: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        recipe_of(word, "x")
    assert (f"`{near}`" if near else "a name that `screen recipe` lists") in str(caught.value)


def test_the_page_names_every_field_format_and_preset() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    cells = {field: cell for cell, field in CELLS.items()}
    for name, field in Recipe.model_fields.items():
        assert f"| `{name}` | {field.description} | {f'`{cells[name]}`' if name in cells else ''} |" in page
    assert f"{', '.join(f'`{name}`' for name in presets.names())}." in page
    assert all(f"| `{name}` |" in page for name in plugins.own(FORMATS))


@pytest.mark.parametrize(
    ("row", "name"), [("opt-12", "opt-175b"), ("glm-deepnorm", "glm-130b"), ("palm-540B", "palm-540b"), ("kimi-k2-clip", "kimi-k2")]
)
def test_presets_agree_with_the_record_of_the_same_run(row: str, name: str) -> None:
    rows = {r["id"]: r for r in map(json.loads, shared("outcomes", "outcomes.jsonl").read_text(encoding="utf-8").splitlines())}
    recorded, preset = of_cells(rows[row]).stated, recipe_of(name, "x").recipe.stated
    both = set(recorded) & set(preset)
    assert len(both) >= 3 and {field: recorded[field] for field in both} == {field: preset[field] for field in both}
