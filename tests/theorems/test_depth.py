"""Statements about depth and about scale, measured on small stacks: K theorem 2, propositions 7 and 8; X lemma 2, theorem 1; E 5.4, 5.5."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from screen.theorems.hamiltonian import hamiltonian

D, TOKENS = 16, 6
Map = Callable[[torch.Tensor], torch.Tensor]


def ln(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=0.0)


def normal(*shape: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


class Branches:
    """One attention (uniform, or with logits) and one ReLU FFN; weights ~ 1/fan-in, in `weights`."""

    def __init__(self, seed: int, width: int = D, logits: bool = True) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.logits, self.width = logits, width
        self.weights = {name: normal(width, width, generator=generator) / math.sqrt(width) for name in ("q", "k", "v", "o", "up", "down")}

    def attention(self, x: torch.Tensor, c: dict[str, float] | None = None) -> torch.Tensor:
        w = {name: weight * (c or {}).get(name, 1.0) for name, weight in self.weights.items()}
        scores = (x @ w["q"]) @ (x @ w["k"]).mT / math.sqrt(self.width)
        rows = torch.softmax(scores if self.logits else 0 * scores, -1)
        return rows @ (x @ w["v"]) @ (w["o"] if self.logits else torch.eye(self.width, dtype=x.dtype))

    def ffn(self, x: torch.Tensor, c: dict[str, float] | None = None) -> torch.Tensor:
        w = {name: weight * (c or {}).get(name, 1.0) for name, weight in self.weights.items()}
        return torch.relu(x @ w["up"]) @ w["down"]


def size(function: Map, x: torch.Tensor) -> float:
    """Frobenius norm of the Jacobian."""
    return float(torch.linalg.vector_norm(torch.func.jacrev(function)(x)))


@pytest.mark.parametrize("factor", [2.0, 8.0])
def test_sensitivity_is_proportional_before_and_invariant_under_an_output_norm(factor: float) -> None:
    """Kan et al., 7 and 8: degree 1 in V, O, W_1, W_2 for pre, degree 0 for peri; but Q is left, which (8) does not say."""
    block, x = Branches(0), normal(TOKENS, D, generator=torch.Generator().manual_seed(1))
    for name, branch in (("v", block.attention), ("o", block.attention), ("up", block.ffn), ("down", block.ffn)):
        for output, degree in ((lambda y: y, 1), (ln, 0)):
            plain = size(lambda t, b=branch, n=output: n(b(ln(t))), x)
            scaled = size(lambda t, b=branch, n=output, k=name: n(b(ln(t), {k: factor})), x)
            assert scaled / plain == pytest.approx(factor**degree, rel=1e-9)
    plain, scaled = (size(lambda t, c=c: ln(block.attention(ln(t), {"q": c})), x) for c in (1.0, factor))
    assert abs(scaled / plain - 1) > 0.02


def test_only_the_relative_gain_counts() -> None:
    """Proposition 7 holds at a fixed stream: with the embedding scaled as well nothing changes, J(cx) = J(x)/c under an input norm."""
    block, x = Branches(0), normal(TOKENS, D, generator=torch.Generator().manual_seed(1))

    def step(t: torch.Tensor, c: float = 1.0) -> torch.Tensor:
        return t + block.ffn(ln(t), {"down": c})

    assert size(lambda t: step(t, 7.0), 7 * x) == pytest.approx(size(step, x), rel=1e-9)
    assert size(lambda t: block.ffn(ln(t)), 7 * x) == pytest.approx(size(lambda t: block.ffn(ln(t)), x) / 7, rel=1e-9)


def test_pre_norm_fields_are_unbounded_only_with_a_free_map() -> None:
    """Kan et al., theorem 2: −⟨P, F⟩ grows without end with the weights; a pooling branch without weights stays bounded."""
    block, x = Branches(0), normal(TOKENS, D, generator=torch.Generator().manual_seed(1))
    costate = -block.ffn(ln(x))
    values = [-float((costate * block.ffn(ln(x), {"down": c})).sum()) for c in (1.0, 1e3, 1e6)]
    assert values[1] == pytest.approx(1e3 * values[0]) and values[2] == pytest.approx(1e6 * values[0]) and values[0] > 0
    normed = -float((costate * ln(block.ffn(ln(x), {"down": 1e6}))).sum())
    assert normed == pytest.approx(hamiltonian(costate.numpy(), kind="layer").value)  # the largest value there is, for any weights
    for scale in (1.0, 1e6):
        pooled = ln(scale * x).mean(0) - ln(scale * x)
        assert pooled.pow(2).mean(1).sqrt().max() <= 2


def test_pre_norm_has_an_identity_path_and_post_norm_has_projections() -> None:
    """Emadi, 5.4 and 5.5: as the branches go to 0 the Jacobian of a pre stack tends to I, of a post stack to the product of the norms'.

    That product is one projection and does not decay with depth: what 5.5 calls exponential decay is undone by the factor I + J_F.
    """
    block = Branches(0)
    x = ln(normal(1, D, generator=torch.Generator().manual_seed(1)))

    def stack(t: torch.Tensor, post: bool, layers: int, c: float) -> torch.Tensor:
        for _ in range(layers):
            t = ln(t + block.ffn(t, {"down": c})) if post else t + block.ffn(ln(t), {"down": c})
        return t

    for layers in (1, 12):
        pre, post = (torch.func.jacrev(lambda t, p=p, n=layers: stack(t, p, n, 0.0))(x).reshape(D, D) for p in (False, True))
        assert torch.allclose(pre, torch.eye(D, dtype=x.dtype))
        unit = x / x.norm()
        projection = torch.eye(D, dtype=x.dtype) - 1 / D - unit.T @ unit
        assert torch.allclose(post, projection, atol=1e-9) and float(post.norm()) == pytest.approx(math.sqrt(D - 2))


def stack(depth: int, post: bool, width: int = 64, seed: int = 0) -> tuple[list[float], list[float]]:
    """X's setting (uniform attention, N(0, 1/d), ReLU, final norm): E‖x_l‖²/d per layer, ‖∂L/∂W_2,l‖_F per layer."""
    generator = torch.Generator().manual_seed(seed)
    x = normal(8, width, generator=generator)
    blocks = [Branches(1000 * seed + i, width, logits=False) for i in range(depth)]
    for block in blocks:
        block.weights["down"].requires_grad_()
    squares = []
    for block in blocks:
        if post:
            x = ln(x + block.attention(x))
            inner = x + block.ffn(x)
            x = ln(inner)
        else:
            x = x + block.attention(ln(x))
            x = inner = x + block.ffn(ln(x))
        squares.append(float(inner.detach().pow(2).mean()))
    head = normal(width, 50, generator=generator) / math.sqrt(width)
    loss = -torch.log_softmax((x if post else ln(x)) @ head, -1)[:, 0].mean()
    gradients = torch.autograd.grad(loss, [block.weights["down"] for block in blocks])
    return squares, [float(g.norm()) for g in gradients]


def test_second_moments_at_initialisation() -> None:
    """Xiong et al., lemma 2: (1 + l/2)d ≤ E‖x_l‖² ≤ (1 + 3l/2)d for pre, 3d/2 before the second norm for post."""
    pre = np.mean([stack(16, False, seed=s)[0] for s in range(6)], axis=0)
    layers = np.arange(1, 17)
    assert (1 + layers / 2 <= pre).all() and (pre <= 1 + 3 * layers / 2).all()
    post = np.mean([stack(16, True, seed=s)[0] for s in range(6)], axis=0)
    assert post == pytest.approx(np.full(16, 1.5), rel=0.12)


def test_last_gradient_falls_with_depth_for_pre_only() -> None:
    """Xiong et al., theorem 1 (as exponents in depth, in its own setting): about −½ for pre with a final norm, 0 for post."""
    depths = np.array([4, 8, 16, 32])
    slopes = []
    for post in (False, True):
        last = [np.exp(np.mean([math.log(stack(int(n), post, seed=s)[1][-1]) for s in range(8)])) for n in depths]
        slopes.append(float(np.polyfit(np.log(depths), np.log(last), 1)[0]))
    assert slopes[0] == pytest.approx(-0.47, abs=0.12) and slopes[1] == pytest.approx(0, abs=0.12)


def test_post_gradients_do_not_decay_by_two_thirds() -> None:
    """Xiong et al., appendix F: (2/3)^((L−l)/2), 0.82 per layer; measured 1.00 to 1.02 at 24 layers, 0.9 allowed here."""
    ratios = []
    for seed in range(6):
        _, gradients = stack(24, True, seed=seed)
        ratios.append((gradients[0] / gradients[-1]) ** (1 / 23))
    assert np.mean(ratios) == pytest.approx(1.01, abs=0.04)
    assert min(ratios) > 0.9 > math.sqrt(2 / 3)


@pytest.mark.parametrize("peri", [False, True])
def test_gradient_ratio_is_the_ratio_of_streams(peri: bool) -> None:
    """T3 on 48 ReLU sublayers: ‖∂L/∂x_1‖/‖∂L/∂x_N‖ = rms_N/rms_1 to 25 %, with and without an output norm."""
    measured, predicted = [], []
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        x = normal(8, 128, generator=generator).requires_grad_()
        states = [x]
        for layer in range(48):
            inner = Branches(100 * seed + layer, 128).ffn(ln(states[-1]))
            states.append(states[-1] + (ln(inner) if peri else inner))
        probe = normal(8, 128, generator=generator)
        first, last = torch.autograd.grad((ln(states[-1]) * probe).sum(), [states[0], states[-1]])
        measured.append(float(first.norm() / last.norm()))
        predicted.append(float((states[-1].norm() / states[0].norm()).detach()))
    assert np.mean(predicted) > 4
    assert np.mean(measured) == pytest.approx(np.mean(predicted), rel=0.25)


@pytest.mark.parametrize(("init", "factor"), [(1.0, 0.5), (0.707, 0.8), (0.554, 0.914)])
def test_one_post_block_draws_tokens_together(init: float, factor: float) -> None:
    """T4 near collapse: one post block multiplies 1 − cos by 1/(1 + v), v = w⁴ for V and O at w/√fan-in; the FFN is neutral."""

    def spread(x: torch.Tensor) -> float:
        unit = x / x.norm(dim=1, keepdim=True)
        cosines = unit @ unit.T
        return float(1 - (cosines.sum() - len(x)) / (len(x) * (len(x) - 1)))

    ratios = []
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        x = ln(normal(1, 256, generator=generator) + 0.05 * normal(16, 256, generator=generator))
        block = Branches(seed, 256)
        y = ln(x + block.attention(x, {"v": init, "o": init}))
        ratios.append(spread(ln(y + block.ffn(y))) / spread(x))
    assert np.mean(ratios) == pytest.approx(factor, rel=0.08)
