"""Reports for tools: each format against its own specification, and the same findings in all of them."""

from __future__ import annotations

import json
import re
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from junitparser import Failure, JUnitXml, Skipped
from sarif_pydantic import Sarif

import screen.plugins
from screen.errors import ScreenError
from screen.report import has_probe, render
from screen.report.annotation import annotations_of
from screen.report.build import Request, not_judged, several
from screen.report.schema import Report
from screen.settings import FORMATS, load
from tests.report.test_report import EVIL, full, report_of

pytestmark = pytest.mark.usefixtures("warm")

NEW = ("concise", "github", "gitlab", "junit", "sarif")


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(full())


@pytest.fixture(scope="module")
def failed() -> Report:
    return not_judged(ScreenError("`model.py` must load", "it does not", "", file="model.py", line=3), Request("model.py::Model", root="/"))


def test_all_formats_are_found_and_none_is_listed() -> None:
    assert set(screen.plugins.own(FORMATS)) == {"text", "markdown", "html", "json", *NEW}
    assert [name for name in screen.plugins.own(FORMATS) if has_probe(name)] == ["json", "markdown", "text"]


def test_a_format_of_another_distribution(monkeypatch: pytest.MonkeyPatch, report: Report) -> None:
    module = ModuleType("of_another")
    module.__dict__["render"] = lambda report, **_: f"{report.verdict}\n"
    monkeypatch.setitem(__import__("sys").modules, "of_another", module)
    monkeypatch.setattr(screen.plugins, "entry_points", lambda *, group: [EntryPoint("word", "of_another", group)] if group == FORMATS else [])
    assert load({"format": "word"}).format == "word" and render(report, "word") == f"{report.verdict}\n"


@pytest.mark.parametrize("format", NEW)
def test_every_finding_that_says_something_is_in_every_format(report: Report, format: str) -> None:
    text = render(report, format)
    assert text.endswith("\n") and not text.endswith("\n\n") and text == render(report, format)
    expected = {f.code for f in report.findings if f.outcome in ("violated", "conditional", "cannot_tell")}
    assert expected and expected <= set(re.findall(r"\b[A-Z]\d{3}\b", text))


@pytest.mark.parametrize("format", NEW)
def test_a_target_that_was_not_judged_fails_in_every_format(failed: Report, report: Report, format: str) -> None:
    text = render(several([report, failed]), format)
    assert "`model.py` must load" in text and "model.py" in text


def test_concise_lines_have_path_line_column_code_and_level(report: Report) -> None:
    *lines, last = render(report, "concise").splitlines()
    assert all(re.fullmatch(r"[^:]+:\d+:1: [A-Z]\d{3} (error|warning|note) .+", line) for line in lines), lines
    assert last.startswith(f"model.py::Model: {report.verdict}")
    levels = [line.split()[2] for line in lines]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)


def test_github_commands_are_one_line_each_whatever_the_text(report: Report) -> None:
    change = {"message": "50 %, a::b\nc", "plain": "", "file": "a,b:c.py"}
    evil = report.model_copy(update={"findings": [f.model_copy(update=change) for f in report.findings]})
    lines = render(evil, "github").splitlines()
    commands = [line for line in lines if line.startswith("::")]
    assert len(commands) == len(lines) - 1 == len(annotations_of(evil))
    for line in commands:
        assert re.fullmatch(r"::(error|warning|notice) file=a%2Cb%3Ac\.py,line=\d+,title=screen [A-Z]\d{3} [\w-]+::50 %25, a::b\\x0ac.*", line), line


def test_sarif_is_valid_and_has_what_github_requires(report: Report, failed: Report) -> None:
    document = json.loads(render(several([report, failed]), "sarif"))
    sarif = Sarif.model_validate(document)
    (run,) = sarif.runs
    rules = [rule.id for rule in run.tool.driver.rules or []]
    assert rules == sorted(set(rules)) and run.results
    for result in document["runs"][0]["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"] and result["level"] in ("error", "warning", "note")
        assert result["message"]["text"] and result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1
        assert not result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].startswith("/")
        assert list(result["partialFingerprints"]) == ["screenFinding/v1"]
    (invocation,) = document["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False and "must load" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_junit_has_failures_for_what_is_violated_and_skips_what_cannot_be_told(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(render(report, "junit"), encoding="utf-8")
    (suite,) = JUnitXml.fromfile(str(path))
    results = {case.name.split()[0]: [type(r) for r in case.result] for case in suite}
    for finding in annotations_of(report):
        if finding.outcome == "violated" and finding.level != "note":
            assert results[finding.code] == [Failure]
    assert [Skipped] in results.values() or not any(a.outcome == "cannot_tell" for a in annotations_of(report))
    assert suite.failures == sum(a.outcome == "violated" and a.level != "note" for a in annotations_of(report)) > 0


def test_gitlab_issues_have_their_fields(report: Report) -> None:
    for issue in json.loads(render(report, "gitlab")):
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker") and issue["location"]["lines"]["begin"] >= 1
        assert issue["description"] and issue["check_name"] and issue["fingerprint"] and not issue["location"]["path"].startswith("/")


def test_fingerprints_stay_when_lines_move_numbers_change_and_the_model_gets_deeper(report: Report) -> None:
    def moved(f: dict[str, object]) -> dict[str, object]:
        line = f["line"]
        return {**f, "line": line + 7 if isinstance(line, int) else 7, "message": re.sub(r"\d+", "96", str(f["message"])), "plain": "", "kind": "k9"}

    other = Report.model_validate({**report.model_dump(), "findings": [moved(f) for f in report.model_dump()["findings"]]})
    first, second = ([a.fingerprint for a in annotations_of(r)] for r in (report, other))
    assert first == second and len(set(first)) == len(first)


@pytest.mark.parametrize("format", NEW)
def test_text_of_the_model_cannot_become_markup(report: Report, format: str) -> None:
    evil = report.model_copy(update={"findings": [f.model_copy(update={"message": EVIL, "plain": EVIL, "module": EVIL}) for f in report.findings]})
    text = render(evil, format)
    assert "\x1b" not in text and "\u202e" not in text
    if format == "junit":
        assert "<script>" not in text


def test_one_run_writes_many_files_and_makes_their_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from screen.command.cli import main

    wanted = {name: tmp_path / "reports" / name / f"found.{name}" for name in NEW}
    reports = [word for name, path in wanted.items() for word in ("--report", f"{name}={path}")]
    code = main(["check", "examples/slips/final_norm_missing.py::Slip", "--format", "concise", *reports])
    printed = capsys.readouterr().out
    assert code == 1 and printed == wanted["concise"].read_text(encoding="utf-8")
    assert " G103 warning " in printed
    assert all(path.stat().st_size for path in wanted.values())
    assert main(["check", "x.py", "--report", f"sarif={wanted['sarif']}/below"]) == 2
