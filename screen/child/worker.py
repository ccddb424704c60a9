"""The child: a fresh interpreter that imports torch once and runs each target in a process of its own.

The *zygote* (`serve`), below a process that waits for it (`_guard`), imports torch and what its parent asks for, runs no op, starts no
thread, opens no device. It then does what it is told on a control socket: fork one process per target, say when that process ended, reap
it. The forked process (`_target`) leads a session of its own with limits, has its output in a file, and speaks frames
(`screen.child.protocol`) on a pipe. Where `os.fork` is missing, `once` does one target in a fresh interpreter.

This contains accidents: `sys.exit(0)`, `os._exit(0)`, endless loops, crashes, huge allocations, closed file descriptors, prints. What code
that is out to harm can reach is up to `screen.child.sandbox`, which the forked process enters before it runs any.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from screen.child import namespace
from screen.child.bytecode import ignore_compiled
from screen.child.descendants import MOST, adopt, descendants, end_descendants, end_with_parent, many, takes_more
from screen.child.draw import draw
from screen.child.hash_seeds import turn
from screen.child.launch import OFFLINE
from screen.child.outside import become
from screen.child.protocol import SIGNALLED, Request, error_fields, fd_reader, frame, read_frame
from screen.child.sandbox import ADVICE, clear, enclose, missing
from screen.errors import LimitError
from screen.graph.gc_pause import put_off

STACK_SIGNAL = getattr(signal, "SIGUSR2", None)
"""It is sent before a target is killed for time: the child writes where it was into its log."""
CLOSE_GRACE = 512
"""The first file descriptor for our own use, so that `os.closerange(3, 256)` in the user's code does not cut the line."""
MAX_OUTPUT = 256 << 20
"""Bytes that a target may write into one file, its log included: a print in an endless loop must not fill the disk."""
LOOK, SOON = 0.25, 0.05
"""Seconds between two counts of a target's processes; and where a count takes no look at each of them."""
RARELY = (100_000, 50, 1000)
"""Thresholds of the garbage collector: a model's modules are no garbage, and looking at them again and again takes a fifth of the time."""
CPU_SLACK = 30
"""Seconds of processor time beyond time-out times cores: ends a child whose parent is gone and cannot keep the clock."""


def serve(settings: dict[str, Any]) -> NoReturn:
    """The zygote's life. `settings`: {control: file descriptor, preload: module names, scratch: folder, hidden: paths, kept: processes}."""
    control = socket.socket(fileno=settings["control"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends us
    _guard(control, settings)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    children: dict[int, int] = {}
    """Process of a target -> bytes of memory that it and what it starts may take; 0: no limit."""
    adopt()
    try:
        preload(settings["preload"])
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        _loop(control, wake, children, settings)
    except ImportError as error:
        with contextlib.suppress(OSError):
            control.sendall(frame("broken", found=f"{type(error).__name__}: {error}"))
    except BaseException:
        traceback.print_exc()  # `os._exit` below would swallow it
    finally:
        for child in children:
            with contextlib.suppress(OSError):
                os.killpg(child, signal.SIGKILL)
        end_descendants()
        clear(settings["scratch"])
        os._exit(0)


def _guard(control: socket.socket, settings: dict[str, Any]) -> None:
    """Go on in a process below this one. This one waits for it: should somebody kill it, what targets left running comes here, and is ended."""
    if not adopt():
        return
    guard, apart = os.getpid(), namespace.enter()
    if (zygote := os.fork()) == 0:
        settings["kept"] = [] if apart else [*settings["kept"], guard]  # no number of a process outside is one inside
        if apart and not (end_with_parent() and namespace.settle()):
            os._exit(1)
        return
    control.close()
    _, status = os.waitpid(zygote, 0)
    end_descendants()
    clear(settings["scratch"])
    os._exit(SIGNALLED + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def preload(modules: list[str]) -> None:
    """Import what every target needs (an `ImportError` is fatal) and what these targets are likely to need (it is not)."""
    with put_off():
        from screen.capture.build import libraries
        from screen.capture.trace import tracer  # noqa: F401  # imported for the processes that are forked from here

        for name in modules:
            with contextlib.suppress(Exception):  # the target's own import will say it better
                if name.partition(".")[0] == "transformers":
                    libraries.transformers()
                __import__(name)
    gc.freeze()
    gc.set_threshold(*RARELY)


def _loop(control: socket.socket, wake: int, children: dict[int, int], settings: dict[str, Any]) -> None:
    """Orders until the parent hangs up."""
    announced: set[int] = set()
    ended_for: dict[int, str] = {}
    look = SOON if namespace.is_first() else LOOK
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(look if children.keys() - announced else None):
                if key.fd == wake:
                    os.read(wake, 4096)
                elif not _order(control, children, settings):
                    return
            if (running := children.keys() - announced) and (why := _too_much(children)):
                ended_for |= dict.fromkeys(running, why)
                end_descendants(children)
            for child in sorted(children.keys() - announced):
                ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is not None:  # it stays a zombie until it is reaped, so that its number cannot be given to another process
                    announced.add(child)
                    how = "signal" if ended.si_code in (os.CLD_KILLED, os.CLD_DUMPED) else "exit"
                    control.sendall(frame("ended", pid=child, how=ended_for.get(child, how), status=ended.si_status))
            announced &= children.keys()


def _too_much(children: dict[int, int]) -> str:
    """What targets have too much of, with all that they started: a key of `screen.child.results.ENDED`; empty where it is nothing."""
    if many():
        return "crowd"
    below = descendants(children)
    if len(below) > MOST:
        return "crowd"
    limit = sum(children.values())
    return "memory" if limit and len(below) > len(children) and takes_more(below, limit) else ""  # one alone has a limit of its own


def _order(control: socket.socket, children: dict[int, int], settings: dict[str, Any]) -> bool:
    """Carry out one order; False when there are no more."""
    passed: list[int] = []

    def read(size: int) -> bytes:
        data, fds, _, _ = socket.recv_fds(control, size, 2)
        passed.extend(fds)
        return data

    message = read_frame(read)
    if message is None:
        return False
    if message["kind"] == "stack":
        with contextlib.suppress(OSError):
            os.kill(message["pid"], signal.SIGUSR2)
        return True
    if message["kind"] == "reap":
        end_descendants({message["pid"]})
        os.waitpid(message["pid"], 0)
        children.pop(message["pid"], None)
        control.sendall(frame("reaped", pid=message["pid"]))
        return True
    pipe, log = passed
    child = os.fork()
    if child == 0:
        control.close()
        end_with_parent()
        _target(Request.from_json(message["request"]), pipe, log, settings)
    children[child] = message["request"]["memory"]
    os.close(pipe)
    os.close(log)
    control.sendall(frame("started", pid=child))
    return True


def once(settings: dict[str, Any]) -> NoReturn:
    """One target in this interpreter: the request comes on stdin, frames go to what was stdout."""
    message = read_frame(fd_reader(0))
    pipe, log = os.dup(1), os.dup(2)
    try:
        preload(settings["preload"])
    except ImportError as error:
        os.write(pipe, frame("broken", found=f"{type(error).__name__}: {error}"))
        os._exit(0)
    os.write(pipe, frame("started", pid=os.getpid()))
    _target(Request.from_json((message or {})["request"]), pipe, log, settings)


def _folder(settings: dict[str, Any], pid: int) -> str:
    """The only one that a target may write to."""
    return os.path.join(settings["scratch"], str(pid))


def _target(request: Request, pipe: int, log: int, settings: dict[str, Any]) -> NoReturn:
    """The life of the process that runs the user's code."""
    try:
        _settle(log)
        channel = Channel(pipe)
        ignore_compiled()
        _end_forks()
        draw(request.draw)
        if request.turned:
            turn()
        from screen.child.run import prepare, run

        def before() -> None:
            prepare(request)
            _enclose(request, settings)
            _limit(request)

        if request.outside is not None:
            _outside(request, channel, settings)
        else:
            run(request, channel.send, before=before, after=_unlimit)
    except BaseException:
        traceback.print_exc()  # into the log
    finally:
        os._exit(0)


def _outside(request: Request, channel: Channel, settings: dict[str, Any]) -> None:
    """Be the interpreter that runs the models of a request, behind the same walls."""
    try:
        _enclose(request, settings)
        _limit(request)
        os.makedirs(folder := _folder(settings, os.getpid()), 0o700, exist_ok=True)
        has_network = request.sandbox == "off" or bool(missing())
        own = {name: value for name, value in settings["own"].items() if not (has_network and name in OFFLINE)}
        become(request.outside or {}, folder, channel.line, own)
    except (OSError, LimitError) as error:
        told = error if isinstance(error, LimitError) else LimitError("an interpreter must start", str(error))
        channel.send(frame("error", **error_fields(told)))


def _enclose(request: Request, settings: dict[str, Any]) -> None:
    """Into the sandbox. Raises `LimitError` where it is required and cannot be had."""
    if request.sandbox == "off":
        return
    try:
        os.mkdir(folder := _folder(settings, os.getpid()), 0o700)
        enclose(folder, [*settings["hidden"], *request.hidden], (os.getppid(), *settings.get("kept", ())))
    except OSError as error:
        if request.sandbox == "require":
            raise LimitError("`--sandbox require` must find a sandbox", error.strerror or str(error), ADVICE) from error


def _end_forks() -> None:
    """A copy of this process that the user's forward made ends at its next module: a loop of blocks would double it in every one."""
    from torch.nn.modules.module import register_module_forward_pre_hook

    owner, getpid, leave = os.getpid(), os.getpid, os._exit
    register_module_forward_pre_hook(lambda module, args: None if getpid() == owner else leave(0))


class Channel:
    """The writing end of the pipe to the parent.

    The user's code may close it, or open a file of its own under its number, or fork: what is not our pipe any more is never written to.
    """

    def __init__(self, pipe: int) -> None:
        self._fd = _move(pipe)
        self._owner = os.getpid()
        self._identity = self._look()
        self._write, self._exit, self._getpid = os.write, os._exit, os.getpid

    @property
    def line(self) -> int:
        """Its file descriptor."""
        return self._fd

    def send(self, data: bytes) -> None:
        """All of the frame, or the end of this process."""
        if self._getpid() != self._owner or self._look() != self._identity:
            self._exit(0)
        view = memoryview(data)
        while view:
            try:
                view = view[self._write(self._fd, view) :]
            except OSError:
                self._exit(0)

    def _look(self) -> tuple[int, int] | None:
        try:
            status = os.fstat(self._fd)
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _settle(log: int) -> None:
    """A session of its own, no input, output to the log, a stack on request, no arguments to parse."""
    if hasattr(os, "setsid"):
        with contextlib.suppress(OSError):  # already the leader, when it was started as a process of its own
            os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nothing)
    kept = _move(log)
    faulthandler.enable(kept, all_threads=False)
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, kept, all_threads=False)
    sys.argv = ["screen"]


def _move(fd: int) -> int:
    """The same file under a high number that no program started from here inherits."""
    try:
        import fcntl

        moved: int = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, CLOSE_GRACE)
    except (ImportError, OSError):
        return fd
    os.close(fd)
    return moved


def _limit(request: Request) -> None:
    """Limits on address space, processor time, size of files and core dumps. Raises `LimitError` when torch alone takes more than the limit."""
    try:
        import resource
    except ImportError:
        return
    cores = os.cpu_count() or 1
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, MAX_OUTPUT)
    _lower(resource.RLIMIT_CPU, int(request.timeout * cores) + CPU_SLACK)
    if request.memory:
        _room(request.memory)
        _lower(resource.RLIMIT_AS, request.memory)


def _room(memory: int) -> None:
    """Refuses a limit that leaves no room beside the address space that the interpreter with torch takes already."""
    from screen.errors import LimitError

    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        taken = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        if taken + (64 << 20) > memory:
            raise LimitError(
                f"`--memory` must leave room beside Python and torch, which take {taken / 2**30:.1f} GiB of address space",
                f"the limit is {memory / 2**30:.1f} GiB",
                "Give it at least 1 GiB more",
            )


def _unlimit() -> None:
    """Room again to say what went wrong."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)


def _lower(what: int, limit: int) -> None:
    """Set the soft limit, at most at the hard one; a system that refuses is a system without this limit."""
    import resource

    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def main(settings: dict[str, Any]) -> NoReturn:
    """Entry of the fresh interpreter; `control` says which of the two lives it leads."""
    if settings["control"] is None:
        once(settings)
    serve(settings)


__all__ = ["Channel", "main", "once", "preload", "serve"]
