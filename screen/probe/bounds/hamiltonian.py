"""Experiment `bounds`, Hamiltonian: no output of the branch has a larger −⟨P, F(x)⟩ than H(P) = Σ_j r‖CΓp_j‖ − ⟨p_j, b⟩, for P at which its own
output would be the maximiser, and for random P; weights before the norm and inputs grow without limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from screen.probe.measure.branch import BranchRun
from screen.probe.measure.replay import Env
from screen.probe.plan.types import Experiment, HamiltonianPlan, rounded

SAID = "largest −⟨P, F(x)⟩ over the Hamiltonian H(P)"
GROWTH = (1.0, 1e2, 1e4)
"""Factors on inputs and on weights before the norm."""


def hamiltonian(
    run: BranchRun, movable: Callable[[BranchRun, frozenset[str]], Env], blurred: Callable[[BranchRun, Env], bool], allowed: float
) -> Iterator[Experiment]:
    """The best attempt; nothing where the branch has no such form."""
    form = run.plan.hamiltonian
    if form is None:
        return
    free = movable(run, frozenset(name for _, name, _ in form.steps))
    gain, bias = affine(run, form)
    best, count = (0.0, 0.0, 0.0), 0
    for factor in GROWTH:
        given = {i: t * factor for i, t in (*free.items(), *run.point.items())}
        with torch.no_grad():
            env = run.values(given)
        out = env[run.plan.output]
        if not bool(torch.isfinite(out).all()) or blurred(run, {**given, **env}):
            continue
        f, count = out.reshape(-1, form.width), count + 1
        for p in _directions(run, f, gain, bias):
            measured, bound = -float((p * f).sum()), value(form, p, gain, bias)
            if measured > 0 and bound > 0:
                best = max(best, (measured / bound, measured, bound))
    yield _verdict(run, best, count, allowed)


def _directions(run: BranchRun, f: Tensor, gain: Tensor, bias: Tensor) -> Iterator[Tensor]:
    """P for which f is the maximiser of a norm without ε: p = −Γ⁻²(f − b); and a random one."""
    safe = torch.where(gain.abs() > 1e-9 * gain.abs().amax(), gain, torch.inf)
    yield -(f - bias) / safe / safe
    yield run.directions(1, 7)[0].reshape(f.shape)


def affine(run: BranchRun, form: HamiltonianPlan) -> tuple[Tensor, Tensor]:
    """(Γ, b) behind the norm."""
    gain, bias = (torch.full((form.width,), v, dtype=run.material.tape.dtype, device=run.material.tape.device) for v in (1.0, 0.0))
    for kind, name, number in form.steps:
        step = number if kind == "scale" else run.weight(name).reshape(-1) + number
        gain, bias = (gain, bias + step) if kind == "bias" else (gain * step, bias * step)
    return gain, bias


def value(form: HamiltonianPlan, p: Tensor, gain: Tensor, bias: Tensor) -> float:
    """H(P). p: [tokens, width]."""
    turned = p * gain
    turned = turned - turned.mean(-1, keepdim=True) if form.centred else turned
    return float(form.radius * torch.linalg.vector_norm(turned, dim=-1).sum() - (p @ bias).sum())


def _verdict(run: BranchRun, best: tuple[float, float, float], count: int, allowed: float) -> Experiment:
    plan, (ratio, measured, bound) = run.plan, best
    found = Experiment("bounds", SAID, "not_measured", plan.stream, plan.kind, plan.name, status="all weights", predicted="at most 1", samples=count)
    if not ratio:
        return replace(found, reason="no point gave a finite output with a positive value")
    broken = ratio > 1 + allowed
    numbers = {"attempt": rounded(measured), "bound": rounded(bound)}
    reason = f"{measured:.3g} was reached where H(P) is {bound:.3g}" if broken else ""
    return replace(found, outcome="refuted" if broken else "confirmed", measured=rounded(ratio), numbers=numbers, reason=reason)


__all__ = ["affine", "hamiltonian", "value"]
