"""What fails the gate: exit codes for every word of `--fail-on`, for codes, for both together, with rules left out, and what is said of a 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from screen import settings as config
from screen.child.results import Capture, Progress
from screen.command import cli, commands
from screen.errors import LoadError, UsageError
from screen.report.gate import decide
from screen.pipeline.stages import Judged, job_of, judge
from screen.report.build import Request, not_judged
from screen.report.schema import Channel, FindingPart, Report
from tests.shared import ROOT

pytestmark = pytest.mark.usefixtures("warm")

WORDS = ("slip", "unstable", "conditional", "never")
SLIP = ("G101", "warning", "violated")


def _report(verdict: str = "stable", *findings: tuple[str, str, str], spec: str = "a.py") -> Report:
    blank = not_judged(LoadError("a must", "b is"), Request(spec))
    parts = [
        FindingPart(code=code, name="a-name", step="structure", channel=None, severity=severity, outcome=outcome, message="It is.", basis="derived")  # type: ignore[arg-type]
        for code, severity, outcome in findings
    ]
    return blank.model_copy(update={"verdict": verdict, "error": None, "findings": parts})


# -- the table ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "codes"),
    [("stable", (0, 0, 0, 0)), ("conditional", (0, 0, 1, 0)), ("unstable", (1, 1, 1, 0)), ("unknown", (2, 2, 2, 2))],
)
def test_what_a_word_makes_of_a_verdict(verdict: str, codes: tuple[int, ...]) -> None:
    assert tuple(decide(_report(verdict), (word,)).code for word in WORDS) == codes


def test_an_unknown_that_is_allowed_fails_on_what_was_found_all_the_same() -> None:
    assert [decide(_report("unknown"), (word,), allow_unknown=True).code for word in WORDS] == [0, 0, 0, 0]
    assert [decide(_report("unknown", SLIP), (word,), allow_unknown=True).code for word in (*WORDS, "G101")] == [1, 0, 0, 0, 1]


@pytest.mark.parametrize("fail_on", [*WORDS, "G101"])
def test_what_was_not_judged_is_2_whatever_was_found_or_allowed(fail_on: str) -> None:
    report = not_judged(LoadError("a must", "b is"), Request("a.py")).model_copy(update={"findings": _report("stable", SLIP).findings})
    assert decide(report, (fail_on,), allow_unknown=True).code == 2


@pytest.mark.parametrize(
    ("finding", "codes"),
    [
        (("G101", "error", "violated"), (1, 0, 0, 0)),
        (("G101", "warning", "violated"), (1, 0, 0, 0)),
        (("G101", "note", "violated"), (0, 0, 0, 0)),
        (("G101", "warning", "conditional"), (0, 0, 0, 0)),
        (("G101", "warning", "cannot_tell"), (0, 0, 0, 0)),
        (("G101", "note", "holds"), (0, 0, 0, 0)),
    ],
)
def test_a_slip_is_a_violation_that_is_more_than_a_note(finding: tuple[str, str, str], codes: tuple[int, ...]) -> None:
    assert tuple(decide(_report("stable", finding), (word,)).code for word in WORDS) == codes


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [
        (("G",), 1), (("G1",), 1), (("G104",), 1), (("R", "G104"), 1), (("unstable", "G"), 1),
        (("G101",), 0), (("R",), 0), (("unstable", "R"), 0), (("slip",), 0),
    ],
)
def test_codes_fail_on_a_violation_of_any_severity(fail_on: tuple[str, ...], code: int) -> None:
    report = _report("conditional", ("G104", "note", "violated"), ("R201", "warning", "conditional"), ("G101", "note", "holds"))
    assert decide(report, fail_on).code == code


@pytest.mark.parametrize(
    ("verdict", "fail_on", "said"),
    [
        ("conditional", ("slip",), "G101 violated (--fail-on slip)"),
        ("conditional", ("conditional",), "the verdict is conditional (--fail-on conditional)"),
        ("unstable", ("unstable", "R"), "the verdict is unstable (--fail-on unstable)"),
        ("unstable", ("slip", "G"), "the verdict is unstable, G101 violated (--fail-on slip,G)"),
        ("conditional", ("unstable", "G101"), "G101 violated (--fail-on G101)"),
        ("stable", ("unstable",), ""),
    ],
)
def test_why_it_is_1_is_said_in_one_line(verdict: str, fail_on: tuple[str, ...], said: str) -> None:
    assert decide(_report(verdict, SLIP, SLIP), fail_on).why == said


def test_of_many_rules_four_are_named() -> None:
    found = [(f"G10{i}", "warning", "violated") for i in range(7)]
    four = ", ".join(f"G10{i} violated" for i in range(4))
    assert decide(_report("stable", *found), ("slip",)).why == f"{four} and 3 more (--fail-on slip)"


def test_a_verdict_counts_while_one_of_its_findings_is_not_known() -> None:
    class Known:
        def __init__(self, *codes: str) -> None:
            self.codes = codes

        def holds(self, found: object) -> bool:
            return getattr(found, "code", "") in self.codes

    opened = Channel(id="R", state="open", reason="", codes=["R101", "R102"])
    found_too = ("G104", "note", "violated")  # of no channel
    report = _report("unstable", ("R101", "error", "violated"), ("R102", "error", "violated"), found_too).model_copy(update={"channels": [opened]})
    found = {known: decide(report, ("unstable",), known=Known(*known)).code for known in ((), ("R101",), ("R102",), ("R101", "R102"))}
    assert found == {(): 1, ("R101",): 1, ("R102",): 1, ("R101", "R102"): 0}


# -- the command ----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Sets what judging gives, so that no model is needed."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("")

    def set_(*found: Report) -> None:
        monkeypatch.setattr(commands, "_judge", lambda asked, settings: [[Judged(r, None, True)] for r in found])

    return set_


@pytest.mark.parametrize("quiet", [[], ["-q"]])
@pytest.mark.parametrize("format_", ["text", "markdown", "json"])
def test_code_and_reason_do_not_depend_on_the_format(
    judged: Callable[..., None], capsys: pytest.CaptureFixture[str], format_: str, quiet: list[str]
) -> None:
    judged(_report("conditional", SLIP))
    assert cli.main(["check", "a.py", "--format", format_, *quiet]) == 1
    assert capsys.readouterr().err == "exit 1: G101 violated (--fail-on slip)\n"
    assert cli.main(["check", "a.py", "--format", format_, *quiet, "--fail-on", "unstable"]) == 0
    assert capsys.readouterr().err == ""


def test_of_several_targets_the_worst_counts_and_each_that_fails_is_named(judged: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    judged(_report("stable"), _report("conditional", SLIP, spec="b.py"))
    assert cli.main(["check", "a.py", "b.py"]) == 1
    assert capsys.readouterr().err == "exit 1: `b.py`: G101 violated (--fail-on slip)\n"
    judged(_report("unknown"), _report("unstable", SLIP, spec="b.py"))
    assert cli.main(["check", "a.py", "b.py"]) == 2
    assert capsys.readouterr().err == "exit 2: `a.py`: the verdict is unknown (`--allow-unknown` lets it pass)\n"
    assert cli.main(["check", "a.py", "b.py", "--allow-unknown", "--fail-on", "never"]) == 0


def test_the_gate_of_a_file_and_that_of_the_command_line(judged: Callable[..., None], tmp_path: Path) -> None:
    judged(_report("conditional", SLIP))
    for text, code in (('"never"', 0), ('"slip"', 1), ('["unstable", "g1"]', 1), ('"unstable, R"', 0)):
        (tmp_path / "pyproject.toml").write_text(f"[tool.screen]\nfail-on = {text}\n")
        assert cli.main(["check", "a.py"]) == code, text
    (tmp_path / "screen.toml").write_text('fail-on = "never"\n')
    assert cli.main(["check", "a.py"]) == 0
    assert cli.main(["check", "a.py", "--fail-on", "unstable,conditional"]) == 1
    assert cli.main(["check", "a.py", "--fail-on", "unstable", "--fail-on", "G101"]) == 1


# -- rules that are left out ----------------------------------------------------------------------------------------------------------------


CAPTURED: dict[str, Capture] = {}
"""What rules are left out of is asked of a target once."""


def _captured(request: Request, progress: Progress) -> Capture:
    from screen.child.in_process import capture

    if repr(request) not in CAPTURED:
        CAPTURED[repr(request)] = capture(request, progress)
    return CAPTURED[repr(request)]


def _checked(target: str, **options: Any) -> Judged:
    settings = config.load({"spot_check": False, **{name: [value] for name, value in options.items()}}, ROOT / "examples")
    [found] = judge(job_of(str(ROOT / "examples" / f"{target}.py"), settings), _captured)
    return found


def _code(found: Judged, *fail_on: str) -> int:
    return decide(found.report, fail_on or ("slip",), verdict=found.chosen).code


@pytest.mark.by_the_day
@pytest.mark.parametrize("options", [{"select": "G"}, {"select": "D1,R3"}, {"ignore": "L"}, {"select": "L", "ignore": "L2"}, {"ignore": "G"}])
def test_leaving_out_rules_makes_no_clean_model_worse(options: dict[str, str]) -> None:
    peri = _checked("peri", **options)
    for found, verdict in ((peri, "stable"), (_checked("pre", **options), "conditional")):
        assert found.report.verdict == verdict
        assert "rules-left-out" not in [c.id for c in found.report.conditions]
        assert _code(found) == 0
    assert _code(peri, "conditional") == 0


@pytest.mark.parametrize(
    ("target", "options", "fail_on", "code"),
    [
        ("normed_skip", {"select": "G101"}, "slip", 1),
        ("normed_skip", {"ignore": "G101"}, "slip", 0),
        ("normed_skip", {"select": "D"}, "slip", 0),
        ("normed_skip", {"select": "D1"}, "conditional", 0),
        ("normed_skip", {"select": "G"}, "conditional", 1),
        ("none", {"select": "G"}, "slip", 0),
        ("none", {"select": "R101"}, "unstable", 1),
        ("none", {"ignore": "R101"}, "slip", 1),
        ("pre", {"select": "L"}, "conditional", 1),
        ("pre", {"select": "D"}, "conditional", 0),
    ],
)
def test_the_exit_code_comes_from_what_was_selected(target: str, options: dict[str, str], fail_on: str, code: int) -> None:
    assert _code(_checked(target, **options), fail_on) == code


def test_the_report_names_what_was_left_out_and_keeps_its_verdict() -> None:
    from screen.report import render

    whole, part = _checked("none"), _checked("none", select="G,D,L,I,N", ignore="I102")
    assert whole.chosen is None and whole.report.coverage.rules_left_out == []
    assert part.report.verdict == whole.report.verdict == "unstable" and part.report.channels == whole.report.channels
    left = part.report.coverage.rules_left_out
    assert "R101" in left and "I102" in left and not {f.code for f in part.report.findings} & set(left)
    for format_ in ("text", "markdown"):
        assert f"for the exit code: {', '.join(left)}" in render(part.report, format_)
    assert json.loads(part.report.to_json())["coverage"]["rules_left_out"] == left


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fail_on": ("G999",)}, "no rule starts with `G999`; `screen rule` lists them"),
        ({"fail_on": ("G191",)}, "no rule starts with `G191`; Did you mean `G1"),
        ({"fail_on": ("slip", "X")}, "no rule starts with `X`"),
        ({"fail_on": ("G101",), "select": ("R",)}, "`G101` is left out"),
        ({"fail_on": ("slip", "G101"), "ignore": ("G1",)}, "`G101` is left out"),
        ({"ignore": ("R999",)}, "no rule starts with `R999`"),
    ],
)
def test_a_code_that_no_chosen_rule_has_is_a_mistake_of_usage(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        job_of("a.py", config.Settings(**settings))
    assert said.split("; ")[0] in str(refused.value) and said.split("; ")[-1] in str(refused.value)


def test_words_and_codes_that_are_right_are_taken() -> None:
    for fail_on in (("slip",), ("never",), ("G", "R1", "conditional")):
        job_of("a.py", config.Settings(fail_on=fail_on, ignore=("G101",)))


def test_a_misspelt_word_exits_2_with_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "a.py", "--fail-on", "slips"]) == 2
    assert "Did you mean `slip`?" in capsys.readouterr().err
