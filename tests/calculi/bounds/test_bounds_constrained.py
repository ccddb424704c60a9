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

from screen.calculi.bounds import BranchBounds, bounds_of, values_of
from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.quantities import Quantity
from screen.structure.types import Unknown
from tests.calculi.bounds.test_bounds import WIDTH, Stack, branch_of, rms


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
FREE = ("weight", "weight, old")
"""Any matrix has rows of some lengths."""
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


def _of_one(found: BranchBounds) -> tuple[Quantity, ...]:
    """Quantities of one parameter each."""
    return tuple(q for q in found.quantities if q.part.fold is None)


@pytest.mark.parametrize("name", [*PROVEN, *DECLARED])
def test_real_blocks_keep_to_the_bound_and_reach_it(name: str) -> None:
    make = {**PROVEN, **DECLARED}[name]
    found = bounds_of(branch_of(Stack(make, rms)))
    model, weights = _real(make)
    assert found.bounded is (name not in FREE) and isinstance(found.magnitude, Expr)
    bound = found.magnitude.evaluate(values_of(found.quantities, weights))
    measured = _largest(model, 100.0)
    assert 0.95 * bound <= measured <= bound * (1 + 1e-9), (measured, bound)


@pytest.mark.parametrize("name", [n for n in PROVEN if n not in FREE])
def test_the_set_over_all_weights_is_bounded_by_structure(name: str) -> None:
    """However large the free weights: only what is held fixed counts."""
    found = bounds_of(branch_of(Stack(PROVEN[name], rms)))
    assert found.bounded is True and found.unproven == ()
    torch.manual_seed(2)
    model = Stack(PROVEN[name], rms).double().eval()
    held = {k: v.detach().numpy().copy() for k, v in {**dict(model.named_parameters()), **dict(model.named_buffers())}.items()}
    bound = found.plain(found.magnitude)
    assert isinstance(bound, Expr)
    top = bound.evaluate(values_of(_of_one(found), held))
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
        self.u, self.free = nn.Buffer(torch.randn(WIDTH)), nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        eye, skew = torch.eye(WIDTH), self.t - self.t.T
        made = {
            "symmetric": lambda: torch.linalg.matrix_exp(self.t + self.t.T),
            "apart": lambda: torch.linalg.matrix_exp(self.t - self.other.T),
            "cayley": lambda: torch.linalg.solve(eye + skew, eye - torch.mul(skew, 0.5)),
            "solve": lambda: torch.linalg.solve(torch.add(eye, skew, alpha=-0.5), torch.add(eye, skew, alpha=0.25)),
            "share": lambda: self.t / torch.dot(self.u, torch.mv(self.other, self.u)),
            "trained": lambda: self.t / torch.dot(self.free, torch.mv(self.t, self.u)),
            "sums": lambda: self.t / (self.u.sum() * (self.t @ self.u).sum()),
            "twice": lambda: self.t * self.t / torch.dot(self.u, torch.mv(self.t, self.u)),
        }
        return x @ made[self.kind]()


@pytest.mark.parametrize("kind", ["symmetric", "apart", "cayley", "solve", "share", "trained", "sums", "twice"])
def test_what_only_looks_constrained_is_unknown(kind: str) -> None:
    found = bounds_of(branch_of(Stack(lambda: Nearly(kind), rms)))
    assert isinstance(found.magnitude, Unknown) and found.bounded is not True


class Sigma(nn.Module):
    """γW/σ with vectors u and v of its own, or with a norm itself, as it is written in several places."""

    def __init__(self, kind: str, gain: bool = True) -> None:
        super().__init__()
        self.kind = kind
        self.weight = nn.Parameter(torch.randn(12, WIDTH))
        self.gamma = nn.Parameter(torch.tensor(-1.5)) if gain else 1.0
        u, _, v = torch.linalg.svd(torch.randn(12, WIDTH))
        self.u, self.v = nn.Buffer(u[:, 0].clone()), nn.Buffer(v[0].clone())
        self.back = nn.Buffer(torch.eye(WIDTH)[:, :12].clone())

    def divided(self) -> torch.Tensor:
        w, u, v, y = self.weight, self.u, self.v, self.gamma
        made: dict[str, Callable[[], torch.Tensor]] = {
            "dot": lambda: y / torch.dot(u, torch.mv(w, v)) * w, "products": lambda: y * w / (u @ w @ v), "turned": lambda: y * w / (v @ (w.T @ u)),
            "sum": lambda: w * (y / (u * (w @ v)).sum()), "einsum": lambda: y * (w / torch.einsum("c,cd,d->", u, w, v)),
            "columns": lambda: y * (w / (u[None] @ w @ v[:, None])), "matrix norm": lambda: y * w / torch.linalg.matrix_norm(w, 2),
            "norm": lambda: y * (w / torch.linalg.norm(w, ord=2)), "values": lambda: y / torch.linalg.svdvals(w)[0] * w,
            "frobenius": lambda: y * w / w.norm(), "frobenius, too": lambda: y * (w / torch.linalg.norm(w)),
        }  # fmt: skip
        return made[self.kind]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.divided().T) @ self.back.T


ESTIMATES, NORMS = ["dot", "products", "turned", "sum", "einsum", "columns"], ["matrix norm", "norm", "values", "frobenius", "frobenius, too"]


@pytest.mark.parametrize("kind", [*ESTIMATES, *NORMS])
def test_a_gain_times_a_weight_over_its_size(kind: str) -> None:
    """‖γW/σ‖ is |γ| for the norm itself, and |γ|‖W‖/|uᵀWv| for an estimate, whatever is written first; the bound is reached."""
    found = bounds_of(branch_of(Stack(lambda: Sigma(kind), rms)))
    model, weights = _real(lambda: Sigma(kind))
    assert found.bounded is False and isinstance(found.magnitude, Expr)
    values = values_of(found.quantities, weights)
    bound, measured = found.magnitude.evaluate(values), _largest(model, 100.0)
    assert 0.95 * bound <= measured <= bound * (1 + 1e-9), (measured, bound)
    size = {s: v for s, v in values.items() if s in found.magnitude.symbols() and s.startswith("W")}
    w = weights["branches.0.weight"]
    estimate = weights["branches.0.u"] @ w @ weights["branches.0.v"] if kind in ESTIMATES else np.linalg.norm(w, "fro" if "fro" in kind else 2)
    assert any(v == pytest.approx(1.5 * np.linalg.norm(w, 2) / abs(estimate), rel=1e-9) for v in size.values()), size
    plain = found.plain(found.magnitude)
    assert plain.evaluate(values_of(_of_one(found), weights) | values) >= bound * (1 - 1e-9)


@pytest.mark.parametrize("kind", NORMS)
def test_a_weight_over_its_norm_is_bounded_over_all_weights(kind: str) -> None:
    found = bounds_of(branch_of(Stack(lambda: Sigma(kind, gain=False), rms)))
    assert found.bounded is True and found.unproven == () and any("divided by its norm" in g for g in found.given)


@pytest.mark.parametrize("kind", ESTIMATES)
def test_a_weight_over_an_estimate_of_its_norm_rests_on_a_condition(kind: str) -> None:
    found = bounds_of(branch_of(Stack(lambda: Sigma(kind, gain=False), rms)))
    assert found.bounded is True and len(found.unproven) == 1 and "converged" in found.unproven[0]


@pytest.mark.parametrize("form", ["c,cd,d->", "d,cd,c->", "c,dc,d->"])
def test_the_side_of_each_vector_of_a_square_weight(form: str) -> None:
    """uᵀWv and vᵀWu differ, and the quantity follows what is computed."""

    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.u, self.v = nn.Parameter(torch.randn(WIDTH, WIDTH)), nn.Buffer(torch.randn(WIDTH)), nn.Buffer(torch.randn(WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ (self.w / torch.einsum(form, self.u, self.w, self.v))

    found = bounds_of(branch_of(Stack(Square, rms)))
    model, weights = _real(Square)
    assert isinstance(found.magnitude, Expr)
    bound = found.magnitude.evaluate(values_of(found.quantities, weights))
    assert 0.95 * bound <= _largest(model, 1.0) <= bound * (1 + 1e-9)


class Memory(nn.Module):
    """A trained memory is read by attention; queries are normed, and `kind` says what its keys are."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.norm = kind, nn.RMSNorm(WIDTH)
        self.q, self.k, self.v = (_linear() for _ in range(3))
        self.memory, self.gain = nn.Parameter(torch.randn(6, WIDTH)), nn.Parameter(torch.ones(WIDTH))

    def keys(self) -> torch.Tensor:
        k = self.k(self.memory)
        if self.kind == "capped":
            return torch.tanh(k) * self.gain
        unit = k * torch.rsqrt(k.square().mean(-1, keepdim=True) + 1e-6)
        if self.kind == "other":
            unit = k / (self.memory.norm(dim=-1, keepdim=True) + 1.0)
        return {"normed": unit * self.gain, "before": self.gain * unit, "other": unit * self.gain}[self.kind]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.norm(self.q(x)) @ self.keys().T).softmax(-1) @ self.v(self.memory)


@pytest.mark.parametrize(("kind", "bounded"), [("normed", True), ("before", True), ("capped", False), ("other", False)])
def test_keys_of_a_trained_memory_behind_a_norm(kind: str, bounded: bool) -> None:
    """The gain of a norm of weights is a gain as any other. The gain behind what is no norm is a weight."""
    [found] = bounds_of(branch_of(Stack(lambda: Memory(kind), rms))).softmaxes
    assert (found.bounded is True) == bounded and (isinstance(found.bounded, Unknown) or found.bounded == bounded)
