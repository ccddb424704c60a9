"""SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0), with what GitHub's code scanning requires: one run, a rule for each code that was found,
a result for each finding with its fingerprint; a target that was not judged is a notification of the tool's execution."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from screen.report import words
from screen.report.annotation import NOT_JUDGED, Annotation, by_target
from screen.report.schema import FindingPart, Report, Reports
from screen.visible import clean

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT = "screenFinding/v1"
PLACE = re.compile(r"\{(?=\d)")
"""Where a message of SARIF has a place for an argument."""


def render(report: Report | Reports, **_: object) -> str:
    """The JSON text; there are no options."""
    found = by_target(report)
    rules = {f.code: f for one, _ in found for f in reversed(one.findings)}
    codes = sorted({a.code for _, every in found for a in every if a.code != NOT_JUDGED})
    failed = [(one, a) for one, every in found for a in every if a.code == NOT_JUDGED]
    run: dict[str, Any] = {
        "tool": {"driver": {
            "name": "screen", "version": report.tool.version, "semanticVersion": report.tool.version,
            "rules": [_rule(rules[code]) for code in codes],
        }},
        "invocations": [{
            "executionSuccessful": not failed,
            "toolExecutionNotifications": [_notification(one, a) for one, a in failed],
        }],
        "results": [_result(one, a, codes.index(a.code)) for one, every in found for a in every if a.code != NOT_JUDGED],
        "columnKind": "utf16CodeUnits",
    }  # fmt: skip
    if origins := {clean(one.target.spec): clean(origin) for one, _ in found if (origin := words.settings(one))}:
        run["properties"] = {"settings": origins}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, sort_keys=True) + "\n"


def _rule(finding: FindingPart) -> dict[str, Any]:
    title = finding.name.replace("-", " ")
    return {
        "id": finding.code,
        "name": "".join(word.capitalize() for word in finding.name.split("-")),
        "shortDescription": {"text": title},
        "fullDescription": {"text": _unlinked(f"{title}. {clean(finding.theorem)}".strip())},
        "help": {"text": f"`screen rule {finding.code}` prints the page of this rule."},
        "defaultConfiguration": {"level": finding.severity},
        "properties": {"tags": [finding.step, *([f"channel-{finding.channel}"] if finding.channel else [])], "problem.severity": _problem(finding)},
    }


def _problem(finding: FindingPart) -> str:
    return {"error": "error", "warning": "warning", "note": "recommendation"}[finding.severity]


def _result(report: Report, a: Annotation, rule: int) -> dict[str, Any]:
    return {
        "ruleId": a.code,
        "ruleIndex": rule,
        "level": a.level,
        "message": {"text": _unlinked(a.text)},
        "locations": [_location(a)],
        "partialFingerprints": {FINGERPRINT: a.fingerprint},
        "properties": {"target": clean(report.target.spec), "outcome": a.outcome, "verdict": report.verdict},
    }


def _notification(report: Report, a: Annotation) -> dict[str, Any]:
    text = f"{clean(report.target.spec)} was not judged ({a.name}): {a.message}"
    return {"level": "error", "message": {"text": _unlinked(text)}, "locations": [_location(a)]}


def _unlinked(text: str) -> str:
    """A message may hold links (SARIF 3.11.6) and places for arguments (3.11.5), and ours has none."""
    return PLACE.sub("{ ", text.replace("](", "] ("))


def _location(a: Annotation) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": quote(a.file)}, "region": {"startLine": a.line}}}


__all__ = ["render"]
