"""How well predictions agree with the runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import mean
from typing import Any

from screen.atlas.cell import cell_of
from screen.atlas.predictions import Prediction, Predictor
from screen.atlas.tolerance import Record, Tolerance, group_of, labels, tolerances

FACTOR = 3.0
"""Within which a predicted rate counts as right."""
ALIKE = 1.05
"""Predicted rates of two designs within this factor are a tie."""


@dataclass(frozen=True)
class Score:
    """`balanced` is the mean of the shares of failing and of training runs that were called so; `brier` the mean squared error of risks.

    `tau` is the mean of Kendall's τ-b over the tables of designs at one depth, width and recipe, `tables` of them; `tau_most` what the right order
    without a tie would have there (rates of a grid tie); `ordered` τ over the pairs that the runs tell apart. `near` is the share of `groups` (a
    design, size and recipe each) whose predicted rate is near the largest that trained (`is_near`), `inside` of those whose rate lies between that
    and the smallest that failed."""

    runs: int
    slow: int
    unsaid: int
    balanced: float | None
    failing_called: float | None
    training_called: float | None
    brier: float | None
    tau: float | None
    tau_most: float | None
    ordered: float | None
    tables: int
    near: float | None
    inside: float | None
    groups: int

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


def score(rows: Sequence[Record], predictor: Predictor) -> Score:
    """The score of a predictor on these rows; runs that were slow and those of which it says nothing are counted and left out."""
    label = labels(rows)
    called: dict[bool, list[bool]] = {True: [], False: []}
    squares, unsaid, said = [], 0, {}
    for row in rows:
        prediction = predictor(row)
        said[group_of(cell_of(row))] = prediction
        if label[row["id"]] == "slow":
            continue
        fails, failed = prediction.fails(row["lr"]), label[row["id"]] == "fails"
        if fails is None:
            unsaid += 1
            continue
        called[failed].append(fails == failed)
        if prediction.risk is not None:
            squares.append((prediction.risk - failed) ** 2)
    known = tolerances(rows)
    failing, training = _mean(called[True]), _mean(called[False])
    orders = _orders(known.values(), {group: said[group] for group in known})
    rates = [(t, p) for t, p in ((t, said[g].tolerated) for g, t in known.items()) if p is not None]
    near, inside = [is_near(t, p) for t, p in rates], [(t.largest or 0.0) <= p < (t.failing or math.inf) for t, p in rates]
    return Score(
        runs=len(rows), slow=sum(v == "slow" for v in label.values()), unsaid=unsaid,
        balanced=None if failing is None or training is None else (failing + training) / 2, failing_called=failing, training_called=training,
        brier=_mean(squares), tau=_mean([o.tau for o in orders]),
        tau_most=_mean([o.most for o in orders]), ordered=_mean([o.agree / o.measured for o in orders]), tables=len(orders),
        near=_mean(near), inside=_mean(inside), groups=len(rates),
    )  # fmt: skip


def is_near(measured: Tolerance, predicted: float) -> bool:
    """Within `FACTOR` of the largest rate that trained; any above it where no run failed there, any below the smallest tried where none trained."""
    if measured.largest is None:
        return measured.failing is not None and predicted < measured.failing
    return measured.largest <= FACTOR * predicted and (measured.failing is None or predicted <= FACTOR * measured.largest)


def _mean(values: Sequence[float]) -> float | None:
    return mean(map(float, values)) if values else None


@dataclass(frozen=True)
class Order:
    """Two orders of the same designs, in pairs: those that agree less those that do not, those that each side tells apart, and all."""

    agree: int
    measured: int
    predicted: int
    pairs: int

    @property
    def tau(self) -> float:
        """Kendall's τ-b."""
        return self.agree / math.sqrt(self.measured * self.predicted)

    @property
    def most(self) -> float:
        """That of the right order without a tie."""
        return math.sqrt(self.measured / self.pairs)


def _orders(known: Iterable[Tolerance], said: Mapping[Any, Prediction]) -> list[Order]:
    """The order of the designs of each table of one depth, width and recipe, where neither side ties them all."""
    tables: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for t in known:
        predicted = said[t.design, t.depth, t.width, t.recipe].tolerated
        if predicted is not None:
            tables[t.depth, t.width, t.recipe].append((t.largest or 0.0, predicted))
    found = (order(table) for table in tables.values())
    return [o for o in found if o is not None]


def order(pairs: Sequence[tuple[float, float]]) -> Order | None:
    """Of measured and predicted rates, predictions within `ALIKE` being ties; None where one side has no order."""
    agree = measured = predicted = 0
    for (a, x), (b, y) in combinations(pairs, 2):
        one = (a > b) - (a < b)
        other = 0 if max(x, y) <= ALIKE * min(x, y) else (x > y) - (x < y)
        agree += one * other
        measured += one != 0
        predicted += other != 0
    return Order(agree, measured, predicted, math.comb(len(pairs), 2)) if measured and predicted else None


def kendall(pairs: Sequence[tuple[float, float]]) -> float | None:
    """τ-b of measured and predicted rates; None where one side has no order."""
    found = order(pairs)
    return None if found is None else found.tau


def one_rate(rows: Sequence[Record]) -> Prediction:
    """The baseline: one tolerated rate for every design, that with the best balanced accuracy on these rows."""
    rates = sorted({row["lr"] for row in rows})

    def balanced(rate: float) -> float:
        return score(rows, lambda _: Prediction(rate)).balanced or 0.0

    return Prediction(max(rates, key=balanced, default=None))


__all__ = ["ALIKE", "FACTOR", "Order", "Score", "is_near", "kendall", "one_rate", "order", "score"]
