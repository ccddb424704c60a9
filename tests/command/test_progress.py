"""The bar on a terminal, Ctrl-C, and the wall clock: what was measured before is kept."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from screen.command.progress import Progress
from tests.shared import ROOT

pytestmark = pytest.mark.by_the_day

SLOW = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, slow):
        super().__init__()
        self.norm, self.up, self.down, self.slow = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16), slow

    def forward(self, x):
        y = self.down(torch.relu(self.up(self.norm(x))))
        if self.slow:  # many minutes of work that makes few values: nothing that the budget counts
            big = torch.ones(6000, 6000)
            for _ in range(200):
                y = torch.tanh(y) * torch.linalg.eigvalsh(big).mean()
        return x + y


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(False), Block(False), Block(False), Block(True)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def build_model():
    return Model()


example_inputs = torch.zeros(1, 8, 16)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(SLOW)
    return tmp_path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "screen", *words, "--no-spot-check", "--device", "cpu", "--format", "json"]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "200"}


def watched(words: list[str], cwd: Path, until: str, *, signals: int = 1) -> tuple[int, str, str]:
    """Run with stderr on a terminal; Ctrl-C once it says so. (exit code, stdout, what the terminal saw)."""
    master, slave = pty.openpty()
    process = subprocess.Popen(words, cwd=cwd, stdout=subprocess.PIPE, stderr=slave, env=ENVIRONMENT, start_new_session=True)
    os.close(slave)
    seen, limit, sent = "", time.monotonic() + 120, 0
    while time.monotonic() < limit:
        ready, _, _ = select.select([master], [], [], 0.2)
        try:
            data = os.read(master, 65536) if ready else b""
        except OSError:  # the other end is closed
            break
        seen += data.decode("utf-8", "replace")
        if sent < signals and until in seen:
            process.send_signal(signal.SIGINT)
            sent += 1
        if process.poll() is not None and not ready:
            break
    os.close(master)
    try:
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    return process.returncode, out.decode(), seen


def test_ctrl_c_keeps_what_was_measured(model: Path) -> None:
    """The bar says what is measured; Ctrl-C in the second kind of block leaves the first in the report, and the code is 130."""
    code, out, seen = watched(command("check", "model.py", "--probe"), model, "start stream k1")
    assert code == 130, seen
    assert "measuring model.py" in seen and "of 60 s of counted work" in seen
    report = json.loads(out)
    assert "Ctrl-C" in report["probe"]["interrupted"] and "interrupted" in seen
    assert {e["kind"] for e in report["probe"]["experiments"] if e["name"] == "start"} == {"k0"}


def test_ctrl_c_in_the_first_of_two_targets_ends_both(model: Path) -> None:
    (model / "other.py").write_text(SLOW)
    code, out, seen = watched(command("check", "model.py", "other.py", "--probe"), model, "start stream k1")
    assert code == 130 and "1/2 measuring model.py" in seen and "other.py" not in seen
    assert json.loads(out)["target"]["spec"] == "model.py"


def test_ctrl_c_before_anything_is_measured(model: Path) -> None:
    code, out, seen = watched(command("check", "model.py", "--probe"), model, "importing torch")
    assert (code, out) == (130, "") and "interrupted" in seen


def test_the_wall_clock_keeps_what_was_measured(model: Path) -> None:
    """The time-out of capture plus twice the budget, that of the whole model included; the exit code is that of the report."""
    words = command("check", "model.py", "--probe", "--timeout", "9", "--probe-seconds", "1", "--allow-unknown", "--no-second-opinion")
    begun = time.monotonic()
    done = subprocess.run(words, cwd=model, capture_output=True, text=True, env=ENVIRONMENT, timeout=100, check=False)
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert "within 11.76 s" in report["probe"]["interrupted"] and time.monotonic() - begun < 60
    measured = [e for e in report["probe"]["experiments"] if e["name"] == "start" and e["outcome"] != "not_measured"]
    assert {e["kind"] for e in measured} == {"k0"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_counts_the_budget_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    progress = Progress(False, 3, 60.0)
    hear = progress.of("a.py")
    hear("probe", "depth \x1b[31m[bold]k0", 0.25)
    assert progress._bars is not None
    progress._bars.refresh()
    progress.clear()
    said = stream.getvalue()
    assert "1/3 measuring a.py" in said and "15 of 60 s of counted work" in said
    assert "[bold]k0" in said and "\x1b[31m[bold]" not in said  # the model's text is no markup and moves no cursor
    assert said.endswith(("\x1b[2K", "\x1b[?25h")) or re.search(r"\x1b\[2K[^a-z]*$", said)


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_no_bar_without_a_terminal_or_when_quiet(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress(quiet)
    progress.of("a.py")("probe", "depth", 0.5)
    progress.clear()
    assert stream.getvalue() == ""
