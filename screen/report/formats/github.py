"""Workflow commands of GitHub Actions: annotations at the lines of a pull request. Gravest first, since GitHub shows the first ten of a step."""

from __future__ import annotations

from screen.report import words
from screen.report.annotation import by_target
from screen.report.schema import Report, Reports
from screen.visible import clean

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report | Reports, **_: object) -> str:
    """One command for each finding, and a line of the log for each target; there are no options."""
    lines: list[str] = []
    for one, found in by_target(report):
        for a in found:
            title = _property(f"screen {a.code} {a.name}")
            lines.append(f"::{COMMANDS[a.level]} file={_property(a.file)},line={a.line},title={title}::{_data(a.text)}")
        lines.append(_data(f"{clean(one.target.spec)}: {words.headline(one)}: {clean(one.summary)}"))
        if origin := words.settings(one):
            lines.append(_data(f"{clean(one.target.spec)}: settings: {clean(origin)}"))
    return "".join(f"{line}\n" for line in lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


__all__ = ["render"]
