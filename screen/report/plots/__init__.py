"""Pictures of what was measured, one SVG for each experiment, for a Markdown report that is written to a file.

`data` reads them off the report; `draw` needs matplotlib, which comes with `pip install 'archscreen[plots]'`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from screen.report.plots.data import sheets
from screen.report.schema import ProbePart

ADVICE = "pictures of what was measured need matplotlib: `pip install 'archscreen[plots]'`; the report has the same numbers in tables"


def can_draw() -> bool:
    """Whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def pictures(probe: ProbePart) -> list[tuple[str, str, str]]:
    """(name, title, SVG) of every experiment that has something to show."""
    from screen.report.plots.draw import svg

    return [(sheet.name, sheet.title, svg(sheet)) for sheet in sheets(probe)]


def beside(report: Path, probes: Sequence[ProbePart | None]) -> list[list[tuple[str, str]]]:
    """Write the pictures of some models beside a report; for each model (title, file) as the report links them.

    `report.md` gets `report.depth.svg`; of several models the second gets `report.2.depth.svg`.
    """
    found = []
    for place, probe in enumerate(probes, 1):
        files = []
        for name, title, svg in pictures(probe) if probe is not None else []:
            file = report.with_name(f"{report.stem}.{f'{place}.' if len(probes) > 1 else ''}{name}.svg")
            file.write_text(svg, encoding="utf-8", newline="\n")
            files.append((title, file.name))
        found.append(files)
    return found


__all__ = ["ADVICE", "beside", "can_draw", "pictures"]
