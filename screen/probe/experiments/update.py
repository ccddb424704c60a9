"""Experiment `update`: how far one unwarmed Adam step moves the model's last normed state h.

At the first step both averages of Adam are those of one gradient, so that every weight moves by δW = −η·g/(|g| + ε), in every entry. Then

    κ = lim rms(δh)/(η·rms(h)),  η → 0

and 1/κ is the rate at which one such step moves h by as much as h is large: the representation is replaced. g is the gradient of the loss of a
synthetic task (`screen.probe.stress.tasks`) over some batches; δh is taken on the first of them, by one pass of forward differentiation, or, where
an op has no such derivative, by central differences at a step that is small enough to be linear. κ of a group is that of its weights alone: they add
like vectors, not like numbers. η/rms(W) says by which share of itself a weight moves.

Far from the limit h cannot move further than it is large, and it moves less where softmaxes are saturated: `numbers` has rms(δh)/(η·rms(h)) of whole
steps of 1e-4 and 1e-3, and of the recipe's rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from screen.capture import phase
from screen.probe.budget.whole import Size, fullest, sizes_of
from screen.probe.measure.session import Session, said
from screen.probe.measure.whole import Weights, Whole
from screen.probe.plan.types import UPDATE, Experiment, ProbePlan, rounded
from screen.probe.stress.sweep import Make

FORMS = ((8, 8), (4, 8), (4, 2), (2, 2), (1, 2))
"""(batches that the gradient is the mean of, rows on which δh is taken)."""
STEPS = (1e-4, 1e-3)
BYTES = 24
"""Of a weight: itself, two gradients, its direction, a moved copy and what is made on the way."""
FACTOR = 2.0
"""Between κ derived and measured, up to which both agree."""
LINEAR = 0.05
"""Relative difference between the differences at a step and at a quarter of it."""


@dataclass(frozen=True)
class Kappa:
    """rms(δh)/(η·rms(h)) along one direction, and how it was measured."""

    value: float
    words: str = ""


def updates(plan: ProbePlan, session: Session, make: Make) -> Iterator[Experiment]:
    """κ, the rate that belongs to it, and κ of every group of weights; or why they were not measured."""
    empty = Experiment("update", "κ: change of the last state in one Adam step, over its rate", "not_measured", predicted=_predicted(plan))
    if not plan.asks("update", "", "", ""):
        return
    phase.measure("update", 1.0)
    try:
        size, form = fullest(sizes_of(plan, session, make), FORMS, _cost(plan), UPDATE * session.options.seconds, BYTES)
        yield from _measured(plan, Whole(size.build(), size.session, plan.update), size, form, empty)
    except Exception as error:  # the user's own code runs here
        yield replace(empty, reason=said(error).replace("the replay raised", "it raised"))


def _predicted(plan: ProbePlan) -> float | str | None:
    return None if plan.update.predicted is None else rounded(plan.update.predicted)


def _cost(plan: ProbePlan) -> Callable[[Size, tuple[int, int]], float]:
    """Of the gradients, of a derivative along each group (two forwards) and along all of them, and of whole steps."""
    passes = 2 * (len(plan.update.groups) + 1) + len(STEPS) + 2
    return lambda size, form: size.seconds(8.0 * 3 * form[0] + form[1] * passes, 4.0 * form[0] + 8, form[0] + passes / 2)


def _measured(plan: ProbePlan, whole: Whole, size: Size, form: tuple[int, int], empty: Experiment) -> Iterator[Experiment]:
    first, batches = whole.batch(), form[0]
    x = first[0][: form[1]]
    total: Weights = {}
    for place in range(batches):
        for name, g in whole.gradients(first if place == 0 else whole.batch()).items():
            total[name] = g if name not in total else total[name] + g
    weights = whole.weights
    direction = {n: -(g / batches) / ((g / batches).abs() + plan.update.eps) for n, g in total.items()}
    direction = {n: d for n, d in direction.items() if bool((d != 0).any())}
    words = "; ".join(w for w in (size.words, f"{batches} batches of 8, {whole.task.words}, without dropout") if w)
    if not direction:
        yield replace(empty, outcome="not_applicable", reason=f"no weight has a gradient; {words}")
        return
    found = kappa(whole, x, direction)
    if found.value == 0:
        yield replace(empty, outcome="not_applicable", reason=f"no weight with a gradient reaches its last state; {words}")
        return
    steps = [*STEPS, *([plan.update.rate] if plan.update.rate else [])]
    numbers: dict[str, float | str] = {f"kappa_in_a_step_of_{s:g}": rounded(_size(whole, x, direction, s)) for s in steps}
    numbers |= {"batches": float(batches), "weights": float(sum(w.numel() for w in weights.values()))}
    yield _compared(replace(empty, outcome="observed", measured=rounded(found.value), samples=batches, numbers=numbers,
                            reason="; ".join(w for w in (found.words, words) if w)), found.value, plan.update.predicted)  # fmt: skip
    yield Experiment("update", "learning rate at which one unwarmed step replaces the last state, 1/κ", "observed", measured=rounded(1 / found.value))
    for group, names in _groups(plan, whole):
        alone = {n: direction[n] for n in names if n in direction}
        yield _group(group, kappa(whole, x, alone).value if alone else 0.0, found.value, _rms([weights[n].detach() for n in names]))


def _rms(weights: Sequence[Tensor]) -> float:
    """Over all entries of some weights."""
    return math.sqrt(math.fsum(float(w.double().square().sum()) for w in weights) / max(sum(w.numel() for w in weights), 1))


def _group(group: str, part: float, whole: float, size: float) -> Experiment:
    moved = f"their rms is {size:.3g}, of which a step of 0.001 is {0.1 / size:.2g} %" if size else "they start at 0"
    numbers: dict[str, float | str] = {"share": rounded(part / whole), "rms_weight": rounded(size)}
    numbers |= {"relative_step": rounded(1 / size)} if size else {}
    return Experiment("update", "κ of these weights alone", "observed", group=group, measured=rounded(part), numbers=numbers,
                      reason=f"{part / whole:.0%} of κ; {moved}")  # fmt: skip


def _compared(e: Experiment, measured: float, predicted: float | None) -> Experiment:
    """Beside the derivation, where there is one. κ of one network and one task varies, so that a larger difference refutes nothing."""
    if predicted is None or predicted <= 0:
        return e
    apart = max(measured / predicted, predicted / measured)
    if apart <= FACTOR:
        return replace(e, outcome="confirmed")
    return replace(e, reason=f"{apart:.2g} times from its derivation, which takes gradients of different tokens as independent; {e.reason}")


def kappa(whole: Whole, x: Tensor, direction: Mapping[str, Tensor]) -> Kappa:
    """Along one direction: by forward differentiation where every op has it."""
    try:
        state, moved = whole.derivative(x, direction)
        return Kappa(_over(moved, state))
    except (RuntimeError, NotImplementedError) as error:
        lost = type(error).__name__
    step = 1e-5
    rough = _central(whole, x, direction, step)
    step = 1e-3 / rough if rough else step
    one, other = _central(whole, x, direction, step), _central(whole, x, direction, step / 4)
    apart = abs(one - other) / max(one, 1e-30)
    linear = "where it is linear" if apart <= LINEAR else f"where it is not linear: {other:.3g} at a quarter of it"
    return Kappa(one, f"by differences at a step of {step:.1g} ({lost} in forward differentiation), {linear}")


def _central(whole: Whole, x: Tensor, direction: Mapping[str, Tensor], step: float) -> float:
    up, down = whole.move(x, direction, step), whole.move(x, direction, -step)
    return _over((up - down) / (2 * step), (up + down) / 2)


def _size(whole: Whole, x: Tensor, direction: Mapping[str, Tensor], step: float) -> float:
    """rms(δh)/(η·rms(h)) of a whole step."""
    state = whole.move(x, {}, 0.0)
    return _over((whole.move(x, direction, step) - state) / step, state)


def _over(moved: Tensor, state: Tensor) -> float:
    return float(moved.double().square().mean().sqrt() / state.double().square().mean().sqrt())


def _groups(plan: ProbePlan, whole: Whole) -> Iterator[tuple[str, list[str]]]:
    """Groups of the plan with the names of the run; of stacked copies each has the names of the block."""
    table = {name: group for group, names in plan.update.groups for name in names}
    found: dict[str, list[str]] = {}
    for name in whole.names:
        own = name.removeprefix("model.")
        own = own.partition(".")[2] if isinstance(whole.module.model, torch.nn.ModuleList) else own
        found.setdefault(table.get(own, "other maps"), []).append(name)
    yield from sorted(found.items())


__all__ = ["Kappa", "kappa", "updates"]
