"""The parent's side of capture: starts the child, keeps the clock, and believes only complete answers. Imports no torch.

`Host()` returns at once; the child imports torch while the caller imports what it needs itself.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any

from screen.child.launch import can_fork, environment, interpreter, overridden, told_on
from screen.child.protocol import MAX_LINE, SIGNALLED, ProtocolError, Request, at_most, fd_reader, frame, read_frame
from screen.child.results import Capture, Captured, Progress, State, silent, words
from screen.child.sandbox import clear, secrets
from screen.errors import InternalError, Interrupted, LimitError, LoadError, ScreenError, UsageError

STARTUP = 300.0
"""Seconds that importing torch may take; a cold network disk takes more than a minute."""
PATIENCE = 5.0
"""Seconds for what has happened already to be told, on a machine that is busy with other things."""
WAITING = 64
"""Frames that were read and not yet taken: who writes faster than we read waits."""
CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""Where torch makes a folder when it is imported: else one that stays, in the temporary folder."""
TAIL = 4000
"""Characters of the child's output that an error keeps."""


class Host:
    """A child that captures targets, one after the other. Use it in a `with` block."""

    def __init__(self, *, preload: Sequence[str] = (), fork: bool | None = None, words: int = 0) -> None:
        self.fork = can_fork() if fork is None else fork
        self._preload = list(preload)
        self._words = words
        """Which order words in a set have: the seed of their hashes."""
        self._other: Host | None = None
        """The one where they have another."""
        self._events: queue.Queue[tuple[str, Any]] = queue.Queue(WAITING)
        self._frames = ""
        """The line of the target that runs now; what still comes from earlier ones is dropped."""
        self._targets = 0
        self._lines = 0
        """Control lines opened so far; what still comes from an earlier one is dropped."""
        self._child: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._scratch = _scratch()
        """Where targets have a folder each; the child removes it when this process is gone."""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # `close` closes it
        if self.fork:
            self._open()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the child. Nothing of it is left."""
        if self._other is not None:
            self._other.close()
        self._end()
        self._frames, self._lines = "", self._lines + 1
        self._errors.close()
        clear(self._scratch)

    def capture(self, request: Request, progress: Progress | None = None) -> Capture:
        """Run one target to its end, to its time-out, or to its death."""
        if request.words != self._words:
            if self._other is not None and self._other._words != request.words:
                self._other.close()
                self._other = None
            self._other = self._other or Host(preload=self._preload, fork=self.fork, words=request.words)
            return self._other.capture(request, progress)
        with tempfile.TemporaryFile() as log:
            state = State(request, progress or silent)
            begin = None
            try:
                pid = self._submit(request, log)
                begin = time.monotonic()
                self._follow(state, pid, begin + request.timeout - request.spent, log)
            except ScreenError as error:
                state.error = error
            except KeyboardInterrupt:
                if request.probe is None:
                    raise
                state.error = Interrupted("the probe must be left to its end", "it was interrupted by Ctrl-C")
            finally:
                self._finish(state)
            seconds = time.monotonic() - begin if begin is not None else 0.0
            tail = _tail(log)
        state.locate(tail)
        if state.error is not None and tail:
            state.error.details = "\n".join(filter(None, [state.error.details, f"The target's own output ended with:\n{tail}"]))
        return Capture(tuple(state.models), state.error, tail, seconds, state.left, state.again, state.outside)

    # -- one target ---------------------------------------------------------------------------------------------------------------

    def _submit(self, request: Request, log: IO[bytes]) -> int:
        """Have a process started for the target; its number. A child that died since the last target is replaced, once."""
        order = frame("run", request=request.to_json())
        self._targets += 1
        self._frames = f"frames {self._targets}"
        if not self.fork:
            return self._spawn(order, log)
        try:
            return self._fork(order, log)
        except (InternalError, LimitError):
            self._end()
            self._open()
            return self._fork(order, log)

    def _fork(self, order: bytes, log: IO[bytes]) -> int:
        """A process forked from the child that has torch already."""
        assert self._control is not None
        reading, writing = os.pipe()
        try:
            socket.send_fds(self._control, [order[:4]], [writing, log.fileno()])
            self._control.sendall(order[4:])
            pid = self._started(log)
        except OSError:
            os.close(reading)
            raise self._broken("it ended while it was starting") from None
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._listen(self._frames, at_most(fd_reader(reading), MAX_LINE), lambda: os.close(reading))  # not before: two lines have no common order
        return pid

    def _spawn(self, order: bytes, log: IO[bytes]) -> int:
        """A fresh interpreter."""
        self._child = self._start(None, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        assert self._child.stdin is not None and self._child.stdout is not None
        with contextlib.suppress(OSError):
            self._child.stdin.write(order)
            self._child.stdin.close()
        self._listen(self._frames, at_most(fd_reader(self._child.stdout.fileno()), MAX_LINE))
        return self._started(log)

    def _started(self, log: IO[bytes]) -> int:
        """Wait for the process of the target; its number."""
        _, message = self._next(time.monotonic() + STARTUP)
        if message is _LATE:
            raise self._broken(f"it was not ready after {STARTUP:.0f} s")
        if message is None or isinstance(message, ProtocolError):
            raise self._broken("it ended while it was starting", log)
        if message["kind"] == "broken":
            raise _no_torch(str(message.get("found")))
        if message["kind"] != "started":
            raise self._broken(f"it answered `{message['kind']}`", log)
        return int(message["pid"])

    def _follow(self, state: State, pid: int, deadline: float, log: IO[bytes]) -> None:
        """Take frames until the target is done, late or dead; then end its whole group."""
        state.pid = pid
        over = False
        while not state.complete:
            source, message = self._next(deadline if not over else time.monotonic() + PATIENCE)
            if message is _LATE and not over:
                self._ask_for_stack(pid)
                raise state.late()
            if message is _LATE or (message is None and source == self._frames):
                raise state.died(self._status(pid, state, log))
            if message is None:
                raise self._broken("it ended in the middle of a target")
            if isinstance(message, ProtocolError):
                raise state.garbled(str(message))
            if message["kind"] == "ended":  # what it wrote before it ended is still to be read, and nothing after that
                state.status = words(message)
                over = True
            else:
                state.take(message)

    def _status(self, pid: int, state: State, log: IO[bytes]) -> str:
        """How the process ended, in words."""
        if self._child is not None and not self.fork:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._child.wait(PATIENCE)
                return words({"how": "signal" if code < 0 else "exit", "status": abs(code)})
        limit = time.monotonic() + PATIENCE
        while not state.status:
            _, message = self._next(limit)
            if message is _LATE or message is None or isinstance(message, ProtocolError):
                return "closed its line to us"
            if message["kind"] == "ended":
                state.status = words(message)
        return state.status

    def _finish(self, state: State) -> None:
        """Nothing of the target survives: its group is killed, then its number is given back."""
        if state.pid is None:
            return
        if not self.fork:
            if self._child is not None:
                _kill(self._child)
            return
        assert self._control is not None  # it may have a number that is another's here: the child ends it
        with contextlib.suppress(OSError):
            self._control.sendall(frame("reap", pid=state.pid))
            limit = time.monotonic() + PATIENCE
            while True:
                source, message = self._next(limit)
                if message is _LATE or (message is None and source == self._line):
                    return
                if isinstance(message, dict) and message["kind"] == "reaped":
                    return

    def _ask_for_stack(self, pid: int) -> None:
        """Have the target write where it is into its log, and give it a moment for that."""
        with contextlib.suppress(OSError):
            if self.fork and self._control is not None:
                self._control.sendall(frame("stack", pid=pid))
            elif hasattr(signal, "SIGUSR2"):
                os.kill(pid, signal.SIGUSR2)
            time.sleep(0.25)

    # -- plumbing ----------------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Start the child that targets are forked from, on a control line of its own."""
        self._control, theirs = socket.socketpair()
        self._lines += 1
        self._child = self._start(theirs.fileno(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors)
        theirs.close()
        self._listen(self._line, self._control.recv)

    def _end(self) -> None:
        """End the child and what it forked."""
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            self._control.close()
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(0.5)  # it ends the processes that it forked
            _kill(self._child)

    def _start(self, control: int | None, **streams: Any) -> subprocess.Popen[bytes]:
        settings = {"scratch": self._scratch, "hidden": secrets(), "kept": [os.getpid()], "own": overridden()}
        with tempfile.TemporaryFile() as program:
            described = {"control": control, "preload": self._preload, **settings}
            kept = () if control is None else (control, program.fileno())
            return subprocess.Popen(
                interpreter("screen.child.worker", **described) if control is None else told_on(program, "screen.child.worker", **described),
                pass_fds=kept,
                env={CACHE: os.path.join(self._scratch, "torch"), **environment(self._words)},
                start_new_session=True,
                **streams,
            )

    def _listen(self, source: str, read: Callable[[int], bytes], close: Callable[[], None] = lambda: None) -> None:
        """Frames of one line go to the queue, `None` at its end."""

        def loop() -> None:
            try:
                while (message := read_frame(read)) is not None:
                    self._put(source, message)
                self._put(source, None)
            except ProtocolError as error:
                self._put(source, error)
            except MemoryError:
                self._put(source, ProtocolError("more than fits into memory"))
            except OSError:
                self._put(source, None)
            finally:
                close()

        threading.Thread(target=loop, name=f"screen-{source}", daemon=True).start()

    def _put(self, source: str, message: Any) -> None:
        """Into the queue, when there is room; nothing when nobody asks for this line any more."""
        while source in (self._line, self._frames):
            with contextlib.suppress(queue.Full):
                self._events.put((source, message), timeout=0.2)
                return

    def _next(self, deadline: float) -> tuple[str, Any]:
        """The next event of the control line or of the target that runs now, or that the deadline has come."""
        while (now := time.monotonic()) < deadline + PATIENCE:  # what came before the deadline counts, and an endless flood does not
            try:
                source, message = self._events.get(timeout=max(0.0, deadline - now))
            except queue.Empty:
                return "clock", _LATE
            if source in (self._line, self._frames):
                return source, message
        return "clock", _LATE

    @property
    def _line(self) -> str:
        return f"control {self._lines}"

    def _broken(self, found: str, log: IO[bytes] | None = None) -> ScreenError:
        """The child itself failed, before or besides any target."""
        assert self._child is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            if (code := self._child.wait(PATIENCE)) > SIGNALLED or code < 0:
                how = words({"how": "signal", "status": code % SIGNALLED if code > 0 else -code})
                return LimitError("the process that captures models must stay alive", f"it {how}", "Run it again; `--jobs 1` takes less memory")
        return InternalError(f"the process that captures models failed: {found}", details=_tail(log or self._errors))


_LATE = object()


def _scratch() -> str:
    """A new temporary folder. Raises `UsageError`."""
    try:
        return tempfile.mkdtemp()
    except OSError as error:
        raise UsageError("the machine must have a temporary folder that can be written to", str(error), "Set `TMPDIR` to one") from None


def _no_torch(found: str) -> ScreenError:
    return LoadError("`screen` needs torch to build a model", f"the import failed with `{found}`", "Install torch, or see `screen doctor`")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End an interpreter that we started and what it started. One that was waited for is left alone: its number may be another's by now."""
    if process.poll() is None:
        _kill_group(process.pid)
        process.wait()


def _kill_group(pid: int) -> None:
    """Kill a process that leads a session, and what it started."""
    with contextlib.suppress(OSError, AttributeError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):  # it may not lead a session yet
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _tail(log: IO[bytes]) -> str:
    """The end of a file that the child wrote to."""
    with contextlib.suppress(OSError, ValueError):
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - TAIL))
        return log.read(TAIL).decode("utf-8", "replace").strip()
    return ""


__all__ = ["Capture", "Captured", "Host"]
