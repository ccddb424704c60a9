"""U*, the bound of weights, and the equilibrium of random gradients, by running torch.optim.AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
import torch

from screen.theorems.adamw import (
    equilibrium_logit_scale,
    equilibrium_rms,
    logit_scale,
    random_gradient_rms,
    update_bound,
    weight_bound,
)


def run(gradients: Iterable[float], betas: tuple[float, float], lr: float = 1e-3, decay: float = 0.0, start: float = 0.0) -> tuple[float, float]:
    """(largest update in units of lr, largest |w|) of one weight under AdamW."""
    weight = torch.nn.Parameter(torch.tensor([start], dtype=torch.float64))
    optimiser = torch.optim.AdamW([weight], lr=lr, betas=betas, eps=0.0, weight_decay=decay)
    update, size = 0.0, abs(start)
    for gradient in gradients:
        before = weight.item() * (1 - lr * decay)
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimiser.step()
        update, size = max(update, abs(weight.item() - before) / lr), max(size, abs(weight.item()))
    return update, size


def growing(betas: tuple[float, float], steps: int) -> list[float]:
    """The gradients that reach the bound: each β₂/β₁ times the one before (scaled to end at 1)."""
    ratio = betas[1] / betas[0]
    return [ratio ** (k - steps) for k in range(1, steps + 1)]


@pytest.mark.parametrize(("betas", "bound"), [((0.9, 0.999), 7.27), ((0.9, 0.95), 1.165), ((0.9, 0.98), 1.698)])
def test_bound_of_the_update(betas: tuple[float, float], bound: float) -> None:
    assert update_bound(*betas) == pytest.approx(bound, abs=5e-3)
    for steps in (1, 2, 10, 400):
        reached, _ = run(growing(betas, steps), betas)
        assert reached <= update_bound(*betas, steps=steps) * (1 + 1e-9) <= update_bound(*betas) * (1 + 1e-9)


def test_the_bound_is_reached() -> None:
    """1.165 and 1.697 within 400 steps; 4.2 of 7.27 for β₂ = 0.999, which needs more than 4/(1 − β₂) steps."""
    assert run(growing((0.9, 0.95), 400), (0.9, 0.95))[0] == pytest.approx(1.165, abs=2e-3)
    assert run(growing((0.9, 0.98), 400), (0.9, 0.98))[0] == pytest.approx(1.697, abs=2e-3)
    assert run(growing((0.9, 0.999), 400), (0.9, 0.999))[0] == pytest.approx(4.18, abs=0.05)
    assert run(growing((0.9, 0.999), 400), (0.9, 0.999))[0] > (1 - 0.9) / math.sqrt(1 - 0.999)  # Kingma and Ba's remark is no bound


def test_no_bound_where_beta1_squared_reaches_beta2() -> None:
    assert math.isinf(update_bound(0.95, 0.9)) and math.isinf(weight_bound(0.0, 0.1, 0.95, 0.9, 1e-3))
    assert update_bound(0.99, 0.9, steps=300) > 1e3 and update_bound(0.9, 0.95, steps=1) == pytest.approx(1)


def test_weights_stay_below_their_bound_and_pass_the_one_with_kingmas_remark() -> None:
    """A run with |w| = 4.1 where (1 − β₁)/√(1 − β₂)/λ allows 3.2 (λ = 1: U*/λ = 7.27)."""
    betas, decay, lr = (0.9, 0.999), 1.0, 0.02
    _, size = run(growing(betas, 400), betas, lr=lr, decay=decay, start=3.1)
    assert (1 - 0.9) / math.sqrt(1 - 0.999) < size <= weight_bound(3.1, decay, *betas, lr=lr)
    assert weight_bound(9.0, decay, *betas, lr=lr) == 9.0 and math.isinf(weight_bound(1.0, 0.0, *betas, lr=lr))
    with pytest.raises(ValueError, match="lr"):
        weight_bound(1.0, 2.0, *betas, lr=1.0)


def test_equilibrium_of_random_gradients() -> None:
    """lr 1e-3, λ 0.1: 0.0707 predicted, 0.068 measured (review, T7); both transients too."""
    torch.manual_seed(0)
    lr, decay, steps = 1e-2, 1.0, 1000
    weight = torch.nn.Parameter(torch.zeros(2000))
    optimiser = torch.optim.AdamW([weight], lr=lr, weight_decay=decay)
    for _ in range(steps):
        weight.grad = torch.randn(2000)
        optimiser.step()
    assert equilibrium_rms(lr, decay) == pytest.approx(equilibrium_rms(1e-3, 0.1)) == pytest.approx(0.0707, abs=1e-4)
    assert float(weight.detach().pow(2).mean().sqrt()) == pytest.approx(equilibrium_rms(lr, decay), rel=0.08)
    assert random_gradient_rms(0.5, lr, decay, 1e9) == pytest.approx(equilibrium_rms(lr, decay))
    assert random_gradient_rms(0.5, lr, decay, 0) == 0.5 and random_gradient_rms(0.0, lr, 0.0, 100) == pytest.approx(0.1)


def test_scale_of_logits() -> None:
    """T7: d γ² lr/(2λ) = 6 at d = 4096, lr 3e-4, λ 0.1; 205 at lr 1e-2; and d γ² w² against drawn logits."""
    assert equilibrium_logit_scale(4096, 1.0, 3e-4, 0.1) == pytest.approx(6.1, abs=0.1)
    assert equilibrium_logit_scale(4096, 1.0, 1e-2, 0.1) == pytest.approx(205, abs=1)
    torch.manual_seed(0)
    width, head, gamma, rms = 256, 32, 1.5, 0.07
    x = torch.nn.functional.layer_norm(torch.randn(200, width), (width,)) * gamma
    logits = torch.cat([(x @ (rms * torch.randn(width, head))) @ (x @ (rms * torch.randn(width, head))).T for _ in range(20)]) / math.sqrt(head)
    assert float(logits.std()) == pytest.approx(logit_scale(width, gamma, rms), rel=0.1)


@pytest.mark.parametrize("call", [lambda: update_bound(1.0, 0.9), lambda: update_bound(0.9, 0.99, steps=0), lambda: equilibrium_rms(-1, 0.1)])
def test_refuses(call: object) -> None:
    with pytest.raises(ValueError, match="required"):
        call()  # type: ignore[operator]
