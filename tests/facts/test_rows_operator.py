"""What the linear operator of the stream says of a call: y = Σ P x + rest. By differences in float64 the gain of Σ P is what it is said to be where
nothing is left over, and no call that is linear in x, by a matrix without weights, is told as one that carries nothing."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.facts.operator.forms import _BY_CLASS, _BY_OP, Form, Forms
from screen.ops import CLASSES
from screen.structure.norms.find import Norms
from tests.rows.block import Call
from tests.rows.table import BY_OP, CALLS


def read(call: Call) -> dict[int, Form]:
    """The form of each of the call's nodes, cut at what the call reads."""
    flow = call.region.branch.flow
    source = next(n.index for n in flow.graph.nodes if n.op == "linear" and n.inputs[0] == 0)
    forms = Forms(flow, Norms(flow), frozenset({source}))
    return {n.index: forms.of(n.index) for n in call.results if n.index in call.region.steps and flow.data[n.index]}


def values(call: Call, x: Tensor, weights: dict[str, Tensor]) -> dict[int, Tensor]:
    """The call's nodes at x, the same draws wherever something is drawn."""
    torch.default_generator.manual_seed(3)
    found = call.region.run(dict.fromkeys(call.region.leaves, x), weights, copies=True)
    return {n.index: found[n.index] for n in call.results if n.index in found}


def linear(at: list[Tensor]) -> bool:
    """Whether f(a + b) + f(0) = f(a) + f(b), and f moves. at: f of 0, a, b, a + b."""
    if not at[0].is_floating_point() and not at[0].is_complex():
        return False
    return torch.allclose(at[3] + at[0], at[1] + at[2], rtol=1e-9, atol=1e-9) and not torch.allclose(at[0], at[1])


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_gains_are_measured(call: Call) -> None:
    torch.default_generator.manual_seed(0)
    weights = {n: torch.randn(s, dtype=torch.float64) for n, s in call.region.shapes().items()}
    weights["first.weight"] = torch.eye(call.shape[-1], dtype=torch.float64)
    a, b = (10 * torch.randn(call.shape, dtype=torch.float64) for _ in range(2))
    with sdpa_kernel(SDPBackend.MATH):
        tried = [values(call, x, weights) for x in (torch.zeros_like(a), a, b, a + b)]
    for node, form in read(call).items():
        at = [v[node] for v in tried]
        carries = bool(form.terms) or form.lost is not None
        if linear(at) and not call.weights and CLASSES.get(call.op) != "activation":  # a clamp that is not reached
            assert carries, f"node {node} is linear, and said to carry nothing"
        if not form.terms or form.rest is not None or form.lost is not None or not all(bool(torch.isfinite(y).all()) for y in at):
            continue
        atoms = [atom for p in form.terms.values() for monomial, _ in p.terms for atom in monomial]
        averages = any(atom.kind == "average" for atom in atoms)
        order = math.inf if any(atom.kind == "gate" and not atom.uniform for atom in atoms) else 2  # x where m, else x at another place: √2 in 2-norm
        short = math.sqrt(a.numel() / at[0].numel()) if averages else 1.0  # an average stands for itself in the place of each that it averages
        gains = [p.gain for p in form.terms.values()]
        for y, x in zip(at[1:], (a, b, a + b), strict=True):
            moved = float(torch.linalg.vector_norm((y - at[0]).abs(), order))
            assert short * moved <= sum(g.high for g in gains) * float(torch.linalg.vector_norm(x, order)) * (1 + 1e-9)
        if linear(at) and len(gains) == 1 and math.isfinite(gains[0].high):
            made = [values(call, e.view(call.shape), weights)[node] - at[0] for e in torch.eye(a.numel(), dtype=torch.float64)]
            columns = torch.stack([(torch.view_as_real(y.resolve_conj()) if y.is_complex() else y).flatten() for y in made])
            top = short * float(torch.linalg.svdvals(columns)[0])
            assert gains[0].low * (1 - 1e-9) <= top <= gains[0].high * (1 + 1e-9)


def test_every_rule_has_a_call() -> None:
    assert set(_BY_OP) - set(BY_OP) == set()
    assert {CLASSES[op] for op in BY_OP if op in CLASSES and op not in _BY_OP} >= set(_BY_CLASS)
