"""What is read off a recursion where its numbers end: a gradient that is nothing or out of range at one end gives no ratio."""

from __future__ import annotations

import pytest

from screen.calculi.meanfield.result import _root
from screen.structure.types import Unknown


@pytest.mark.parametrize("squares", [[0.0, 1.0], [1.0, 0.0], [1e308, 1e-308], [0.0, 0.0]])
def test_a_gradient_that_is_nothing_at_one_end_has_no_ratio(squares: list[float]) -> None:
    assert isinstance(_root(squares), Unknown)


def test_a_ratio_is_that_of_sizes() -> None:
    assert _root([9.0, 5.0, 4.0]) == 1.5
