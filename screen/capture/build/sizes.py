"""The fields of a config that go with the width of its model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from screen.errors import UsageError


@dataclass(frozen=True)
class Sizes:
    """The fields of a config that go with its width, by dotted names as for `--set`."""

    main: int
    """The hidden size."""
    sizes: Mapping[str, Any]
    counts: Mapping[str, Any]
    """Numbers of heads: an integer, or one for each layer."""

    @property
    def step(self) -> int:
        """Widths that are multiples of it leave every number of heads whole."""
        return self.main // math.gcd(self.main, *(n for v in self.counts.values() for n in each(v) if n > 1)) if self._several else 1

    @property
    def _several(self) -> bool:
        return any(n > 1 for v in self.counts.values() for n in each(v))

    def settings(self, width: int) -> dict[str, Any]:
        """All candidates at another width. Raises `UsageError`."""
        if width % self.step:
            near = max(self.step, round(width / self.step) * self.step)
            required = f"`--width` must leave whole numbers of heads of the same size: a multiple of {self.step}"
            raise UsageError(required, f"it is {width}", f"`--width {near}` does")
        f = Fraction(width, self.main)
        counts = {k: mapped(v, lambda n: n if n == 1 else int(n * f)) for k, v in self.counts.items()}
        return {**{k: mapped(v, lambda n: max(1, round(n * f))) for k, v in self.sizes.items()}, **counts}


def each(value: Any) -> list[int]:
    """The integers of a field; none where it holds anything else."""
    values = value if isinstance(value, list | tuple) else [value]
    return [int(v) for v in values] if all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in values) else []


def mapped(value: Any, change: Callable[[int], int]) -> Any:
    """The same function of an integer, or of each of several."""
    return [change(n) for n in value] if isinstance(value, list | tuple) else change(value)


__all__ = ["Sizes", "each", "mapped"]
