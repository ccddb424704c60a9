"""Exceptions of rules and calculi are counted, wherever they become a reason; the count fails the test that left it (`tests/conftest.py`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from screen.calculi.analysis import FAULT, sure
from screen.calculi.bounds import interpreter
from screen.calculi.bounds.interpreter import Walk
from screen.errors import SWALLOWED
from screen.structure.types import Unknown
from screen.verdict.discover import Catalogue, catalogue, run_rules
from tests import handmade as h
from tests.rows.table import BY_OP

pytestmark = pytest.mark.faults


def broken(*arguments: object) -> object:
    raise ValueError("on purpose")


def test_of_a_rule_of_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(interpreter.ROWS, "cumsum", broken)
    Walk(BY_OP["cumsum"][0].region.branch)
    assert SWALLOWED == {"bounds of cumsum: ValueError": 1}


def test_of_a_calculus() -> None:
    found = sure(broken)
    assert isinstance(found, Unknown) and found.reason.startswith(FAULT) and SWALLOWED == {"broken: ValueError": 1}


def test_of_a_rule() -> None:
    first = catalogue().rules[0]
    run = run_rules(h.pre(), Catalogue((replace(first, check=broken),), ()))  # type: ignore[arg-type]
    assert len(run.not_run) == 1
    assert dict(SWALLOWED) == {f"{first.rule.code}: ValueError": 1}


def test_what_is_refused_is_no_fault() -> None:
    Walk(BY_OP["div"][4].region.branch)
    assert not SWALLOWED
