"""Arguments and settings that nobody gave, as errors that say how to give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screen.errors import UsageError


class Needs(UsageError):
    """Arguments that nobody gave."""

    lacking: tuple[str, ...] = ()


def needs(name: str, lacking: list[str], place: str = "") -> Needs:
    """The error for arguments that nobody gave; `place`: a call of the author's that gives the others."""
    error = Needs(
        f"`{name}` must build without arguments, or with those of `--set`",
        f"it needs {', '.join(f'`{m}`' for m in lacking)}{f', which {place} does not tell' if place else ''}",
        f"Add {' '.join(f'`--set {m}=…`' for m in lacking)}, or a function `build_model()` to the file",
    )
    error.lacking = tuple(lacking)
    return error


def refuses(name: str, lacking: Mapping[str, Any], place: str) -> Needs:
    """The error for settings that a constructor refuses as they are."""
    now = {f"`{path}`": "None" if value is None else f"`{value!r}`" for path, value in lacking.items()}
    error = needs(name, list(lacking))
    told = Needs(error.required, f"{place} cannot do with {', '.join(f'{path} as {value}' for path, value in now.items())}", error.try_)
    told.lacking = error.lacking
    return told


__all__ = ["Needs", "needs", "refuses"]
