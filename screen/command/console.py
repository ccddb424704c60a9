"""How the command line says no: one sentence on stderr, a traceback only for `-v`."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from typing import IO, TYPE_CHECKING

from screen.errors import InternalError, ScreenError, UsageError
from screen.visible import clean

if TYPE_CHECKING:
    from click import NoSuchOption

verbose = False
"""Whether `-v` was given."""
MACHINE = {
    errno.ENOSPC: "Free some of the disk, or write elsewhere",
    errno.EDQUOT: "Free some of the disk, or write elsewhere",
    errno.EFBIG: "Raise the limit of a file's size: `ulimit -f unlimited`",
    errno.EMFILE: "Raise the limit of open files: `ulimit -n 1024`",
    errno.ENFILE: "Close what holds files open",
    errno.EBADF: "Open it, or write to a file with `-o`",
    errno.EIO: "Look after the disk",
}
"""What a machine may refuse -> what to do about it."""


class _Closed(io.TextIOBase):
    """A stdout that was closed before we began."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "stdout is closed")


def about(error: BaseException) -> None:
    """Say what went wrong, of a pipe that nobody reads as well: its exit code is not that of a verdict."""
    if isinstance(error, BrokenPipeError) or (isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)):  # so says click
        _discard_stdout()
        line("error: stdout must take all that is printed; what reads it ended before. Write to a file with `-o`, and read that")
        return
    refused = translate(error)
    line(f"error: {refused}")
    if verbose and refused.details:
        block(refused.details.rstrip())


def translate(error: BaseException) -> ScreenError:
    """Any exception as an error of ours."""
    import click

    if isinstance(error, ScreenError):
        return error
    if isinstance(error, click.NoSuchOption):
        near = list(error.possibilities or [])[:1]
        hint = _of_check(error) or (f"Did you mean `{near[0]}`?" if near else f"Try `{_path(error)} --help`")
        return UsageError("every option must be one that the command has", f"`{_path(error)}` has no `{error.option_name}`", hint)
    if isinstance(error, click.MissingParameter):
        name = error.param.human_readable_name if error.param is not None else "an argument"
        return UsageError(f"`{_path(error)}` must be given {name}", "it is missing", f"Try `{_path(error)} --help`")
    if isinstance(error, click.ClickException):
        return UsageError("the command line must be one that `screen` can read", error.format_message(), f"Try `{_path(error)} --help`")
    details = "".join(traceback.format_exception(error))
    if isinstance(error, OSError) and error.filename is not None:
        return UsageError(f"`{error.filename}` must be readable or writable as asked", error.strerror or type(error).__name__, _advice(error))
    if isinstance(error, OSError) and error.errno in MACHINE:
        return UsageError("the machine must let `screen` open and write what it needs", error.strerror or "it does not", _advice(error))
    return InternalError(f"it raised `{type(error).__name__}: {error}`", details=details)


def _advice(error: OSError) -> str:
    return MACHINE.get(error.errno or 0, "")


def _of_check(error: NoSuchOption) -> str:
    """That `screen check` has an option that another command has not; else empty."""
    import click

    root = error.ctx.find_root() if error.ctx is not None else None
    check = root.command.get_command(root, "check") if root is not None and isinstance(root.command, click.Group) else None
    if check is None or not any(error.option_name in (*p.opts, *p.secondary_opts) for p in check.params):
        return ""
    return "`screen check` has it"


def _path(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    return str(context.command_path) if context is not None else "screen"


def line(text: str) -> None:
    """One line on stderr. A stderr that is closed must not change the exit code."""
    if sys.stderr is None:  # `print` would take stdout in its place
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(clean(text), file=sys.stderr, flush=True)


def block(text: str) -> None:
    """Several lines on stderr: what a target printed, or a traceback."""
    for one in text.split("\n"):
        line(one)


def prepare() -> None:
    """A terminal that cannot show a letter gets a question mark in its place, and no exception. What was closed before we began is closed for what we
    open too: no file of ours becomes stdout by its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = _Closed()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def flush() -> None:
    """Deliver what was printed now: at the interpreter's exit a failure would become exit code 120."""
    if sys.stdout is not None:
        sys.stdout.flush()


def settle() -> None:
    """Throws away what stdout does not take, of which an error has told: it is not tried again at the interpreter's exit."""
    try:
        flush()
    except (OSError, ValueError):
        _discard_stdout()


def _discard_stdout() -> None:
    """Nothing more goes to a pipe that nobody reads."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def writer(path: str, mode: str = "w") -> IO[str]:
    """A text file to write. A FIFO that nobody reads is an error at once, where `open` would wait for ever."""
    return open(path, mode, encoding="utf-8", newline="\n", opener=_at_once)


def _at_once(path: str, flags: int) -> int:
    number = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    os.set_blocking(number, True)
    return number


def unwritable(path: str, error: OSError) -> UsageError:
    """That a file could not be written, in words."""
    found = "it is a FIFO that nobody reads" if error.errno == errno.ENXIO else error.strerror or type(error).__name__
    return UsageError(f"`{path}` must be a file that can be written", found, _advice(error) or "Name another one")


__all__ = ["about", "block", "flush", "line", "prepare", "translate", "unwritable", "writer"]
