"""What is said of classes of a file that do not build: each by itself, and all of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import ModuleType

from screen.capture.build.configs import Missing
from screen.capture.build.needs import Needs
from screen.capture.build.piecewise import Reading, replaced
from screen.errors import LoadError, ScreenError, UsageError


def none_builds(errors: Mapping[str, Exception], module: ModuleType) -> Exception:
    """The error where no model of a file builds: the one there is, or all of them, with the functions that could be named."""
    first = next(iter(errors.values()))
    if len(errors) == 1 and not isinstance(first, Needs):
        return first
    makers = [n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__ and not n.startswith("_")]
    listed = ", ".join(f"`{n}`" for n in makers[:8])
    if isinstance(first, Needs) and len(errors) == 1:
        if not makers:
            return first
        told = Needs(first.required, first.found, f"{first.try_}; or name a function that makes a model: {listed}")
        told.lacking = first.lacking
        return told
    required = "a model of the file must build without arguments, or with those of `--set`"
    advice = f"Name one with what it needs, or a function that makes a model ({listed})" if makers else ""
    several = Needs if all(isinstance(e, Needs | Missing) for e in errors.values()) else UsageError
    return several(required, "; ".join(why_not(n, e) for n, e in errors.items()), advice)


def why_not(name: str, error: Exception) -> str:
    """Why one class does not build, in the words of a list of them."""
    if isinstance(error, Needs):
        return f"`{name}` needs {', '.join(f'`{m}`' for m in error.lacking)}: " + " ".join(f"`--set {name}.{m}=…`" for m in error.lacking)
    return f"`{name}`: {error.found if isinstance(error, ScreenError) else f'{type(error).__name__}: {error}'.splitlines()[0]}"


def explained(name: str, error: NameError, reading: Reading) -> Exception:
    """A name that is missing because the statement that makes it did not run is an error of its own."""
    why = replaced(error, reading)
    if not why:
        return error
    package = re.search(r"No module named '(\w+)", why)
    advice = f"Install `{package[1]}`, or run `screen` where it can be imported" if package else f"Give it: `--set {error.name}=…`"
    return LoadError(f"`{name}` must build from what stands in its file", f"it reads `{error.name}`, but {why}", advice)


__all__ = ["explained", "none_builds", "why_not"]
