"""What stands between `screen` and other programs: the action of GitHub, hooks of pre-commit, pytest, shells, and a report as an object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from screen.command import cli, commands
from screen.errors import LoadError, UsageError
from screen.pipeline.stages import Judged
from screen.report.build import Request, not_judged, several
from screen.report.schema import FindingPart, Report
from tests.command.test_cli import MODEL
from tests.shared import ROOT

pytestmark = pytest.mark.usefixtures("warm")

yaml = pytest.importorskip("yaml")


def _yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def _step(name: str) -> dict[str, Any]:
    [step] = [step for step in _yaml("action.yml")["runs"]["steps"] if step.get("name") == name]
    return step  # type: ignore[no-any-return]


@pytest.fixture
def python() -> dict[str, str]:
    """An environment in which `python` is this one, with this checkout."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def _bash(script: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As the runner of GitHub runs `shell: bash`."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.by_the_day
def test_the_action_checks_reports_and_keeps_the_exit_code(tmp_path: Path, python: dict[str, str]) -> None:
    (tmp_path / "a model.py").write_text(MODEL)
    step = _step("screen check")
    assert {"TARGETS", "ARGS", "SARIF"} == set(step["env"]) and "${{" not in step["run"]
    files = {"GITHUB_OUTPUT": tmp_path / "out", "GITHUB_STEP_SUMMARY": tmp_path / "summary", "SARIF": tmp_path / "screen.sarif"}
    values = {"TARGETS": "a model.py::Model\n", "ARGS": "--no-spot-check\n--fail-on conditional\n"}
    done = _bash(step["run"], tmp_path, {**python, **{name: str(path) for name, path in files.items()}, **values})
    assert done.returncode == 1 and "::notice file=a model.py" in done.stdout, done.stderr
    assert files["GITHUB_OUTPUT"].read_text() == f"exit-code=1\nsarif={files['SARIF']}\n"
    assert json.loads(files["SARIF"].read_text())["version"] == "2.1.0" and "conditional" in files["GITHUB_STEP_SUMMARY"].read_text()


def test_the_action_installs_what_is_asked_for(tmp_path: Path) -> None:
    """`pip` is a script here that says how it was called."""
    step = _step("Install screen")
    assert set(step["env"]) == {"ACTION", "EXTRAS", "REQUIREMENTS"} and "${{" not in step["run"]
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s|" "$@"; echo\n')
    (tmp_path / "python").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ACTION": "/action", "EXTRAS": "hf", "REQUIREMENTS": "-r needs.txt"}
    said = _bash(step["run"], tmp_path, env).stdout.splitlines()
    assert len(said) == 2 and said[0].endswith("|-c|/action/constraints.txt|/action[hf]|") and said[1].endswith("|-r|needs.txt|")
    assert _bash(step["run"], tmp_path, {**env, "EXTRAS": "", "REQUIREMENTS": ""}).stdout.splitlines()[0].endswith("|/action|")


def test_steps_of_the_action_name_inputs_and_outputs_that_are_there() -> None:
    action = _yaml("action.yml")
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    named = {word.split("}")[0].split("'")[0].split()[0] for word in text.split("inputs.")[1:]}
    assert named == set(action["inputs"]) and all({"description", "default"} <= set(one) for one in action["inputs"].values())
    assert "pull_request_target" not in text
    for name, output in action["outputs"].items():
        assert f"steps.check.outputs.{name}" in output["value"] and f'"{name}=' in _step("screen check")["run"]


def test_hooks_are_commands_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    hooks = {hook["id"]: hook for hook in _yaml(".pre-commit-hooks.yaml")}
    assert set(hooks) == {"screen", "screen-targets"} and hooks["screen-targets"]["pass_filenames"] is False
    monkeypatch.chdir(tmp_path)
    for name in ("utils.py", "more.py"):
        (tmp_path / name).write_text("import torch\n")
    words = hooks["screen"]["entry"].split()
    assert words[0] == "screen" and cli.main([*words[1:], "utils.py", "more.py"]) == 0
    assert capsys.readouterr() == ("", "skipped `utils.py`: no model can be read in it\nskipped `more.py`: no model can be read in it\n")
    assert cli.main([*hooks["screen-targets"]["entry"].split()[1:]]) == 2
    assert cli.main([*words[1:], "missing.py"]) == 2


# -- shells -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shell", "said"), [("zsh", "#compdef screen"), ("fish", "complete --no-files --command screen")])
def test_completion_is_printed_without_torch(tmp_path: Path, shell: str, said: str) -> None:
    script = "import sys; from screen.command.cli import main; code = main([]); print(code, 'torch' in sys.modules, file=sys.stderr)"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "_SCREEN_COMPLETE": f"{shell}_source"}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert said in done.stdout and done.stderr == "0 False\n"


def test_completion_knows_commands_options_and_files(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_SCREEN_COMPLETE", "bash_complete")
    cases = ("screen ini", "1", "plain,init"), ("screen check --fail", "2", "plain,--fail-on"), ("screen check mod", "2", "file,mod")
    for words, at, said in cases:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", at)
        assert cli.main([]) == 0 and capsys.readouterr().out == f"{said}\n"
    values = ("screen check --format j", "3", "json"), ("screen check --fail-on G10", "3", "G101"), ("screen rule G10", "2", "G101")
    for words, at, said in (*values, ("screen recipe llama-3", "2", "llama-3-8b"), ("screen explain resid", "2", "residual")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", at)
        assert cli.main([]) == 0 and f"plain,{said}" in capsys.readouterr().out.splitlines()
    monkeypatch.setenv("_SCREEN_COMPLETE", "nosh_source")
    assert cli.main([]) == 2 and "bash_source" in capsys.readouterr().err


# -- a report as an object ------------------------------------------------------------------------------------------------------------------------


def _report(verdict: str, *findings: str) -> Report:
    blank = not_judged(LoadError("a must", "b is"), Request("a.py"))
    parts = [
        FindingPart(
            code=code, name="a-name", step="structure", channel=None, severity="warning", outcome="violated", message="It is.", basis="derived",
            file="a.py", line=3,
        )
        for code in findings
    ]  # fmt: skip
    return blank.model_copy(update={"verdict": verdict, "summary": "N: 2 blocks", "error": None, "findings": parts})


def test_a_report_says_its_exit_code_and_little_else() -> None:
    stable, slip, unknown = _report("stable"), _report("conditional", "G101"), _report("unknown")
    assert [one.exit_code for one in (stable, slip, unknown, several([stable, unknown, slip]))] == [0, 1, 2, 2]
    assert repr(slip) == "<a.py: conditional, N: 2 blocks>" and str(slip) == slip.to_text()
    assert "exit_code" not in slip.to_json()


def test_a_summary_that_cannot_be_written_changes_no_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    for report in (_report("stable"), _report("stable", "G101")):
        monkeypatch.setattr(commands, "_judge", lambda asked, settings, report=report: [[Judged(report, None, True)]])
        assert cli.main(["check", "a.py"]) == report.exit_code
        assert "warning: `$GITHUB_STEP_SUMMARY` cannot be written" in capsys.readouterr().err


def test_a_report_is_saved_in_the_format_of_its_file(tmp_path: Path) -> None:
    report = _report("conditional", "G101")
    for name, start in (("r.json", "{"), ("r.md", "#"), ("r.txt", "conditional"), ("r.sarif", "{"), ("r.xml", "<?xml")):
        report.save(tmp_path / name)
        assert (tmp_path / name).read_text().startswith(start), name
    report.save(tmp_path / "r.log", "concise")
    assert (tmp_path / "r.md").read_text() == report.to_markdown() == report._repr_markdown_()
    assert (tmp_path / "r.log").read_text().startswith("a.py:3:1: G101 warning It is.")
    with pytest.raises(UsageError, match=r"must end in `.txt`, `.md`"):
        report.save(tmp_path / "r.doc")
    assert not (tmp_path / "r.doc").exists()


def test_assertions_name_what_was_found_and_where() -> None:
    _report("stable").assert_stable()
    _report("conditional").assert_no_slips()
    with pytest.raises(AssertionError, match=r"the verdict must be stable: it is conditional\n"):
        _report("conditional").assert_stable()
    with pytest.raises(AssertionError, match=r"no slip: G101 violated .*\na.py:3:1: G101 warning It is."):
        _report("stable", "G101").assert_no_slips()
    unknown, refused = _report("unknown"), not_judged(LoadError("a must", "b is"), Request("a.py"))
    for report, why in ((unknown, "the verdict is unknown\n"), (refused, "it was not judged")):
        with pytest.raises(AssertionError, match=why):
            report.assert_no_slips()


TESTS = """
import sys
from torch import nn

class Sandwich(nn.Module):
    def __init__(self, post=True):
        super().__init__()
        self.a, self.b = nn.LayerNorm(32), nn.LayerNorm(32) if post else nn.Identity()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
    def forward(self, x):
        return x + self.b(self.down(nn.functional.gelu(self.up(self.a(x)))))

def test_sandwich(screen):
    screen.check(Sandwich(), spot_check=False).assert_stable()

def test_pre(screen_check):
    screen_check(Sandwich(post=False), spot_check=False).assert_no_slips()

def test_pre_is_conditional(screen):
    screen.check(Sandwich(post=False), spot_check=False).assert_stable()
"""


@pytest.mark.by_the_day
def test_the_plugin_gives_fixtures_to_tests(tmp_path: Path) -> None:
    (tmp_path / "test_blocks.py").write_text(TESTS)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "screen.pytest_plugin", "-p", "no:cacheprovider", "-q", "--rootdir", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "the verdict must be stable" in done.stdout and "def assert_stable" not in done.stdout


def test_the_plugin_loads_nothing_before_it_is_asked() -> None:
    script = "import sys, screen.pytest_plugin; print({'torch', 'pydantic', 'screen.api'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"
