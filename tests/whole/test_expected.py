"""What the repository shows of `screen` is what `screen` says: the reports beside the examples, and the README's two parts.

Sound ones among these pass the gate at its defaults (as more do in `test_slips.py`): each is judged once, for both."""

from __future__ import annotations

import pytest

from screen.report.gate import Decision, decide
from screen.report.schema import Report
from screen.settings import Settings
from tests import expected
from tests.contradictions import contradictions
from tests.shared import ROOT


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # paths in a report are relative to the working directory


SOUND = (
    "pre", "post", "builtin_post", "rezero", "peri", "output_norm_qk", "deepnorm", "dyt", "mamba", "moe", "parallel", "vit_block",
    "linear_attention", "mix_ln",
)  # fmt: skip


def passes_the_gate(report: Report) -> None:
    settings = Settings()
    found = [f.code for f in report.findings if f.outcome == "violated" and f.severity != "note"]
    assert decide(report, settings.fail_on, allow_unknown=settings.allow_unknown) == Decision(0), found or report.summary


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", expected.EXAMPLES)
def test_example_has_its_report(name: str) -> None:
    path = ROOT / "examples" / f"{name}.md"
    assert path.exists(), "run `python -m tests.expected --write`"
    shown = path.read_text(encoding="utf-8")
    report = expected.report_of(f"examples/{name}.py")
    new = expected.example(name, report)  # the second half of the assertion is there for the difference that pytest then shows
    assert not expected.is_stale(new, shown) or new == shown, "run `python -m tests.expected --write` and read the difference"
    if name in SOUND:
        passes_the_gate(report)


def test_readme_shows_its_example() -> None:
    new, shown = expected.quickstart(), expected.readme_part("example")
    assert not expected.is_stale(new, shown) or new == shown


def test_pages_of_the_rules() -> None:
    assert expected.rules() == expected.RULES.read_text(encoding="utf-8"), "run `python -m tests.expected --write`"
    assert expected.terms() == expected.GLOSSARY.read_text(encoding="utf-8"), "run `python -m tests.expected --write`"


def test_a_rule_that_is_added_and_holds_changes_no_report() -> None:
    shown = "| 2 | G103: one.<br>R301: two.<br>a bound. | – |\n3 to read; 25 checks hold, 14 do not apply.\n"
    more = "| 2 | G103: one.<br>N199: new.<br>R301: two.<br>a bound. | – |\n3 to read; 26 checks hold, 14 do not apply.\n"
    assert not expected.is_stale(more, shown)
    assert expected.is_stale(more.replace("two", "too"), shown) and expected.is_stale(more.replace("3 to", "4 to"), shown)


@pytest.mark.by_the_day
@pytest.mark.parametrize(("name", "target", "settings"), expected.FAMOUS, ids=[name for name, _, _ in expected.FAMOUS])
def test_readme_lists_the_famous(name: str, target: str, settings: dict[str, object]) -> None:
    [line] = [line for line in expected.readme_part("zoo").splitlines() if line.startswith(f"| {name} |")]
    report = expected.report_of(target, settings)
    assert expected.first_line(name, report) == line
    assert contradictions(report) == []
    passes_the_gate(report)
