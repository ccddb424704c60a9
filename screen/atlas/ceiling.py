"""How well anybody could do who does not know the seed: figures of `score` for a predictor that knows every edge, on runs drawn anew.

The edge of a run is taken as ln(rate) = e + σ·z, e that of its design, sizes and recipe, z normal and another one for each seed. Two seeds of one
group each place their edge between two rates of the grid, which says how large σ is and where e may lie; e is flat between `LEAST` and `MOST` before.
Nothing else is assumed: which rates and seeds were run, and which runs were too slow to tell, stays as it was.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from screen.atlas.cell import Cell, cell_of
from screen.atlas.predictions import Prediction
from screen.atlas.score import Score, score
from screen.atlas.tolerance import Group, Record, group_of, labels, tolerances

LEAST, MOST, POINTS = math.log(1e-4), math.log(3.0), 200
"""Between which ln(rate) edges lie, a decade around what was tried, and at how many points they are looked for."""
SIGMAS = tuple(i / 50 for i in range(1, 61))
FIGURES = ("balanced", "tau", "ordered", "near")

Interval = tuple[float, float]
"""ln of the largest rate that trained and of the smallest above it that failed."""


def intervals(rows: Iterable[Record]) -> dict[Group, list[Interval]]:
    """Where each seed of a group places its edge."""
    by_seed: dict[tuple[Group, int], list[Record]] = defaultdict(list)
    for row in rows:
        cell = cell_of(row)
        by_seed[group_of(cell), cell.seed].append(row)
    found: dict[Group, list[Interval]] = defaultdict(list)
    for (group, _), runs in by_seed.items():
        (told,) = tolerances(runs).values()
        low = -math.inf if told.largest is None else math.log(told.largest)
        found[group].append((low, math.inf if told.failing is None else math.log(told.failing)))
    return found


def _inside(at: float, seen: Interval, sigma: float) -> float:
    """Probability that a seed's edge lies in its interval, where that of all seeds is `at`."""
    return (math.erf((seen[1] - at) / sigma / math.sqrt(2)) - math.erf((seen[0] - at) / sigma / math.sqrt(2))) / 2


def _weights(seen: Sequence[Interval], sigma: float) -> list[float]:
    return [math.prod(_inside(at, one, sigma) for one in seen) for at in _points()]


def _points() -> list[float]:
    return [LEAST + (MOST - LEAST) * (i + 0.5) / POINTS for i in range(POINTS)]


def spread(seen: Iterable[Sequence[Interval]]) -> float:
    """σ: the most likely one of groups with several seeds."""
    several = [each for each in seen if len(each) > 1]

    def likelihood(sigma: float) -> float:
        return math.fsum(math.log(max(math.fsum(_weights(each, sigma)), 1e-300)) for each in several)

    return max(SIGMAS, key=likelihood)


def ceiling(rows: Sequence[Record], sigma: float, draws: int, *, rounded: bool) -> dict[str, tuple[float, float]]:
    """Figure -> its mean over draws and its deviation, for a predictor that knows e of every group; `rounded`: and says the rate of the grid below
    it, so that it ties whom the runs tie."""
    seen, source, told = intervals(rows), random.Random(0), labels(rows)
    cells = [(row, cell_of(row), told[row["id"]] == "slow") for row in rows]
    chances = {group: _weights(each, max(sigma, SIGMAS[0])) for group, each in seen.items()}
    found: dict[str, list[float]] = {name: [] for name in FIGURES}
    for _ in range(draws):
        edges = {group: source.choices(_points(), weights)[0] for group, weights in chances.items()}
        scored = _scored(cells, edges, sigma, source, rounded)
        for name in FIGURES:
            found[name].append(getattr(scored, name))
    return {name: (fmean(values), stdev(values) if draws > 1 else 0.0) for name, values in found.items()}


def _scored(cells: Iterable[tuple[Record, Cell, bool]], edges: Mapping[Group, float], sigma: float, source: random.Random, rounded: bool) -> Score:
    own: dict[tuple[Group, int], float] = {}
    rows, rates = [], defaultdict[Group, set[float]](set)
    for row, cell, slow in cells:
        group = group_of(cell)
        if (group, cell.seed) not in own:
            own[group, cell.seed] = edges[group] + sigma * source.gauss(0.0, 1.0)
        trained = not slow and math.log(cell.lr) < own[group, cell.seed]
        rates[group].add(cell.lr)
        rows.append({**row, "trained": trained, "outcome": "learned" if trained else "no_learning" if slow else "diverged"})
    said = {}
    for group, tried in rates.items():
        below = [rate for rate in tried if math.log(rate) < edges[group]]
        said[group] = Prediction(max(below, default=min(tried) / 10) if rounded else min(math.exp(edges[group]), max(tried)))
    return score(rows, lambda row: said[group_of(cell_of(row))])


__all__ = ["FIGURES", "ceiling", "intervals", "spread"]
