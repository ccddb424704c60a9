"""GitLab's Code Quality report: a JSON list of issues with fingerprints (docs.gitlab.com/ci/testing/code_quality)."""

from __future__ import annotations

import json

from screen.report.annotation import by_target
from screen.report.schema import Report, Reports

SEVERITIES = {"error": "critical", "warning": "major", "note": "info"}


def render(report: Report | Reports, **_: object) -> str:
    """The JSON text; there are no options."""
    issues = [
        {
            "description": f"{a.code} {a.name}: {a.message}",
            "check_name": a.code,
            "fingerprint": a.fingerprint,
            "severity": SEVERITIES[a.level],
            "location": {"path": a.file, "lines": {"begin": a.line}},
        }
        for _, found in by_target(report)
        for a in found
    ]
    return json.dumps(issues, indent=2, sort_keys=True) + "\n"


__all__ = ["render"]
