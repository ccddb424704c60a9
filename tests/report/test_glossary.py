"""Every word that a report leans on has an entry, and every entry is found."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from screen.command.cli import main
from screen.facts import queries
from screen.report import glossary
from screen.report.schema import State, VerdictName
from screen.settings import FAIL_ON
from screen.verdict.channels import CHANNELS

pytestmark = pytest.mark.usefixtures("warm")


def test_words_are_unique_and_what_is_referred_to_exists() -> None:
    words = glossary.words()
    assert sorted(set(words)) == sorted(words)
    assert {name for term in glossary.terms() for name in term.see} <= {term.name for term in glossary.terms()}


def test_limits_of_the_channel_of_depth_are_those_of_its_rules() -> None:
    """The template names them and has no number of its own, so that they cannot part."""
    template = glossary.PAGE.read_text(encoding="utf-8").partition("\n## D\n")[2].partition("\n## ")[0]
    assert re.findall(r"\{(\w+)\}", template) and not re.search(r"\d", template.replace("1 − cos", ""))
    told, found = glossary.explain("D"), [queries.STARVED, queries.STEEP, queries.EXPLOSIVE, queries.COLLAPSED, queries.COLLAPSED / queries.FEWER]
    assert told is not None and "{" not in told.text
    assert {float(n) for n in re.findall(r"\d[\d.]*(?:e-\d+)?", told.text.replace("1 − cos", ""))} == set(found)


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
