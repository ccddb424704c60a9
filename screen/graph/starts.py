"""Which parameters start alike, by the calls on them that were recorded while the model was built."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from screen.graph import Initialiser

NEAR = 1e-6
"""Relative difference up to which two numbers are one."""
MEASURED = "sample_"
"""What the weights of a live model are taken for: draws, whose deviation was measured on them and differs from layer to layer by chance."""
Law = tuple[tuple[str, tuple[float, ...]], ...]
"""Calls with their numbers."""


@dataclass
class Starts:
    """Numbers recorded starts, one number for those that are alike."""

    met: dict[tuple[object, ...], list[tuple[Law, int]]] = field(default_factory=dict)
    count: int = 0

    def number(self, history: Sequence[Initialiser]) -> int:
        """That of the starts which make the same calls with the same numbers, but for what was measured."""
        law = tuple((c.op, tuple(float(a) for a in c.args if isinstance(a, int | float))) for c in history if c.op != MEASURED)
        form = tuple((op, len(numbers)) for op, numbers in law)
        known = self.met.setdefault(form, [])
        for other, number in known:
            if all(math.isclose(a, b, rel_tol=NEAR) for (_, one), (_, two) in zip(law, other, strict=True) for a, b in zip(one, two, strict=True)):
                return number
        known.append((law, self.count))
        self.count += 1
        return known[-1][1]


__all__ = ["Starts"]
