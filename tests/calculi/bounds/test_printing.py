"""A number in the text of a bound is that number."""

from __future__ import annotations

import math

import pytest
import sympy

from screen.calculi.bounds.expr.printing import number

VALUES = [0.0, 1.0, 96.0, 0.25, 1 / 3, math.sqrt(96), 1 / math.sqrt(8), 1e-7, 1e-12, 3.2e14, 1.265e15, 4e20, 1e300, 5e-300]


@pytest.mark.parametrize("value", VALUES)
def test_the_text_is_read_back_as_the_number(value: float) -> None:
    assert float(sympy.sympify(number(value))) == pytest.approx(value, rel=1e-9, abs=0.0), number(value)
