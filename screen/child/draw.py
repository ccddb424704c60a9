"""What a program may get otherwise from run to run without anybody's word: random numbers that nobody seeded, and the order of objects in a set.

Draw 0 is that of every capture. Another one has other random numbers, and objects at other places in memory, which a set is ordered by. torch begins
every process with one seed, which is the same in every draw. The order of words in a set: `screen.child.hash_seeds`."""

from __future__ import annotations

import random
import re
import sys
from typing import Any

AGAIN = 1
"""The draw of a second capture."""
INSTALLED = re.compile(r"[/\\\\](?:site|dist)-packages[/\\\\]")
"""In the path of an installed file."""
THINGS = 20_000
"""Objects that are made and mostly ended in a mixed order, so that later ones take their places in that order."""
KEPT = 7
"""One of so many stays."""
_kept: list[Any] = []


class _Thing:
    """As large as a module: objects of Python classes are of one size."""


def draw(number: int) -> None:
    """Make this process one of that draw."""
    random.seed(number)
    if (numpy := sys.modules.get("numpy.random")) is not None:
        numpy.seed(number)
    if number:
        things = [_Thing() for _ in range(THINGS)]
        random.Random(number).shuffle(things)
        _kept.extend(things[::KEPT])
        while things:
            things.pop()


__all__ = ["INSTALLED", "AGAIN", "draw"]
