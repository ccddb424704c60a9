"""Renders a report; every format says the same facts. Each format is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from pydantic import BaseModel

FORMATS = {"text": "screen.report.text", "markdown": "screen.report.markdown", "json": "screen.report.json"}
"""Format to the module whose `render(report, **options) -> str` makes it."""


def render(report: BaseModel, format: str, **options: object) -> str:
    """A `Report`, or `Reports`, as text, with a line feed at its end.

    Options: `color` and `width` (text: `width=None` when the output is no terminal, then lines are as long as they are),
    `verbose` (also findings that hold). Raises `KeyError` for a format that does not exist."""
    text: str = import_module(FORMATS[format]).render(report, **options)
    return text


__all__ = ["FORMATS", "render"]
