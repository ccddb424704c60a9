"""No report says two things of which one is false; a page that did would be seen."""

from __future__ import annotations

import pytest

import screen
from screen.report.schema import Report
from tests import handmade as h
from tests.awkward.table import CASES, Case
from tests.contradictions import contradictions
from tests.report.test_report import report_of


@pytest.mark.parametrize("name", [*h.ALL])
def test_reports_by_hand(name: str) -> None:
    assert contradictions(report_of(h.ALL[name]())) == []


def _with(report: Report, **claim: object) -> Report:
    """The report with one of its claims said otherwise."""
    claims = [c.model_copy(update={k: v for k, v in claim.items() if k != "claim"}) if c.claim == claim["claim"] else c for c in report.claims]
    return report.model_copy(update={"claims": claims})


@pytest.fixture(scope="module")
def sound() -> Report:
    return screen.check("examples/output_norm_qk.py", isolate=False)


@pytest.mark.parametrize(
    "claim",
    [
        {"claim": "gradient_law", "value": "exponential", "status": "proved", "measured": None},
        {"claim": "rms_ratio", "value": 1e7, "status": "proved", "measured": None},
        {"claim": "growth", "weights": "fixed", "value": "exponential", "status": "proved", "measured": None},
        {"claim": "logits_bounded", "value": False, "status": "proved", "measured": None},
        {"claim": "output_bounded", "value": False, "status": "proved", "measured": None},
    ],
    ids=lambda claim: claim["claim"],
)
def test_a_contradiction_is_seen(claim: dict[str, object], sound: Report) -> None:
    assert contradictions(sound) == []
    assert contradictions(_with(sound, **claim))


@pytest.mark.by_the_day
@pytest.mark.parametrize("case", CASES[::4], ids=lambda case: case.name)
def test_odd_blocks(case: Case) -> None:
    report = screen.check(case.make(), example_inputs=case.arguments(), spot_check=False)
    assert contradictions(report) == []
