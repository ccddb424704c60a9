"""The fields of a recipe: what they take and refuse, what follows from them, and how recipes are laid over each other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from screen.errors import UsageError
from screen.recipe.read import is_change, recipe_of
from screen.recipe.recipe import CELLS, Recipe, of_cells
from screen.recipe.stated import over
from tests.shared import shared

CONTRACT = {
    "weight_decay", "warmup_steps", "lr", "optimizer", "precision", "grad_clip", "depth", "total_steps", "batch_size", "betas", "eps", "z_loss",
    "logit_cap", "embedding_lr", "init", "attention_output_precision", "autocast", "fp8",
}  # fmt: skip
"""Fields that the contract names."""


def test_the_contract_names_are_fields_and_each_has_a_unit() -> None:
    assert set(Recipe.model_fields) >= CONTRACT
    assert all(field.description and field.default is None for field in Recipe.model_fields.values())


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"lr": -1e-3}, "greater than 0"),
        ({"lr": 0}, "greater than 0"),
        ({"lr": float("nan")}, "greater than 0"),
        ({"lr": float("inf")}, "less than or equal"),
        ({"lr": 10**400}, "valid number"),
        ({"lr": True}, "must be a number"),
        ({"lr": "fast"}, "must be a number"),
        ({"lr": [1e-3]}, "valid number"),
        ({"betas": [0.9, 1]}, "less than 1"),
        ({"betas": [0.9, 1.5]}, "less than 1"),
        ({"betas": [0.9]}, "required"),
        ({"eps": -1e-8}, "greater than or equal to 0"),
        ({"weight_decay": -0.1}, "greater than or equal to 0"),
        ({"total_steps": 1.5}, "valid integer"),
        ({"total_steps": 0}, "greater than 0"),
        ({"total_steps": 10**400}, "less than or equal"),
        ({"total_steps": float("nan")}, "finite"),
        ({"warmup_fraction": 1.5}, "less than or equal to 1"),
        ({"precision": "bf15"}, "'float32', 'tf32', 'bfloat16'"),
        ({"schedule": "cosin"}, "'cosine'"),
        ({"warmup_steps": 2000, "warmup_fraction": 0.5, "total_steps": 10_000}, "contradict"),
        ({"weight_decay": 0, "weight_decay_on": True}, "contradict"),
        ({"lr": 1e-4, "min_lr": 1e-3}, "must not be above"),
        ({"init": ""}, "at least 1 character"),
        ({"lrr": 1}, "extra"),
    ],
)
def test_what_no_recipe_can_have_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Recipe(**values)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("field", "given", "value"),
    [
        ("lr", "1e-4", 1e-4),  # YAML reads it as text
        ("total_steps", "2e3", 2000),
        ("total_steps", 2000.0, 2000),
        ("precision", "bf16", "bfloat16"),
        ("params_precision", "FP32", "float32"),
        ("precision", "torch.float16", "float16"),
        ("optimizer", " AdamW ", "adamw"),
        ("schedule", "noam", "inverse_sqrt"),
        ("warmup_steps", 0, 0),
    ],
)
def test_other_spellings_are_the_same_value(field: str, given: object, value: object) -> None:
    assert getattr(Recipe(**{field: given}), field) == value


def test_warm_up_in_steps_is_stated_or_follows_from_the_share() -> None:
    assert Recipe().warmup is None and Recipe().warms_up is None
    assert Recipe(warmup_steps=0).warmup == 0 and Recipe(warmup_steps=0).warms_up is False
    assert Recipe(warmup_fraction=0.1).warmup is None and Recipe(warmup_fraction=0.1).warms_up is True
    assert Recipe(warmup_fraction=0.1, total_steps=14_400).warmup == 1440
    assert Recipe(warmup_fraction=0).warmup == 0 and Recipe(warmup_tokens=0).warmup == 0
    assert Recipe(warmup_tokens=375_000_000, batch_size=500_000).warmup == 750
    assert Recipe(warmup_tokens=375_000_000, batch_size=500_000, batch_grows=True).warmup is None
    assert Recipe(warmup_tokens=375_000_000).warmup is None and Recipe(warmup_tokens=375_000_000).warms_up is True
    assert Recipe(lr=1e-3, warmup_steps=1000).first_lr == pytest.approx(1e-6)
    assert Recipe(lr=1e-3, warmup_steps=0).first_lr == 1e-3 and Recipe(lr=1e-3).first_lr is None


def test_decay_per_step_needs_to_know_that_it_is_decoupled() -> None:
    assert Recipe(weight_decay=0.1, lr=1e-3, optimizer="adamw").decay_per_step == pytest.approx(1e-4)
    assert Recipe(weight_decay=0.1, lr=1e-3, decoupled=True).decay_per_step == pytest.approx(1e-4)
    assert Recipe(weight_decay=0.1, lr=1e-3, optimizer="adam").decay_per_step is None
    assert Recipe(weight_decay=0.1, optimizer="adamw").decay_per_step is None
    assert Recipe(weight_decay=1e-4, decoupled=True, decay_times_lr=False).decay_per_step == 1e-4
    assert Recipe(weight_decay=0).decay_per_step == 0
    assert (Recipe(weight_decay_on=True).decays, Recipe(weight_decay=0).decays, Recipe().decays) == (True, False, None)


def test_what_else_follows() -> None:
    assert Recipe(batch_size=500_000, total_steps=600_000).tokens == 300_000_000_000 and Recipe(batch_size=1).tokens is None
    assert Recipe(fp8=True, precision="bfloat16").computes_in == "fp8" and Recipe(precision="bfloat16").computes_in == "bfloat16"


def test_what_is_stated_later_wins_and_takes_back_what_says_the_same_otherwise() -> None:
    first = recipe_of({"lr": 1e-3, "warmup_fraction": 0.1, "total_steps": 1000, "weight_decay_on": True}, "first")
    both = over(first, recipe_of({"lr": 2e-3, "warmup_steps": 7, "weight_decay": 0}, "second"))
    assert both.recipe.stated == {"lr": 2e-3, "warmup_steps": 7, "total_steps": 1000, "weight_decay": 0}
    assert both.origins == {"lr": "second", "weight_decay": "second", "warmup_steps": "second", "total_steps": "first"}


def test_the_end_of_a_schedule_goes_with_its_peak() -> None:
    first = recipe_of({"lr": 1e-3, "min_lr": 1e-4}, "first")
    assert over(first, recipe_of({"lr": 1e-5}, "second")).recipe.stated == {"lr": 1e-5}
    assert over(first, recipe_of({"lr": 5e-4}, "second")).recipe.stated == {"lr": 5e-4, "min_lr": 1e-4}


def test_what_contradicts_itself_over_two_places_names_both() -> None:
    with pytest.raises(UsageError, match="of first and second must not contradict itself"):
        over(recipe_of({"lr": 1e-3}, "first"), recipe_of({"min_lr": 1e-2}, "second"))


@pytest.mark.parametrize(("text", "change"), [("lr=1", True), ("schedule.kind=cosine", True), ("a/b=c.toml", False), ("gpt2", False), (3, False)])
def test_a_change_is_a_field_and_a_value(text: object, change: bool) -> None:
    assert is_change(text) is change


def test_every_row_of_the_published_outcomes_is_a_recipe() -> None:
    rows = [json.loads(line) for line in shared("outcomes", "outcomes.jsonl").read_text(encoding="utf-8").splitlines()]
    schema = json.loads(shared("outcomes", "schema.json").read_text(encoding="utf-8"))["properties"]
    cells = {f"{part}.{cell}" for part in ("optimizer", "schedule", "precision", "tricks") for cell in schema[part]["properties"]}
    assert set(CELLS) == cells | {"batch_tokens", "z_loss"} and set(CELLS.values()) <= set(Recipe.model_fields)
    for row in rows:
        strict, assumed = of_cells(row), of_cells(row, assumed=True)
        assert set(strict.stated) <= set(assumed.stated)
    assert of_cells(rows[0], assumed=True).lr is not None and of_cells(rows[0]).lr is None


NUMBERS = st.floats(1e-9, 1.0)
STATED = st.fixed_dictionaries(
    {},
    optional={
        "optimizer": st.sampled_from(["adamw", "sgd"]), "lr": NUMBERS, "betas": st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)), "eps": NUMBERS,
        "weight_decay": NUMBERS, "decoupled": st.booleans(), "grad_clip": NUMBERS, "schedule": st.sampled_from(["cosine", "wsd"]),
        "warmup_steps": st.integers(0, 10**6), "total_steps": st.integers(1, 10**7), "batch_size": st.integers(1, 10**8),
        "precision": st.sampled_from(["float32", "bfloat16", "fp8"]), "z_loss": NUMBERS, "dropout": NUMBERS,
        "init": st.text("aé\"\\'= #\n", min_size=1),
    },
)  # fmt: skip
"""Fields with values of theirs."""


@given(STATED, STATED)
@settings(max_examples=100, deadline=None)
def test_laying_over_is_what_it_is_for_dictionaries(first: dict[str, Any], second: dict[str, Any]) -> None:
    both = over(recipe_of(first, "a"), recipe_of(second, "b"))
    assert both.recipe == Recipe(**{**first, **second}) and set(both.origins) == set(both.recipe.stated)
    assert all(origin == ("b" if name in second else "a") for name, origin in both.origins.items())
