"""Targets of the file of settings: which are meant, with which settings each, and how several are judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from screen import settings as config
from screen.command import cli, commands
from screen.command.targets import Wanted, named, wanted
from screen.errors import LoadError, UsageError
from screen.pipeline.stages import Judged
from screen.report.annotation import annotations_of
from screen.report.build import Request, not_judged
from tests.command.test_cli import MODEL, _screen

pytestmark = [pytest.mark.usefixtures("warm"), pytest.mark.by_the_day]

FILE = """
[tool.screen]
fail-on = "unstable"
set = {common = 1, shared = 1}
baseline = "known.json"
[[tool.screen.targets]]
spec = "src/model.py::Net"
name = "small"
set = {shared = 2, own = 2}
[[tool.screen.targets]]
spec = "src/model.py::Net"
name = "large"
depth = 96
config = "large.json"
fail-on = "conditional"
select = ["G"]
[[tool.screen.targets]]
spec = "hf:gpt2"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, and the working directory."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "model.py").write_text("")
    (tmp_path / "other.py").write_text("")
    (tmp_path / "large.json").write_text('{"own": 3}')
    (tmp_path / "known.json").write_text('{"findings": []}')
    (tmp_path / "pyproject.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _texts(found: list[Wanted]) -> list[tuple[str, str]]:
    return [(one.name, one.spec.text) for one in found]


def test_without_a_target_every_entry_is_meant(project: Path) -> None:
    found = wanted((), config.load({}))
    assert _texts(found) == [("small", "src/model.py::Net"), ("large", "src/model.py::Net"), ("", "hf:gpt2")]


def test_an_entry_wins_over_the_file_and_the_command_line_over_both(project: Path) -> None:
    small, large, gpt2 = (one.settings for one in wanted((), config.load({})))
    assert small.set == {"common": 1, "shared": 2, "own": 2} and (small.depth, small.fail_on, small.select) == (None, ("unstable",), ())
    assert (large.depth, large.fail_on, large.select, large.config) == (96, ("conditional",), ("G",), {"": "large.json", "own": 3})
    assert gpt2.set == {"common": 1, "shared": 1}
    small, large, gpt2 = (one.settings for one in wanted((), config.load({"set": ("own=9",), "fail_on": ("never",), "depth": "5"})))
    assert small.set == {"common": 1, "shared": 2, "own": 9}
    assert {one.fail_on for one in (small, large, gpt2)} == {("never",)} and {one.depth for one in (small, large, gpt2)} == {5}


def test_a_recipe_is_joined_field_by_field_and_a_file_of_it_is_meant_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "run.toml").write_text("lr = 0.5\n")
    entries = "{ warmup_steps = 7 }", '["lr=0.25"]', '"run.toml"'
    common = "[recipe]\nlr = 0.1\nwarmup_steps = 3\n"
    (tmp_path / "screen.toml").write_text(common + "".join(f"[[targets]]\nspec = 'hf:gpt2'\nrecipe = {entry}\n" for entry in entries))
    monkeypatch.chdir(tmp_path / "sub")
    stated = [one.settings.recipe.recipe.stated for one in wanted((), config.load({})) if one.settings.recipe]
    assert [(s["lr"], s.get("warmup_steps")) for s in stated] == [(0.1, 7), (0.25, 3), (0.5, None)]
    stated = [one.settings.recipe.recipe.stated for one in wanted((), config.load({"recipe": ("lr=2",)})) if one.settings.recipe]
    assert [(s["lr"], s.get("warmup_steps")) for s in stated] == [(2, 7), (2, 3), (2, None)]


@pytest.mark.parametrize("text", ["src/model.py::Net", "./src/model.py::Net", "src/../src/model.py:Net"])
def test_a_target_that_is_an_entry_has_its_settings(project: Path, text: str) -> None:
    found = wanted((text,), config.load({}))
    assert [(one.name, one.spec.text, one.settings.depth) for one in found] == [("small", text, None), ("large", text, 96)]


def test_an_entry_is_called_by_its_name(project: Path) -> None:
    assert _texts(wanted(("large",), config.load({}))) == [("large", "src/model.py::Net")]
    with pytest.raises(UsageError, match="Did you mean `large`"):
        named("lrge", config.load({}))


def test_another_target_has_the_common_settings(project: Path) -> None:
    (found,) = wanted(("other.py",), config.load({}))
    assert (found.name, found.settings.set, found.settings.fail_on) == ("", {"common": 1, "shared": 1}, ("unstable",))


def test_paths_are_meant_from_the_folder_of_the_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "src")
    settings = config.load({})
    assert settings.baseline == "../known.json"
    small, large, gpt2 = wanted((), settings)
    assert [one.spec.text for one in (small, large, gpt2)] == ["../src/model.py::Net", "../src/model.py::Net", "hf:gpt2"]
    assert large.settings.config == {"": "../large.json", "own": 3}
    assert [one.name for one in named("model.py::Net", settings)] == ["small", "large"]


def test_an_entry_whose_file_is_gone_is_named_and_hinders_no_other_target(project: Path) -> None:
    (project / "src" / "model.py").unlink()
    assert _texts(wanted(("other.py",), config.load({}))) == [("", "other.py")]
    with pytest.raises(UsageError, match=r"entry 1 of `\[\[tool.screen.targets\]\]` in `pyproject.toml`"):
        wanted((), config.load({}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[targets]]\nspec = 'a.py'\nfial-on = 'slip'", "entry 1 of `[[targets]]` in `screen.toml` (`a.py`)"),
        ("[[targets]]\nspec = 'a.py'\nfial-on = 'slip'", "Did you mean `fail-on`?"),
        ("[[targets]]\nspec = 'a.py'\n[[targets]]\nspec = 'b.py'\ndpeth = 2", "entry 2 of `[[targets]]` in `screen.toml` (`b.py`)"),
        ("[[targets]]\nspec = 'a.py'\nformat = 'json'", "`format` is one of the whole run"),
        ("[[targets]]\nspec = 'a.py'\ndepth = 0", "`depth` in entry 1"),
        ("[[targets]]\nspce = 'a.py'", "Is `spce` meant to be `spec`?"),
        ("[[targets]]\nname = 'a'", "must have `spec`, the target; there is none"),
        ("[[targets]]\nspec = 3", "it is `3`"),
        ("[[targets]]\nspec = 'a.py'\nname = 3", "must be text"),
        ("[[targets]]\nspec = 'a.py'\nname = 'x'\n[[targets]]\nspec = 'b.py'\nname = 'x'", "`x` is the name of entry 1"),
        ("targets = ['a.py']", "must be tables"),
        ("[targets]\nspec = 'a.py'", "must be tables"),
        ("[[target]]\nspec = 'a.py'", "Did you mean `targets`?"),
        ("jobs = 0", "a whole number from 1 to 9999, or `auto`"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "screen.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        config.load({}, tmp_path)
    assert said in str(caught.value)


def test_config_shows_every_entry_with_its_origin(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config"]) == 0
    last = capsys.readouterr().out.split("[[targets]]\n")
    assert len(last) == 4
    assert last[1].splitlines()[0].split() == ["spec", "=", '"src/model.py::Net"', "#", "pyproject.toml,", "entry", "1"]
    assert "fail-on = " in last[2] and "pyproject.toml, entry 2" in last[2] and "timeout" not in last[2]


def test_a_bare_check_without_entries_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check"]) == 2
    assert "`screen check model.py`" in capsys.readouterr().err


# -- several targets ----------------------------------------------------------------------------------------------------------------------


def _judged(spec: str, verdict: str = "conditional") -> Judged:
    blank = not_judged(LoadError("a must", "b is"), Request(spec))
    return Judged(blank.model_copy(update={"verdict": verdict, "error": None}), None, True)


def test_results_are_printed_as_they_come_and_are_the_same_as_in_a_file(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []

    def judge(asked: list[Wanted], settings: config.Settings) -> Iterator[list[Judged]]:
        for one in asked:
            yield [_judged(f"{one.spec.text}/{one.name}")]
            printed.append(capsys.readouterr().out)

    monkeypatch.setattr(commands, "_judge", judge)
    assert cli.main(["check"]) == 0
    assert [part.count("conditional") for part in printed] == [1, 1, 1] and "large" in printed[1]
    whole = "".join(printed) + capsys.readouterr().out
    assert "\n\n3 targets" in whole
    assert cli.main(["check", "-o", "report.txt"]) == 0
    assert (project / "report.txt").read_text() == whole


def test_ctrl_c_keeps_what_was_judged(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def judge(asked: list[Wanted], settings: config.Settings) -> Iterator[list[Judged]]:
        for _ in range(before):
            yield [_judged("a.py")]
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "_judge", judge)
    before = 1
    assert cli.main(["check", "--report", "json=r.json"]) == 130
    out, err = capsys.readouterr()
    assert out.startswith("conditional") and "interrupted" in err and json.loads((project / "r.json").read_text())["target"]["spec"] == "a.py"
    (project / "r.json").unlink()
    before = 0
    assert cli.main(["check", "--report", "json=r.json"]) == 130
    assert capsys.readouterr().out == "" and not (project / "r.json").exists()


def test_the_same_target_under_two_names_has_two_fingerprints() -> None:
    error = not_judged(LoadError("a must", "b is"), Request("a.py"))
    named_ = [error.model_copy(update={"target": error.target.model_copy(update={"name": name})}) for name in (None, "small", "large")]
    assert len({annotations_of(report)[0].fingerprint for report in named_}) == 3


def test_reports_and_codes_do_not_depend_on_the_number_of_jobs(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    entries = 'spec = "model.py::Model"', 'spec = "model.py::Block"\ndepth = 48\nname = "block"\nfail-on = "conditional"', 'spec = "model.py::None_"'
    (tmp_path / "screen.toml").write_text("spot-check = false\nformat = 'json'\n" + "".join(f"[[targets]]\n{entry}\n" for entry in entries))
    one, two = (_screen("check", "-j", jobs, cwd=tmp_path) for jobs in ("1", "2"))
    assert (one.returncode, one.stdout, one.stderr) == (two.returncode, two.stdout, two.stderr) and one.returncode == 2
    found = [(r["target"]["name"], r["target"]["depth"], bool(r["error"])) for r in json.loads(one.stdout)["reports"]]
    assert found == [(None, 3, False), ("block", 48, False), (None, None, True)]
    done = _screen("check", "block", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.startswith("exit 1: the verdict is conditional")
