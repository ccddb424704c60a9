"""Which experiments a budget affords, decided by counted work before anything runs: the same command makes the same experiments. No torch here.

Each purse gets its share of the seconds first, so that no experiment keeps all others from being made. What then is left goes to the least form of
what has none, and then to what is fuller, purse by purse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

SHARES = {"start": 5.0, "invariance": 15.0, "bounds": 10.0, "precision": 5.0, "depth": 20.0, "coordinates": 2.0, "jacobian": 3.0}
"""Of sixty, in the order in which what is left is given."""
Key = tuple[str, int, str]
"""(purse, node of the branch or block, what)."""


@dataclass(frozen=True)
class Want:
    """One experiment in its forms, the fullest first."""

    key: Key
    costs: tuple[float, ...]
    """Seconds of counted work; infinite where a form cannot be had."""


def allotted(wants: Iterable[Want], seconds: float) -> dict[Key, tuple[int, float]]:
    """Key -> (form, seconds) of what is made."""
    wants = list(wants)
    chosen: dict[Key, tuple[int, float]] = {}
    for purse, share in SHARES.items():
        left = seconds * share / sum(SHARES.values())
        for want in (w for w in wants if w.key[0] == purse):
            left -= _fuller(want, chosen, left)
    left = seconds - math.fsum(cost for _, cost in chosen.values())
    for want in (w for w in wants if len(w.costs) > 1 and w.key not in chosen):
        left -= _taken(want, chosen, len(want.costs) - 1, left)
    for purse in SHARES:
        for want in (w for w in wants if w.key[0] == purse):
            left -= _fuller(want, chosen, left)
    return chosen


def _fuller(want: Want, chosen: dict[Key, tuple[int, float]], left: float) -> float:
    """What the fullest form that is affordable costs more than the one that is chosen."""
    for form in range(chosen[want.key][0] if want.key in chosen else len(want.costs)):
        if more := _taken(want, chosen, form, left):
            return more
    return 0.0


def _taken(want: Want, chosen: dict[Key, tuple[int, float]], form: int, left: float) -> float:
    """Choose a form, where it is affordable: what it costs more."""
    more = want.costs[form] - (chosen[want.key][1] if want.key in chosen else 0.0)
    if more > left:
        return 0.0
    chosen[want.key] = form, want.costs[form]
    return more


__all__ = ["SHARES", "Key", "Want", "allotted"]
