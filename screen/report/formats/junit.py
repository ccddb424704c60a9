"""JUnit's XML, as test reports of CI systems read it: a suite for each target, a case for each finding that was judged.

What is violated with severity error or warning is a failure; what cannot be told is skipped; a target that was not judged is an error."""

from __future__ import annotations

from io import BytesIO

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from screen.report import words
from screen.report.annotation import NOT_JUDGED, Annotation, by_target
from screen.report.groups import grouped
from screen.report.schema import Report, Reports
from screen.visible import clean


def render(report: Report | Reports, **_: object) -> str:
    """The XML text; there are no options."""
    whole = JUnitXml("screen")
    for one, found in by_target(report):
        whole.add_testsuite(_suite(one, found))
    out = BytesIO()
    whole.write(out)
    return out.getvalue().decode("utf-8").rstrip("\n") + "\n"


def _suite(report: Report, found: list[Annotation]) -> TestSuite:
    spec = clean(report.target.spec)
    suite = TestSuite(spec)
    if origin := words.settings(report):
        suite.add_property("settings", clean(origin))
    suite.add_testcases([_case(spec, a) for a in found])
    for group in grouped([f for f in report.findings if f.outcome == "holds"]):
        suite.add_testcase(TestCase(f"{group.first.code} {group.first.name}", classname=spec))
    return suite


def _case(spec: str, a: Annotation) -> TestCase:
    case = TestCase(f"{a.code} {a.name}", classname=spec)
    text = f"{a.file}:{a.line}: {a.text}"
    if a.code == NOT_JUDGED:
        case.result = [Error(a.message, type_=a.name)]
    elif a.outcome == "violated" and a.level != "note":
        failure = Failure(a.message, type_=a.level)
        failure.text = text
        case.result = [failure]
    elif a.outcome == "cannot_tell":
        case.result = [Skipped(a.message)]
    else:
        case.system_out = text
    return case


__all__ = ["render"]
