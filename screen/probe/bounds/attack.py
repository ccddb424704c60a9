"""Experiment `bounds`: inputs and weights against every bound of a branch; one success is a fault of the analysis.

    magnitude         sup over tokens of ‖F(x)‖₂
    lipschitz         ‖∂F/∂x‖ from block-∞ to block-∞, over all inputs; lipschitz_local with the divisors of norms measured at the point
    logits            the largest |logit|
    internal          the largest |entry| of any value of the branch that carries data
    closed            magnitude or logits over all weights but the gains and biases of norms: the bound with every other symbol at infinity

A bound is a function of norms of the weights (of maps with a norm's gain folded in, of weights that are divided by a norm), of the divisors of norms
and of the spread of what a softmax weighs. All of them are measured again at every place, so that any weights are inside of the set that it
speaks of. What is measured is always from below, so that measured / bound above 1 refutes. The Jacobian's norm from one output token i is the largest
Σ_j ‖(Jᵀ(e_i ⊗ u))_j‖₂ over unit u; alternating between u and the input direction only raises it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from screen.probe.bounds.arrays import Arrays
from screen.probe.bounds.ascent import Objective, Spot, climbed, inner, jacobian, logit, size, slope
from screen.probe.bounds.hamiltonian import hamiltonian
from screen.probe.bounds.point import divisor, half_diameter, largest_entry, norm_blur, spread_blur
from screen.probe.bounds.weight_norms import evaluate, is_exact, quantity, slack, symbols
from screen.probe.measure.attention import bounded_logit
from screen.probe.measure.branch import BranchRun, fibre
from screen.probe.measure.replay import Env
from screen.probe.plan.types import BoundPlan, DegreePlan, Experiment, QuantityPlan, rounded

SCALES = (0.5, 2.0, 8.0)
SIZES = (1.0, 8.0, 1e-4)
"""Of the random inputs that ascent starts from. The smallest lets a norm feel its ε, where its slope is largest."""
STEPS = 8
ROUNDS = (3, 5)
"""Steps of ascent: on inputs; and on inputs and weights, with a comparison after each round."""
GROWTH = (1.0, 1e2, 1e4)
"""Factors on the free weights against a bound over all weights."""
SAID = {
    "magnitude": "largest ‖F(x)‖ over its bound", "lipschitz": "largest ‖J‖ over its bound",
    "lipschitz_local": "largest ‖J‖ over its bound at the point", "logits": "largest logit over its bound",
    "internal": "largest entry inside over its bound",
}  # fmt: skip
SCALED = "largest ‖J(c)‖ over its bound at the point"
CLOSED = {
    "magnitude": "largest ‖F(x)‖ over its bound for all weights but norm gains",
    "logits": "largest logit over its bound for all weights but norm gains",
}


@dataclass
class Best:
    """The best attempt against one bound."""

    ratio: float = 0.0
    measured: float = 0.0
    bound: float = math.inf
    attempts: int = 0
    spot: Spot | None = None
    by: dict[str, float] = field(default_factory=dict)
    """What was moved -> the best ratio."""

    def take(self, measured: float, bound: float, spot: Spot | None = None, moved: str = "inputs") -> None:
        """One attempt."""
        self.attempts += 1
        ratio = 0.0 if measured == 0 else measured / bound if bound > 0 else math.inf
        self.by[moved] = max(self.by.get(moved, 0.0), ratio)
        if ratio > self.ratio or self.attempts == 1:
            self.ratio, self.measured, self.bound, self.spot = ratio, measured, bound, spot


Attempts = dict[tuple[str, int], Best]
"""(bound, node) -> the best attempt against it."""


def attack(run: BranchRun) -> list[Experiment]:
    """Every bound of the branch, first against inputs, then against inputs and weights from the best of them."""
    best: Attempts = {(b.name, b.node): Best() for b in run.plan.bounds}
    numbers = weights_of(run, {})
    for place, scale in enumerate(SIZES):
        start = Spot(run.point if place == 0 else {i: run.material.normal(i, 9 + place, scale) for i in run.point})
        for spot in (start, *(climbed(start, objective, STEPS) for objective in _objectives(run, start))):
            compare(run, spot, numbers, best)
    for bound in run.plan.bounds:
        _on_weights(run, bound, best)
    return [*(verdict(run, b, best[b.name, b.node]) for b in run.plan.bounds), *closed(run), *hamiltonian(run, movable, blurred, allowed(run))]


def _objectives(run: BranchRun, spot: Spot) -> Iterator[Objective]:
    """What is climbed on inputs alone."""
    yield size(run)
    yield slope(run, jacobian(run, spot)[1])


def _on_weights(run: BranchRun, bound: BoundPlan, best: Attempts) -> None:
    """Inputs and weights from the best place so far, compared with all bounds on the way."""
    spot = best[bound.name, bound.node].spot
    given = movable(run, frozenset())
    if spot is None or not given:
        return
    spot = Spot(spot.point, given)
    for steps in ROUNDS:
        spot = climbed(spot, _objective(run, bound, spot), steps, list(given))
        compare(run, spot, weights_of(run, spot.given), best, "inputs and weights")


def _objective(run: BranchRun, bound: BoundPlan, spot: Spot) -> Objective:
    """What a bound is about."""
    if bound.name == "logits":
        return logit(run, bound.node)
    if bound.name == "internal":
        return inner(run)
    return size(run) if bound.name == "magnitude" else slope(run, jacobian(run, spot)[1])


def movable(run: BranchRun, held: frozenset[str]) -> Env:
    """Weights that may be anything, as they start; one that is all zero, which no gradient passes, as N(0, 1/length) for its last axis."""
    found: Env = {}
    for name, node in run.names.items():
        w = run.leaves[node]
        if name in held or not isinstance(w, Tensor) or not w.is_floating_point() or not w.dim():
            continue
        found[node] = w if bool(w.any()) else run.material.normal(node, 77, 1 / math.sqrt(w.shape[-1]))
    return found


def closed(run: BranchRun) -> Iterator[Experiment]:
    """Claims over all weights: growing weights against the bound with everything but norm gains and biases at infinity."""
    for bound in run.plan.plain:
        if bound.name in run.plan.closed:
            yield replace(_against_all(run, bound), what=CLOSED[bound.name], status="all weights")


def _against_all(run: BranchRun, bound: BoundPlan) -> Experiment:
    """A bound whose free symbols are infinite, as are the sizes of the inputs. What is divided by its own norm is measured at every place."""
    ones = dict.fromkeys(symbols(bound.program), 1.0)
    here = [q for q in run.plan.quantities if q.symbol in ones]
    owned = {q.symbol: q.part.parameter for q in here if not _rests(q)}
    held = frozenset(p for p in owned.values() if math.isinf(evaluate(bound.program, ones | {s: math.inf for s in owned if owned[s] == p})))
    given = [q for q in here if q.part.parameter in held or _rests(q)]
    free = dict.fromkeys(ones, math.inf) | {n.symbol: n.least or 1e-300 for n in run.plan.norms}
    limit = evaluate(bound.program, free | _numbers(run, given, {}))
    best = Best()
    matrix = next((p for p in sorted(held & set(run.names)) if sum(n > 1 for n in run.weight(p).shape) > 1), None)
    if matrix is not None or not math.isfinite(limit):
        why = f"it grows with the matrix `{matrix}`" if matrix else "it does not stay finite over all weights"
        return replace(verdict(run, bound, best), reason=f"the bound that is known is not one over all weights: {why}")
    moved = movable(run, held)
    objective = _objective(run, bound, Spot(run.point))
    for factor in GROWTH:
        start = Spot({i: t * factor for i, t in run.point.items()}, {i: w * factor for i, w in moved.items()})
        for spot in (start, climbed(start, objective, sum(ROUNDS), list(moved))):
            reached, env = _measured(run, bound, spot)
            if reached is not None and not blurred(run, {**spot.both, **env}):
                best.take(reached, evaluate(bound.program, free | _numbers(run, given, spot.given)), spot, "inputs and weights")
    return verdict(run, bound, best)


def _rests(q: QuantityPlan) -> bool:
    """Whether it does not grow with its weight: that is divided by its own norm, or by an estimate that has to converge."""
    return q.part.made is not None and q.part.made.how in ("share", "spectral", "frobenius")


def _measured(run: BranchRun, bound: BoundPlan, spot: Spot) -> tuple[float | None, Env]:
    """The magnitude or the logit that a bound is about, where it is finite, and all values."""
    with torch.no_grad():
        env = run.values(spot.both)
    reached = _reached(run, bound, {**spot.both, **env})
    return (reached if reached is not None and math.isfinite(reached) else None), env


def scaled(run: BranchRun, degree: DegreePlan, empty: Experiment) -> Experiment:
    """A degree of status `bound`: the value of ‖J‖ against its bound at the point, with the group scaled by each c."""
    local = next((b for b in run.plan.bounds if b.name == "lipschitz_local"), None)
    if local is None:
        why = next((w for what, w in run.plan.unknown if what == "lipschitz_local"), "no bound is known")
        return replace(empty, reason=f"a bound of the value, and no number is known for it: {why}")
    best: Attempts = {(local.name, local.node): Best()}
    changed = [n for n in (*degree.parameters, *(b for b, _ in degree.biases)) if n in run.names]
    base = weights_of(run, {})
    for c in SCALES:
        given = run.scaled(degree, c)
        compare(run, Spot(run.point, given), base | weights_of(run, given, changed), best)
    found = verdict(run, local, best[local.name, local.node])
    return replace(found, name="invariance", group=degree.group, status="bound", what=SCALED)


def weights_of(run: BranchRun, given: Env, only: list[str] | None = None) -> dict[str, float]:
    """Numbers of the symbols that stand for weights; `only`: those that some parameters change."""
    wanted = {s for b in run.plan.bounds for s in symbols(b.program)} | {s for p in run.plan.spreads for s in symbols(p.program)}
    chosen = [q for q in run.plan.quantities if q.symbol in wanted and (only is None or set(only) & set(q.part.parameters))]
    return _numbers(run, chosen, given)


def _numbers(run: BranchRun, quantities: list[QuantityPlan], given: Env) -> dict[str, float]:
    """Numbers of norms of weights, with some of the weights replaced; those whose weights the branch does not read are left out."""
    nodes = {**run.names, **run.buffers}
    values: dict[str, Tensor] = {name: given[node] if node in given else run.leaves[node] for name, node in nodes.items()}
    arrays = Arrays(values)
    return {q.symbol: quantity(q, arrays) for q in quantities if set(q.part.parameters) <= set(values)}


def compare(run: BranchRun, spot: Spot, numbers: dict[str, float], best: Attempts, moved: str = "inputs") -> None:
    """Everything that is measured at a place against every bound asked for. A place whose output is not finite, or is rounding, is no attempt."""
    with torch.no_grad():
        env = run.values(spot.both)
    out, everything = env[run.plan.output], {**spot.both, **env}
    if not bool(torch.isfinite(out).all()) or blurred(run, everything):
        return
    values = _sizes(run, spot.point, numbers) | {norm.symbol: norm.least or 1e-300 for norm in run.plan.norms}
    local = values | {norm.symbol: divisor(norm, everything) for norm in run.plan.norms}
    local |= _spreads(run, everything, local)
    steepest: float | None = None
    for bound in run.plan.bounds:
        if (bound.name, bound.node) not in best:
            continue
        symbols_at = local if bound.name == "lipschitz_local" else values
        symbols_at |= {s: 1.0 for s in symbols(bound.program) if s.startswith("theta_")}
        if bound.name.startswith("lipschitz"):
            steepest = jacobian(run, spot)[0] if steepest is None else steepest
        measured = steepest if bound.name.startswith("lipschitz") else _reached(run, bound, everything)
        if measured is not None and math.isfinite(measured):
            best[bound.name, bound.node].take(measured, evaluate(bound.program, symbols_at), spot, moved)


def _reached(run: BranchRun, bound: BoundPlan, values: Env) -> float | None:
    """What a bound of a value is about."""
    if bound.name == "magnitude":
        return float(fibre(values[run.plan.output]))
    if bound.name == "internal":
        return largest_entry(values.get(i) for i in run.plan.inside)
    return bounded_logit(run.material.tape.graph, bound.node, values)


def _spreads(run: BranchRun, values: Env, numbers: dict[str, float]) -> dict[str, float]:
    """Half the diameter of what each softmax weighs; where that is no tensor, the bound of it over all inputs."""
    found = {}
    for spread in run.plan.spreads:
        v = values.get(spread.node)
        found[spread.symbol] = half_diameter(v) if isinstance(v, Tensor) else evaluate(spread.program, numbers)
    return found


def blurred(run: BranchRun, env: Env) -> bool:
    """Whether a norm or a softmax reads values that are equal up to rounding: bounds are statements about real arithmetic."""
    read = [(norm, env.get(norm.source)) for norm in run.plan.norms]
    weighed = [env.get(s.node) for s in run.plan.spreads]
    shares = [norm_blur(norm, x) for norm, x in read if isinstance(x, Tensor)] + [spread_blur(v) for v in weighed if isinstance(v, Tensor)]
    return max(shares, default=0.0) > allowed(run)


def allowed(run: BranchRun) -> float:
    """Relative rounding that is allowed beyond a bound."""
    longest = max((max(t.shape, default=1) for t in run.leaves.values() if isinstance(t, Tensor)), default=1)
    return slack(run.material.tape.dtype, run.plan.ops, longest)


def _sizes(run: BranchRun, point: Env, numbers: dict[str, float]) -> dict[str, float]:
    """B of each kind of cut."""
    kinds = dict(run.plan.cuts)

    def largest(kind: str) -> float:
        return max((float(fibre(t)) for i, t in point.items() if kinds[i] == kind), default=0.0)

    return {**numbers, "B": largest("own"), "B_memory": largest("memory"), "B_table": largest("memory"), "B_earlier": largest("earlier")}


def verdict(run: BranchRun, bound: BoundPlan, best: Best) -> Experiment:
    """The best attempt as a fraction of the bound."""
    plan = run.plan
    found = Experiment("bounds", SAID[bound.name], "not_measured", plan.stream, plan.kind, plan.name, predicted="at most 1", samples=best.attempts)
    if not best.attempts:
        return replace(found, reason="no point gave a finite output")
    if best.measured == 0:
        return replace(found, outcome="not_applicable", measured=0.0, reason="nothing but 0 was measured (an output that starts at zero)")
    broken = best.ratio > 1 + allowed(run)
    numbers: dict[str, float | str] = {
        "attempt": rounded(best.measured),
        "bound": rounded(best.bound),
        **{moved: rounded(r) for moved, r in best.by.items()},
    }
    reason = "; ".join(f"{moved} {r:.3g}" for moved, r in best.by.items()) if len(best.by) > 1 else ""
    if not all(is_exact(q) for q in plan.quantities if q.symbol in symbols(bound.program)):
        numbers["norms"] = "upper bounds of spectral norms above 1024 rows, that fail with probability 1e-12"
    reason = f"{best.measured:.3g} was reached where the bound is {best.bound:.3g}" if broken else reason
    return replace(found, outcome="refuted" if broken else "confirmed", measured=rounded(best.ratio), numbers=numbers, reason=reason)


__all__ = ["SAID", "SCALED", "attack", "scaled"]
