"""The report as JSON: keys sorted, byte-identical for the same input."""

from __future__ import annotations

import json

from screen.report.schema import Report, Reports
from screen.visible import quoted


def render(report: Report | Reports, **_: object) -> str:
    """The JSON text; there are no options."""
    return report.to_json()


def render_probe(reports: list[Report], **_: object) -> str:
    """The reports as they are; several as a list."""
    if len(reports) == 1:
        return reports[0].to_json()
    return quoted(json.dumps([json.loads(r.to_json()) for r in reports], indent=2, sort_keys=True)) + "\n"


__all__ = ["render", "render_probe"]
