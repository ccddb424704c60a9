"""Experiment `init`: a model that its own code built with weights, against the record of its initialisers that every other number rests on.

On meta nothing is drawn, and what the analysis says of the start is read off recorded calls (`screen.capture.initial.recorder`). Here the code runs
once with memory behind it, at true width. For each parameter whose record says all, mean and mean square of the built weight are compared with
those of a draw of the record (`probe.measure.weights`): two samples of n entries, that agree within `ERRORS` standard errors of both. The standard
error of ln rms is √((κ − 1)/4n) with κ = E w⁴/(E w²)²; of the mean σ/√n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from screen.probe.budget.allocation import Key, Want
from screen.probe.budget.budget import BUILT
from screen.probe.measure.session import Session, tried
from screen.probe.measure.weights import drawn
from screen.probe.plan.types import Experiment, rounded
from screen.probe.stress.sweep import Make

ERRORS = 6.0
"""Standard errors: one weight in 10⁸ is further off by chance."""
ROUNDING = 1e-3
"""Relative difference that a cut tail or another dtype may make."""
WORK = 400.0
"""Operations to draw an entry twice and to sum it up."""
BYTES = 24
"""Of an entry: built and drawn, in float32, with what their sums need in float64."""
FEW = 16
"""Entries below which a random weight has no moments to compare."""
SHOWN = 3
KEY: Key = ("start", -1, "init")


@dataclass(frozen=True)
class Sample:
    """Moments of one weight."""

    n: int
    mean: float
    rms: float
    error: float
    """Standard error of ln rms."""


def recorded(session: Session, make: Make) -> list[Experiment]:
    """One line for the whole model."""
    empty = Experiment("init", "recorded initialisers against a model that is built with weights", "not_measured")
    if session.built.original is not None:
        return [replace(empty, outcome="not_applicable", reason="the weights are a live model's own")]
    count, memory = session.built.info.parameters, session.options.memory
    if memory and count * BYTES > memory // 2:
        need = f"{count * BYTES / 2**30:.3g} GiB to be built, and `--memory` leaves {memory / 2**31:.3g} GiB"
        return [replace(empty, reason=f"its {count:,} weights need {need}: fewer layers (`--set`) show the same")]
    found = tried(lambda: _compared(empty, session, dict(make(session.options.seed).named_parameters())), [empty], session.budget, KEY)
    return [replace(e, reason=e.reason.replace("the replay raised", "it raised")) for e in found]


def wants(session: Session) -> Iterator[Want]:
    """Every weight drawn twice."""
    yield Want(KEY, (session.built.info.parameters * WORK / session.budget.rate + BUILT * len(session.trace.graph.nodes),))


def _compared(empty: Experiment, session: Session, weights: dict[str, nn.Parameter]) -> Experiment:
    wrong, seen, worst, entries = list[str](), 0, 0.0, 0
    for place, (name, history) in enumerate(session.built.initialisers):
        if name not in weights:
            continue
        shape = tuple(weights[name].shape)
        value, note = drawn(shape, history, _generator(session, place))
        if note or value.numel() == 0 or (value.numel() < FEW and not torch.equal(value, drawn(shape, history, _generator(session, -place - 1))[0])):
            continue
        theirs, ours = sample(weights[name]), sample(value)
        seen, entries = seen + 1, entries + ours.n
        off = distance(theirs, ours)
        worst = max(worst, off)
        if off > ERRORS:
            wrong.append(f"`{name}` has rms {theirs.rms:.3g} and mean {theirs.mean:.3g}, its record gives {ours.rms:.3g} and {ours.mean:.3g}")
    if not seen:
        return replace(empty, reason="no weight has a record that says all")
    missing = len(weights) - seen
    numbers: dict[str, float | str] = {"weights": float(seen), "weights_without_a_full_record": float(missing)}
    found = replace(empty, predicted=f"at most {ERRORS:g} standard errors", measured=rounded(worst), samples=entries, numbers=numbers)
    if wrong:
        return replace(found, outcome="refuted", reason="; ".join(wrong[:SHOWN]) + (f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""))
    return replace(found, outcome="confirmed", reason=f"{seen} weights" + (f", {missing} without a full record" if missing else ""))


def _generator(session: Session, place: int) -> torch.Generator:
    return torch.Generator().manual_seed(session.options.seed * 1_000_003 + place)


def sample(weight: Tensor) -> Sample:
    """Moments of a weight's entries."""
    w = weight.detach().double().flatten()
    n, mean, squares = w.numel(), float(w.mean()), w.square()
    square = float(squares.mean())
    if square == 0 or n == 1:
        return Sample(n, mean, math.sqrt(square), 0.0)
    kurtosis = float(squares.div_(square).square_().mean())
    return Sample(n, mean, math.sqrt(square), math.sqrt(max(kurtosis - 1.0, 0.0) / (4 * n)))


def distance(a: Sample, b: Sample) -> float:
    """Differences of mean and of ln rms in their standard errors, the larger one; 0 where both are equal, infinite where one alone is zero."""
    if a.rms == b.rms == 0:
        return 0.0
    if a.rms == 0 or b.rms == 0:
        return math.inf
    size = abs(math.log(a.rms / b.rms)) / (math.hypot(a.error, b.error) + ROUNDING / ERRORS)
    deviations = [math.sqrt(max(s.rms**2 - s.mean**2, 0.0) / s.n) for s in (a, b)]
    return max(size, abs(a.mean - b.mean) / (math.hypot(*deviations) + ROUNDING / ERRORS * max(a.rms, b.rms)))


__all__ = ["distance", "recorded", "sample", "wants"]
