"""What the machine refuses: a closed stdout, a full disk, a pipe that nobody reads, a folder that is gone, too few open files, a broken import.

Each is one sentence and exit code 2 (130 for Ctrl-C), no traceback, and no fault of ours. Commands that judge nothing stand for all: there is one way
out.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from screen.command import cli, commands, pages, console
from screen.settings import load
from tests.shared import ROOT


def _run(script: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `$S` is the command."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "", "S": f"{sys.executable} -m screen", **env}
    return subprocess.run(["bash", "-c", script], cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("$S config >&-", "stdout is closed. Open it, or write to a file with `-o`."),
        ("$S config >/dev/full", "No space left on device. Free some of the disk"),
        ("$S --help >/dev/full", "No space left on device"),
        ("$S check none.py <&- 2>&1 >&-", "there is no file `none.py`"),
        ("mkdir gone; cd gone; rmdir ../gone; $S config", "the working directory is gone. `cd` into another one."),
        ("mkdir gone; cd gone; rmdir ../gone; $S init", "the working directory is gone. `cd` into another one."),
        ("touch m.py; ln m.py other; $S check m.py --report json=other", "`other` must be a file of its own; it is a target too"),
        ("touch m.py; GITHUB_STEP_SUMMARY=$PWD/m.py $S check m.py", "`$GITHUB_STEP_SUMMARY` must be a file of its own; it is a target too"),
        ("_SCREEN_COMPLETE=bash_complete $S", "a shell must say what was typed"),
        ("PYTHONOPTIMIZE=2 $S rule", "must have docstrings"),
        ("touch m.py; ulimit -f 0; $S check m.py", "must have a temporary folder"),
    ],
)
def test_what_the_machine_refuses_is_one_sentence_and_exit_2(tmp_path: Path, script: str, said: str) -> None:
    done = _run(script, tmp_path)
    heard = done.stderr + done.stdout
    assert done.returncode == 2 and said in heard, heard
    assert len(heard.splitlines()) == 1 and "Traceback" not in heard and "fault of `screen`" not in heard


@pytest.mark.parametrize("text", ["raise SystemExit(0)", "raise ImportError('gone')", "import os; os.kill(os.getpid(), 2)"])
def test_a_broken_import_of_the_command_is_never_0_or_1(tmp_path: Path, text: str) -> None:
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "rich_click.py").write_text(text)
    done = _run("$S --help", tmp_path, PYTHONPATH=f"{tmp_path / 'shadow'}:{ROOT}")
    assert done.returncode == (2 if "kill" not in text else 130) and done.stdout == "" and "Traceback" not in done.stderr
    assert done.stderr.startswith("error: `screen` must be able to import" if "kill" not in text else "interrupted")


def test_too_few_open_files_are_no_fault(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(pages, "schema", refuse)
    assert cli.main(["schema"]) == 2
    assert capsys.readouterr().err == (
        "error: the machine must let `screen` open and write what it needs; Too many open files. Raise the limit of open files: `ulimit -n 1024`.\n"
    )


def test_an_error_does_not_go_to_stdout_where_stderr_is_closed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["rule", "nope"]) == 2
    assert capsys.readouterr().out == ""


def test_a_reader_that_leaves_is_named_and_no_fault(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Click makes `SystemExit(1)` of it."""

    def leave(*_: object) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(pages, "schema", leave)
    monkeypatch.setattr(console, "_discard_stdout", lambda: None)
    assert cli.main(["schema"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: stdout must take all that is printed") and "fault" not in said


def test_a_fifo_that_nobody_reads_is_no_place_for_a_report(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    signal.alarm(20)  # `open` would wait for ever
    try:
        with pytest.raises(commands.UsageError, match="a FIFO that nobody reads"):
            commands._write(str(pipe), "text")
    finally:
        signal.alarm(0)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    commands._write(str(pipe), "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)


def test_a_report_that_does_not_fit_names_its_file() -> None:
    with pytest.raises(commands.UsageError, match=r"`/dev/full` must be a file that can be written; No space left on device\. Free"):
        commands._write("/dev/full", "text")


def test_an_unwritable_report_is_said_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # for root everything is writable
    with pytest.raises(commands.UsageError, match="its permissions forbid it"):
        commands._check_places([], load({"output": str(tmp_path / "a")}, tmp_path))
