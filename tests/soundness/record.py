"""What attacks found: plain data, so that shards can be added up."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Sample:
    """Where a number comes from: enough to run it again."""

    design: str
    seed: str
    output: int
    """Output node of the branch."""


@dataclass
class Record:
    """Counts, smallest slacks and violations of some trials."""

    trials: int = 0
    overflows: int = 0
    rounded: int = 0
    """Points left out because a norm there reads values that are equal up to rounding."""
    checks: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    """`kind: reason` → branches like that."""
    known: Counter[str] = field(default_factory=Counter)
    slack: dict[str, tuple[float, str]] = field(default_factory=dict)
    """kind → (smallest bound/measured, design)."""
    violations: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def compare(self, sample: Sample, kind: str, measured: float, bound: float, tolerance: float, noise: float) -> None:
        """One measured value against one bound."""
        self.checks[kind] += 1
        if not measured <= bound * (1 + tolerance) + noise:
            self.violation(sample, kind, measured, bound)
        elif measured > 0 and math.isfinite(bound) and noise == 0.0:
            found = (bound / measured, sample.design)
            self.slack[kind] = min(self.slack.get(kind, found), found)

    def violation(self, sample: Sample, kind: str, measured: float, bound: float) -> None:
        """A broken bound."""
        self.violations.append({**sample.__dict__, "kind": kind, "measured": measured, "bound": bound})

    def add(self, other: Record) -> None:
        """Add another record to this one."""
        self.trials += other.trials
        self.overflows += other.overflows
        self.rounded += other.rounded
        self.checks.update(other.checks)
        self.unknown.update(other.unknown)
        self.known.update(other.known)
        self.violations += other.violations
        self.errors += other.errors
        for kind, found in other.slack.items():
            self.slack[kind] = min(self.slack.get(kind, found), found)
