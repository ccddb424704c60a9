"""Whatever stands in a file, a recipe or a `UsageError` comes of it, and nothing else."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from screen.errors import UsageError
from screen.recipe.aliases import ALIASES, SAME
from screen.recipe.formats.own import of_leaves
from screen.recipe.gather import gather
from screen.recipe.read import recipe_of
from screen.recipe.recipe import CELLS, Recipe
from screen.recipe.stated import Where
from screen.recipe.write import toml

WORDS = st.sampled_from(["auto", "bf16-mixed", "1e-4", "nan", "-inf", "1_0", "true", "(0.9, 0.95)", "[0.9]", "cosine", "AdamW", "${x}", "\x00", "é"])
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from([10**400, -(10**400), 2**63]), st.floats(), WORDS, st.text(max_size=8),
    st.lists(st.one_of(st.floats(), st.integers(), WORDS, st.booleans(), st.none()), max_size=3),
)  # fmt: skip
FOREIGN = st.sampled_from([*ALIASES, *SAME, "optimizer.eps", "optimizer.name", "scheduler.type", "batch_size", "precision", "fp16.enabled", "seed"])
OWN = st.sampled_from([*Recipe.model_fields, *CELLS, "recipe.lr", "title", "base", "sources.lr"])
FUZZ = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(st.dictionaries(FOREIGN, VALUES, max_size=6), st.booleans(), st.sampled_from([None, 1]))
@FUZZ
def test_tables_of_other_programs(leaves: dict[str, Any], autocast: bool, devices: int | None) -> None:
    with contextlib.suppress(UsageError):
        stated = gather(leaves, Where("x"), autocast=autocast, devices=devices)
        assert set(stated.origins) == set(stated.recipe.stated) and Recipe(**stated.recipe.stated) == stated.recipe
        toml(stated)


@given(st.dictionaries(OWN, VALUES, max_size=5))
@FUZZ
def test_tables_of_our_own(leaves: dict[str, Any]) -> None:
    with contextlib.suppress(UsageError):
        stated = of_leaves(leaves, "x")
        assert len(str(stated.recipe)) < 10_000


NAMES = st.sampled_from(["learning_rate", "batch_size", "block_size", "beta1", "beta2", "x"])


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from("+-*/%"))
@FUZZ
def test_python_files(tmp_path: Path, values: dict[str, Any], sign: str) -> None:
    lines = [f"{name} = {value!r}" for name, value in values.items()]
    lines += [f"{name} = {name} {sign} {other}" for name in values for other in values]
    (tmp_path / "c.py").write_text("\n".join(lines), encoding="utf-8", errors="replace")
    with contextlib.suppress(UsageError):
        recipe_of(str(tmp_path / "c.py"), "x")


@given(st.binary(max_size=60), st.sampled_from([".toml", ".json", ".yaml", ".py", ".bin", ".txt"]))
@FUZZ
def test_bytes_of_any_kind(tmp_path: Path, data: bytes, suffix: str) -> None:
    (tmp_path / f"r{suffix}").write_bytes(data)
    with contextlib.suppress(UsageError):
        recipe_of(str(tmp_path / f"r{suffix}"), "x")


def _deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.one_of(FOREIGN, OWN), inner, max_size=3))


@given(st.recursive(VALUES, _deeper, max_leaves=6))
@FUZZ
def test_documents_of_any_shape(tmp_path: Path, document: Any) -> None:
    for name, text in (("r.json", json.dumps(document)), ("r.yaml", yaml.safe_dump(document))):
        (tmp_path / name).write_text(text, encoding="utf-8")
        with contextlib.suppress(UsageError):
            recipe_of(str(tmp_path / name), "x")


@given(st.one_of(VALUES, st.dictionaries(OWN, VALUES, max_size=3)))
@FUZZ
def test_what_python_gives(value: Any) -> None:
    with contextlib.suppress(UsageError):
        recipe_of(value, "`recipe=`")


@pytest.mark.parametrize(
    "text", ["lr=1e999", "lr=nan", "total_steps=1e400", "betas=[1]", "betas={}", "=1", "lr==1", "optimizer=" + "x" * 1000, "x" * 1000, "init=\x00"]
)
def test_changes_that_say_nothing(text: str) -> None:
    with contextlib.suppress(UsageError):
        stated = recipe_of(text, "`--recipe`")
        assert text.startswith("init")
        assert "\x00" not in toml(stated)
