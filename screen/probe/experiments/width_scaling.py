"""Experiment `coordinates`: how the numbers inside of one block go with its width (the coordinate check of Yang et al. 2022, "Tensor Programs V").

    at the start     root mean square of the stream after the block, of what each branch adds, and of the logits of each attention
    after one step   root mean square of the change of what each branch adds, when every weight W of the block becomes W − lr·sign(∂L/∂W), which is
                     Adam's first step; L a random linear function of the block's output, lr = 1e-4 at every width

at three or four widths with fresh weights. The exponent is a least-squares slope of logarithms with two standard errors, over all widths and seeds.
It decides the verdict: a growth is named when the whole interval lies above `FLAT`. A number that grows with width at a fixed lr asks for a
learning rate that shrinks with it; nothing is predicted here, and nothing is confirmed.

A config is made wider by its heads and the sizes inside (`capture.build.width`). Of a class or a function the first whole number is taken that,
halved, halves the stream's width and leaves the program as it is; everything else, the number of heads too, stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from screen.capture.build.width import same_ops
from screen.errors import UsageError
from screen.graph import Graph
from screen.probe.budget.allocation import Key, Want
from screen.probe.budget.budget import BUILT, CALL, load_of
from screen.probe.depth.fits import fitted, mean
from screen.probe.measure.attention import logits
from screen.probe.measure.leaves import Missing, Watch
from screen.probe.measure.parted import traced
from screen.probe.measure.replay import Env
from screen.probe.measure.session import Session, tried
from screen.probe.measure.stack import Stack
from screen.probe.plan.types import BlockPlan, Experiment, rounded

SEEDS = 3
WIDTHS = 4
LR = 1e-4
"""Of the signed step: small, so that what it changes is linear in it."""
FLAT = 0.1
"""Exponents up to this are told as no growth (0.02 to 0.05 is what a finite width adds)."""
LARGEST = 1024
"""The widest that is built, where the model itself is wider."""
LEAST = 3
"""Widths that an exponent needs."""
WORK = 16.0
"""Operations for a weight and a token at one width and seed: forward, backward, forward again, twice over."""
DRAWING = 200.0
"""Operations for each weight: drawn, signed, moved."""
Maker = Callable[[Mapping[str, Any]], Session | None]
"""The same program with other settings, each built once."""
Values = dict[tuple[str, str], dict[int, list[float]]]
"""(what, sublayer) -> width -> one number for each seed."""


@dataclass(frozen=True)
class Family:
    """Settings of a model for each width, the model's own among them or not, and words for how it is made wider."""

    settings: Mapping[int, Mapping[str, Any]]
    words: str


def ladder(own: int, step: int) -> list[int]:
    """Up to `WIDTHS` multiples of `step` at about equal ratios, from two steps (or one, where there are few) to the model's own width."""
    top = max(min(own, LARGEST) // step, WIDTHS)
    low = 2 if top >= 6 else 1
    return sorted({step * round(low * (top / low) ** (k / (WIDTHS - 1))) for k in range(WIDTHS)})


def family(plan: BlockPlan, session: Session, made: Maker) -> Family:
    """How the model is made narrower. Raises `Missing`."""
    built, graph = session.built, session.trace.graph
    if built.again is None:
        raise Missing("a live model cannot be built at another width: name its class")
    if built.sizes is not None:
        try:
            sizes = built.sizes()
        except UsageError as error:
            raise Missing(error.found) from None
        settings = {w: sizes.settings(w) for w in ladder(sizes.main, sizes.step)}
        return Family(settings, "heads and sizes inside go with the width")
    own = _features(plan, graph)
    for name, value in built.integers.items():
        parts = [n for n in (8, 4, 2, 1) if value % n == 0 and value // n > 1]
        if len(parts) < LEAST or (half := made({name: value // 2})) is None:
            continue
        if _features(plan, half.trace.graph) * 2 == own:
            return Family({own // n: {name: value // n} for n in parts}, f"`{name}` alone is changed")
    raise Missing("no whole number among its arguments changes the width and nothing else: give its class one, with a default (or `--set` it)")


def _features(plan: BlockPlan, graph: Graph) -> int:
    return (graph.nodes[plan.entry].shape or (0,))[plan.axis]


def each_once(session: Session, same: bool = True) -> Maker:
    """`at` for one session, with what was built kept."""
    kept: dict[str, Session | None] = {}

    def made(settings: Mapping[str, Any]) -> Session | None:
        key = repr(sorted(settings.items()))
        if key not in kept:
            kept[key] = at(session, settings, same)
        return kept[key]

    return made


def at(session: Session, settings: Mapping[str, Any], same: bool = True) -> Session | None:
    """The same program with other sizes; None where it is another program (unless that is asked for with `same` = False) or none."""
    assert session.built.again is not None
    try:
        with Watch() as watch:
            built = next(b for b in session.built.again(settings, {}) if b.name == session.built.name)
        trace = traced(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    except Exception:  # the user's code, with sizes that it may refuse
        return None
    alike = not same or same_ops(session.trace.graph, trace.graph)
    return replace(session, trace=trace, built=built, watch=watch) if alike else None


def widened(plans: tuple[BlockPlan, ...], session: Session) -> Iterator[Experiment]:
    """The experiment on every block, or why it was not made."""
    made = each_once(session)
    for plan in plans:
        empty = Experiment("coordinates", "numbers inside of the block over its width", "not_measured", plan.stream, plan.kind)
        yield from tried(partial(coordinates, plan, session, made), [empty], session.budget, _key(plan))


def wants(plan: BlockPlan, session: Session) -> Iterator[Want]:
    """The whole experiment, from the block at its own width: weights go with its square, and all widths take twice the widest. Every width is built
    and traced, once for all blocks."""
    graph = session.trace.graph
    load, own = load_of(graph, [plan.exit, *plan.outputs], [plan.entry, *plan.cuts]), _features(plan, graph)
    top = max(ladder(own, 1)) if own > LARGEST else own
    work = 2.0 * SEEDS * load.weights * (top / max(own, 1)) ** 2 * (WORK * load.tokens + DRAWING) + WIDTHS * 2.0 * SEEDS * load.values
    yield Want(_key(plan), (work / session.budget.rate + WIDTHS * (2.0 * SEEDS * CALL * load.calls + BUILT * len(graph.nodes)),))


def _key(plan: BlockPlan) -> Key:
    return "coordinates", plan.exit, ""


def coordinates(plan: BlockPlan, session: Session, made: Maker) -> list[Experiment]:
    """All numbers over all widths. Raises `Missing`."""
    found = family(plan, session, made)
    values: Values = {}
    words = found.words
    for width, settings in sorted(found.settings.items()):
        if (there := made(settings)) is None:
            continue
        stack = Stack(plan, there.material())
        x, said = stack.start(True)
        for seed in range(SEEDS):
            for key, number in _numbers(stack, x, seed).items():
                values.setdefault(key, {}).setdefault(width, []).append(number)
        words = f"{found.words}; {said}"
    if max((len(v) for v in values.values()), default=0) < LEAST:
        raise Missing(f"fewer than {LEAST} widths between which heads stay whole and the program the same")
    return [_law(plan, *key, numbers, words) for key, numbers in values.items()]


def _numbers(stack: Stack, x: Tensor, seed: int) -> dict[tuple[str, str], float]:
    """One network at one width, before and after one signed step."""
    plan, nodes = stack.plan, stack.material.tape.graph.nodes
    leaves = stack.drawn(1, seed)
    weights = {i: t.requires_grad_(True) for i, t in leaves.items() if nodes[i].op == "parameter" and t.is_floating_point()}
    with torch.enable_grad():
        env = stack.run(x, leaves)
        out = env[plan.exit]
        g = torch.randn(out.shape, generator=stack.material.generator(plan.exit, 700 + seed), dtype=torch.float64).to(out.device, out.dtype)
        grads = torch.autograd.grad((out * g).sum(), list(weights.values()), allow_unused=True)
    moved: Env = {i: w.detach() if d is None else w.detach() - LR * d.sign() for (i, w), d in zip(weights.items(), grads, strict=True)}
    with torch.no_grad():
        after = stack.run(x, {**leaves, **moved})
    numbers = {("rms of the stream after the block", ""): _rms(out)}
    for name, node in zip(plan.names, plan.outputs, strict=False):
        numbers["rms of what the branch adds", name] = _rms(env[node])
        numbers["rms of its change after one signed step", name] = _rms(after[node] - env[node])
    for name, node in plan.softmaxes:
        u = logits(stack.material.tape.graph, node, {**env, plan.entry: x})
        if u is not None:
            numbers["rms of the logits of the attention", name] = _rms(u[torch.isfinite(u)])
    return numbers


def _rms(t: Tensor) -> float:
    return float(t.detach().square().mean().sqrt()) if t.numel() else math.nan


def _law(plan: BlockPlan, what: str, sublayer: str, values: dict[int, list[float]], words: str) -> Experiment:
    """The exponent of one number, its ratio over the widths, and the verdict."""
    empty = Experiment(
        "coordinates", f"{what}, exponent of width", "observed", plan.stream, plan.kind, sublayer, samples=sum(map(len, values.values())),
        numbers={f"at_{w}": rounded(mean(v)) for w, v in values.items()},
    )  # fmt: skip
    points = [(math.log(w), math.log(v)) for w, found in values.items() for v in found if math.isfinite(v) and v > 0]
    if len(points) < empty.samples:
        return replace(empty, outcome="not_applicable", reason="a value is zero (an output that starts at zero) or leaves the range of floats")
    slope, error, _ = fitted(points)
    ratios = [b / a for a, b in zip(values[min(values)], values[max(values)], strict=True)]
    numbers = {
        **empty.numbers, "standard_error": rounded(error), "ratio": rounded(mean(ratios)), "ratio_low": rounded(min(ratios)),
        "ratio_high": rounded(max(ratios)), "smallest_width": float(min(values)), "largest_width": float(max(values)), "lr": LR,
    }  # fmt: skip
    said = verdict(slope - 2 * error, slope + 2 * error, slope)
    ratio = f"ratio {mean(ratios):.3g} [{min(ratios):.3g}, {max(ratios):.3g}] between widths {min(values)} and {max(values)}"
    reason = f"{said}; {ratio}; {words}"
    return replace(empty, measured=rounded(slope), interval=(rounded(slope - 2 * error), rounded(slope + 2 * error)), numbers=numbers, reason=reason)


def verdict(low: float, high: float, slope: float) -> str:
    """What an exponent between two numbers says."""
    if low > FLAT:
        return f"grows like width^{slope:.2f}"
    if high < -FLAT:
        return f"shrinks like width^{slope:.2f}"
    if high <= FLAT:
        return "does not grow with width"
    return "cannot be told: the interval holds growth and none"


__all__ = ["coordinates", "each_once", "family", "ladder", "verdict", "wants", "widened"]
