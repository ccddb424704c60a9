"""Norms (K lemmas 1, 9, 10, propositions 11, 12; E 3.2, 3.3, A.1; X lemmas 1, 3, 4, 5) and the gradient of the last map (P 3.1, B, C)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from screen.theorems.growth import norm_output
from screen.theorems.norm_jacobian import exponent_excess, kan_lemma_9, lipschitz, norm_jacobian, sensitivity_at
from screen.theorems.output_gradient import growth_when_shrunk, kim_printed, normed_bound, pre_bound

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
D = 10


def norm(x: torch.Tensor, gamma: Array | float, eps: float, centred: bool) -> torch.Tensor:
    z = x - x.mean(-1, keepdim=True) if centred else x
    return torch.as_tensor(gamma) * z / (z.pow(2).mean(-1, keepdim=True) + eps).sqrt()


@pytest.mark.parametrize("centred", [True, False])
def test_outputs_lie_on_the_ellipsoid(centred: bool) -> None:
    """Kan et al., lemmas 1 and 10: (z − β)ᵀΓ⁻²(z − β) = d at ε = 0, inside it for ε > 0; and for a LayerNorm Γ⁻¹(z − β) has mean 0."""
    for _ in range(50):
        gamma, beta = RNG.uniform(0.2, 2, D), RNG.normal(size=D)
        x = torch.tensor(RNG.normal(size=D) * 10 ** RNG.uniform(-3, 3))
        unit = (norm(x, gamma, 0.0, centred).numpy() + beta - beta) / gamma
        assert unit @ unit == pytest.approx(D)
        assert not centred or unit.mean() == pytest.approx(0, abs=1e-12)
        inside = norm(x, gamma, 1e-2, centred).numpy() / gamma
        assert inside @ inside < D


def test_magnitude_reset_and_mixing() -> None:
    """Emadi, lemmas 3.2 and 3.3 (β by its rms): convex rows never raise the largest token, and a norm's output is at most max|γ| + rms β."""
    for _ in range(100):
        values = RNG.standard_t(2, size=(6, D))
        rows = RNG.dirichlet(np.full(6, 0.3), size=6)
        assert np.linalg.norm(rows @ values, axis=1).max() <= np.linalg.norm(values, axis=1).max() * (1 + 1e-12)
        gamma, beta = RNG.normal(size=D), RNG.normal(size=D)
        y = norm(torch.tensor(values * 1e6), gamma, 1e-5, True).numpy() + beta
        bound = norm_output(float(np.abs(gamma).max()), float(np.sqrt((beta**2).mean())))
        assert np.sqrt((y**2).mean(1)).max() <= bound <= np.abs(gamma).max() + np.abs(beta).max() + 1e-12


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_jacobian_is_autograds_and_below_its_bounds(centred: bool, eps: float) -> None:
    for _ in range(30):
        gamma, x = RNG.normal(size=D), RNG.normal(size=D) * 10 ** RNG.uniform(-2, 2)
        exact = torch.autograd.functional.jacobian(lambda t, g=gamma: norm(t, g, eps, centred), torch.tensor(x)).numpy()  # type: ignore[no-untyped-call]
        found = norm_jacobian(x, gamma, eps, centred)
        assert np.allclose(found, exact, rtol=1e-9, atol=1e-12)
        z = x - x.mean() if centred else x
        size, peak = float(np.linalg.norm(found, 2)), float(np.abs(gamma).max())
        assert size <= sensitivity_at(peak, math.sqrt(float(z @ z) / D + eps)) * (1 + 1e-12) <= lipschitz(peak, eps) * (1 + 1e-12)
        assert eps or np.allclose(norm_jacobian(7 * x, gamma, 0.0, centred), found / 7)
        assert not centred or np.allclose(found @ np.ones(D), 0, atol=1e-12)  # Emadi 5.5 (ii)


def test_kans_lemma_9_lacks_the_derivative_of_the_mean() -> None:
    """The difference is −γ1ᵀ/(dσ); relative error up to about 0.3 at small widths; degree −1 survives."""
    errors = []
    for _ in range(50):
        gamma, x = RNG.uniform(0.5, 1.5, D), RNG.normal(size=D)
        exact, printed = norm_jacobian(x, gamma), kan_lemma_9(x, gamma)
        sigma = x.std()
        assert np.allclose(printed - exact, np.outer(gamma, np.ones(D)) / (D * sigma))
        assert np.allclose(kan_lemma_9(3 * x, gamma), printed / 3)
        errors.append(np.linalg.norm(printed - exact) / np.linalg.norm(exact))
    assert 0.2 < np.mean(errors) < 0.5


def test_sensitivity_of_a_layernorm_is_not_of_order_root_d_over_the_token() -> None:
    """Xiong et al., lemma 3, last step: with a large mean √d/‖x‖ is passed by any factor; √d/‖x − mean‖ is not."""
    x = 1e4 + RNG.normal(size=D)
    size = float(np.linalg.norm(norm_jacobian(x), 2))
    assert size > 1e3 * math.sqrt(D) / np.linalg.norm(x) and size <= math.sqrt(D) / np.linalg.norm(x - x.mean()) * (1 + 1e-6)
    assert lipschitz(1.0, 1e-5) == pytest.approx(316, abs=0.3) and math.isinf(lipschitz(1.0, 0.0))


def test_relu_of_a_normal_vector() -> None:
    """Xiong et al., lemma 1: E‖relu(X)‖² = σ²d/2."""
    x = 1.7 * RNG.normal(size=(200_000, 4))
    assert (np.maximum(x, 0) ** 2).sum(1).mean() == pytest.approx(0.5 * 1.7**2 * 4, rel=0.02)


def test_eigenvalues_of_a_projection_and_the_reverse_markov_inequality() -> None:
    """Xiong et al., lemmas 4 and 5."""
    a = RNG.normal(size=D)
    a /= np.linalg.norm(a)
    assert np.allclose(np.sort(np.linalg.eigvalsh(np.eye(D) - np.outer(a, a))), [0.0] + [1.0] * (D - 1))
    y = 2 - RNG.exponential(size=20_000)  # never above 2
    for threshold in (-1.0, 0.0, 1.0):
        assert (y <= threshold).mean() <= (2 - y).mean() / (2 - threshold) + 0.02


def test_tail_of_a_chi_square() -> None:
    """Xiong et al., proposition 1 and its example: P(Y ≥ n(1 + ε)) ≤ exp(−nε²/8) for the squared norm of n normals."""
    for n, eps in ((10, 0.5), (40, 0.3), (100, 0.2)):
        y = (RNG.normal(size=(20_000, n)) ** 2).sum(1)
        assert (y >= n * (1 + eps)).mean() <= math.exp(-n * eps**2 / 8)


def test_gradient_of_attention() -> None:
    """Kan et al., proposition 11, against autograd (columns are tokens there; one head with its own W; linear in V and W)."""
    n, d, k, heads = 4, 5, 3, 2
    x = RNG.normal(size=(d, n))
    q, key, v = (RNG.normal(size=(heads, k, d)) for _ in range(3))
    w = RNG.normal(size=(heads, d, k))

    def attention(x: torch.Tensor, value: Array) -> torch.Tensor:
        logits = (torch.tensor(key) @ x).mT @ (torch.tensor(q) @ x) / math.sqrt(k)
        return (torch.tensor(w) @ torch.tensor(value) @ x @ torch.softmax(logits, 1)).sum(0)

    exact = torch.autograd.functional.jacobian(lambda t: attention(t, v), torch.tensor(x)).numpy()  # type: ignore[no-untyped-call]
    for i in range(n):
        for j in range(n):
            total = np.zeros((d, d))
            for h in range(heads):
                s = (key[h] @ x).T @ (q[h] @ x[:, j]) / math.sqrt(k)
                a = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
                pull = np.outer(key[h].T @ q[h] @ x[:, j], np.eye(n)[i]) + (q[h].T @ key[h] @ x if i == j else 0)
                total += (a[i] * np.eye(d) + pull / math.sqrt(k) @ (np.diag(a) - np.outer(a, a)) @ x.T) @ (w[h] @ v[h]).T
            assert np.allclose(total, exact[:, j, :, i].T)
    twice = torch.autograd.functional.jacobian(lambda t: attention(t, 2 * v), torch.tensor(x)).numpy()  # type: ignore[no-untyped-call]
    assert np.allclose(twice, 2 * exact)


def test_projected_dynamics_stay_on_the_ellipsoid_and_are_unbounded() -> None:
    """Kan et al., proposition 12 (with Σ = Γ⁻², undefined there): the velocity is tangential for any f, and as long as f is."""
    gamma, beta = RNG.uniform(0.5, 2, D), RNG.normal(size=D)
    x = gamma * norm(torch.tensor(RNG.normal(size=D)), 1.0, 0.0, False).numpy() + beta
    f = RNG.normal(size=D)
    y = x - beta
    tangential = f - (y / gamma**2 @ f) / (y / gamma**2 @ y) * y
    assert y / gamma**2 @ tangential == pytest.approx(0, abs=1e-12) and np.linalg.norm(tangential) > 0.1
    step = gamma * norm(torch.tensor((y + 1e9 * f) / gamma), 1.0, 0.0, False).numpy() + beta - x
    assert np.linalg.norm(step) <= 2 * math.sqrt(D) * gamma.max()  # the discrete increment is bounded all the same


class Net:
    """The sequences of Kim et al., C.1–C.3: ReLU MLP, residual add, cross-entropy over the width."""

    def __init__(self, seed: int, out_scale: float = 1.0, up_scale: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        self.up, self.up_bias = (torch.tensor(up_scale * a) for a in (rng.normal(size=(D, 4 * D)) / math.sqrt(D), 0.1 * rng.normal(size=4 * D)))
        self.down = torch.tensor(out_scale * rng.normal(size=(4 * D, D)) / math.sqrt(2 * D), requires_grad=True)
        self.x, self.label = torch.tensor(rng.normal(size=D)), int(rng.integers(D))

    def gradient(self, place: str, gamma: float = 1.0, eps: float = 0.0) -> tuple[float, float, float]:
        """(‖∂L/∂W_2‖_F, ‖h‖, ‖what the norm divides‖)."""
        h = torch.relu((self.x if place == "post" else norm(self.x, 1.0, 0.0, False)) @ self.up + self.up_bias)
        a = h @ self.down
        out = {"pre": self.x + a, "peri": self.x + norm(a, gamma, eps, False)}.get(place, norm(self.x + a, gamma, eps, False))
        loss = -torch.log_softmax(out, -1)[self.label]
        (grad,) = torch.autograd.grad(loss, self.down)
        return grad.norm().item(), h.norm().item(), (a if place == "peri" else self.x + a).detach().norm().item()


@pytest.mark.parametrize("eps", [0.0, 0.3])
def test_gradient_of_the_last_map_stays_below_root_two_and_kims_four(eps: float) -> None:
    """Kim et al., 3.1, B.1, C.1–C.3 for the whole matrix with √2 in place of 4 per entry; reached to a few per cent in 200 nets."""
    shares = []
    for seed in range(200):
        net = Net(seed, out_scale=10 ** RNG.uniform(-1, 1))
        size, hidden, _ = net.gradient("pre")
        assert size <= pre_bound(hidden) * (1 + 1e-12)
        shares.append(size / pre_bound(hidden))
        for place in ("peri", "post", "pre+final"):
            size, hidden, divided = net.gradient(place, 1.3, eps)
            assert size <= normed_bound(hidden, divided, D, 1.3, eps) * (1 + 1e-12) <= kim_printed(hidden, divided, D, 1.3)
            shares.append(size / normed_bound(hidden, divided, D, 1.3, eps))
    assert max(shares) > 0.95


def test_pre_gradient_explodes_without_a_final_norm_and_saturates_with_it() -> None:
    """h × 1000: proportional for pre (C.1), a factor below 3 with a final norm, invariant for peri."""

    def ratio(place: str) -> float:
        return float(np.median([Net(s, up_scale=1e3).gradient(place)[0] / Net(s).gradient(place)[0] for s in range(40)]))

    assert ratio("pre") > 300 and ratio("pre+final") < 10 and ratio("peri") == pytest.approx(1, abs=0.35)


def test_tiny_output_map_under_an_output_norm() -> None:
    """W_2 × 0.001: the gradient grows by 1/c until σ ≈ √ε, then stays at γ/√ε (ε = 1e-5: a few hundred, not a thousand)."""
    for factor in (1e-1, 1e-2, 1e-3, 1e-6):
        for seed in range(5):
            base, small = Net(seed), Net(seed)
            small.down = (factor * base.down.detach()).requires_grad_()
            variance = base.gradient("peri")[2] ** 2 / D
            found = small.gradient("peri", eps=1e-5)[0] / base.gradient("peri", eps=1e-5)[0]
            wanted = growth_when_shrunk(variance, 1e-5, factor)
            assert found <= wanted * 3.5 and (found > wanted / 3.5)
            assert wanted < math.sqrt(variance / 1e-5) * 1.01
    assert growth_when_shrunk(0.5, 1e-5, 1e-3) == pytest.approx(218, abs=1)


def test_bounds_of_the_last_gradient_by_hand() -> None:
    assert pre_bound(3.0, head=2.0) == pytest.approx(6 * math.sqrt(2)) and math.isinf(normed_bound(1.0, 0.0, 4))
    assert normed_bound(3.0, 0.0, 4, 2.0, eps=0.25) == pytest.approx(12 * math.sqrt(2))
    assert normed_bound(3.0, 2.0, 4, 2.0, eps=3.0, head=0.5) == pytest.approx(1.5 * math.sqrt(2))


def test_exponent_excess_is_measured() -> None:
    """T9: under a norm with ε the local exponent of a weight is at most ε/(σ² + ε), reached by the norm itself."""
    for sigma in (7e-5, 7e-4, 7e-3, 7e-2):
        x = norm(torch.tensor(RNG.normal(size=D)), 1.0, 0.0, False).numpy() * sigma
        direction = RNG.normal(size=D)
        direction -= (direction @ x) / (x @ x) * x

        def size(c: float, x: Array = x, direction: Array = direction) -> float:
            return float(np.linalg.norm(c * norm_jacobian(c * x, 1.0, 1e-5, centred=False) @ direction))

        slope = math.log(size(1.001) / size(0.999)) / math.log(1.001 / 0.999)
        assert slope == pytest.approx(exponent_excess(sigma**2, 1e-5), abs=1e-4)
        along = math.log(size(1.001, direction=x) / size(0.999, direction=x)) / math.log(1.001 / 0.999)
        assert along == pytest.approx(1 - 3 * sigma**2 / (sigma**2 + 1e-5), abs=1e-4)  # below 0 for σ² > ε/2, at most the excess
        assert along <= slope + 1e-4
