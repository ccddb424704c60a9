"""Sizes that are measured, as ratios."""

from __future__ import annotations

import sys

import pytest

from screen.facts.claims.claim import LARGEST
from screen.pipeline.spot import _ratio


@pytest.mark.parametrize(("last", "ratio"), [(7.0, 3.5), (sys.float_info.max, LARGEST)])
def test_a_size_beyond_all_floats_is_the_largest_ratio(last: float, ratio: float) -> None:
    """What leaves the range of floats is carried as the largest of them."""
    assert _ratio((2.0, 5.0, last), 0) == ratio
