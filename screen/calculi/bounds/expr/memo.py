"""One memo for all pure functions of expressions and facts.

Equal expressions are one object (`expr`), so that a call is known by its arguments at the price of a few hashes. Equal blocks, and the equal
steps of an unrolled scan or of many experts, ask the same over and over: three of four products and four of five minima.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
KEPT = 1 << 14
"""Results that each function keeps, the latest."""


def memo(function: Callable[P, R]) -> Callable[P, R]:
    """The function with a memory. Its arguments are hashable, and its result follows from them alone."""
    return cast("Callable[P, R]", lru_cache(maxsize=KEPT)(function))
