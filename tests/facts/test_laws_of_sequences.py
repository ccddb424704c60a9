"""The law of how far branch outputs are carried, read off the numbers of one depth: the last branch comes first."""

from __future__ import annotations

import itertools

import pytest

from screen.structure.types import Unknown
from screen.facts.operator.recurrence import law_of_carried



def doubled(blocks: int) -> list[float]:
    """Carried on twice as far by each block of the second half, and on by as much by those of the first."""
    late = [2.0**k for k in range(blocks // 2)]
    return [*late, *(2 * late[-1] + k for k in range(blocks // 2))]


def over_root(blocks: int) -> list[float]:
    """U-Net whose joins are over √2: each forgets, and the last ones hold the first states."""
    late = [2 ** (-k / 2) for k in range(blocks // 2)]
    return [*late, *itertools.accumulate(late[::-1])]


def joined(blocks: int) -> list[float]:
    """U-Net: a state of the first half comes back at as many joins as there were blocks before it."""
    return [1.0] * (blocks // 2) + [1.0 + k for k in range(blocks // 2)]


SEQUENCES = {
    "one of momentum": ([1 - 0.8**k for k in range(1, 25)], "constant"),
    "of momentum that forgets slowly": ([1 - 0.9**k for k in range(1, 49)], "constant"),
    "of leapfrog": ([float(k) for k in range(1, 25)], "polynomial"),
    "squares": ([float(k * k) for k in range(1, 25)], "polynomial"),
    "powers": ([1.3**k for k in range(24)], "exponential"),
    "powers beside a constant": ([1 + 0.1 * 1.2**k for k in range(48)], "exponential"),
    "joins": (joined(24), "polynomial"),
    "joins of eight": (joined(16)[::2], "polynomial"),
    "joins over a root": (over_root(24), "unknown"),
    "joins over a root, few": (over_root(12), "unknown"),
    "twice": (doubled(24), "unknown"),
    "twice, few": (doubled(12), "unknown"),
    "a step": ([1.0] * 23 + [24.0], "unknown"),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_law_is_read_off_what_a_deeper_model_goes_on_with(name: str) -> None:
    values, law = SEQUENCES[name]
    found = law_of_carried([v for value in values for v in (value, value)], len(values))
    assert ("unknown" if isinstance(found, Unknown) else found) == law
