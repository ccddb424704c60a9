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
    """`balanced` is the mean of the shares of failing and of training runs that were called so; `tau` the mean of Kendall's τ-b over the tables of
    designs at one depth, width and recipe, `tables` of them; `near` the share of `groups` (a design, size and recipe each) whose predicted rate is
    near the largest that trained (`is_near`), `inside` of those whose rate lies between that and the smallest that failed; `brier` the mean squared
    error of risks."""

    runs: int
    slow: int
    unsaid: int
    balanced: float | None
    failing_called: float | None
    training_called: float | None
    brier: float | None
    tau: float | None
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
    taus = _taus(known.values(), {group: said[group] for group in known})
    rates = [(t, p) for t, p in ((t, said[g].tolerated) for g, t in known.items()) if p is not None]
    near, inside = [is_near(t, p) for t, p in rates], [(t.largest or 0.0) <= p < (t.failing or math.inf) for t, p in rates]
    return Score(
        runs=len(rows), slow=sum(v == "slow" for v in label.values()), unsaid=unsaid,
        balanced=None if failing is None or training is None else (failing + training) / 2, failing_called=failing, training_called=training,
        brier=_mean(squares), tau=_mean(taus), tables=len(taus), near=_mean(near), inside=_mean(inside), groups=len(rates),
    )  # fmt: skip


def is_near(measured: Tolerance, predicted: float) -> bool:
    """Within `FACTOR` of the largest rate that trained; any above it where no run failed there, any below the smallest tried where none trained."""
    if measured.largest is None:
        return measured.failing is not None and predicted < measured.failing
    return measured.largest <= FACTOR * predicted and (measured.failing is None or predicted <= FACTOR * measured.largest)


def _mean(values: Sequence[float]) -> float | None:
    return mean(map(float, values)) if values else None


def _taus(known: Iterable[Tolerance], said: Mapping[Any, Prediction]) -> list[float]:
    """Kendall's τ-b of the designs of each table of one depth, width and recipe, where neither side ties them all."""
    tables: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for t in known:
        predicted = said[t.design, t.depth, t.width, t.recipe].tolerated
        if predicted is not None:
            tables[t.depth, t.width, t.recipe].append((t.largest or 0.0, predicted))
    found = (kendall(table) for table in tables.values())
    return [tau for tau in found if tau is not None]


def kendall(pairs: Sequence[tuple[float, float]]) -> float | None:
    """τ-b of measured and predicted rates, predictions within `ALIKE` being ties; None where one side has no order."""
    agree = measured = predicted = 0
    for (a, x), (b, y) in combinations(pairs, 2):
        one = (a > b) - (a < b)
        other = 0 if max(x, y) <= ALIKE * min(x, y) else (x > y) - (x < y)
        agree += one * other
        measured += one != 0
        predicted += other != 0
    return agree / math.sqrt(measured * predicted) if measured and predicted else None


def one_rate(rows: Sequence[Record]) -> Prediction:
    """The baseline: one tolerated rate for every design, that with the best balanced accuracy on these rows."""
    rates = sorted({row["lr"] for row in rows})

    def balanced(rate: float) -> float:
        return score(rows, lambda _: Prediction(rate)).balanced or 0.0

    return Prediction(max(rates, key=balanced, default=None))


__all__ = ["ALIKE", "FACTOR", "Score", "is_near", "kendall", "one_rate", "score"]
