"""The repository keeps the rules that it sets itself: README commands, no paths of a machine, short files and functions."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.shared import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(name: str) -> str:
    """The fenced commands after `<!-- ci: NAME -->`, as `.ci/run` takes them."""
    found = re.search(rf"<!-- ci: {name} -->\n```bash\n(.*?)\n```\n", README, re.DOTALL)
    assert found, name
    return found[1]


def tracked() -> list[Path]:
    """Every file under version control, or a skip where this is no checkout."""
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    if run.returncode:
        pytest.skip("not a git checkout")
    return [path for path in (ROOT / name for name in run.stdout.split("\0") if name) if path.is_file()]


def test_readme_commands() -> None:
    """Each block makes its environment and installs under the constraints; one screens an example, the other runs the tests."""
    blocks = {"try": "screen check examples/pre.py", "test": "python -m pytest"}
    for name, last in blocks.items():
        lines = block(name).splitlines()
        assert lines[0] == "python3 -m venv .venv"
        assert "-c constraints.txt" in lines[1] and lines[-1].endswith(last)


def test_readme_names_real_files_and_commands() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert links and all((ROOT / link).exists() for link in links), links


def test_readme_names_every_command_and_where_settings_stand() -> None:
    from screen.command.cli import app

    shown = [name for name, command in app.commands.items() if not command.hidden and "Not in this version" not in (command.help or "")]
    words = [*(f"`screen {name}" for name in shown), "[tool.screen]", "$GITHUB_STEP_SUMMARY", "example_inputs", "build_model", "# screen: ignore["]
    assert len(shown) > 8 and [word for word in words if word not in README] == []


def test_no_path_of_a_machine() -> None:
    """Absolute paths of whoever wrote a file do not belong in it."""
    pattern = re.compile(rb"/work/(main|shared|env)|/root/")
    offenders = [str(p.relative_to(ROOT)) for p in tracked() if pattern.search(p.read_bytes())]
    assert offenders == [] or offenders == ["tests/test_repository.py"], offenders


def _sources() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("screen", "rules", "tests")]


def test_files_are_short() -> None:
    """Nine of ten have at most 300 lines, none 600: a file makes one claim. Collections of blocks with their truth are data."""
    lengths = {str(p.relative_to(ROOT)): len(p.read_text(encoding="utf-8").splitlines()) for p in _sources() if not p.parent.name.startswith("round")}
    long = {name: n for name, n in lengths.items() if n > 300}
    assert len(long) <= 0.1 * len(lengths) and max(lengths.values()) <= 600, long


def test_functions_are_short() -> None:
    """Nine of ten functions of the project proper have fewer than 40 lines."""
    lengths = [
        (node.end_lineno or 0) - node.lineno + 1
        for path in _sources()
        if path.relative_to(ROOT).parts[0] != "tests"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert sum(length < 40 for length in lengths) >= 0.9 * len(lengths)


def test_tests_mirror_the_rooms() -> None:
    """A folder of tests that is named like no room of `screen` holds what is asked of the whole."""
    whole = {"__snapshots__", "adversary", "awkward", "benchmarks", "hostile", "libraries", "mutants", "rows", "said", "soundness", "whole"}
    tests = ROOT / "tests"
    folders = {p.relative_to(tests) for path in tracked() if tests in path.parents for p in path.parents if tests in p.parents}
    unknown = {str(f) for f in folders if f.parts[0] not in whole and f.name != "__snapshots__" and not (ROOT / "screen" / f).is_dir()}
    assert not unknown, unknown
