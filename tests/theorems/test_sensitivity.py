"""Sensitivity: theorem 5.1 of Emadi and T10 attacked in block-∞, the softmax in mean square (T6), and factors of depth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from screen.theorems.depth_scale import deepnorm, deepnorm_condition, mean_square_factor, product, worst_case_factor
from screen.theorems.softmax_mean_square import asymptote, gap_density, jacobian_square, mean_square_exponent
from screen.theorems.theta import theta
from screen.theorems.value_spread import HeadNorms, half_diameter, log_sensitivity_proxy, post_layer, pre_layer, sensitivity

Array = NDArray[np.float64]
TOKENS, WIDTH, HEADS, HEAD = 6, 8, 2, 4


class Attention:
    """Random multi-head attention without norm, with its bounds at a point."""

    def __init__(self, seed: int, scale: float = 1.0, tau: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        self.tau = tau
        self.q, self.k, self.v = (scale * rng.normal(size=(HEADS, WIDTH, HEAD)) / math.sqrt(WIDTH) for _ in range(3))
        self.o = rng.normal(size=(HEADS, HEAD, WIDTH)) / math.sqrt(WIDTH)
        self.x = rng.normal(size=(TOKENS, WIDTH))

    def rows(self, x: torch.Tensor) -> torch.Tensor:
        q, k = x @ torch.tensor(self.q), x @ torch.tensor(self.k)
        return torch.softmax(q @ k.mT / (self.tau * math.sqrt(HEAD)), -1)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return (self.rows(x) @ (x @ torch.tensor(self.v)) @ torch.tensor(self.o)).sum(0)

    def jacobian(self) -> Array:
        """[out token, out feature, in token, in feature]."""
        return np.asarray(torch.func.jacrev(self.__call__)(torch.tensor(self.x)).numpy())

    def bounds(self, lipschitz: bool = False) -> tuple[float, float, float]:
        heads = []
        for h, rows in enumerate(self.rows(torch.tensor(self.x)).numpy()):
            norms = [float(np.linalg.norm(w[h], 2)) for w in (self.q, self.k, self.v)]
            peak = 1.0 if lipschitz else max(theta(row).high for row in rows)
            heads.append(HeadNorms(*norms, HEAD, peak, float(np.linalg.norm(self.q[h] @ self.k[h].T, 2)), half_diameter(self.x @ self.v[h])))
        found = sensitivity(heads, float(np.linalg.norm(np.concatenate(self.o), 2)), float(np.linalg.norm(self.x, axis=1).max()), self.tau)
        return found.emadi, found.root_of_squares, found.value_spread


def block_norm(jacobian: Array, rounds: int = 30) -> float:
    """Block-∞ norm from below, by alternating between the output's direction and the best change of every input token."""
    best = 0.0
    for token in jacobian:  # [out feature, in token, in feature]
        for start in np.eye(len(token)):
            u = start
            for _ in range(rounds):
                pull = np.einsum("o,oti->ti", u, token)
                change = pull / np.maximum(np.linalg.norm(pull, axis=1, keepdims=True), 1e-300)
                out = np.einsum("oti,ti->o", token, change)
                u = out / max(np.linalg.norm(out), 1e-300)
            best = max(best, float(np.linalg.norm(out)))
    return best


def test_forty_blocks_stay_below_all_three_bounds() -> None:
    """Largest measured/bound: T10 0.7, root of squares 0.5, Emadi 0.3 (review, other weights: 0.52, 0.41, 0.29); never above 1."""
    shares = []
    for seed in range(40):
        block = Attention(seed, scale=(0.2, 0.4, 1.0)[seed % 3], tau=(1.0, 0.7)[seed % 2])
        measured = block_norm(block.jacobian())
        bounds = block.bounds()
        assert measured <= bounds[2] <= bounds[1] <= bounds[0]
        shares.append([measured / b for b in bounds])
    emadi, root, spread = np.max(shares, axis=0)
    assert emadi < root < spread < 1 and spread > 0.5 and emadi < 0.6 * spread


def test_alike_tokens_close_the_attention_path() -> None:
    """With equal tokens the spread is 0 and only the value path is left; Emadi's bound does not see it."""
    block = Attention(0)
    block.x[:] = block.x[0]
    emadi, _, spread = block.bounds()
    values = [float(np.linalg.norm(v, 2)) for v in block.v]
    assert spread == pytest.approx(float(np.linalg.norm(np.concatenate(block.o), 2)) * math.hypot(*values), rel=1e-6)
    assert block_norm(block.jacobian()) <= spread < 0.5 * emadi


def test_theta_at_a_point_is_no_lipschitz_constant() -> None:
    """u = (12, 0) to (5.5, 0)… moved to a tie: the Jacobian at u predicts 1.6e-4, softmax moves by 1.46 in ℓ1 for |Δu|_∞ = 6.5."""
    u, v = np.array([12.0, 0.0]), np.array([5.5, 6.5])
    p, q = (np.exp(w) / np.exp(w).sum() for w in (u, v))
    predicted = theta(p).low * 6.5
    moved = float(np.abs(p - q).sum())
    assert predicted == pytest.approx(1.6e-4, rel=0.05) and moved == pytest.approx(1.46, abs=0.01)
    assert predicted < moved <= 1.0 * 6.5


def test_lipschitz_of_whole_layers_by_difference_quotients() -> None:
    """Emadi, 5.2 and 5.3, with θ = 1: attention and a ReLU FFN with LayerNorm of ε = 0.1, over pairs of inputs near and far."""
    block, rng, eps = Attention(1), np.random.default_rng(1), 0.1
    up, down = rng.normal(size=(WIDTH, 12)) / 3, rng.normal(size=(12, WIDTH)) / 3
    ffn = float(np.linalg.norm(up, 2) * np.linalg.norm(down, 2))

    def norm(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (WIDTH,), eps=eps)

    def feed(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ torch.tensor(up)) @ torch.tensor(down)

    def pre(x: torch.Tensor) -> torch.Tensor:
        z = x + block(norm(x))
        return z + feed(norm(z))

    def post(x: torch.Tensor) -> torch.Tensor:
        z = norm(x + block(x))
        return norm(z + feed(z))

    block.x = np.sqrt(WIDTH) * block.x / np.linalg.norm(block.x, axis=1, keepdims=True)  # B̄ = √d, as of a normed input
    attention, lip = block.bounds(lipschitz=True)[1], 1 / math.sqrt(eps)
    for _ in range(200):
        x, y = (norm(torch.tensor(rng.normal(size=(TOKENS, WIDTH)))) for _ in range(2))
        y = x + float(10 ** rng.uniform(-4, 0)) * (y - x)
        size = (y - x).norm(dim=1).max()
        assert (pre(y) - pre(x)).norm(dim=1).max() / size <= pre_layer(attention, ffn, lip)
        assert (post(y) - post(x)).norm(dim=1).max() / size <= post_layer(attention, ffn, lip)


def test_layers_and_spread_by_hand() -> None:
    assert pre_layer(2.0, 3.0, 0.5) == pytest.approx(5.0) and post_layer(2.0, 3.0, 0.5) == pytest.approx(3.0)
    assert half_diameter([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]]) == pytest.approx(2.5)
    found = sensitivity([HeadNorms(1.0, 2.0, 3.0, 4, 0.5, 1.5, 2.0)] * 4, output=2.0, size=5.0, temperature=0.25)
    assert found.emadi == pytest.approx(8 * (3 + 2 * 10 / 2 * 2 * 15)) and found.root_of_squares == pytest.approx(found.emadi / 2)
    assert found.value_spread == pytest.approx(4 * (3 + 2 * 10 / 2 * 1.5 * 2))


def test_proxy_in_log_parts() -> None:
    """Emadi, E.6: log S = log(θ/τ) + 2 log B̄ + log G."""
    parts = log_sensitivity_proxy(0.9, 2.0, 3.0, (1.0, 2.0, 3.0, 4.0))
    assert parts["S"] == pytest.approx(math.log(0.45 * 9 * 24)) and parts["size"] == pytest.approx(2 * math.log(3))
    with pytest.raises(ValueError, match="four norms"):
        log_sensitivity_proxy(1.0, 1.0, 1.0, (1.0,))


def drawn_square(length: int, scale: float, seed: int = 0, count: int = 400_000) -> float:
    u = scale * np.random.default_rng(seed).normal(size=(count // length, length))
    e = np.exp(u - u.max(1, keepdims=True))
    return jacobian_square(e / e.sum(1, keepdims=True))


def test_jacobian_square_is_the_frobenius_norm() -> None:
    p = np.array([0.5, 0.3, 0.2])
    assert jacobian_square(p) == pytest.approx(np.linalg.norm(np.diag(p) - np.outer(p, p)) ** 2)
    with pytest.raises(ValueError, match="sum 1"):
        jacobian_square([0.3, 0.3])


@pytest.mark.parametrize("length", [2, 8, 32])
def test_mean_square_halves_when_the_scale_doubles(length: int) -> None:
    """T6: ratios near 2 from s = 16 on (review: 1.92, 2.04, 1.95, 2.06), and the constant f(0)/3."""
    values = [drawn_square(length, s) for s in (8.0, 16.0, 32.0)]
    assert values[1] / values[2] == pytest.approx(2, abs=0.2)
    assert values[2] == pytest.approx(asymptote(length, 32.0), rel=0.1)


def test_gap_density_of_two() -> None:
    """Two normals: the gap is half-normal of deviation √2, density 1/√π at 0."""
    assert gap_density(2) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-9)


def test_exponents_in_mean_square() -> None:
    """½ per logit factor: the root mean square of one logit factor times the Jacobian grows as s^½."""
    rms = [s * math.sqrt(drawn_square(16, s)) for s in (16.0, 64.0)]
    assert math.log(rms[1] / rms[0]) / math.log(4) == pytest.approx(mean_square_exponent(1, 0), abs=0.05)
    found = [mean_square_exponent(*a) for a in ((1, 0), (2, 0), (2, 2), (1, 0, True), (2, 2, True))]
    assert found == [0.5, 1.0, 3.0, 0.5, 1.0]


def test_emadis_factor_leaves_the_value_path() -> None:
    """Emadi, 6.1 and 6.2: β = N^(−1/4) bounds the path of degree 4; the value path alone is (1 + 1/6)^36 = 257 at N = 36."""
    beta = worst_case_factor(36, 4)
    assert product(36, {2: 1.0}, beta) == pytest.approx(257, rel=0.01)
    for layers in (10, 10**3, 10**6):
        assert product(layers, {4: 1.0}, worst_case_factor(layers, 4)) <= math.e
        assert product(layers, {2: 1.0, 4: 1.0}, worst_case_factor(layers, 2)) <= math.e**2
    assert product(10**6, {2: 1.0}, worst_case_factor(10**6, 4)) > 1e300
    with pytest.raises(ValueError, match="degree 0"):
        worst_case_factor(36, 0)


def test_mean_square_factor_needs_independent_weights() -> None:
    """(c): x ← x + β² x W with V·O ~ degree 2. Untied N^(−1/4) keeps the rms, tied it explodes, tied N^(−1/2) holds."""
    rng = np.random.default_rng(0)
    layers, width = 512, 64

    def final(beta: float, tied: bool) -> float:
        x, w = rng.normal(size=width), rng.normal(size=(width, width)) / math.sqrt(width)
        for _ in range(layers):
            x = x + beta**2 * x @ (w if tied else rng.normal(size=(width, width)) / math.sqrt(width))
        return float(np.sqrt((x**2).mean()))

    assert final(mean_square_factor(layers, 2), tied=False) < 3
    assert final(mean_square_factor(layers, 2), tied=True) > 1e6
    assert final(worst_case_factor(layers, 2), tied=True) < 4


def test_deepnorm_solves_its_condition() -> None:
    """2N(v² + w²)/α² = 1 for (2N)^(1/4), (8N)^(−1/4); relative branch gain β²/α = 2^(−7/4) N^(−3/4) (0.0131 at N = 64)."""
    for layers in (6, 64, 500):
        alpha, beta = deepnorm(layers)
        assert deepnorm_condition(2 * layers, beta, beta, alpha) == pytest.approx(1)
        assert beta**2 / alpha == pytest.approx(2 ** (-7 / 4) * layers ** (-3 / 4))
    assert deepnorm(64)[1] ** 2 / deepnorm(64)[0] == pytest.approx(0.0131, abs=1e-4)
