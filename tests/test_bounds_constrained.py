"""Weights behind parametrisations of torch: what is said of the branch, and that real blocks keep to it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations as P

from screen.facts.bounds import bounds_of, values_of
from screen.facts.bounds.expr import Expr
from screen.facts.nouns import Unknown
from tests.test_bounds import WIDTH, Stack, branch_of, rms


def _linear(rows: int = WIDTH) -> nn.Linear:
    return nn.Linear(WIDTH, rows, bias=False)


def _old(name: str) -> Callable[[], nn.Module]:
    """The hooks that stood before parametrisations."""

    def make() -> nn.Module:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(nn.utils, name)(_linear())  # type: ignore[no-any-return]

    return make


def _orthogonal(kind: str, base: bool = True) -> Callable[[], nn.Module]:
    return lambda: P.orthogonal(_linear(), orthogonal_map=kind, use_trivialization=base)


class Wide(nn.Module):
    """A map to fewer features and back by the same orthonormal rows."""

    def __init__(self) -> None:
        super().__init__()
        self.map = P.orthogonal(_linear(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.map(x) @ self.map.weight


PROVEN: dict[str, Any] = {
    "weight": lambda: P.weight_norm(_linear()), "weight, old": _old("weight_norm"), "exp": _orthogonal("matrix_exp"),
    "exp alone": _orthogonal("matrix_exp", False), "cayley": _orthogonal("cayley"), "householder": _orthogonal("householder"), "rows": Wide,
}  # fmt: skip
DECLARED: dict[str, Any] = {"spectral": lambda: P.spectral_norm(_linear()), "spectral, old": _old("spectral_norm")}


def _real(make: Any) -> tuple[nn.Module, dict[str, np.ndarray]]:
    torch.manual_seed(1)
    model = Stack(make, rms).double().eval()
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return model, {k: v.detach().numpy() for k, v in state.items()}


def _largest(model: Any, scale: float) -> float:
    """The largest ‖F(x)‖ of many tokens, the singular vectors of its map among them."""
    x = torch.randn(400, 1, WIDTH, dtype=torch.float64) * scale

    def branch(t: torch.Tensor) -> torch.Tensor:
        return model.after[0](model.branches[0](model.before[0](t)))  # type: ignore[no-any-return]

    with torch.no_grad():
        basis = torch.eye(WIDTH, dtype=torch.float64).unsqueeze(1)
        jac = branch(basis).squeeze(1).T  # the norm of a basis vector is √d times it: columns of W
        _, _, v = torch.linalg.svd(jac)
        return float(torch.cat([branch(x), branch(v.unsqueeze(1))]).norm(dim=-1).max())


@pytest.mark.parametrize("name", [*PROVEN, *DECLARED])
def test_real_blocks_keep_to_the_bound_and_reach_it(name: str) -> None:
    make = {**PROVEN, **DECLARED}[name]
    found = bounds_of(branch_of(Stack(make, rms)))
    model, weights = _real(make)
    assert found.bounded is True and isinstance(found.magnitude, Expr)
    bound = found.magnitude.evaluate(values_of(found.quantities, weights))
    measured = _largest(model, 100.0)
    assert 0.95 * bound <= measured <= bound * (1 + 1e-9), (measured, bound)


@pytest.mark.parametrize("name", [*PROVEN])
def test_the_set_over_all_weights_is_bounded_by_structure(name: str) -> None:
    """However large the free weights: only what is held fixed counts."""
    found = bounds_of(branch_of(Stack(PROVEN[name], rms)))
    assert found.bounded is True and found.unproven == ()
    torch.manual_seed(2)
    model = Stack(PROVEN[name], rms).double().eval()
    held = {k: v.detach().numpy().copy() for k, v in {**dict(model.named_parameters()), **dict(model.named_buffers())}.items()}
    bound = found.plain(found.magnitude)
    assert isinstance(bound, Expr)
    top = bound.evaluate(values_of(found.plain_quantities, held))
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "before" not in key and not any(key in g for g in found.given):
                p.copy_(torch.randn_like(p) * 1e3)
    assert _largest(model, 1.0) <= top * (1 + 1e-9)


@pytest.mark.parametrize("name", [*DECLARED])
def test_spectral_norm_rests_on_a_condition(name: str) -> None:
    """With vectors u and v that lag behind the weight, ‖W/(uᵀWv)‖ is larger than 1: only convergence bounds it."""
    found = bounds_of(branch_of(Stack(DECLARED[name], rms)))
    assert len(found.unproven) == 1 and "converged" in found.unproven[0] and any("converged" in g for g in found.given)
    model, weights = _real(DECLARED[name])
    assert isinstance(found.magnitude, Expr)
    fresh = found.magnitude.evaluate(values_of(found.quantities, weights))
    with torch.no_grad():
        for p in model.branches.parameters():
            p.copy_(torch.randn_like(p))
    stale = {**weights, **{k: v.detach().numpy() for k, v in model.named_parameters()}}
    bound = found.magnitude.evaluate(values_of(found.quantities, stale))
    assert bound > 2.0 * fresh and 0.95 * bound <= _largest(model, 1.0) <= bound * (1 + 1e-9)


class Nearly(nn.Module):
    """exp(T + Tᵀ), (I + A)⁻¹(I + A/2) and W/(uᵀW'v): none of them is constrained."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.t, self.other = (nn.Parameter(torch.randn(WIDTH, WIDTH)) for _ in range(2))
        self.kind = kind
        self.u = nn.Buffer(torch.randn(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        eye, skew = torch.eye(WIDTH), self.t - self.t.T
        made = {
            "symmetric": lambda: torch.linalg.matrix_exp(self.t + self.t.T),
            "apart": lambda: torch.linalg.matrix_exp(self.t - self.other.T),
            "cayley": lambda: torch.linalg.solve(eye + skew, eye - torch.mul(skew, 0.5)),
            "solve": lambda: torch.linalg.solve(torch.add(eye, skew, alpha=-0.5), torch.add(eye, skew, alpha=0.25)),
            "share": lambda: self.t / torch.dot(self.u, torch.mv(self.other, self.u)),
        }
        return x @ made[self.kind]()


@pytest.mark.parametrize("kind", ["symmetric", "apart", "cayley", "solve", "share"])
def test_what_only_looks_constrained_is_unknown(kind: str) -> None:
    found = bounds_of(branch_of(Stack(lambda: Nearly(kind), rms)))
    assert isinstance(found.magnitude, Unknown) and found.bounded is not True
