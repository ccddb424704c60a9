"""Where a part of a matrix stands is told by the rows and columns that it has."""

from __future__ import annotations

import numpy as np
import pytest

from screen.calculi.bounds.parts import Part
from screen.calculi.bounds.quantities import Quantity

WHOLE = Part("w", (6, 8), 0, (6, 8), (8, 1))


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (WHOLE, ""),
        (WHOLE.sliced(0, 2, 5), "[2:5]"),
        (WHOLE.sliced(1, 0, 3), "[:, 0:3]"),
        (WHOLE.sliced(1, 3, 8).permuted((1, 0)), "[:, 3:8]"),
        (WHOLE.sliced(0, 1, 4).sliced(1, 2, 6), "[1:4, 2:6]"),
        (WHOLE.sliced(1, 0, 8, 2), "[…]"),
    ],
)
def test_slices(part: Part, text: str) -> None:
    found = Quantity("W1", "spectral", part, "rc").slices
    assert found == text
    if text not in ("", "[…]"):
        weight = np.arange(48.0).reshape(6, 8)
        assert sorted(part.read({"w": weight}).ravel()) == sorted(eval(f"weight{text}").ravel())
