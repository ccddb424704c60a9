"""Where entries are cut off: `clamp` and its kin, and the larger or smaller one of a value and a number, however the number is written."""

from __future__ import annotations

import math
from collections.abc import Callable

from screen.graph import Node, Ref

CLAMPS = frozenset({"clamp", "clamp_min", "clamp_max", "hardtanh"})
EXTREMES = {"maximum": 0, "max": 0, "minimum": 1, "min": 1}
"""Ops of two operands that cut one off below (0) or above (1) by the other."""
_NAMES = {"hardtanh": ("min_val", "max_val"), "clamp_min": ("min", ""), "clamp_max": ("", "max")}


def ends_of(node: Node, data: int, number: Callable[[int], float | None]) -> tuple[float, float] | None:
    """(lowest, highest) of the entries of `data` behind a node that cuts them off; None for another node, or ends that are no known numbers.
    `number`: the number that a node holds."""
    found: list[object]
    if node.op in CLAMPS:
        if node.args[:1] != (Ref(data),):
            return None
        rest = list(node.args[1:])
        if node.op == "clamp_max":
            rest = [None, *rest]
        names = _NAMES.get(node.op, ("min", "max"))
        found = [rest[p] if len(rest) > p else node.kwarg(n) if n else None for p, n in enumerate(names)]
        if node.op == "hardtanh":
            found = [default if end is None else end for end, default in zip(found, (-1.0, 1.0), strict=True)]
    elif node.op in EXTREMES and len(node.args) == 2 and len(set(node.inputs)) == 2:
        found = [None, None]
        found[EXTREMES[node.op]] = next(a for a in node.args if a != Ref(data))
    else:
        return None
    ends = [number(e.node) if isinstance(e, Ref) else e for e in found]
    if any(isinstance(f, Ref) and e is None for f, e in zip(found, ends, strict=True)):
        return None
    low, high = (s * math.inf if e is None else float(e) if isinstance(e, int | float) else math.nan for e, s in zip(ends, (-1, 1), strict=True))
    return None if math.isnan(low) or math.isnan(high) else (low, high)


__all__ = ["CLAMPS", "EXTREMES", "ends_of"]
