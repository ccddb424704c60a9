"""The tool that changes the code at random: its changes are changes, and it says of each what finds it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.copies import ROOT
from tests.mutants.draw import AREAS, Change, changes, drawn
from tests.mutants.hunt import readers, picked, unreached
from tests.mutants.page import PAGE, page, recorded
from tests.mutants.reached import QUICK, quick

pytestmark = pytest.mark.by_the_day


@pytest.mark.parametrize("area", AREAS)
def test_every_change_can_be_read(area: str, tmp_path: Path) -> None:
    for change in changes(area)[::41]:
        copy = tmp_path / change.file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / change.file).read_bytes())
        change.apply(tmp_path)
        assert ast.dump(ast.parse(copy.read_bytes())) != ast.dump(ast.parse((ROOT / change.file).read_bytes())), change


def test_a_seed_draws_the_same_changes_again() -> None:
    assert drawn(7, 20) == drawn(7, 20) != drawn(8, 20)
    assert {c.file.split("/")[0] for c in drawn(7, 20)} == {"screen", "rules"}


def test_the_quick_files_are_there() -> None:
    assert len(quick()) == len(QUICK)


def test_tests_are_those_that_enter_the_function() -> None:
    reached = {
        "tests/a.py::one": {"seconds": 1.0, "functions": ["screen/x.py:f", "screen/x.py:g"]},
        "tests/a.py::two": {"seconds": 1.0, "functions": ["screen/x.py:f"]},
        "tests/b.py::three": {"seconds": 1.0, "functions": ["screen/y.py:h"]},
    }
    assert picked(Change("screen/x.py", 1, "f", "number", 0, "1", "2"), reached) == ["tests/a.py::two", "tests/a.py::one"]
    assert "rules/weights_at_start.py:_judge" in readers("LARGE")


def test_places_are_lines_that_no_subject_comes_to() -> None:
    left = unreached("visible", {"tests/a.py::other": {"seconds": 1.0, "functions": []}})
    met = [f"{change.file}:{change.line}" for change in left[1:]]
    assert len({(c.file, c.line) for c in left}) == len(left) > 2
    assert unreached("visible", {"record": {"lines": met}}) == left[:1]


def test_the_page_is_what_the_results_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(recorded())
