"""T2: the sharp distance is reached and never passed; what Kan et al. print is passed at p = 1; 129 and when it is vacuous."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from screen.theorems.generalisation import generalisation
from screen.theorems.wasserstein import (
    NormedBranch,
    diameter,
    kan_corrected,
    kan_printed,
    token_distance,
    wasserstein,
    wasserstein_after_norm,
)

TOKENS, WIDTH = 8, 32


def reached(p: float, seed: int = 0, steps: int = 600) -> float:
    """Largest ‖LN(a) − LN(b)‖_p over states a, b, by ascent (best of three starts)."""
    best = 0.0
    for start in range(3):
        torch.manual_seed(seed + start)
        free = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.Adam([free], lr=0.1)
        for _ in range(steps):
            a, b = (torch.nn.functional.layer_norm(x, (WIDTH,), eps=0.0) for x in free)
            value = (a - b).abs().pow(p).sum().pow(1 / p)
            optimiser.zero_grad()
            (-value).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        best = max(best, value.item())
    return best


@pytest.mark.by_the_day
@pytest.mark.parametrize(("p", "share"), [(1.0, 0.99), (2.0, 0.9999), (4.0, 0.97)])
def test_ascent_reaches_the_bound_and_does_not_pass_it(p: float, share: float) -> None:
    bound = wasserstein(0.0, [NormedBranch(1.0)], TOKENS, WIDTH, p)
    assert share * bound <= reached(p) <= bound * (1 + 1e-9)


def test_numbers_of_one_branch() -> None:
    """n = 8, d = 32: 512 at p = 1 (printed: 32, and 511 is reached), 19.0 at p = 4."""
    assert wasserstein(0.0, [NormedBranch(1.0)], TOKENS, WIDTH, 1) == pytest.approx(512)
    assert wasserstein(0.0, [NormedBranch(1.0)], TOKENS, WIDTH, 4) == pytest.approx(19.0, abs=0.05)
    assert kan_printed(0.0, 0.5, 1.0, TOKENS, WIDTH, 1) == pytest.approx(32)
    assert reached(1.0) > 0.99 * 512
    assert kan_corrected(0.0, 0.5, 1.0, TOKENS, WIDTH, 1) == pytest.approx(512)


def test_sharp_is_below_corrected() -> None:
    """Ĉ = 1 and no power of two: the sharp form is never above the corrected (14)."""
    for p in (1, 1.5, 2, 3, 8):
        for start in (0.0, 1.0, 100.0):
            sharp = wasserstein(start, [NormedBranch(1.0)] * 6, TOKENS, WIDTH, p)
            assert sharp <= kan_corrected(start, 3, 1.0, TOKENS, WIDTH, p) * (1 + 1e-12)


def test_diameter_bounds_every_normed_state() -> None:
    rng = np.random.default_rng(0)
    for p in (1, 1.3, 2, 5):
        for _ in range(100):
            x = rng.standard_t(1.5, size=(TOKENS, WIDTH))
            y = x / np.sqrt((x**2).mean(1, keepdims=True))
            assert (np.abs(y) ** p).sum() ** (1 / p) <= diameter(TOKENS, WIDTH, p) * (1 + 1e-12)


def test_token_distance_takes_the_smallest() -> None:
    reach = [NormedBranch(1.5, scale=0.5, dropout=0.25).reach] * 4
    assert reach[0] == pytest.approx(2 * 0.5 * 1.5 / 0.75)
    assert token_distance(1.0, reach).value == pytest.approx(9.0)
    assert token_distance(1.0, reach, final_norm=1.0).value == 2 and token_distance(1.0, reach, final_norm=1.0).reason == "final norm"
    assert token_distance(1.0, reach, stream_norm=1.0).reason == "norm on the stream"
    assert token_distance(1.0, [math.inf], final_norm=3.0).value == 6
    assert wasserstein_after_norm(1.0, TOKENS, WIDTH, 2) == pytest.approx(2 * math.sqrt(TOKENS * WIDTH))


def test_gain_of_the_stream_multiplies_what_came_before() -> None:
    found = wasserstein(1.0, [NormedBranch(0.0, gain=3.0), NormedBranch(1.0, gain=2.0)], 1, 1, 2)
    assert found == pytest.approx(2 * 3 * 1.0 + 2)


@pytest.mark.parametrize("call", [lambda: diameter(0, 1, 1), lambda: diameter(1, 1, 0.5), lambda: token_distance(-1.0), lambda: NormedBranch(-1.0)])
def test_refuses(call: object) -> None:
    with pytest.raises(ValueError, match="required"):
        call()  # type: ignore[operator]


def test_generalisation_is_vacuous_for_a_real_model() -> None:
    """GPT-2 on 10^10 samples: the rate is 1 to five digits, the floor does not fall, and both are said."""
    found = generalisation(samples=10**10, tokens=1024, width=768, blocks=12, gamma_max=1.0, loss_lipschitz=1.0, loss_range=100.0)
    assert found.rate == pytest.approx(1, abs=1e-4) and len(found.vacuous) == 2
    more = generalisation(samples=10**30, tokens=1024, width=768, blocks=12, gamma_max=1.0, loss_lipschitz=1.0)
    assert more.gap > more.floor == found.floor == pytest.approx(4 * 12 * 1024 * 768)
    assert found.gap_printed == pytest.approx(4 * 12 * math.sqrt(1024 * 768), rel=1e-3)


def test_generalisation_can_say_something() -> None:
    found = generalisation(samples=10**6, tokens=1, width=2, blocks=0.5, gamma_max=1e-3, loss_lipschitz=1.0, loss_range=1.0)
    assert found.vacuous == () and found.rate == pytest.approx(1e-3)
    assert found.radius == pytest.approx(1e-3 + math.sqrt(math.log(20) / 2e6))
    with pytest.raises(ValueError, match="delta"):
        generalisation(samples=1, tokens=1, width=1, blocks=1, gamma_max=1, loss_lipschitz=1, delta=0)
