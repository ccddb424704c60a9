"""Several targets at once: order, and what is left when a worker dies. The workers here judge nothing, and do as their target says."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from screen.child.launch import interpreter
from screen.child.protocol import Request
from screen.child.results import Progress
from screen.pipeline import workers
from screen.pipeline.stages import Job
from tests.shared import ROOT

BOOT = """
import json, os, pathlib, signal, sys, time
a = json.loads(sys.argv[1])
sys.path[:] = a["path"]
from multiprocessing.connection import Connection
from screen.errors import LoadError
from screen.pipeline.stages import unjudged
line = Connection(a["line"])
while True:
    job = line.recv()
    word, _, path = job.request.target.partition(" ")
    if word == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "ends":
        os._exit(0)
    if word == "waits":
        while not pathlib.Path(path).exists():
            time.sleep(0.01)
    if word == "writes":
        pathlib.Path(path).write_text("")
    line.send(("progress", ("load",)))
    line.send(("judged", [unjudged(job, LoadError(str(os.getpid()), word))]))
"""


@pytest.fixture(autouse=True)
def _boot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "interpreter", lambda module, **said: [sys.executable, "-c", BOOT, interpreter(module, **said)[-1]])
    monkeypatch.syspath_prepend(str(ROOT))


def _jobs(*targets: str) -> list[Job]:
    return [Job(Request(target, {}, (), None, 120.0, 0)) for target in targets]


def _listener(heard: list[str]) -> Callable[[str], Progress]:
    def of(target: str) -> Progress:
        def hear(phase: str, doing: str = "", share: float = 0.0) -> None:
            heard.append(f"{phase} {target}")

        return hear

    return of


def test_results_keep_the_order_of_the_targets(tmp_path: Path) -> None:
    heard: list[str] = []
    jobs = _jobs(f"waits {tmp_path / 'x'}", "plain", f"writes {tmp_path / 'x'}")
    found = list(workers.in_order(jobs, 2, [], _listener(heard)))
    assert [one.error.found for (one,) in found if one.error] == ["waits", "plain", "writes"]
    assert sorted(heard) == sorted(f"load {job.request.target}" for job in jobs)


@pytest.mark.by_the_day
def test_a_worker_that_dies_takes_its_own_target_alone(tmp_path: Path) -> None:
    found = list(workers.in_order(_jobs("killed", "plain", "ends", "plain"), 1, [], _listener([])))
    assert len(found) == 4 and all(len(one) == 1 for one in found)
    said = [str(one.error) for (one,) in found]
    assert "ended by signal 9" in said[0] and "ended with code 0" in said[2] and "plain" in said[1] and "plain" in said[3]
    assert [one.report.error.stage for (one,) in found if one.report.error] == ["limits", "load", "limits", "load"]


def test_nothing_is_left_when_nobody_asks_for_more(tmp_path: Path) -> None:
    reports = workers.in_order(_jobs("plain", f"waits {tmp_path / 'never'}"), 1, [], _listener([]))
    ((first,),) = [next(reports)]
    assert first.error is not None
    reports.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(first.error.required), 0)


def test_a_worker_that_judges_ends_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not hear that its line is closed."""
    asked: list[bool] = []
    monkeypatch.setattr(workers, "end_with_parent", lambda: asked.append(True))
    monkeypatch.setattr(workers, "Host", lambda preload: contextlib.nullcontext())
    monkeypatch.setattr(workers.signal, "signal", lambda *_: None)
    monkeypatch.setattr(workers.gc, "freeze", lambda: None)
    monkeypatch.setattr(workers.gc, "set_threshold", lambda *_: None)
    ours, theirs = socket.socketpair()
    ours.close()
    with pytest.raises(SystemExit):
        workers.main({"line": theirs.detach(), "preload": []})
    assert asked == [True]
