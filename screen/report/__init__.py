"""Renders a report; every format says the same facts. Each format is imported when it is asked for."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from screen import plugins
from screen.errors import UsageError

FORMATS = "screen.report.formats"
"""Where formats are found: the folder, and the group of entry points."""
SUFFIXES = {".txt": "text", ".md": "markdown", ".json": "json", ".sarif": "sarif", ".xml": "junit", ".html": "html"}


def render(report: BaseModel, format: str, **options: object) -> str:
    """A `Report`, or `Reports`, as text, with a line feed at its end.

    Options: `color` and `width` (text: `width=None` when the output is no terminal, then lines are as long as they are),
    `verbose` (also findings that hold), `quiet` (text: a line for each target), `plots` and `short` (Markdown). Raises `KeyError` for a format that
    does not exist."""
    text: str = _format(format).render(report, **options)
    return text


def render_probe(reports: list[Any], format: str, **options: object) -> str:
    """What was measured of some models, for `screen probe`. Options: `quiet`, `color`, `short`, `pictures`. Raises `KeyError` for a format that does
    not exist; `has_probe` says which formats have measurements."""
    text: str = _format(format).render_probe(reports, **options)
    return text


def has_probe(format: str) -> bool:
    """Whether a format has a form for measurements."""
    return hasattr(_format(format), "render_probe")


def format_for(path: str) -> str:
    """The format that a file's ending stands for. Raises `UsageError`."""
    suffix = os.path.splitext(path)[1]
    if suffix not in SUFFIXES or plugins.find(FORMATS, SUFFIXES[suffix]) is None:
        known = ", ".join(f"`{ending}`" for ending, name in SUFFIXES.items() if plugins.find(FORMATS, name) is not None)
        raise UsageError(f"`{path}` must end in {known}", f"it ends in `{suffix}`", "Or name the format: `report.save(path, format=…)`")
    return SUFFIXES[suffix]


def decision(report: BaseModel, fail_on: tuple[str, ...]) -> Any:
    """What a gate makes of a `Report`: exit code and reason (`screen.report.gate.decide`)."""
    return import_module("screen.report.gate").decide(report, fail_on)


def _format(name: str) -> ModuleType:
    module = plugins.find(FORMATS, name)
    if module is None:
        raise KeyError(name)
    return import_module(module)


def stream_graph(report: BaseModel) -> Any:
    """The streams of a `Report` as a `networkx.DiGraph` (`screen.report.network`)."""
    return import_module("screen.report.network").stream_graph(report)


def formulas_of(sublayer: BaseModel) -> Any:
    """The expressions of a sublayer as `sympy` (`screen.report.formulas`)."""
    return import_module("screen.report.formulas").formulas_of(sublayer)


__all__ = ["FORMATS", "decision", "format_for", "formulas_of", "has_probe", "render", "render_probe", "stream_graph"]
