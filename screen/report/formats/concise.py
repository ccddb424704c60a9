"""One line for each finding, as editors and `grep` read them: `path:line:col: CODE level message`, then the verdict of each target."""

from __future__ import annotations

from screen.report import words
from screen.report.annotation import by_target
from screen.report.schema import Report, Reports
from screen.visible import clean


def render(report: Report | Reports, **_: object) -> str:
    """Lines; there are no options."""
    lines: list[str] = []
    for one, found in by_target(report):
        lines += [f"{a.file}:{a.line}:1: {a.code} {a.level} {a.message}" for a in found]
        lines.append(f"{clean(one.target.spec)}: {words.headline(one)}: {clean(one.summary)}")
        if origin := words.settings(one):
            lines.append(f"{clean(one.target.spec)}: settings: {clean(origin)}")
    return "".join(f"{line}\n" for line in lines)


__all__ = ["render"]
