"""Memory of the processes of a target, counted together."""

from __future__ import annotations

import subprocess
import sys

import pytest

from screen.child import worker
from screen.child.descendants import MOST, end_descendants, many, takes_more
from screen.child.results import words

SPAWNS = """
import subprocess, sys
kept = bytearray(b"x" * (64 << 20))
below = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE) if len(sys.argv) > 1 else None
if below:
    below.stdout.readline()
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_counts_for_all_processes_together() -> None:
    command = [sys.executable, "-c", SPAWNS, SPAWNS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stdin is not None
        running.stdout.readline()
        assert worker._too_much({running.pid: 100 << 20}) == "memory"
        assert worker._too_much({running.pid: 400 << 20}) == worker._too_much({running.pid: 0}) == ""
        assert takes_more([running.pid], 32 << 20) and not takes_more([running.pid], 120 << 20)
        running.stdin.close()
    assert "--memory" in words({"how": "memory", "status": 9})


def test_what_forks_faster_than_it_is_looked_at_is_killed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a namespace everything else in it, elsewhere the group of each target."""
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr("screen.child.descendants.descendants", lambda kept=(): [])
    monkeypatch.setattr("os.kill", lambda pid, signal: sent.append(("kill", pid)))
    monkeypatch.setattr("os.killpg", lambda pid, signal: sent.append(("group", pid)))
    end_descendants([7])
    assert sent == [("group", 7)] and not many()
    monkeypatch.setattr("screen.child.descendants.is_first", lambda: True)
    monkeypatch.setattr("os.listdir", lambda path: [*map(str, range(MOST + 2)), "self"])
    end_descendants()
    assert sent[1:] == [("kill", -1)] and many()
    monkeypatch.setattr("os.listdir", lambda path: [*map(str, range(MOST + 1)), "self"])
    assert not many()
