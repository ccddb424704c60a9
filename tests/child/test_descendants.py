"""Memory of the processes of a target, counted together."""

from __future__ import annotations

import subprocess
import sys

import pytest

from screen.child import worker
from screen.child.descendants import takes_more
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
