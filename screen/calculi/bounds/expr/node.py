"""One node of an expression, and the walk over those below it; what is done with them stands in `evaluation`, `order`, `printing` and `expr`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

from screen.calculi.bounds.expr.form import Form

_SERIAL = count()


@dataclass(frozen=True, eq=False)
class ExprNode:
    """One expression. `kind` decides what the other fields mean:

    num: `value`; sym: `name`; add: `value` + Σ args; mul: `value` · Π args_i ** powers_i; min, max: over args (and `value` when finite)."""

    kind: str
    value: float
    name: str
    args: tuple[Any, ...]
    """Nodes of the same class."""
    powers: tuple[float, ...]
    digest: bytes
    """Of the structure: operands are kept in its order, so that equal programs give equal expressions and equal roundings."""
    form: Form
    """What is compared first (`order`)."""
    serial: int = field(default_factory=lambda: next(_SERIAL))

    @property
    def size(self) -> int:
        """Number of distinct sub-expressions."""
        return sum(1 for _ in self.walk())

    def walk(self) -> Iterator[Self]:
        """Each sub-expression once, operands first."""
        done: set[int] = set()
        stack: list[tuple[Self, bool]] = [(self, False)]
        while stack:
            here, ready = stack.pop()
            if ready:
                yield here
            elif here.serial not in done:
                done.add(here.serial)
                stack.append((here, True))
                stack.extend((a, False) for a in reversed(here.args))

    def symbols(self) -> tuple[str, ...]:
        """Names of the symbols, in order of first appearance."""
        return tuple(e.name for e in self.walk() if e.kind == "sym")

