"""docs/gate.md does what it says: its commands are run in their order; and the repository of examples/ci with its good and its bad commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from screen.command import cli
from tests.shared import ROOT

pytestmark = pytest.mark.by_the_day

PAGE = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
CI = ROOT / "examples" / "ci"
STEP = re.compile(
    r"<!-- (?P<kind>run|file): (?P<what>\S+) -->\n```(?:bash|python)\n(?P<body>.*?)\n```\n(?:\n```text\n(?P<said>.*?)\n```\n)?", re.DOTALL
)
"""Commands with their exit code, or a file with its name; and lines that the commands say."""


def _environment(folder: Path) -> dict[str, str]:
    """`screen` and `python` are those of this checkout. The plugin is named: this checkout need not be the one that is installed."""
    bin_ = folder / "bin"
    bin_.mkdir()
    (bin_ / "screen").write_text(f'#!/bin/sh\nexec {sys.executable} -m screen "$@"\n')
    (bin_ / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for script in bin_.iterdir():
        script.chmod(0o755)
    plugin = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p screen.pytest_plugin -p no:cacheprovider"}
    return {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), **plugin}


def test_every_step_of_the_page(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    shutil.copy(CI / "repository" / "model.py", repository)
    shutil.copy(CI / "bad.patch", repository)
    environment = _environment(tmp_path)
    steps = list(STEP.finditer(PAGE))
    assert len(steps) == PAGE.count("<!-- run:") + PAGE.count("<!-- file:") == 9
    for step in steps:
        if step["kind"] == "file":
            (repository / step["what"]).write_text(step["body"] + "\n")
            continue
        command = ["bash", "-euo", "pipefail", "-c", step["body"]]
        done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, timeout=250, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == int(step["what"]), f"{step['body']}\n{said}"
        assert all(line in said for line in (step["said"] or "").splitlines()), f"{step['body']}\n{said}"
    made = {"screen.toml", "screen-baseline.json", ".pre-commit-config.yaml", ".github/workflows/screen.yml", "out/screen.sarif", "out/screen.md"}
    assert {name for name in made if not (repository / name).is_file()} == set()
    assert "#compdef screen" in (repository / "screen-completion.zsh").read_text()


@pytest.mark.parametrize(("commit", "code", "said"), [("good", 0, "4 known findings do not count"), ("bad", 1, "exit 1: G101 violated")])
def test_the_example_repository_passes_its_good_commit_and_fails_its_bad_one(tmp_path: Path, commit: str, code: int, said: str) -> None:
    repository = tmp_path / "repository"
    shutil.copytree(CI / "repository", repository)
    subprocess.run(["git", "apply", str(CI / f"{commit}.patch")], cwd=repository, check=True)
    command = ["screen", "check", "--no-spot-check"]
    done = subprocess.run(command, cwd=repository, env=_environment(tmp_path), capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == code and said in done.stderr, done.stderr


def test_the_example_repository_is_what_init_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(CI / "repository" / "model.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "--install", "git+https://github.com/OWNER/REPOSITORY"]) == 0
    for name in (".pre-commit-config.yaml", ".github/workflows/screen.yml"):
        assert (CI / "repository" / name).read_text() == (tmp_path / name).read_text()
    assert (CI / "repository" / "screen.toml").read_text() == 'baseline = "screen-baseline.json"\n' + (tmp_path / "screen.toml").read_text()


@pytest.mark.parametrize("page", ["docs/README.md", "docs/gate.md", "docs/security.md", "examples/ci/README.md"])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    assert links and [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []
