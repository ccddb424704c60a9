"""Figures: how often predictions are right, on rows and on ordered pairs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from screen.outcomes.predict import Prediction
from screen.outcomes.rows import BASELINES, Pair, Row, baselines

MARGIN = 0.05
"""Difference of log odds below which the order of two risks is left undecided (our own choice)."""
BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Edges of the reliability table (probability)."""


@dataclass(frozen=True)
class Table:
    """Calls against outcomes."""

    hits: int = 0
    """Failures that were called."""
    missed: int = 0
    quiet: int = 0
    """Runs that trained and were called stable."""
    alarms: int = 0

    @property
    def balanced(self) -> float | None:
        """Mean of the share of failures that were called and of the share of others that were not; None where either is empty."""
        failures, others = self.hits + self.missed, self.quiet + self.alarms
        return None if not failures or not others else (self.hits / failures + self.quiet / others) / 2


@dataclass(frozen=True)
class Order:
    """Ordered pairs, by weight."""

    right: float
    reversed: float
    undecided: float
    by_source: Mapping[str, tuple[float, float, float]]
    """Source -> the three weights."""
    gates: tuple[str, ...]
    """Pairs of a hard gate that are reversed."""
    wrong: tuple[str, ...]
    open: tuple[str, ...]

    @property
    def score(self) -> float | None:
        """Weight that is right, undecided counting half."""
        total = self.right + self.reversed + self.undecided
        return (self.right + self.undecided / 2) / total if total else None

    @property
    def decided(self) -> float | None:
        """Share of the weight that is decided."""
        total = self.right + self.reversed + self.undecided
        return (self.right + self.reversed) / total if total else None

    @property
    def by_source_mean(self) -> float | None:
        """The score of each source, in the mean over sources."""
        scores = [(r + u / 2) / (r + w + u) for r, w, u in self.by_source.values() if r + w + u]
        return math.fsum(scores) / len(scores) if scores else None


@dataclass(frozen=True)
class Figures:
    """All figures of one set of rows."""

    rows: int
    scored: int
    table: Table
    abstained: int
    """Scored rows that nothing is said of, or whose answer hangs on something that they do not state."""
    channel_right: int
    channel_told: int
    """Failures that were called, with a channel that is known."""
    brier: float | None
    """Of probabilities, on rows with several runs: mean of (risk − share that diverged)²."""
    brier_rows: int
    brier_constant: float | None
    """The same of the mean share."""
    brier_all: float | None
    """On all scored rows, against 0 and 1."""
    reliability: tuple[tuple[float, float, int, float, float], ...]
    """(from, to, rows, mean risk, share that failed)."""
    baselines: Mapping[str, Table]
    refused: Mapping[str, int]
    """Why rows could not be built -> how many."""
    verdicts: Mapping[str, int] = field(default_factory=dict)
    """Verdicts under their recipes."""

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {**asdict(self), "balanced_accuracy": self.table.balanced, "baselines": {n: t.balanced for n, t in self.baselines.items()}}


def figures(rows: Sequence[Row], said: Mapping[str, Prediction], threshold: float) -> Figures:
    """The figures of these rows."""
    scored = [r for r in rows if r.failed is not None]
    told = [(r, p) for r in scored if (p := said[r.id]).risk is not None]
    called = [(r, p) for r, p in told if r.failed and p.fails(threshold) and r.accepted]
    several = [(p.risk, r.share) for r, p in told if r.share is not None and p.risk is not None]
    mean = math.fsum(share for _, share in several) / len(several) if several else 0.0
    refused: dict[str, int] = defaultdict(int)
    verdicts: dict[str, int] = defaultdict(int)
    for row in rows:
        if said[row.id].risk is None:
            refused[said[row.id].reason] += 1
        elif said[row.id].verdict:
            verdicts[said[row.id].verdict] += 1
    return Figures(
        rows=len(rows),
        scored=len(scored),
        table=_table(scored, lambda row: said[row.id].fails(threshold)),
        abstained=sum(said[r.id].risk is None or bool(said[r.id].depends) for r in scored),
        channel_right=sum(p.main in r.accepted for r, p in called),
        channel_told=len(called),
        brier=_mean((risk - share) ** 2 for risk, share in several),
        brier_rows=len(several),
        brier_constant=_mean((mean - share) ** 2 for _, share in several),
        brier_all=_mean((p.risk - float(bool(r.failed))) ** 2 for r, p in told if p.risk is not None),
        reliability=_reliability([(p.risk, bool(r.failed)) for r, p in told if p.risk is not None]),
        baselines={name: _table(scored, lambda row, n=name: (baselines(row) or {}).get(n)) for name in BASELINES},  # type: ignore[misc]
        refused=dict(refused),
        verdicts=dict(verdicts),
    )


def _table(rows: Iterable[Row], call: Callable[[Row], bool | None]) -> Table:
    counts = [0, 0, 0, 0]
    for row in rows:
        answer = call(row)
        if answer is not None:
            counts[(0 if answer else 1) if row.failed else (3 if answer else 2)] += 1
    return Table(*counts)


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def _reliability(told: Sequence[tuple[float, bool]]) -> tuple[tuple[float, float, int, float, float], ...]:
    found = []
    for low, high in pairwise(BINS):
        here = [(risk, failed) for risk, failed in told if low <= risk < high or (risk == high == BINS[-1])]
        if here:
            n = len(here)
            found.append((low, high, n, math.fsum(r for r, _ in here) / n, sum(f for _, f in here) / n))
    return tuple(found)


def order(pairs: Iterable[Pair], said: Mapping[str, Prediction]) -> Order:
    """How the risks order the pairs."""
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    gates, wrong, undecided = [], [], []
    for pair in pairs:
        sign = compare(said.get(pair.better), said.get(pair.worse))
        totals[pair.source][{1: 0, -1: 1, 0: 2}[sign]] += pair.weight
        if sign < 0:
            wrong.append(pair.id)
            gates += [pair.id] if pair.gate is not None else []
        elif sign == 0:
            undecided.append(pair.id)
    right, reverse, half = (math.fsum(t[i] for t in totals.values()) for i in range(3))
    by_source = {source: (t[0], t[1], t[2]) for source, t in totals.items()}
    return Order(right, reverse, half, by_source, tuple(gates), tuple(wrong), tuple(undecided))


def compare(better: Prediction | None, worse: Prediction | None) -> int:
    """1 where the first has the smaller risk, −1 where the second has, 0 where the two are too near to tell or one is not known."""
    if better is None or worse is None or better.risk is None or worse.risk is None:
        return 0
    difference = _log_odds(worse.risk) - _log_odds(better.risk)
    return 0 if abs(difference) < MARGIN else 1 if difference > 0 else -1


def _log_odds(risk: float) -> float:
    return math.log(risk) - math.log1p(-min(risk, 1 - 1e-12))


__all__ = ["BINS", "Figures", "MARGIN", "Order", "Table", "compare", "figures", "order"]
