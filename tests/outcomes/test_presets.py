"""Published architectures under their own recipes: three of them, and what the command says."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from screen.errors import UsageError
from screen.outcomes import presets
from screen.outcomes.__main__ import main
from screen.recipe import presets as recipes


def test_every_architecture_has_a_recipe() -> None:
    assert set(presets.ARCHITECTURES) <= set(recipes.names())


@pytest.mark.by_the_day
def test_three_of_them_are_not_unstable() -> None:
    pytest.importorskip("transformers")
    result = CliRunner().invoke(main, ["presets", "gpt2-small", "vit-b16", "bert-base", "--json"])
    found = json.loads(result.stdout)
    assert [said["name"] for said in found["presets"]] == ["gpt2-small", "vit-b16", "bert-base"]
    assert not {said["verdict"] for said in found["presets"]} & {"unstable", "not judged"}
    assert all(said["lr"] < said["tolerated"] for said in found["presets"])
    assert result.exit_code == (1 if found["not_reached"] else 0)


def test_what_must_be_reached_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [presets.Said("one", "unstable", 0.9, 1e-3, 1e-4, "S: it fails"), *[presets.Said("two", "conditional")] * 2]
    monkeypatch.setattr("screen.outcomes.__main__.judged", lambda names, progress: iter(said))
    result = CliRunner().invoke(main, ["presets"])
    assert result.exit_code == 1
    assert "| one | unstable | 0.9 | 0.001 | 0.0001 | S: it fails |" in result.stdout and "not reached: one is unstable" in result.stdout
    assert "2 of 3 are conditional, of at most 35%" in result.stdout and "2 conditional, 1 unstable" in result.stdout
    said[:] = [presets.Said("two", "stable")]
    assert CliRunner().invoke(main, ["presets"]).exit_code == 0


def test_without_transformers_and_for_a_wrong_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="gpt2-smal"):
        list(presets.judged(["gpt2-smal"]))
    monkeypatch.setattr(presets, "find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["presets"])
    assert result.exit_code == 1 and "`transformers` must be installed" in result.output
