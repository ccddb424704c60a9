"""Reports side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from screen.command.cli import main
from screen.report.compare import Comparison, compare, render
from tests.report.test_report import EVIL, full, report_of
from tests.shared import ROOT

pytestmark = [pytest.mark.usefixtures("warm"), pytest.mark.by_the_day]


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_two_targets_and_a_saved_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "pre.json"
    assert main(["check", "examples/pre.py", "--format", "json", "-o", str(saved)]) == 0
    assert main(["compare", str(saved), "examples/post.py", "--format", "json"]) == 1
    found = Comparison.model_validate_json(capsys.readouterr().out)
    rows = {row.what: row for row in found.rows}
    assert found.worse == ["D"] and rows["D depth, gradient flow"].values == ["closed", "conditional"]
    assert rows["stream: k0 ffn"].values == ["FFN pre: x ← x + ffn(A(x))", "FFN post: x ← C(x + ffn(x))"] and rows["stream: k0 ffn"].differs
    assert not rows["L attention logits"].differs
    assert main(["diff", "examples/post.py", str(saved), "--format", "markdown"]) == 1  # R is worse the other way round
    assert "| **R residual stream, activation growth** | closed | conditional |" in capsys.readouterr().out
    assert rows["first updates"].section == "learning rate" and rows["first updates"].differs
    assert rows["expected to train"].differs and "up to about" in rows["expected to train"].values[1]
    assert not any(row.section == "claims" and row.what.startswith("lr max") for row in found.rows)
    assert main(["compare", str(saved), str(saved)]) == 0
    assert "* " not in capsys.readouterr().out


def test_what_is_equal_stands_in_the_verbose_text_alone() -> None:
    found = compare([report_of(full()), report_of(full())])
    assert "width" not in render(found, "text") and "width" in render(found, "text", verbose=True)
    assert len(json.loads(render(found, "json"))["rows"]) > len(render(found, "text").splitlines())


@pytest.mark.parametrize("format", ["text", "markdown"])
def test_text_of_a_model_stays_text(format: str) -> None:
    evil = report_of(full()).model_copy(update={"summary": EVIL})
    text = render(compare([report_of(full()), evil]), format)
    assert "\x1b" not in text and "\n# heading" not in text
    assert format == "text" or "<script>" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [(["examples/pre.py"], "two targets"), (["examples/pre.py", "gone.py"], "gone.py"), (["a", "b", "--format", "sarif"], "must be one of")],
)
def test_what_cannot_be_compared(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_report_of_another_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.json").write_text('{"schema_version": "1"}')
    assert main(["compare", str(tmp_path / "old.json"), "examples/pre.py"]) == 2
    assert "of this version" in capsys.readouterr().err
