"""Every word that a report leans on has an entry, and every entry is found."""

from __future__ import annotations

from typing import get_args

import pytest

from screen.command.cli import main
from screen.report import glossary
from screen.report.schema import State, VerdictName
from screen.settings import FAIL_ON
from screen.verdict.channels import CHANNELS

pytestmark = pytest.mark.usefixtures("warm")


def test_words_are_unique_and_what_is_referred_to_exists() -> None:
    words = glossary.words()
    assert sorted(set(words)) == sorted(words)
    assert {name for term in glossary.terms() for name in term.see} <= {term.name for term in glossary.terms()}


OTHERS = ("slip", "pre", "post", "peri", "output_only", "QK-norm", "m", "claim")


@pytest.mark.parametrize("word", [*get_args(VerdictName), *get_args(State), *CHANNELS, *OTHERS])
def test_words_of_a_report_have_an_entry(word: str) -> None:
    assert glossary.explain(word) is not None and glossary.explain(word.upper()) is not None


def test_the_command_finds_terms_rules_and_near_misses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "identity", "path"]) == 0 and capsys.readouterr().out.startswith("identity path: ")
    assert main(["explain", "g103"]) == 0 and capsys.readouterr().out.startswith("# G103")
    assert main(["explain"]) == 0 and "residual stream\n" in capsys.readouterr().out
    assert main(["explain", "residul stream"]) == 2 and "Did you mean `residual stream`" in capsys.readouterr().err
    assert "slip" in FAIL_ON


def test_no_words_at_all_print_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    found = capsys.readouterr()
    assert "check" in found.out and "fault" not in found.err
