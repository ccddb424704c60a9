"""Every test of a sweep has its day, and the night has all (`tests/days.py`)."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from tests.conftest import pytest_collection_modifyitems, pytest_report_header
from tests.days import DAYS, VARIABLE, WHOLE, of_the_day, today
from tests.shared import ROOT

NAMES = [f"tests/test_sweep.py::test[{way}-{number}]" for way in "abcd" for number in range(40)]


def test_days_share_a_sweep_and_nothing_is_left() -> None:
    days = [of_the_day(NAMES, str(day)) for day in range(DAYS)]
    assert [len(day) for day in days] == [len(NAMES) // DAYS] * DAYS and set().union(*days) == set(NAMES) == of_the_day(NAMES, WHOLE)
    assert all(len({name[:27] for name in day}) > 1 for day in days)  # no day has one way alone
    assert of_the_day(reversed(NAMES), "1") == days[1]


def test_days_have_alike_much_of_sweeps_with_fewer_tests_than_days() -> None:
    first = [day for sweep in range(60) for day in range(DAYS) if of_the_day([f"tests/test_{sweep}.py::test"], str(day))]
    assert len(first) == 60 and max(map(first.count, range(DAYS))) <= 8


def test_a_day_is_given_or_is_todays(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ("3", WHOLE):
        monkeypatch.setenv(VARIABLE, given)
        assert today() == given
    monkeypatch.setenv(VARIABLE, str(DAYS))
    with pytest.raises(ValueError, match=f"a number below {DAYS} or `whole`"):
        today()
    monkeypatch.delenv(VARIABLE)
    assert today() in map(str, range(DAYS)) and today() == today()


class Item:
    def __init__(self, nodeid: str, marked: bool) -> None:
        self.nodeid, self.marked = nodeid, marked

    def get_closest_marker(self, name: str) -> bool:
        return self.marked and name == "by_the_day"


@pytest.mark.parametrize(("day", "arguments", "left"), [("1", ["tests"], 9), ("2", [], 9), (WHOLE, [], 161), ("1", ["tests/test_one.py"], 161)])
def test_a_folder_has_the_day_and_a_file_the_whole(day: str, arguments: list[str], left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, day)
    others: list[Item] = []
    hook = SimpleNamespace(pytest_deselected=lambda **found: others.extend(found["items"]))
    items = [*(Item(name, True) for name in NAMES), Item("test_alone", False)]
    pytest_collection_modifyitems(SimpleNamespace(args=arguments, hook=hook), items)  # type: ignore[arg-type]
    assert len(items) == left == 161 - len(others) and items[-1].nodeid == "test_alone"
    assert pytest_report_header().startswith(f"{VARIABLE}={day}:")


def test_every_night_the_whole_is_scheduled_by_the_command_of_the_guide() -> None:
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    commands = re.findall(r"^ +- run: (.+)$", text, re.MULTILINE)
    assert commands == [f"{VARIABLE}={WHOLE} bash .ci/run"] and f"`{commands[0]}`" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.search(r'^ +- cron: "\d+ \d+ \* \* \*"', text, re.MULTILINE)
