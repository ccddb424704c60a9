"""The Hamiltonian of a norm: attained by maximisation over the norm's input, K's formula beside it, and T8's thresholds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from screen.theorems.hamiltonian import Kind, attained_share, hamiltonian, kan_printed, penalised, penalised_ray

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
TOKENS, WIDTH = 5, 12
COSTATE = RNG.normal(size=(TOKENS, WIDTH))
GAMMA = RNG.uniform(-2, 2, WIDTH)
BETA = RNG.normal(size=WIDTH)


def norm(x: torch.Tensor, kind: Kind, groups: int, eps: float = 0.0) -> torch.Tensor:
    """The norm itself, without affine, over groups of features."""
    z = x.reshape(len(x), groups, -1)
    z = z - z.mean(-1, keepdim=True) if kind == "layer" else z
    square = z.pow(2).sum(-1, keepdim=True) if kind == "l2" else z.pow(2).mean(-1, keepdim=True)
    return (z / (square + eps).sqrt()).reshape(x.shape)


def maximum(kind: Kind, groups: int, scale: Array | float = 1.0) -> float:
    """max over v of −⟨P, λ(γ norm(v) + β)⟩ by L-BFGS from a random start."""
    p, gain, shift = (torch.tensor(a) for a in (COSTATE, GAMMA * scale, BETA * scale))
    torch.manual_seed(0)
    free = torch.randn(TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([free], max_iter=500, tolerance_grad=1e-14, tolerance_change=1e-16, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = (p * (gain * norm(free, kind, groups) + shift)).sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    for _ in range(5):
        optimiser.step(loss)
    return -loss().item()


@pytest.mark.parametrize("scale", [1.0, RNG.uniform(0.1, 2, WIDTH)], ids=["plain", "layerscale"])
@pytest.mark.parametrize(("kind", "groups"), [("rms", 1), ("layer", 1), ("l2", 1), ("rms", 3), ("layer", 4), ("l2", 2)])
def test_closed_form_is_the_maximum(kind: Kind, groups: int, scale: Array | float) -> None:
    """To 1e-9, by numerical maximisation over the input of the norm."""
    found = hamiltonian(COSTATE, GAMMA, BETA, kind, groups, scale)
    assert found.value == pytest.approx(maximum(kind, groups, scale), abs=1e-9, rel=1e-9)
    assert -(COSTATE * found.maximiser).sum() == pytest.approx(found.value, rel=1e-12) and found.unique


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_maximiser_lies_on_the_image_and_nothing_is_above(kind: Kind) -> None:
    found = hamiltonian(COSTATE, GAMMA, BETA, kind)
    unit = torch.tensor((found.maximiser - BETA) / GAMMA)
    assert torch.allclose(norm(unit, kind, 1), unit, atol=1e-12)
    for _ in range(200):
        field = GAMMA * norm(torch.tensor(RNG.standard_t(2, size=(TOKENS, WIDTH))), kind, 1).numpy() + BETA
        assert -(COSTATE * field).sum() <= found.value * (1 + 1e-12)


def test_kans_formula_is_exact_for_rmsnorm_and_an_upper_bound_for_layernorm() -> None:
    assert kan_printed(COSTATE, GAMMA, BETA) == pytest.approx(hamiltonian(COSTATE, GAMMA, BETA, "rms").value)
    costate = COSTATE + 3 / GAMMA  # Γp with a large mean, which no LayerNorm can follow
    assert kan_printed(costate, GAMMA, BETA) > 1.5 * hamiltonian(costate, GAMMA, BETA, "layer").value


def test_uniqueness_fails_where_the_direction_vanishes() -> None:
    """Γp ∥ 1 under a LayerNorm: every field gives −⟨p, β⟩, while (99) claims one maximiser and √d‖Γp‖ more."""
    costate = np.ones((1, 4)) * 2
    found = hamiltonian(costate, 1.0, [1.0, 2.0, 3.0, 4.0], "layer")
    assert not found.unique and found.value == pytest.approx(-20)
    assert kan_printed(costate, 1.0, [1.0, 2.0, 3.0, 4.0]) == pytest.approx(-20 + 8)
    assert found.maximiser.mean() == pytest.approx(2.5) and ((found.maximiser - [1, 2, 3, 4]) ** 2).mean() == pytest.approx(1)
    nothing = hamiltonian(np.zeros((2, 4)))
    assert nothing.value == 0 and not nothing.unique


def test_equal_tokens_make_it_an_upper_bound() -> None:
    """Two equal tokens get equal fields: with p₁ = −p₂ a branch reaches 0, the closed form says more."""
    costate = np.stack([COSTATE[0], -COSTATE[0]])
    assert hamiltonian(costate, GAMMA).value > 10
    for _ in range(50):
        token = norm(torch.tensor(RNG.normal(size=(1, WIDTH))), "rms", 1).numpy() * GAMMA
        assert (costate * np.repeat(token, 2, 0)).sum() == pytest.approx(0, abs=1e-12)


def test_zeros_in_gamma_do_no_harm() -> None:
    gamma = np.where(np.arange(WIDTH) < 3, 0.0, GAMMA)
    found = hamiltonian(COSTATE, gamma, 0.0, "rms")
    assert np.isfinite(found.maximiser).all() and -(COSTATE * found.maximiser).sum() == pytest.approx(found.value)


def test_epsilon_makes_it_a_supremum() -> None:
    p, size = torch.tensor(COSTATE), math.sqrt(WIDTH)
    values = []
    for scale in (1e-3, 1e-1, 1e2):
        field = norm(-scale * p / p.norm(dim=1, keepdim=True) * size, "rms", 1, eps=1e-5)
        values.append(-(p * field).sum().item() / hamiltonian(COSTATE).value)
        assert values[-1] == pytest.approx(attained_share(scale**2, 1e-5), rel=1e-9)
    assert values == sorted(values) and values[-1] < 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: hamiltonian(COSTATE, groups=5),
        lambda: hamiltonian(COSTATE, np.ones(3)),
        lambda: hamiltonian(COSTATE, kind="batch"),  # type: ignore[arg-type]
        lambda: penalised([[1]], [[1]], 0, 1),
    ],
)
def test_refuses(call: object) -> None:
    with pytest.raises(ValueError, match=r"required|must divide"):
        call()  # type: ignore[operator]


def test_penalty_on_degree_one() -> None:
    """k = 1: ‖XᵀP‖_F²/(4λ), at W = −XᵀP/(2λ), and no random W is above it."""
    x, p, penalty = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 4)), 0.7
    best = -(x.T @ p) / (2 * penalty)

    def value(w: Array) -> float:
        return float(-(p * (x @ w)).sum() - penalty * (w**2).sum())

    assert penalised(x, p, penalty, 1) == pytest.approx(value(best))
    assert all(value(best + 0.1 * RNG.normal(size=best.shape)) < value(best) for _ in range(50))


def test_penalty_on_degree_two_has_a_threshold() -> None:
    """k = 2: finite if and only if ‖XᵀP‖₂ ≤ 2λ; on the rank-one ray t² (‖XᵀP‖₂ − 2λ)."""
    x, p = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 4))
    product = x.T @ p
    u, s, v = np.linalg.svd(product)
    for penalty, sign in ((0.49 * s[0], 1), (0.51 * s[0], -1)):
        for t in (1.0, 10.0):
            w1, w2 = -t * u[:, :1], t * v[:1]
            value = -(p * (x @ w1 @ w2)).sum() - penalty * ((w1**2).sum() + (w2**2).sum())
            assert value == pytest.approx(penalised_ray(t, s[0], penalty, 2)) and np.sign(value) == sign
        assert penalised(x, p, penalty, 2) == (math.inf if sign > 0 else 0.0)
        for _ in range(100):
            w1, w2 = RNG.normal(size=(3, 5)), RNG.normal(size=(5, 4))
            assert sign > 0 or -(p * (x @ w1 @ w2)).sum() - penalty * ((w1**2).sum() + (w2**2).sum()) <= 0


def test_numbers_of_the_relu_ray_and_the_gated_ray() -> None:
    """ReLU FFN with ‖p‖‖u‖/2 = 10.97: λ = 1 gives 20, 2e3, 2e5, 2e7, λ = 11.2 stays below 0; gated FFN at λ = 100: 1e5, 1e8, 1e11."""
    u, p = RNG.normal(size=8), RNG.normal(size=8)
    p *= 2 * 10.97 / (np.linalg.norm(p) * np.linalg.norm(u))
    for penalty, wanted in ((1.0, (20, 2e3, 2e5, 2e7)), (11.2, (-0.46, -46, -4.6e3, -4.6e5))):
        for t, value in zip((1.0, 10.0, 100.0, 1e3), wanted, strict=True):
            up, down = t * u / np.linalg.norm(u), -t * p / np.linalg.norm(p)
            found = -p @ (max(u @ up, 0) * down) - penalty * (up @ up + down @ down)
            assert found == pytest.approx(value, rel=0.02) and found == pytest.approx(penalised_ray(t, 2 * 10.97, penalty, 2), rel=1e-9)
    for t in (1e2, 1e3, 1e4):
        z = t * np.linalg.norm(u)
        gated = np.linalg.norm(p) * t * z * (z / (1 + math.exp(-z))) - 3 * 100 * t**2
        assert gated > 0.1 * t**3 and math.isinf(penalised([[1.0]], [[1.0]], 100.0, 3))


def test_penalty_with_a_relu_between_the_maps() -> None:
    """T8: above ‖XᵀP‖₂ = 4λ one of the rays (u, v), (−u, −v) grows; below Σ‖x_j‖‖p_j‖ = 2λ nothing is above 0."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, p = rng.normal(size=(6, 3)), rng.normal(size=(6, 4))
        u, s, v = np.linalg.svd(x.T @ p)

        def value(w1: Array, w2: Array, penalty: float, x: Array = x, p: Array = p) -> float:
            return float(-(p * (np.maximum(x @ w1, 0) @ w2)).sum() - penalty * ((w1**2).sum() + (w2**2).sum()))

        assert max(value(sign * u[:, :1], -sign * v[:1], 0.249 * s[0]) for sign in (1, -1)) > 0
        safe = float((np.linalg.norm(x, axis=1) * np.linalg.norm(p, axis=1)).sum()) / 2
        assert all(value(rng.normal(size=(3, 5)), rng.normal(size=(5, 4)), safe) <= 0 for _ in range(50))
