"""Time and memory of one target: one clock for what its processes take and for the analysis, which runs in this process and may be made so that it
takes for ever.

An alarm interrupts Python between two of its steps: one single call into C that takes for ever is not ended. Only the main thread hears it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import ParamSpec, TypeVar

from screen.child.protocol import Request
from screen.child.results import Capture, Progress

P = ParamSpec("P")
T = TypeVar("T")
AGAIN = 5.0
"""Seconds after which an alarm that was not heeded is repeated."""


class OutOfTime(BaseException):
    """The time is over. No `Exception`: what turns those into a reason must not take this for one."""


class Clock:
    """Of one target. It rings while the analysis runs; while a process of the target runs, its host keeps what is left of the time."""

    def __init__(self, seconds: float, memory: int) -> None:
        self._left = seconds
        self._memory = memory
        self._runs = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Raises `OutOfTime` in what runs here when the time is over, and `MemoryError` where it takes more than the memory."""
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
            yield
            return
        before = signal.signal(signal.SIGALRM, _ring)
        try:
            self._start()
            yield
        finally:
            self._stop()
            signal.signal(signal.SIGALRM, before)

    def beside(self, call: Callable[P, T]) -> Callable[P, T]:
        """The same call, whose time and memory are not ours."""

        def paused(*args: P.args, **kwargs: P.kwargs) -> T:
            ran = self._runs  # what is called from beside stays there
            self._stop()
            try:
                return call(*args, **kwargs)
            finally:
                if ran:
                    self._start()

        return paused

    def of_target(self, capture: Callable[[Request, Progress], Capture]) -> Callable[[Request, Progress], Capture]:
        """The same capture within what is left. Its time counts from where the target's own process starts; a probe has a budget of its own."""

        def timed(request: Request, progress: Progress) -> Capture:
            if request.probe is not None:
                return capture(request, progress)
            found = capture(replace(request, spent=max(0.0, request.timeout - self._left)), progress)
            self._left -= found.seconds
            return found

        return self.beside(timed)

    def _start(self) -> None:
        _limit(self._memory)
        self._runs = True
        signal.setitimer(signal.ITIMER_REAL, max(self._left, 0.001), AGAIN)

    def _stop(self) -> None:
        if self._runs:
            self._left = signal.setitimer(signal.ITIMER_REAL, 0.0)[0]
            self._runs = False
            _limit(0)


def _ring(number: int, frame: FrameType | None) -> None:
    raise OutOfTime


def _limit(memory: int) -> None:
    """So many bytes of address space beside what is taken now; 0: as many as there are."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = hard
        if memory:
            with open("/proc/self/statm", encoding="ascii") as file:
                limit = int(file.read().split()[0]) * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


__all__ = ["Clock", "OutOfTime"]
