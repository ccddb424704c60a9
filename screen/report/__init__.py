"""Renders a report; every format says the same facts. Each format is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pydantic import BaseModel

FORMATS = {"text": "screen.report.text", "markdown": "screen.report.markdown", "json": "screen.report.json"}
"""Format to the module whose `render(report, **options) -> str` makes it."""


def render(report: BaseModel, format: str, **options: object) -> str:
    """A `Report`, or `Reports`, as text, with a line feed at its end.

    Options: `color` and `width` (text: `width=None` when the output is no terminal, then lines are as long as they are),
    `verbose` (also findings that hold). Raises `KeyError` for a format that does not exist."""
    text: str = import_module(FORMATS[format]).render(report, **options)
    return text


def stream_graph(report: BaseModel) -> Any:
    """The streams of a `Report` as a `networkx.DiGraph` (`screen.report.network`)."""
    return import_module("screen.report.network").stream_graph(report)


def formulas_of(sublayer: BaseModel) -> Any:
    """The expressions of a sublayer as `sympy` (`screen.report.formulas`)."""
    return import_module("screen.report.formulas").formulas_of(sublayer)


__all__ = ["FORMATS", "formulas_of", "render", "stream_graph"]
