"""A sample of the model types of transformers must give no fault, and docs/coverage.md must say what share is complete."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="model types of transformers need it")

from tests.coverage_of_types import OUTPUT, STAGES, judge, page, read, share, types
from tests.coverage_of_types import Result as R
from tests.zoo_score import LABELS, labels

EVERY = 40
"""Every so manieth type is tried here; `python -m tests.coverage_of_types` tries all."""
SHARE = 0.98
"""Of the types that build, so many give a complete report at least; this number only ever goes up."""


def listed(text: str) -> dict[str, str]:
    """Type -> stage, for the types that a page lists: those that give no complete report."""
    return {r.type: r.stage for r in read(text) if r.stage != "complete"}


LONG = {name for name, stage in listed(OUTPUT.read_text(encoding="utf-8")).items() if stage == "timeout"}


LABELLED = {label["target"].split(":")[1] for label in labels()} if LABELS.exists() else set()
"""Types of which `test_zoo.py` reads a model, and asks more of it."""


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", [name for name in types()[::EVERY] if name not in LONG | LABELLED])
def test_a_type_gives_no_fault(name: str) -> None:
    """The page joins partial runs, so only faults are held against it here; the next full run can compare stages."""
    result = judge(name)
    assert result.stage in STAGES and result.stage != "crash", result.reason


def test_enough_types_give_a_complete_report_and_none_a_crash() -> None:
    stages = listed(OUTPUT.read_text(encoding="utf-8"))
    complete, counted = share([R(name, stages.get(name, "complete")) for name in types()])
    assert complete >= SHARE * counted and "crash" not in stages.values()


def test_a_page_lists_what_it_counts() -> None:
    results = [R("a", "complete"), R("b", "forward", "x | <y>", "B"), R("c", "needs a package", "timm"), R("d", "incomplete", "why")]
    text = page(results, "1.0")
    assert listed(text) == {"b": "forward", "c": "needs a package", "d": "incomplete"}
    rows = [R("b", "forward", "x | <y>", "B"), R("c", "needs a package", "timm"), R("d", "incomplete", "why")]
    assert sorted((r for r in read(text) if r.stage != "complete"), key=lambda r: r.type) == rows
    assert "Of the 4 model types of transformers 1.0, 3 build" in text and "**1 of them (33.3%)" in text and "x \\| &lt;y>" in text
