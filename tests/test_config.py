"""Settings: files, options, origins, and words that help when one is wrong."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest

from screen import settings as config
from screen.errors import UsageError


def _file(folder: Path, text: str, name: str = "screen.toml") -> Path:
    (folder / name).write_text(text)
    return folder


DEFAULTS: dict[str, object] = {
    "format": "text", "report": (), "output": None, "select": (), "ignore": (), "fail_on": ("slip",), "baseline": None, "update_baseline": False,
    "allow_unknown": False, "strict_rules": False, "skip_without_model": False, "jobs": 1, "timeout": 120.0, "memory": 8589934592, "depth": None,
    "width": None, "set": {}, "config": {}, "input": (), "color": "auto", "quiet": False, "short": False, "verbose": False, "spot_check": True,
    "second_opinion": True, "require_opinion": False, "sandbox": "auto", "probe": False, "device": "auto", "dtype": "auto", "seed": 0,
    "probe_seconds": 60.0, "stress": False, "recipe": None, "targets": (), "file": "", "trusted": None,
}  # fmt: skip
"""Written down apart from the code: what nobody states decides what fails."""


def test_every_setting_that_nobody_states_is_what_is_written_down(tmp_path: Path) -> None:
    settings = config.load({}, tmp_path)
    assert {f.name: getattr(settings, f.name) for f in fields(settings) if f.name != "origins"} == DEFAULTS


def test_without_a_file_the_defaults_of_the_contract_hold(tmp_path: Path) -> None:
    settings = config.load({}, tmp_path)
    assert (settings.format, settings.fail_on, settings.timeout, settings.memory, settings.depth) == ("text", ("slip",), 120.0, 8 << 30, None)
    assert set(settings.origins.values()) == {"default"}


def test_a_file_is_read_with_every_kind_of_value(tmp_path: Path) -> None:
    text = """
    format = "json"
    fail-on = "conditional"
    select = ["G", "R2"]
    ignore = "g101,G102"
    timeout = "2m"
    memory = "512MiB"
    depth = 48
    allow_unknown = true
    input = ["x=float32[1,16,512]"]
    [report]
    markdown = "r.md"
    [set]
    n_layer = 4
    text_config.hidden_size = 64
    """
    settings = config.load({}, _file(tmp_path, text))
    assert settings.select == ("G", "R2") and settings.ignore == ("G101", "G102")
    assert (settings.timeout, settings.memory, settings.depth, settings.allow_unknown) == (120.0, 512 << 20, 48, True)
    assert settings.report == (("markdown", "r.md"),)
    assert settings.set == {"n_layer": 4, "text_config.hidden_size": 64}
    assert settings.origins["depth"] == "screen.toml" and settings.origins["color"] == "default"


def test_settings_of_a_model_are_joined_key_by_key(tmp_path: Path) -> None:
    """What the file and the options both say is what the options say; what only one of them says stays."""
    file = _file(tmp_path, '[set]\nlayers = 4\nwidth = 64\n[[targets]]\nspec = "m.py::A"\n[targets.set]\nwidth = 32\nheads = 2')
    settings = config.load({"set": ("layers=8",)}, file)
    assert settings.set == {"layers": 8, "width": 64} and settings.origins["set"] == "option"
    assert settings.targets[0].settings.set == {"layers": 8, "width": 32, "heads": 2}


def test_options_win_over_files_and_files_over_defaults(tmp_path: Path) -> None:
    settings = config.load({"depth": "2", "quiet": False, "select": ()}, _file(tmp_path, 'depth = 48\nquiet = true\nselect = ["G"]'))
    assert settings.depth == 2 and settings.quiet is True and settings.select == ("G",)
    assert settings.origins["depth"] == "option" and settings.origins["quiet"] == "screen.toml"


def test_the_nearest_file_counts_and_screen_toml_before_pyproject(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    _file(tmp_path, "depth = 1")
    assert config.find(inner) == ("../../screen.toml", {"depth": 1})
    _file(tmp_path / "a", "[tool.other]\nx = 1", "pyproject.toml")  # has no table of ours: it does not end the search
    assert config.find(inner)[1] == {"depth": 1}
    _file(tmp_path / "a", "[tool.screen]\ndepth = 2", "pyproject.toml")
    assert config.find(inner) == ("../pyproject.toml", {"depth": 2})
    _file(tmp_path / "a", "depth = 3")
    assert config.find(inner) == ("../screen.toml", {"depth": 3})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dpeth = 3", "Did you mean `depth`?"),
        ("[tool.screen]\ndepth = 3", "stand without `[tool.screen]` there"),
        ("fail_onn = 'unstable'", "Did you mean `fail-on`?"),
        ("zzz = 1", "The keys are"),
        ("base-line = 'x'", "Did you mean `baseline`"),
        ("[recipe]\nlrr = 1", "Did you mean `lr`"),
        ("format = 'serif'", "Did you mean `sarif`"),
        ("format = 'jsn'", "Did you mean `json`?"),
        ("fail-on = 'stable'", "`slip`, `unstable`, `conditional`, `never` or rule codes"),
        ("fail-on = 'stable'", "Did you mean `unstable`?"),
        ("fail-on = 'slpi'", "Did you mean `slip`?"),
        ("fail-on = 'G1O1'", "`G1O1` is none"),
        ("fail-on = 'never, slip'", "`never` stands beside others"),
        ("fail-on = []", "it is empty"),
        ("fail-on = 3", "text or a list"),
        ("depth = 0", "above zero"),
        ("depth = true", "above zero"),
        ("timeout = 0", "above zero"),
        ("timeout = '2 weeks'", "above zero"),
        ("memory = 'much'", "a size"),
        ("allow-unknown = 'yes'", "true or false"),
        ("select = 'G1x'", "rule codes"),
        ("select = 3", "text or a list"),
        ("report = 'markdown'", "FORMAT=PATH"),
        ("jobs = 0", "from 1 to 9999, or `auto`"),
        ("jobs = true", "from 1 to 9999, or `auto`"),
        ("seed = -1", "from 0 to 999999999"),
        ("targets = 3", "must be tables, one for each target"),
        ("[[targets]]\nspce = 'm.py'", "Is `spce` meant to be `spec`?"),
        ("[[targets]]\nspec = ' '", "must have `spec`, the target; it is ` `"),
        ("[[targets]]\nspec = 'm.py'\njobs = 2", "`jobs` is one of the whole run"),
        ("recipe = 3", "recipe"),
        ("report = 'htm=x'", "Did you mean `html`"),
        ("set = 'a'", "KEY=VALUE"),
        ("output = ''", "a path"),
        ("quiet = true\nverbose = true", "exclude each other"),
        ("require-opinion = true\nspot-check = false", "must find a second opinion"),
        ("depth = ", "readable TOML"),
        ("[[targets]]\nspec = 'm.py'\nname = 3", "must be text"),
        ("[[targets]]\nspec = 'm.py'\nname = 'a'\n[[targets]]\nspec = 'n.py'\nname = 'a'", "`a` is the name of entry 1"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        config.load({}, _file(tmp_path, text))
    assert said in str(caught.value)


def test_a_table_that_is_no_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must be a table"):
        config.load({}, _file(tmp_path, "[tool]\nscreen = 1", "pyproject.toml"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1), ("a=x", "x"), ("a=", ""), ("a=true", True), ("a=[1, 2]", [1, 2]), ('a="1"', "1"), ("a=b=c", "b=c"), ("a=1.5", 1.5),
        ("a=False", False), ("a=True", True), ("a=None", None), ("a=(3, 3)", [3, 3]), ("a=[1, 'b']", [1, "b"]), ("a=1_000", 1000), ("a='8'", "8"),
        ("a=007", "007"), ("a={1, 2}", "{1, 2}"), ("a=b'x'", "b'x'"), ("a=1+2j", "1+2j"),
    ],
)  # fmt: skip
def test_set_takes_what_json_or_python_writes_and_anything_else_is_text(tmp_path: Path, text: str, value: object) -> None:
    assert config.load({"set": (text,)}, tmp_path).set == {"a": value}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GiB", 8 << 30), ("0", 0), ("1.5 GB", 1_500_000_000), ("64M", 64 << 20), ("100", 100), ("2kB", 2000), ("3 MB", 3_000_000),
        ("5KiB", 5 << 10), ("7mib", 7 << 20), ("1k", 1 << 10), ("2g", 2 << 30), ("9B", 9),
    ],
)  # fmt: skip
def test_sizes(tmp_path: Path, text: str, size: int) -> None:
    assert config.load({"memory": text}, tmp_path).memory == size


def test_every_setting_is_shown_with_its_origin(tmp_path: Path) -> None:
    text = config.show(config.load({"depth": "7"}, _file(tmp_path, 'color = "never"')))
    lines = dict(line.split(" = ", 1) for line in text.splitlines())
    assert [key.strip() for key in lines] == list(config.READERS)
    assert "# option" in text and "# screen.toml" in text and "# default" in text


def test_entries_are_shown_with_what_they_say(tmp_path: Path) -> None:
    entries = "[[targets]]\nspec = 'm.py'\nname = 'small'\ndepth = 3\n[[targets]]\nspec = 'n.py'"
    first, second = config.show(config.load({}, _file(tmp_path, entries))).split("[[targets]]\n")[1:]
    assert [line.split(" = ")[0].strip() for line in first.splitlines() if line] == ["spec", "name", "depth"] and "# screen.toml, entry 1" in first
    assert [line.split(" = ")[0].strip() for line in second.splitlines() if line] == ["spec"]
    origins = [[line.rpartition("# ")[2] for line in text.splitlines() if line] for text in (first, second)]
    assert origins == [["screen.toml, entry 1"] * 3, ["screen.toml, entry 2"]]


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Path:
        raise FileNotFoundError

    monkeypatch.setattr(config.Path, "cwd", gone)
    with pytest.raises(UsageError, match="the working directory is gone"):
        config.load({})


def test_the_baseline_of_a_file_is_meant_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    found = config.load({}, _file(tmp_path, "baseline = 'known.json'\noutput = 'out.txt'") / "below")
    assert (found.baseline, found.output) == ("../known.json", "../out.txt")


@pytest.mark.parametrize("text", ['report = "json=out/r.json"', 'report = ["json=out/r.json"]', '[report]\njson = "out/r.json"'])
def test_paths_of_a_file_are_meant_from_its_folder(tmp_path: Path, text: str) -> None:
    (tmp_path / "below").mkdir()
    settings = config.load({}, _file(tmp_path, text) / "below")
    assert settings.report == (("json", "../out/r.json"),)
    with pytest.raises(UsageError, match="FORMAT=PATH"):
        config.load({}, _file(tmp_path, 'report = "json"') / "below")


def test_jobs_and_seeds(tmp_path: Path) -> None:
    assert config.load({"jobs": "auto"}, tmp_path).jobs == (os.cpu_count() or 1) and config.load({"jobs": "3"}, tmp_path).jobs == 3
    assert config.load({"seed": "0"}, tmp_path).seed == 0


@pytest.mark.parametrize(("text", "seconds"), [("31622400", 31622400.0), ("0.5", 0.5), ("366h", 366 * 3600.0)])
def test_times_up_to_a_year(tmp_path: Path, text: str, seconds: float) -> None:
    assert config.load({"timeout": text}, tmp_path).timeout == seconds
    for beyond in ("31622401", "527041m"):
        with pytest.raises(UsageError, match="below a year"):
            config.load({"timeout": beyond}, tmp_path)


def test_sizes_up_to_what_a_machine_counts(tmp_path: Path) -> None:
    assert config.load({"memory": str(1 << 60)}, tmp_path).memory == 1 << 60 and config.load({"depth": "999999999"}, tmp_path).depth == 999999999
    for key, beyond in (("memory", str((1 << 60) * 2)), ("depth", "1000000000")):
        with pytest.raises(UsageError, match="below"):
            config.load({key: beyond}, tmp_path)


def test_stress_measures_unless_the_same_line_says_not_to(tmp_path: Path) -> None:
    assert config.load({"stress": True}, _file(tmp_path, "probe = false")).stress
    assert config.load({"probe": False}, _file(tmp_path, "stress = true")).stress
    with pytest.raises(UsageError, match="exclude each other"):
        config.load({"stress": True, "probe": False}, tmp_path)


def test_a_trusted_file_without_settings_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]\n")
    for name, said in (("pyproject.toml", "has no `\\[tool.screen\\]`"), ("", "must name a commit")):
        with pytest.raises(UsageError, match=said):
            config.load({"trusted_config": name}, tmp_path)


def test_a_recipe_is_shown_field_by_field(tmp_path: Path) -> None:
    shown = config.show(config.load({"recipe": ("lr=0.1",)}, tmp_path))
    assert "recipe.lr" in shown and "= 0.1" in shown


def test_a_config_and_a_recipe_of_a_file_are_meant_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    (tmp_path / "c.toml").write_text("[model]\ndepth = 3\n")
    (tmp_path / "r.toml").write_text("lr = 0.1\n")
    _file(tmp_path, "config = 'c.toml'\nrecipe = ['r.toml', 'weight_decay=0.2']")
    found = config.load({})
    assert found.config["model.depth"] == 3 and found.recipe is not None
    assert (found.recipe.recipe.lr, found.recipe.recipe.weight_decay) == (0.1, 0.2)


def test_what_is_called_like_a_file_of_settings_and_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "screen.toml").mkdir()
    with pytest.raises(UsageError, match="it is no regular file"):
        config.load({}, tmp_path)


def test_assignments_may_stand_in_a_table_or_in_a_list(tmp_path: Path) -> None:
    assert config.load({}, _file(tmp_path, "[set]\na.b = 1")).set == config.load({}, _file(tmp_path, "set = ['a.b=1']")).set == {"a.b": 1}


def test_what_a_later_version_has_is_refused_with_the_version() -> None:
    assert "is not in this version" in str(config.later("`screen fix`", "it was called"))


def test_a_mark_of_byte_order_is_no_part_of_a_file_and_a_number_without_end_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "screen.toml").write_bytes(b"\xef\xbb\xbfdepth = 3\n")
    assert config.load({}, tmp_path).depth == 3
    (tmp_path / "screen.toml").write_text(f"depth = {'1' * 5000}")
    with pytest.raises(UsageError, match="must be readable TOML"):
        config.load({}, tmp_path)
