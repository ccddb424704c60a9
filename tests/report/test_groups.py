"""Names in groups: what they say is kept, whatever signs stand in them."""

from __future__ import annotations

import pytest

from screen.report.groups import folded


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["h.0.proj", "h.1.proj", "h.2.proj"], ["h.0–2.proj"]),
        (["h.0.proj#2", "h.1.proj#2", "h.3.proj#2"], ["h.0–1,3.proj#2"]),
        (["0#", "1#"], ["0–1#"]),
        (["proj#", "proj2"], ["proj#", "proj2"]),
        (["a1b1", "a2b2"], ["a1b1, a2b2"]),
        (["h.0.x", "h.0.x"], ["h.0.x, h.0.x"]),
    ],
)
def test_names_that_differ_in_numbers_are_ranges(names: list[str], said: list[str]) -> None:
    assert folded(names) == said
