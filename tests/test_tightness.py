"""The bounds of whole stacks are bounds, and tight where a paper's is vacuous (`tests.tightness`)."""

from __future__ import annotations

import pytest

from tests.tightness import CASES, Case, row


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_no_stack_exceeds_its_bounds(case: Case) -> None:
    """Powers of ten of bound / measured, for the stream's size and for the slope of the whole stack; −1e-9 allows for rounding."""
    found = row(case, 4)
    assert min(found.ours, found.local, found.everywhere) > -1e-9
    assert found.local <= found.everywhere
    assert found.their_slope is None or found.everywhere <= found.their_slope


def test_ours_is_a_million_times_tighter_than_theorem_3() -> None:
    """At depth 64 for pre; and within a factor of a hundred of what is measured."""
    found = row(CASES[0], 64)
    assert found.theirs is not None and found.theirs - found.ours > 6
    assert found.ours < 2
