"""`--trusted-config`: what the tree that is judged says does not count, and reports say whose settings count."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from screen import settings as config
from screen.command import cli
from screen.command.commands import exit_code
from screen.command.targets import wanted
from screen.errors import UsageError
from screen.pipeline.known import comments_of, read_baseline
from screen.pipeline.stages import Judged
from screen.report import render
from screen.report.build import settings_part
from screen.report.schema import Report
from screen.trusted import trusted
from tests.report.test_report import full, report_of

pytestmark = pytest.mark.usefixtures("warm")

BASE = 'fail-on = "conditional"\nbaseline = "known.json"\n[[targets]]\nspec = "model.py"\n'
HEAD = 'fail-on = "never"\nignore = ["G", "R"]\nbaseline = "known.json"\nallow-unknown = true\n'
COMMENT = "# screen: ignore[G103] -- the head normalises\n"


def _git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose commit `main` has good settings, and whose working tree says that nothing fails. The working directory."""
    work = tmp_path / "repository" / "sub"
    work.mkdir(parents=True)
    (work / "screen.toml").write_text(BASE)
    (work / "known.json").write_text('{"findings": []}')
    (work / "model.py").write_text(f"{COMMENT}x = 1\ny = 2\n")
    _git(work.parent, "init")
    _git(work.parent, "add", ".")
    _git(work.parent, "commit", "-m", "base")
    _git(work.parent, "branch", "-f", "base")
    (work / "screen.toml").write_text(HEAD)
    (work / "known.json").write_text('{"findings": [{"fingerprint": "added"}]}')
    (work / "base").write_text(HEAD)  # called like the commit
    monkeypatch.chdir(work)
    return work


def test_the_settings_of_a_commit_count_and_those_of_the_tree_do_not(tree: Path) -> None:
    assert config.load({}).fail_on == ("never",)
    found = config.load({"trusted_config": "base"})
    assert (found.fail_on, found.ignore, found.allow_unknown) == (("conditional",), (), False)
    assert found.origins["fail-on"] == "base:screen.toml" and found.origins["ignore"] == "default"
    assert read_baseline(str(found.baseline), found.trusted) == frozenset()
    (one,) = wanted((), found)
    assert one.spec.text == "model.py" and one.settings.fail_on == ("conditional",)
    assert config.load({"trusted_config": "base", "fail_on": ("unstable",)}).fail_on == ("unstable",)


def test_settings_above_the_working_directory_are_looked_for_as_in_a_tree(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "inner").mkdir()
    monkeypatch.chdir(tree / "inner")
    found = config.load({"trusted_config": "base"})
    assert found.origins["fail-on"] == "base:../screen.toml" and read_baseline(str(found.baseline), found.trusted) == frozenset()


def test_a_broken_file_of_the_tree_hinders_nothing(tree: Path) -> None:
    (tree / "screen.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(UsageError, match="readable TOML"):
        config.load({})
    assert config.load({"trusted_config": "base"}).fail_on == ("conditional",)


def test_a_file_elsewhere_counts_with_the_baseline_beside_it(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "team.toml").write_text(BASE)
    found = config.load({"trusted_config": str(tmp_path / "gate" / "team.toml")})
    assert found.baseline == str(tmp_path / "gate" / "known.json") and found.fail_on == ("conditional",)
    assert [one.spec.text for one in wanted((), found)] == ["model.py"]


@pytest.mark.parametrize("name", ["no-such-branch", "gone.toml", "--help", "base:screen.toml", "HEAD^{tree}"])
def test_what_is_neither_is_an_error(tree: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--trusted-config"):
        config.load({"trusted_config": name})


def test_a_file_of_settings_cannot_trust_for_itself_and_a_baseline_is_not_written(tree: Path) -> None:
    with pytest.raises(UsageError, match="Leave one out"):
        config.load({"trusted_config": "base", "update_baseline": True, "baseline": "known.json"})
    (tree / "screen.toml").write_text('trusted-config = "base"')
    with pytest.raises(UsageError, match="`trusted-config` is none"):
        config.load({})


def test_a_repository_inside_the_tree_is_none(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git takes a folder with `HEAD`, `objects` and `refs` for a bare repository, and a tree may hold one."""
    (tree / "trap").mkdir()
    _git(tree / "trap", "init", "--bare", ".")
    monkeypatch.chdir(tree / "trap")
    with pytest.raises(UsageError, match="--trusted-config"):
        config.load({"trusted_config": "base"})


def test_a_comment_counts_where_the_same_statement_has_it_in_the_commit(tree: Path) -> None:
    elsewhere = config.load({"trusted_config": "base"}).trusted
    texts = (f"\n\n{COMMENT}x = 1\n", f"{COMMENT}x = 2\n", f"x = 1\n{COMMENT}y = 2\n", f"{COMMENT}x = 1\n{COMMENT}x = 1\n")
    for text, count, refused in zip(texts, (1, 0, 0, 1), (0, 1, 1, 1), strict=True):
        (tree / "model.py").write_text(text)
        comments, faults = comments_of(["model.py"], elsewhere)
        assert (len(comments), len(faults)) == (count, refused), text
        assert all("does not count" in fault for fault in faults)


def test_the_gate_of_the_commit_decides(tree: Path) -> None:
    judged = [Judged(report_of(full()).model_copy(update={"verdict": "conditional"}), None, True)]
    assert exit_code(judged, config.load({})) == 0
    assert exit_code(judged, config.load({"trusted_config": "base"})) == 1


def test_what_a_tree_says_is_listed(tree: Path) -> None:
    assert config.load({}).of_tree == dict.fromkeys(("ignore", "fail-on", "baseline", "allow-unknown"), "screen.toml")
    assert config.load({"fail_on": ("slip",)}).of_tree.keys() == {"ignore", "baseline", "allow-unknown"}
    assert config.load({"trusted_config": "base"}).of_tree == {}
    (tree / "run.toml").write_text("lr = 0.1\n")
    (tree / "screen.toml").write_text('recipe = "run.toml"\nformat = "json"\n')
    _git(tree, "commit", "-am", "a recipe")
    assert config.load({"trusted_config": "HEAD"}).of_tree == {"recipe": "run.toml"}


FORMATS = ("text", "markdown", "html", "json", "concise", "github", "junit", "sarif")


@pytest.mark.parametrize("format", FORMATS)
def test_every_report_names_the_origin(format: str) -> None:
    report = report_of(full())
    of_tree = report.model_copy(update={"settings": settings_part({"fail-on": "screen.toml", "ignore": "screen.toml"}, None)})
    text = render(of_tree, format)
    assert "fail-on" in text and "screen.toml" in text
    assert "origin/main" in render(report.model_copy(update={"settings": settings_part({}, "origin/main")}), format)
    assert settings_part({}, None) is None and "settings:" not in render(report, format).lower()


@pytest.mark.by_the_day
def test_the_command(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "model.py", "--trusted-config", "base", "--format", "json"]) == 2  # there is no model in it
    report = Report.model_validate_json(capsys.readouterr().out)
    assert report.settings is not None and report.settings.trusted == "base" and json.loads(report.to_json())["settings"]["of_tree"] == {}


def test_outside_of_a_repository_git_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="not a git repository"):
        trusted("base", tmp_path)


def test_what_lies_above_the_repository_is_none_of_its_files(tree: Path) -> None:
    found = trusted("base", tree)
    assert found.text("screen.toml") is not None and found.text("../screen.toml") is None and found.text("/etc/passwd") is None


@pytest.mark.parametrize(
    ("error", "said"), [(FileNotFoundError(2, "No such file"), "No such file"), (subprocess.TimeoutExpired("git", 60), "more than 60 s")]
)
def test_a_git_that_does_not_answer_is_said(tree: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    def run(*words: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UsageError, match=f"git does not answer: .*{said}"):
        trusted("base", tree)
