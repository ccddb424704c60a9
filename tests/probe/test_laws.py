"""The papers' laws of depth at the smallest size that shows them (the whole: `python -m tests.probe.laws all`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.probe.law_runs import SMALL, Size
from tests.probe.laws import LAWS, main, table
from tests.shared import ROOT

PAGE = (ROOT / "docs" / "probe.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", LAWS)
def test_a_law_holds(name: str) -> None:
    rows = LAWS[name](SMALL)
    assert any(r.holds for r in rows) and not any(r.holds is False for r in rows), table(rows)


def test_a_law_that_does_not_hold_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(size: Size) -> list[object]:
        return [replace(row, holds=False) for row in LAWS["lemma_two"](size)]

    assert main(["lemma_two", "--small"]) == 0
    assert "FAILS" not in capsys.readouterr().out
    monkeypatch.setattr("tests.probe.laws.LAWS", {**LAWS, "broken": broken})
    assert main(["broken", "--small"]) == 1
    assert "FAILS" in capsys.readouterr().out


@pytest.mark.parametrize("name", LAWS)
def test_the_page_shows_what_each_command_found(name: str) -> None:
    assert f"`python -m tests.probe.laws {name}`" in PAGE
