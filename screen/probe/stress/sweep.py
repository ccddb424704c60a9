"""Experiment `stress`: the model itself, not its replayed graph, is trained for a few hundred steps over a grid of learning rates.

Weights are made by the user's own code in float32, anew for each training from the same seed (a live model is copied, and every seed has its
weights); the task is one of `screen.probe.stress.tasks`, the optimiser that of `screen.probe.stress.training`. For each seed, upwards from the
lowest rate:

* a rate is *stable* when the training has not diverged (`screen.probe.stress.training.diverged`); the sweep ends at the first that has;
* a rate *learns* when its final loss is below the best constant answer by at least half of what the best rate gains, and that is at least a tenth
  of what there is to learn. AdamW bounds every update, so that many designs do not diverge but never learn: both limits are reported.

Each limit is the largest rate up to which all is well (for learning: upwards from the best rate). One rate is put between the last that learns
and the next. The interval runs from the smallest limit of a seed to the largest first failure. What is seen is observed and refutes nothing: growth
of attention logits (L), of output logits (O), effects of the schedule (S) and of the start (I) show in so short a run; others do not
(theory, section 10).

Counted work before it runs: 3 times the operations of one forward (matrix products and convolutions) and 40 µs for each recorded call, for every step
of every training. The first of `PLANS` that the budget affords is run; `stress` has a budget of its own, as large as that of the rest. Where it
affords none, or the memory is too small, a smaller model is trained (`screen.probe.stress.smaller`), and the first line says which.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from screen.capture.build.random_state import seeded
from screen.probe.budget.budget import RATES
from screen.probe.measure.leaves import Missing
from screen.probe.measure.session import Session, said
from screen.probe.plan.types import Experiment, ProbePlan, rounded
from screen.probe.stress.smaller import smaller
from screen.probe.stress.tasks import Task, task_of
from screen.probe.stress.training import Run, means, train

GRID = tuple(10 ** (e / 2) for e in range(-7, 0))
"""Learning rates 3.2e-4 … 3.2e-1, half a decade apart."""
WARMUP = 0.1
"""Share of the steps."""
CALL = 4e-5
"""Seconds of a recorded call, its derivative and its share of the optimiser, beside its operations."""
BYTES = 20
"""Of a weight: itself, its gradient, two moments, and a copy to start from."""
GAIN, LEAST = 0.5, 0.1
"""Share of the best rate's gain from which a rate learns; share of what there is to learn that the best must gain."""
POINTS = 30
"""Of a curve in a report."""


class Make(Protocol):
    """The model with weights from a seed, and with more settings where it is to be a smaller one."""

    def __call__(self, seed: int, more: Mapping[str, Any] | None = None) -> nn.Module: ...


MAY_SHOW = "growth of logits (L, O) and effects of schedule and start (S, I) show in so short a run, others do not"


@dataclass(frozen=True)
class StressPlan:
    """What the budget affords."""

    steps: int
    seeds: int
    schedules: tuple[float, ...]
    """Shares of the steps that warm up."""

    @property
    def trainings(self) -> int:
        """Most that can be run: the grid and one rate more."""
        return (len(GRID) + 1) * self.seeds * len(self.schedules)


PLANS = (StressPlan(200, 2, (WARMUP, 0.0)), StressPlan(100, 2, (WARMUP, 0.0)), StressPlan(100, 2, (WARMUP,)), StressPlan(50, 2, (WARMUP,)),
         StressPlan(50, 1, (WARMUP,)))  # fmt: skip


@dataclass
class Sweep:
    """Trainings of one model."""

    make: Callable[[int], nn.Module]
    task: Task
    plan: StressPlan
    device: str
    seed: int
    runs: dict[tuple[float, int], dict[float, Run]] = field(default_factory=lambda: defaultdict(dict))
    """(schedule, seed) → rate → training."""

    def run(self, schedule: float, seed: int, rate: float) -> Run:
        """One training, from the start of its seed."""
        number = self.seed * 1000 + seed
        with seeded(number, self.device), torch.enable_grad():
            model = self.make(number).to(self.device)
            found = train(model, self.task, rate, self.plan.steps, round(schedule * self.plan.steps), number)
        self.runs[schedule, seed][rate] = found
        return found

    def upwards(self, schedule: float) -> Iterator[tuple[float, list[Run]]]:
        """Rate by rate; a seed stops at its first divergence. Then one rate more for each seed."""
        going = list(range(self.plan.seeds))
        for rate in GRID:
            found = [self.run(schedule, seed, rate) for seed in going]
            yield rate, found
            going = [seed for seed, run in zip(going, found, strict=True) if not run.diverged]
            if not going:
                break
        between: dict[float, list[Run]] = defaultdict(list)
        for seed in range(self.plan.seeds):
            low, high = limits(self.runs[schedule, seed], self.task)[1]
            if low > 0 and math.isfinite(high):
                rate = math.sqrt(low * high)
                between[rate].append(self.run(schedule, seed, rate))
        yield from sorted(between.items())


@dataclass(frozen=True)
class Trained:
    """What is trained: the model itself, or a smaller one."""

    make: Callable[[int], nn.Module]
    task: Task
    plan: StressPlan
    weights: int
    copies: int
    """Of a block that is stacked."""
    words: str = ""
    """What of it is smaller, and why; empty for the model itself."""


def stress(plan: ProbePlan, session: Session, make: Make) -> Iterator[Experiment]:
    """What is trained where it is not the model itself, each learning rate when it is done, the limits last."""
    empty = Experiment("stress", "a short training over learning rates", "not_measured")
    try:
        found = chosen(plan, session, make)
        if found.words:
            yield Experiment("stress", "weights of the model that is trained", "observed", measured=float(found.weights), reason=found.words)
        yield from _sweeps(Sweep(found.make, found.task, found.plan, session.budget.device, session.options.seed), found.copies)
    except Exception as error:  # the user's own code runs here
        yield replace(empty, reason=said(error).replace("the replay raised", "it raised"))


def chosen(plan: ProbePlan, session: Session, make: Make) -> Trained:
    """The model itself, or the largest smaller one of which the budget affords two seeds, or the last that it affords at all. Raises `Missing`."""
    copies = max((b.depth for b in plan.blocks), default=1) if session.built.info.block and session.built.original is None else 1
    try:
        return prepared(session, make, copies)
    except Missing as error:
        lost = error
    found: Trained | None = None
    for other in smaller(plan, session):
        with contextlib.suppress(Missing):
            made = prepared(other.session, partial(make, more=other.settings), copies)
            found = replace(made, words=f"{other.words}; the model itself: {lost}")
        if found is not None and found.plan.seeds > 1:
            break
    if found is None:
        raise lost
    return found


def prepared(session: Session, make: Callable[[int], nn.Module], copies: int) -> Trained:
    """One model with its task, and as many trainings as the budget affords. Raises `Missing`."""
    device, seed = session.budget.device, session.options.seed
    count = session.built.info.parameters * copies
    room(count, session)
    build = partial(stacked, make, copies=copies) if copies > 1 else make
    with seeded(seed):
        model = build(seed).eval()
        task = task_of(session.built, model, seed)
        step = operations(model.train(), task) / RATES[device] + CALL * len(session.trace.graph.nodes) * copies
    return Trained(build, task, affordable(step, session.options.seconds), count, copies)


def stacked(make: Callable[[int], nn.Module], number: int, copies: int) -> nn.Module:
    """A block as often as it is stacked, each with a start of its own."""
    return nn.ModuleList([make(number * 1009 + place) for place in range(copies)])


def room(weights: int, session: Session) -> None:
    """Raises `Missing` where so many weights cannot be trained in the memory that there is."""
    device, need = session.budget.device, weights * BYTES
    there = torch.cuda.get_device_properties(0).total_memory if device == "cuda" else session.options.memory
    if there and need > there // 2:
        room = f"{need / 2**30:.3g} GiB to be trained, of {there / 2**31:.3g} GiB"
        raise Missing(f"its {weights:,} weights need {room}: make it smaller with `--width` (a config) or `--set`")


def operations(model: nn.Module, task: Task) -> float:
    """Of one step: a forward, counted, and twice as many backward."""
    x, _ = task.batch(torch.Generator().manual_seed(0))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        task.answer(model, x)
    return 3.0 * float(counter.get_total_flops())


def affordable(step: float, seconds: float) -> StressPlan:
    """The first plan whose steps, at so many seconds each, fit. Raises `Missing`."""
    for plan in PLANS:
        if plan.trainings * plan.steps * step <= seconds:
            return plan
    least = PLANS[-1].trainings * PLANS[-1].steps * step
    how = "or make it smaller with `--depth` (a block), `--width` (a config) or `--set`"
    raise Missing(f"it takes {least:.2g} s of counted work: `--probe-seconds {upwards(least):g}` affords it, {how}")


def upwards(seconds: float) -> float:
    """Two digits, rounded up."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return math.ceil(seconds / unit) * unit


def _sweeps(sweep: Sweep, copies: int) -> Iterator[Experiment]:
    for schedule in sweep.plan.schedules:
        words = f"warm-up of {round(schedule * sweep.plan.steps)} steps" if schedule else "no warm-up"
        for rate, runs in sweep.upwards(schedule):
            yield _rate(rate, runs, words)
        yield from _limits(sweep, schedule, words, copies)


def learns(run: Run, best: float, task: Task) -> bool:
    """Whether a training gains enough over the best constant answer."""
    gain = task.trivial - best
    return gain >= LEAST * (task.trivial - task.floor) and not run.diverged and task.trivial - run.final >= GAIN * gain


def limits(runs: dict[float, Run], task: Task) -> tuple[tuple[float, float], tuple[float, float]]:
    """((largest stable rate, first that diverges), (largest rate that learns, next that does not)); 0 and inf where there is none.

    Where not even the best rate learns, one below the grid might."""
    rates = sorted(runs)
    best = min(rates, key=lambda r: runs[r].final)
    stable = _limit(rates, [not runs[r].diverged for r in rates])
    above = [r for r in rates if r >= best]
    fine = [learns(runs[r], runs[best].final, task) for r in above]
    return stable, _limit(above, fine) if fine[0] else (0.0, rates[0])


def _limit(rates: list[float], fine: list[bool]) -> tuple[float, float]:
    first = fine.index(False) if False in fine else len(fine)
    return (rates[first - 1] if first else 0.0), (rates[first] if first < len(rates) else math.inf)


def _rate(rate: float, runs: list[Run], words: str) -> Experiment:
    """One rate: final losses over seeds, and the first seed's curves."""
    lost = sum(r.diverged for r in runs)
    finals = [r.final for r in runs]
    first = runs[0]
    numbers: dict[str, float | str] = {"rate": rounded(rate), "diverged": float(lost), "largest_output": rounded(first.largest_output)}
    if not math.isnan(first.logits[0]):
        numbers |= {"largest_logit_before": rounded(first.logits[0]), "largest_logit_after": rounded(first.logits[1])}
    width = max(1, math.ceil(len(first.losses) / POINTS))
    for step in range(0, len(first.losses), width):
        numbers[f"loss_at_{step}"] = rounded(_mean(first.losses[step : step + width]))
        numbers[f"gradient_at_{step}"] = rounded(_mean(first.gradients[step : step + width]))
    reason = f"{lost} of {len(runs)} diverged" if lost else ""
    return Experiment(
        "stress", f"final loss at learning rate {rate:.2g}, {words}", "observed", measured=rounded(_mean(finals)),
        interval=(rounded(min(finals)), rounded(max(finals))), samples=len(runs), reason=reason, numbers=numbers,
    )  # fmt: skip


def _limits(sweep: Sweep, schedule: float, words: str, copies: int) -> Iterator[Experiment]:
    """The two limits over all seeds."""
    found = [limits(sweep.runs[schedule, seed], sweep.task) for seed in range(sweep.plan.seeds)]
    said_so = f"{sweep.task.words}; {sweep.plan.steps} steps of AdamW in float32; {MAY_SHOW}"
    numbers: dict[str, float | str] = {
        "steps": sweep.plan.steps, "seeds": sweep.plan.seeds, "warmup": round(schedule * sweep.plan.steps), "blocks_stacked": copies,
        "floor": rounded(sweep.task.floor), "best_constant": rounded(sweep.task.trivial),
    }  # fmt: skip
    for what, which in (("largest stable learning rate", 0), ("largest learning rate that learns", 1)):
        pairs = [f[which] for f in found]
        lows, highs = [p[0] for p in pairs], [p[1] for p in pairs]
        middle = math.exp(_mean([math.log(v) for v in lows])) if min(lows) > 0 else min(lows)
        note = "no rate of the grid" if max(lows) == 0 else "the grid ends there" if max(highs) == math.inf else ""
        yield Experiment(
            "stress", f"{what}, {words}", "observed", measured=rounded(middle), interval=(rounded(min(lows)), rounded(max(highs))),
            samples=len(pairs), reason="; ".join(p for p in (note, said_so if which == 0 else "") if p), numbers=numbers,
        )  # fmt: skip


def _mean(values: list[float] | tuple[float, ...]) -> float:
    return sum(values) / len(values)


__all__ = ["GRID", "PLANS", "StressPlan", "Sweep", "affordable", "chosen", "learns", "limits", "means", "operations", "prepared", "stacked", "stress"]
