"""The examples of every rule of this distribution, through the whole of screen; `python -m pytest` here, with archscreen installed."""

from __future__ import annotations

import pytest

from screen.testing import Case, cases, fault
from screen.verdict.discover import collect

MODULES = ("screen_house_rules.width_of_tiles",)
RULES = collect(MODULES, dict.fromkeys(MODULES, "screen-house-rules"))


def test_every_rule_loads() -> None:
    assert RULES.faults == ()


@pytest.mark.parametrize("case", cases(RULES.rules), ids=lambda case: case.id)
def test_what_an_example_says(case: Case) -> None:
    assert fault(case) == ""
