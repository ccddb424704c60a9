"""Experiment `bounds`: random and ascended inputs, and scaled weights, against every bound of a branch; one success is a fault of the analysis.

    magnitude         sup over tokens of ‖F(x)‖₂
    lipschitz         ‖∂F/∂x‖ from block-∞ to block-∞, over all inputs; lipschitz_local with the divisors of norms measured at the point
    logits            the largest |logit|

What is measured is always from below, so that measured / bound above 1 refutes. The Jacobian's norm from one output token i is the largest
Σ_j ‖(Jᵀ(e_i ⊗ u))_j‖₂ over unit u; alternating between u and the input direction only raises it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from screen.probe.attention import bounded_logit
from screen.probe.branch import BranchRun, fibre
from screen.probe.measures import evaluate, quantity, symbols
from screen.probe.plan import BoundPlan, DegreePlan, Experiment, rounded
from screen.probe.replay import Env

SLACK = 1e-6
"""Relative rounding that is allowed beyond a bound."""
SCALES = (0.5, 2.0, 8.0)
STEPS, TURNS, DRAWS = 8, 3, 2
SAID = {
    "magnitude": "largest ‖F(x)‖ over its bound", "lipschitz": "largest ‖J‖ over its bound",
    "lipschitz_local": "largest ‖J‖ over its bound at the point", "logits": "largest logit over its bound",
}  # fmt: skip


@dataclass
class Best:
    """The best attempt against one bound."""

    ratio: float = 0.0
    measured: float = 0.0
    bound: float = math.inf
    attempts: int = 0

    def take(self, measured: float, bound: float) -> None:
        """One attempt."""
        self.attempts += 1
        ratio = 0.0 if measured == 0 else measured / bound if bound > 0 else math.inf
        if ratio > self.ratio or self.attempts == 1:
            self.ratio, self.measured, self.bound = ratio, measured, bound


Attempts = dict[tuple[str, int], Best]
"""(bound, node) -> the best attempt against it."""


def attack(run: BranchRun) -> list[Experiment]:
    """Every bound of the branch against random and ascended inputs."""
    best: Attempts = {(b.name, b.node): Best() for b in run.plan.bounds}
    numbers = weights_of(run, {})
    starts = [run.point, *({i: run.material.normal(i, 10 + n, size) for i in run.point} for n, size in zip(range(DRAWS), (0.3, 8.0), strict=True))]
    for start in starts:
        for point in (start, ascended(run, start, lambda x: fibre(run.output(x))), ascended(run, start, lambda x: _slope(run, x))):
            compare(run, {}, point, numbers, best)
    return [verdict(run, bound, best[bound.name, bound.node]) for bound in run.plan.bounds]


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
        compare(run, given, run.point, base | weights_of(run, given, changed), best)
    found = verdict(run, local, best[local.name, local.node])
    return replace(found, name="invariance", group=degree.group, status="bound", what="largest ‖J(c)‖ over its bound at the point")


def weights_of(run: BranchRun, given: Env, only: list[str] | None = None) -> dict[str, float]:
    """Numbers of the symbols that stand for weights."""
    wanted = {s for b in run.plan.bounds for s in symbols(b)}
    found = {}
    for q in run.plan.quantities:
        if q.symbol in wanted and q.parameter in run.names and (only is None or q.parameter in only):
            node = run.names[q.parameter]
            found[q.symbol] = quantity(q, given[node] if node in given else run.leaves[node])
    return found


def compare(run: BranchRun, given: Env, point: Env, numbers: dict[str, float], best: Attempts) -> None:
    """Everything that is measured at a point against every bound asked for. A point whose output is not finite is no attempt."""
    with torch.no_grad():
        env = run.values({**given, **point})
    out = env[run.plan.output]
    if not bool(torch.isfinite(out).all()):
        return
    values, local = _sizes(run, point, numbers), {}
    for norm in run.plan.norms:
        rho = run.divisors(norm, {**point, **env})
        values[norm.symbol] = norm.least or 1e-300
        local[norm.symbol] = values[norm.symbol] if rho is None else max(float(rho.min()) * (1 - 1e-9), norm.least or 1e-300)
    slope: float | None = None
    for bound in run.plan.bounds:
        if (bound.name, bound.node) not in best:
            continue
        symbols_at = {**values, **local} if bound.name == "lipschitz_local" else values
        symbols_at |= {s: 1.0 for s in symbols(bound) if s.startswith("theta_")}
        if bound.name.startswith("lipschitz"):
            slope = jacobian(run, given, point) if slope is None else slope
        measured = slope if bound.name.startswith("lipschitz") else float(fibre(out)) if bound.name == "magnitude" else _logit(run, bound, env)
        if measured is not None and math.isfinite(measured):
            best[bound.name, bound.node].take(measured, evaluate(bound, symbols_at))


def _logit(run: BranchRun, bound: BoundPlan, env: Env) -> float | None:
    return bounded_logit(run.material.tape.graph, bound.node, env)


def _sizes(run: BranchRun, point: Env, numbers: dict[str, float]) -> dict[str, float]:
    """B of each kind of cut."""
    kinds = dict(run.plan.cuts)

    def size(kind: str) -> float:
        return max((float(fibre(t)) for i, t in point.items() if kinds[i] == kind), default=0.0)

    return {**numbers, "B": size("own"), "B_memory": size("memory"), "B_earlier": size("earlier")}


def jacobian(run: BranchRun, given: Env, point: Env) -> float:
    """‖J‖ from block-∞ to the last output token, from below, by alternation between the output and the input direction."""
    sources = {i: point[i].detach().clone().requires_grad_(True) for i in run.own}
    with torch.enable_grad():
        out = run.output({**given, **point, **sources})
        token = out.reshape(-1, out.shape[-1])[-1]
        u = run.directions(1, 1)[0].reshape(-1, out.shape[-1])[-1]
        best = 0.0
        for _ in range(TURNS):
            u = (u / u.norm().clamp(min=1e-300)).detach().requires_grad_(True)
            if not token.requires_grad:
                return 0.0
            grads = [g for g in torch.autograd.grad((token * u).sum(), list(sources.values()), create_graph=True, allow_unused=True) if g is not None]
            best = max(best, sum(float(g.detach().norm(dim=-1).sum()) for g in grads))
            inner = sum((g * (g / g.norm(dim=-1, keepdim=True).clamp(min=1e-300)).detach()).sum() for g in grads)
            if not isinstance(inner, Tensor) or not inner.requires_grad:
                break
            (u,) = torch.autograd.grad(inner, u, retain_graph=True)
    return best


def _slope(run: BranchRun, point: Env) -> Tensor:
    """Σ_j ‖(Jᵀ(e_i ⊗ u))_j‖ for one fixed u, with its gradient in the point."""
    out = run.output(point)
    u = run.directions(1, 1)[0].reshape(-1, out.shape[-1])[-1]
    sources = [point[i] for i in run.own]
    scalar: Tensor = (out.reshape(-1, out.shape[-1])[-1] * u / u.norm()).sum()
    if not scalar.requires_grad:
        return scalar
    grads = torch.autograd.grad(scalar, sources, create_graph=True, allow_unused=True)
    total: Tensor = scalar * 0.0
    for g in grads:
        if g is not None:
            total = total + (g.square().sum(-1) + 1e-300).sqrt().sum()
    return total


def ascended(run: BranchRun, start: Env, objective: Callable[[Env], Tensor]) -> Env:
    """Steps of normalised gradient on every cut, each relative to its size; the best point."""
    point, best, top, rate = dict(start), dict(start), -math.inf, 0.5
    for _ in range(STEPS):
        fresh = {i: t.detach().clone().requires_grad_(True) for i, t in point.items()}
        with torch.enable_grad():
            value = objective(fresh)
        reached = float(value.detach())
        if not math.isfinite(reached) or not value.requires_grad:
            break
        if reached > top:
            best, top = {i: t.detach() for i, t in fresh.items()}, reached
        else:
            rate *= 0.6
        grads = torch.autograd.grad(value, list(fresh.values()), allow_unused=True)
        point = {i: _stepped(t.detach(), g, rate) for (i, t), g in zip(fresh.items(), grads, strict=True)}
    return best


def _stepped(x: Tensor, grad: Tensor | None, rate: float) -> Tensor:
    if grad is None or not bool(torch.isfinite(grad).all()):
        return x
    step: Tensor = x.norm(dim=-1, keepdim=True) * grad / grad.norm(dim=-1, keepdim=True).clamp(min=1e-300)
    return x + rate * step


def verdict(run: BranchRun, bound: BoundPlan, best: Best) -> Experiment:
    """The best attempt as a fraction of the bound."""
    plan = run.plan
    found = Experiment("bounds", SAID[bound.name], "not_measured", plan.stream, plan.kind, plan.name, predicted="at most 1", samples=best.attempts)
    if not best.attempts:
        return replace(found, reason="no point gave a finite output")
    if best.measured == 0:
        return replace(found, outcome="not_applicable", measured=0.0, reason="nothing but 0 was measured (an output that starts at zero)")
    broken = best.ratio > 1 + SLACK
    numbers = {"attempt": rounded(best.measured), "bound": rounded(best.bound)}
    reason = f"{best.measured:.3g} was reached where the bound is {best.bound:.3g}" if broken else ""
    return replace(found, outcome="refuted" if broken else "confirmed", measured=rounded(best.ratio), numbers=numbers, reason=reason)


__all__ = ["attack", "jacobian", "scaled"]
