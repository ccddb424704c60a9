"""How a number is written in every format that people read."""

from __future__ import annotations


def number(value: float | int | str | None, digits: int = 4, unknown: str = "?") -> str:
    """At most so many significant digits; whole numbers and text as they are; `unknown` when it is not known."""
    if value is None:
        return unknown
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


__all__ = ["number"]
