"""Several targets at the same time: processes that judge, and the one that hands out work and keeps the order.

A worker is an interpreter of our own with a `Host` of its own: no code of a user's runs in it. One that dies takes the target that it had with it,
which is reported as not judged, and another takes its place.
"""

from __future__ import annotations

import contextlib
import gc
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

from screen.child.descendants import end_with_parent
from screen.child.host import Host
from screen.child.launch import interpreter
from screen.child.results import Progress
from screen.errors import LimitError
from screen.pipeline.limits import Clock, OutOfTime
from screen.pipeline.stages import Capturer, Job, Judged, judge, unjudged

RARELY = (100_000, 50, 1000)
"""Thresholds of the garbage collector: such a process is short, and a graph is no garbage."""
PATIENCE = 5.0
"""Seconds for a worker to end what it has started."""


def safely(job: Job, capture: Capturer, progress: Progress) -> list[Judged]:
    """As `judge`, within the time and memory of a target; an exception is a report on this target, and ends no other."""
    request = job.request
    clock = Clock(request.timeout, request.memory)
    try:
        with clock.running():
            return judge(job, clock.of_target(capture), clock.beside(progress))
    except OutOfTime:
        found = "it was still being analysed then"
        advice = f"Raise `--timeout`{f', or name one model of it, `{request.target}::Name`' if request.target.endswith('.py') else ''}"
        return [unjudged(job, LimitError(f"`{request.target}` must be judged within {request.timeout:g} s", found, advice))]
    except Exception as error:
        return [unjudged(job, error)]


def in_order(jobs: Sequence[Job], count: int, preload: Sequence[str], progress: Callable[[str], Progress]) -> Generator[list[Judged], None, None]:
    """The reports on every job, in the order of the jobs, as they come. `count`: of processes. `progress`: target -> its listener."""
    waiting = deque(enumerate(jobs))
    workers = [_Worker(preload) for _ in range(min(count, len(jobs)))]
    found: dict[int, list[Judged]] = {}
    try:
        for worker in workers:
            worker.take(waiting, progress)
        for place in range(len(jobs)):
            while place not in found:
                ready = wait([w.line for w in workers if w.busy])
                for worker in [w for w in workers if w.line in ready]:
                    found.update(worker.hear())
                    if worker.dead and waiting:
                        worker.end()
                        workers[workers.index(worker)] = worker = _Worker(preload)
                    if not worker.busy:
                        worker.take(waiting, progress)
            yield found.pop(place)
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """The near end of one."""

    def __init__(self, preload: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            interpreter("screen.pipeline.workers", line=theirs.fileno(), preload=list(preload)),
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches the parent, which ends it
        )
        theirs.close()
        self.line: Connection = Connection(ours.detach())
        self.dead = False
        self._now: tuple[int, Job] | None = None
        self._progress: Progress | None = None

    @property
    def busy(self) -> bool:
        """Whether it has a target."""
        return self._now is not None

    def take(self, waiting: deque[tuple[int, Job]], progress: Callable[[str], Progress]) -> None:
        """The next target, if there is one."""
        if waiting:
            self._now = waiting.popleft()
            self._progress = progress(self._now[1].request.target)
            with contextlib.suppress(OSError):  # it is dead, which `hear` says
                self.line.send(self._now[1])

    def hear(self) -> dict[int, list[Judged]]:
        """What came from it: place of a target -> its reports; nothing where it only says how far it is."""
        assert self._now is not None and self._progress is not None
        place, job = self._now
        try:
            kind, told = self.line.recv()
        except (EOFError, OSError):
            self.dead, self._now = True, None
            return {place: [unjudged(job, LimitError("a target must be judged to its end", f"the process that judged it {self._ended()}"))]}
        if kind == "judged":
            self._now = None
            return {place: told}
        self._progress(*told)
        return {}

    def end(self) -> None:
        """End it and what it has started."""
        self.line.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _ended(self) -> str:
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return "closed its line to us"
        return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


def main(settings: dict[str, Any]) -> NoReturn:
    """A worker's life: jobs in, reports out, until the line is closed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    end_with_parent()  # it would hear that the line is closed only behind the target that it judges
    line: Connection = Connection(settings["line"])
    gc.freeze()
    gc.set_threshold(*RARELY)
    with Host(preload=settings["preload"]) as host, contextlib.suppress(EOFError, OSError):
        while True:
            job = line.recv()
            line.send(("judged", safely(job, host.capture, lambda *told: line.send(("progress", told)))))
    sys.exit(0)


__all__ = ["RARELY", "in_order", "safely"]
