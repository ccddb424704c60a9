"""A format: the width of every stream, one a line."""

from __future__ import annotations

from screen import Report, Reports
from screen.visible import clean


def render(report: Report | Reports, **_: object) -> str:
    """Lines; there are no options."""
    return "".join(f"{clean(one.target.spec)} {stream.name} {stream.width}\n" for one in report.each for stream in one.streams)
