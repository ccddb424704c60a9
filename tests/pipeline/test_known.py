"""A baseline and comments keep findings from failing the gate, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from screen.command.cli import main
from screen.errors import UsageError
from screen.pipeline.known import Ignored, Known, comments_of, read_baseline
from screen.report.annotation import Annotation
from tests.shared import ROOT

pytestmark = [pytest.mark.usefixtures("warm"), pytest.mark.by_the_day]

SLIP = (ROOT / "examples/slips/final_norm_missing.py").read_text(encoding="utf-8")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a slip: G103 is violated at the last add of the stream."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.py"
    path.write_text(SLIP, encoding="utf-8")
    return path


def check(*words: str) -> int:
    return main(["check", "model.py::Slip", "--no-spot-check", "--format", "concise", *words])


def line_of(out: str, code: str) -> int:
    return next(int(line.split(":")[1]) for line in out.splitlines() if f" {code} " in line)


def test_what_stands_in_the_baseline_does_not_fail_and_what_is_new_does(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check() == 1
    assert check("--baseline", "known.json") == 2  # nobody wrote it
    assert check("--baseline", "known.json", "--update-baseline") == 0
    entries = json.loads((model.parent / "known.json").read_text())["findings"]
    assert "G103" in {e["code"] for e in entries} and all(len(e["fingerprint"]) == 32 for e in entries)
    model.write_text("# moved\n\n" + SLIP.replace("range(8)", "range(6)"), encoding="utf-8")
    capsys.readouterr()
    assert check("--baseline", "known.json") == 0
    assert "known findings do not count" in capsys.readouterr().err
    model.write_text(SLIP.replace("x = x + self.mlp(self.ln_2(x))", "x = self.ln_2(x + self.mlp(x))"), encoding="utf-8")
    assert check("--baseline", "known.json", "--fail-on", "conditional,slip") == 1


def test_a_broken_baseline_is_said(model: Path) -> None:
    (model.parent / "known.json").write_text("[]")
    assert check("--baseline", "known.json") == 2
    (model.parent / "known.json").write_text('{"schema_version": "99", "findings": []}')
    with pytest.raises(UsageError, match="its `schema_version` is '99', and this"):
        read_baseline(str(model.parent / "known.json"))


def test_a_path_is_the_same_however_it_is_written(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--baseline", "known.json", "--update-baseline") == 0
    capsys.readouterr()
    assert main(["check", "./model.py::Slip", "--no-spot-check", "-q", "--baseline", "known.json"]) == 0
    assert "known findings do not count" in capsys.readouterr().err  # the line on stdout says what is found, and not why it does not fail


@pytest.mark.parametrize("text", [b"# -*- coding: latin-1 -*-\n# caf\xe9\n", b"\xef\xbb\xbf", b"# caf\xe9\n"], ids=["latin-1", "mark", "none"])
def test_a_comment_counts_in_any_encoding_that_python_reads(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.py").write_bytes(text + b"x = 1  # screen: ignore[G103] -- meant\n")
    (found,), faults = comments_of([str(tmp_path / "a.py")])
    assert found.codes == ("G103",) and faults == []


class Commit:
    """A commit without any file."""

    commit, name = True, "main"

    def text(self, path: str) -> None:
        """No file."""


def test_a_baseline_that_the_commit_has_not_is_an_error_and_its_comments_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"known\.json"):
        read_baseline("known.json", Commit())  # type: ignore[arg-type]
    (tmp_path / "model.py").write_text("x = 1  # screen: ignore[G103] -- why\n")
    found, faults = comments_of([str(tmp_path / "model.py")], Commit())  # type: ignore[arg-type]
    assert found == [] and "is not so in `main`" in faults[0]


@pytest.mark.parametrize("text", ["x = (  # screen: ignore[G103] -- why", "# of screen: nothing\n", "  x = 1\n y  # screen:\n", "\0 screen:"])
def test_a_file_that_is_no_python_or_says_nothing_ignores_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.py").write_text(text)
    assert comments_of([str(tmp_path / "model.py"), str(tmp_path / "none.py")]) == ([], [])


def test_what_has_no_end_or_no_writer_is_no_file_of_comments(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.py")
    assert comments_of([str(tmp_path / "model.py"), "/dev/zero"]) == ([], [])


def test_a_comment_with_its_code_and_reason_ignores_and_one_without_use_is_said(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check()
    number = line_of(capsys.readouterr().out, "G103")
    lines = SLIP.splitlines()
    said = "  # screen: ignore[G103] -- the head has a norm of its own"
    model.write_text("\n".join([*lines[: number - 1], lines[number - 1] + said, *lines[number:]]) + "\n", encoding="utf-8")
    assert check() == 0
    model.write_text("\n".join([*lines[: number - 1], lines[number - 1] + said.replace("G103", "G121"), *lines[number:]]) + "\n", encoding="utf-8")
    capsys.readouterr()
    assert check() == 1
    assert f"`model.py:{number}` ignores G121, and nothing of that was found there" in capsys.readouterr().err
    model.write_text("\n".join([*lines[: number - 1], lines[number - 1] + "  # screen: ignore", *lines[number:]]) + "\n", encoding="utf-8")
    assert check() == 1
    assert "must be `# screen: ignore[CODE] -- reason`" in capsys.readouterr().err


def test_the_lines_that_a_comment_is_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(
        "x = '# screen: ignore[G1] -- in a string'\n"
        "# screen: ignore[G1,R201] -- alone, above\n"
        "y = (\n"
        "    1  # screen: ignore[L2] -- inside of a statement\n"
        ")\n"
        "# screen: ignore[g1] -- no code\n",
        encoding="utf-8",
    )
    comments, faults = comments_of(["a.py", "a.py", "gone.py"])
    assert [(c.codes, c.reason, list(c.lines)) for c in comments] == [
        (("G1", "R201"), "alone, above", [2, 3, 4, 5]), (("L2",), "inside of a statement", [2, 3, 4, 5]),
    ]  # fmt: skip
    assert len(faults) == 1 and "`a.py:6`" in faults[0]


def test_a_comment_that_no_statement_follows_is_about_its_own_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("x = 1\n\n# screen: ignore[G1] -- at the end\n", encoding="utf-8")
    [comment], faults = comments_of(["a.py"])
    assert (list(comment.lines), comment.statement, faults) == ([3], "# screen: ignore[G1] -- at the end", [])


def test_a_comment_is_about_its_own_file_its_lines_and_its_codes() -> None:
    def found(file: str, line: int, code: str) -> Annotation:
        return Annotation("error", code, "a-rule", "violated", "It is so.", "", file, line, "0" * 32)

    known = Known(comments=[Ignored("model.py", 4, ("G1",), "a reason", range(4, 6))])
    assert known.count == 0
    told = [known.holds(found(*at)) for at in (("model.py", 5, "G103"), ("other.py", 5, "G103"), ("model.py", 6, "G103"), ("model.py", 5, "R101"))]
    assert told == [True, False, False, False] and known.count == 1
    assert Known(baseline=frozenset({"0" * 32})).holds(found("other.py", 5, "G103"))
