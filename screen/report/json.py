"""The report as JSON: keys sorted, byte-identical for the same input."""

from __future__ import annotations

from screen.report.schema import Report, Reports


def render(report: Report | Reports, **_: object) -> str:
    """The JSON text; there are no options."""
    return report.to_json()


__all__ = ["render"]
