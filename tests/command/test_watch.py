"""`--watch`: which files count, when it judges again, and how it ends. Sleeping is a function here that changes files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from screen.command import cli
from screen.command.models import imported_by
from screen.command.watch import watch
from screen.errors import UsageError

pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from .layers import Block\n")
    (tmp_path / "pkg" / "layers.py").write_text("import torch, model\n")
    (tmp_path / "model.py").write_text("from pkg import Block\n")
    (tmp_path / "other.py").write_text("")
    return tmp_path


def _sleeps(*changes: Callable[[], object]) -> Callable[[float], None]:
    """Each call of sleep makes the next change; after the last Ctrl-C is pressed."""
    left = list(changes)

    def sleep(_: float) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    return sleep


def test_what_a_file_imports_is_found_through_the_repository(folder: Path) -> None:
    assert imported_by(Path("model.py")) == {folder / "pkg" / "__init__.py", folder / "pkg" / "layers.py"}


def test_a_change_in_what_the_target_imports_is_seen_and_another_is_not(folder: Path) -> None:
    codes = iter((1, 0, 0))
    runs: list[int] = []

    def run() -> int:
        runs.append(next(codes))
        return runs[-1]

    changes = (
        lambda: (folder / "other.py").write_text("x = 1\n"),
        lambda: (folder / "pkg" / "layers.py").write_text("x = 1\n"),
        lambda: (folder / "screen.toml").write_text("depth = 2\n"),
    )
    assert watch(run, ("model.py",), _sleeps(*changes)) == 0 and runs == [1, 0, 0]
    runs.clear()
    codes = iter((1,))
    assert watch(run, ("model.py",), _sleeps(changes[0])) == 1 and runs == [1]


def test_a_file_that_goes_and_comes_back_and_settings_that_break_end_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs: list[str] = []

    def run() -> int:
        if not (folder / "model.py").exists():
            raise UsageError("a must", "b is")
        runs.append((folder / "model.py").read_text())
        return 0

    changes: tuple[Callable[[], object], ...] = (
        (folder / "model.py").unlink,
        lambda: (folder / "screen.toml").write_text("broken ="),
        lambda: (folder / "model.py").write_text("x = 2\n"),
    )
    assert watch(run, ("model.py",), _sleeps(*changes)) == 0
    assert runs == ["from pkg import Block\n", "x = 2\n"] and capsys.readouterr().err.count("error: a must; b is.") == 2


def test_ctrl_c_while_it_judges_keeps_the_last_code(folder: Path) -> None:
    codes = iter((1, 130))
    assert watch(lambda: next(codes), ("model.py",), _sleeps(lambda: (folder / "model.py").write_text("x = 1\n"))) == 1

    def stopped() -> int:
        raise KeyboardInterrupt

    assert watch(stopped, ("model.py",)) == 130


def test_without_a_file_there_is_nothing_to_watch(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "hf:gpt2", "--watch"]) == 2
    assert "must have files to look at" in capsys.readouterr().err
