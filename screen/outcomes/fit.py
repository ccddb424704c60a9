"""The constants of the risk, fitted to rows and pairs: a coordinate search from what theory says, held there by a penalty on (value − prior)/spread.

The loss is the logarithmic one, by grade: of a row's failure (of several runs their share), of the channels that count as its reason, and of the
order of each pair. A few runs end as nothing says that is stated of them (`STRAY`), so that no row can move the constants alone. No name, source
or family enters. It is the same on every machine: nothing is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from screen.outcomes.build import Design
from screen.outcomes.figures import Order, Table, figures, order
from screen.outcomes.predict import Prediction, predict
from screen.outcomes.rows import GRADES, Pair, Row, ValidationError
from screen.verdict.risk.channels import overall, worst_risks
from screen.verdict.risk.constants import PRIORS, TABLE
from screen.verdict.risk.features import Features
from screen.verdict.risk.setting import Setting, setting_of

ROUNDS = 6
"""Passes over all constants."""
REASON = 0.3
"""Weight of the right channel beside that of the right answer."""
STRAY = 0.02
"""Probability that a run ends otherwise for a reason that its cells do not hold (our own choice: one of fifty; with 0.01 to 0.1 sources left out are
judged alike). Without it the one run without norms whose weights stay small had most of the say in when such a stream explodes."""
SHARP = 2.0
"""Steepness of the loss of a pair, per unit of log odds."""
LEAST = 0.05
"""Smallest slope or probability: all stay above zero, which keeps risks monotone."""
THRESHOLDS = tuple(t / 100 for t in range(30, 92, 2))
LEVEL = 0.02
"""Balanced accuracy by which a threshold may fall short of the best: one row of fifty."""
ODDS = 0.6
"""Of such thresholds the nearest to this one is taken: three to two, before a run is called lost (our own choice; 0.7 until it was seen that sources
left out are judged worse there)."""

Known = dict[str, list[tuple[Features, Setting]]]


@dataclass(frozen=True)
class Fit:
    """Constants with the threshold that goes with them."""

    values: Mapping[str, float]
    threshold: float
    loss: float


def settled(rows: Sequence[Row], designs: Mapping[str, Design], *, assumed: bool) -> Known:
    """Row -> its streams with their settings, of rows that are known."""
    found: Known = {}
    for row in rows:
        try:
            recipe = row.recipe(assumed=assumed)
        except ValidationError:
            continue
        if designs[row.id].streams:
            found[row.id] = [(f, setting_of(recipe, f)[0]) for f in designs[row.id].streams]
    return found


def fit(rows: Sequence[Row], pairs: Sequence[Pair], known: Known, rounds: int = ROUNDS) -> Fit:
    """The best constants for these rows, and the threshold that gives them the best balanced accuracy."""
    values, steps = dict(PRIORS), {c.name: c.spread / 2 for c in TABLE if c.spread > 0}
    free = {c.name: c for c in TABLE if c.spread > 0}
    best = _loss(rows, pairs, known, values)
    for _ in range(rounds):
        for name, constant in free.items():
            for sign in (1.0, -1.0):
                trial = {**values, name: values[name] + sign * steps[name]}
                if constant.prior > 0 and trial[name] < LEAST:
                    continue
                loss = _loss(rows, pairs, known, trial)
                if loss < best - 1e-9:
                    values, best = trial, loss
                    steps[name] *= 1.3
                    break
            else:
                steps[name] /= 2
    return Fit(values, _threshold(rows, known, values), best)


def _risks(known: Known, name: str, values: Mapping[str, float]) -> dict[str, float]:
    return {str(c): risk for c, risk in worst_risks(known[name], values).items()}


def _loss(rows: Sequence[Row], pairs: Sequence[Pair], known: Known, values: Mapping[str, float]) -> float:
    total, risk = 0.0, dict[str, float]()
    for row in rows:
        if row.id not in known:
            continue
        channels = _risks(known, row.id, values)
        risk[row.id] = min(max(overall(channels), 1e-6), 1 - 1e-6)  # type: ignore[arg-type]
        if row.failed is None:
            continue
        here = STRAY + (1 - 2 * STRAY) * risk[row.id]
        weight, share = GRADES[row.grade], row.share if row.share is not None else float(row.failed)
        total -= weight * (share * math.log(here) + (1 - share) * math.log(1 - here))
        if row.failed and row.accepted:
            total -= REASON * weight * math.log(1 - (1 - STRAY) * math.prod(1 - channels[c] for c in row.accepted))
    for pair in pairs:
        if pair.better in risk and pair.worse in risk:
            apart = _odds(risk[pair.worse]) - _odds(risk[pair.better])
            total += pair.weight * math.log1p(math.exp(-max(-30.0, min(30.0, SHARP * apart))))
    return total + math.fsum(((values[c.name] - c.prior) / c.spread) ** 2 for c in TABLE if c.spread > 0)


def _odds(risk: float) -> float:
    return math.log(risk / (1 - risk))


def _threshold(rows: Sequence[Row], known: Known, values: Mapping[str, float]) -> float:
    told = [(overall(_risks(known, r.id, values)), r.failed) for r in rows if r.id in known and r.failed is not None]  # type: ignore[arg-type]

    def balanced(threshold: float) -> float:
        calls = [[risk >= threshold for risk, failed in told if failed is is_failed] for is_failed in (True, False)]
        return math.fsum(sum(c == wanted for c in group) / len(group) / 2 for group, wanted in zip(calls, (True, False), strict=True) if group)

    found = {t: balanced(t) for t in THRESHOLDS}
    return min((t for t in THRESHOLDS if found[t] >= max(found.values()) - LEVEL), key=lambda t: abs(t - ODDS))


@dataclass(frozen=True)
class LeftOut:
    """Each source judged by constants and a threshold that were fitted to the others."""

    table: Table
    order: Order
    thresholds: Mapping[str, float]


def leave_one_out(
    rows: Sequence[Row], pairs: Sequence[Pair], designs: Mapping[str, Design], *, assumed: bool,
    beside: tuple[Sequence[Row], Known] = ((), {}), rounds: int = 4,
) -> LeftOut:
    """The figures of sources that no fit saw. `beside`: rows of no source, which every fit sees."""
    known = {**settled(rows, designs, assumed=assumed), **beside[1]}
    said: dict[str, Prediction] = {}
    table, thresholds = Table(), {}
    for source in sorted({r.source for r in rows}):
        found = fit([*(r for r in rows if r.source != source), *beside[0]], [p for p in pairs if p.source != source], known, rounds)
        own = [r for r in rows if r.source == source]
        here = predict(own, designs, assumed=assumed, constants=found.values, threshold=found.threshold)
        said |= here
        more = figures(own, here, found.threshold).table
        table = Table(table.hits + more.hits, table.missed + more.missed, table.quiet + more.quiet, table.alarms + more.alarms)
        thresholds[source] = found.threshold
    return LeftOut(table, order(pairs, said), thresholds)


__all__ = ["Fit", "LeftOut", "fit", "leave_one_out", "settled"]
