"""How the command line says no: one sentence on stderr, a traceback only for `-v`."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback

from screen.errors import InternalError, ScreenError, UsageError
from screen.visible import clean

verbose = False
"""Whether `-v` was given."""


def about(error: BaseException) -> None:
    """Say what went wrong; a broken pipe is answered by silence, since nobody listens."""
    if isinstance(error, BrokenPipeError):
        _discard_stdout()
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
        hint = f"Did you mean `{near[0]}`?" if near else f"Try `{_path(error)} --help`"
        return UsageError("every option must be one that the command has", f"`{_path(error)}` has no `{error.option_name}`", hint)
    if isinstance(error, click.MissingParameter):
        name = error.param.human_readable_name if error.param is not None else "an argument"
        return UsageError(f"`{_path(error)}` must be given {name}", "it is missing", f"Try `{_path(error)} --help`")
    if isinstance(error, click.ClickException):
        return UsageError("the command line must be one that `screen` can read", error.format_message(), f"Try `{_path(error)} --help`")
    details = "".join(traceback.format_exception(error))
    if isinstance(error, OSError) and error.filename is not None:
        return UsageError(f"`{error.filename}` must be readable or writable as asked", error.strerror or type(error).__name__)
    return InternalError(f"it raised `{type(error).__name__}: {error}`", details=details)


def _path(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    return str(context.command_path) if context is not None else "screen"


def line(text: str) -> None:
    """One line on stderr. A stderr that is closed must not change the exit code."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(clean(text), file=sys.stderr, flush=True)


def block(text: str) -> None:
    """Several lines on stderr: what a target printed, or a traceback."""
    for one in text.split("\n"):
        line(one)


def tolerate() -> None:
    """A terminal that cannot show a letter gets a question mark in its place, and no exception."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def flush() -> None:
    """Deliver what was printed now: at the interpreter's exit a failure would become exit code 120."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _discard_stdout() -> None:
    """Nothing more goes to a pipe that nobody reads."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


__all__ = ["about", "block", "flush", "line", "tolerate", "translate"]
