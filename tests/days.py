"""Long sweeps, and tests that run whole reports for one statement each (`by_the_day`, of a function or of a file): a twentieth of each file's
every day, all of them every night.

    python -m pytest                       # the twentieth of today; the header says which
    TEST_DAY=2 python -m pytest            # that twentieth again
    TEST_DAY=whole python -m pytest        # all of them, as every night
    python -m pytest tests/x/test_y.py     # all of what is named by its file
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from datetime import date

VARIABLE, WHOLE, DAYS = "TEST_DAY", "whole", 20


def today() -> str:
    """The number of the twentieth, or `whole`. Kept in the environment, so that all workers of a run have the same, also around midnight."""
    given = os.environ.setdefault(VARIABLE, str(date.today().toordinal() % DAYS))
    if given not in (WHOLE, *map(str, range(DAYS))):
        raise ValueError(f"{VARIABLE} is a number below {DAYS} or `{WHOLE}`, not `{given}`")
    return given


def nightly() -> bool:
    """Whether all is run. Half of the time of a report is its spot check, which only the night has where a test asks nothing of it."""
    return today() == WHOLE


def of_the_day(names: Iterable[str], day: str) -> set[str]:
    """Which of a sweep's tests a day has. Dealt in the order of a hash: neighbours, which are often alike, come on different days. So does what is
    dealt first of each sweep: many have fewer tests than there are days."""
    dealt = sorted(names, key=lambda name: (zlib.crc32(name.encode()), name))
    if day == WHOLE or not dealt:
        return set(dealt)
    return set(dealt[(int(day) + zlib.crc32(dealt[0].encode())) % DAYS :: DAYS])
