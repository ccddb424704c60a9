"""Growth laws against simulated streams, K's bounds beside them, and what a floating-point type does to a stream."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from screen.theorems.growth import (
    Sublayer,
    additive,
    convex,
    geometric,
    kan_data_variance,
    kan_mean_absolute,
    kan_pre,
    kan_variance,
    norm_output,
    repeated,
    step_for,
)
from screen.theorems.precision import always_lost, depth_of_loss, format_of, possibly_lost, safe_depth

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)


def rms(x: Array) -> float:
    """Largest rms over tokens."""
    return float(np.sqrt((x**2).mean(-1)).max())


def normed(x: Array, centred: bool = True) -> Array:
    z = x - x.mean(-1, keepdims=True) if centred else x
    return np.asarray(z / np.sqrt((z**2).mean(-1, keepdims=True)))


@pytest.mark.parametrize("centred", [True, False])
def test_normed_branches_stay_below_and_reach_the_law(centred: bool) -> None:
    """α, s, γ, β and dropout: never above; a field that follows the stream is within 1 % of it (γ constant, β along it)."""
    gamma, beta = RNG.uniform(-1.5, 1.5, 16), RNG.normal(size=16)
    layer = Sublayer(norm_output(float(np.abs(gamma).max()), rms(beta)), gain=1.02, scale=0.7)
    x = RNG.normal(size=(3, 16))
    bounds = additive(rms(x), [layer] * 40)
    for bound in bounds:
        x = 1.02 * x + 0.7 * (gamma * normed(x @ RNG.normal(size=(16, 16)), centred) + beta)
        assert rms(x) <= bound
    assert bounds[-1] == pytest.approx(repeated(additive(0, [Sublayer(0)])[0] + bounds[0], layer, 39))
    x = normed(RNG.normal(size=(1, 16)))
    reached = x + sum(1.5 * x + 0.5 * x for _ in range(20))
    assert rms(reached) == pytest.approx(repeated(1.0, Sublayer(norm_output(1.5, 0.5)), 20), rel=1e-9)


def test_beta_enters_by_its_rms() -> None:
    """One β of 5 among sixteen: rms 1.25; the max form has 6, what is reached is 1 + 1.25 and not more."""
    beta = np.zeros(16)
    beta[0] = 5.0
    reached = rms((normed(beta, centred=False) + beta)[None])
    assert reached == pytest.approx(norm_output(1.0, rms(beta[None]))) == pytest.approx(2.25)


def test_dropout_and_l2() -> None:
    assert Sublayer(1.0, dropout=0.1).step == pytest.approx(1.111, abs=1e-3) and Sublayer(1.0, dropout=0.5).step == 2
    x = RNG.normal(size=(5, 64))
    assert rms(3 * x / np.linalg.norm(x, axis=1, keepdims=True)) == pytest.approx(norm_output(3.0, kind="l2", width=64))


def test_a_gain_above_one_is_exponential() -> None:
    """α = 1.05 over 128 sublayers: 1.08e4 against 129 at α = 1; α < 1 saturates."""
    assert repeated(1.0, Sublayer(1.0, gain=1.05), 128) == pytest.approx(1.08e4, rel=0.01)
    assert repeated(1.0, Sublayer(1.0), 128) == 129 and repeated(1.0, Sublayer(1.0, gain=0.5), 200) == pytest.approx(2)
    assert math.isinf(repeated(1.0, Sublayer(1.0, gain=10), 400)) and math.isinf(repeated(1.0, Sublayer(math.inf), 1))


def test_convex_gate_is_constant_in_depth() -> None:
    x = RNG.normal(size=(4, 16))
    entry = float(np.abs(x).max())
    for _ in range(200):
        gate = RNG.uniform(size=x.shape)
        x = gate * np.tanh(3 * RNG.normal(size=x.shape)) + (1 - gate) * x
        assert np.abs(x).max() <= convex(entry, 1.0)


def test_no_norm_is_exponential_and_below_the_law() -> None:
    """x ← x + x W, ‖W‖ = L: never above (1 + L)^D, and reached by W = L·I."""
    x, lipschitz = RNG.normal(size=(2, 32)), 0.0
    start = rms(x)
    for depth in range(1, 33):
        w = RNG.normal(size=(32, 32)) / math.sqrt(32)
        lipschitz = max(lipschitz, float(np.linalg.norm(w, 2)))
        x = x + x @ w
        assert rms(x) <= geometric(start, lipschitz, depth)
    assert rms(x) > 1e4 and geometric(1.0, 0.3, 20) == pytest.approx(1.3**20)


def test_step_meets_its_target() -> None:
    layer = Sublayer(2.0, gain=1.01)
    step = step_for(1.0, layer, 48, target=30.0)
    assert repeated(1.0, Sublayer(2.0, gain=1.01, scale=step), 48) == pytest.approx(30.0) and step < 1
    assert step_for(1.0, layer, 48, target=1e6) == 1 and step_for(1.0, Sublayer(0.0), 5, target=2.0) == 1
    with pytest.raises(ValueError, match="required more than"):
        step_for(1.0, Sublayer(1.0), 5, target=1.0)


def test_kans_bounds_hold_for_peri_norm_and_are_looser_per_token() -> None:
    """Kan et al., (11)–(13), with β_max, on random peri-norm stacks."""
    tokens, width, blocks = 6, 8, 5
    gamma, beta = 1.3, 0.4
    finals, squares, firsts = [], [], []
    for _ in range(200):
        x = RNG.normal(size=(tokens, width))
        first = float(np.linalg.norm(x))
        for _ in range(2 * blocks):
            x = x + gamma * normed(np.tanh(x @ RNG.normal(size=(width, width)))) + beta
        assert np.abs(x).mean() <= kan_mean_absolute(first, tokens, width, blocks, gamma, beta)
        assert x.var(ddof=1) <= kan_variance(first, tokens, width, blocks, gamma, beta)
        firsts.append(first)
        squares.append(first**2)
        finals.append(x[0, 0])
    data = kan_data_variance(float(np.mean(firsts)), float(np.mean(squares)), tokens, width, blocks, gamma, beta)
    assert np.var(finals) <= data
    assert data == pytest.approx(np.mean([(f + 2 * blocks * math.sqrt(tokens * width) * 1.7) ** 2 for f in firsts]))
    entry = math.sqrt(width) * repeated(max(firsts), Sublayer(norm_output(gamma, beta)), 2 * blocks)
    assert np.var(finals) <= entry**2
    assert kan_mean_absolute(0, tokens, width, blocks, gamma, beta, dt=0.1) == pytest.approx(0.1 * 2 * blocks * 1.7)


def test_kan_theorem_3_as_printed_is_broken() -> None:
    """d = 256, one token, one block, W = I: ‖X_1‖ = 17, printed (82) allows 2; with √d it allows 17."""
    x = normed(RNG.normal(size=(1, 256)), centred=False) / 16
    after = float(np.linalg.norm(x + normed(x, centred=False)))
    assert after == pytest.approx(17)
    assert kan_pre(1.0, 1, 256, [1.0], [1.0], [1.0], printed=True) == pytest.approx(2)
    assert kan_pre(1.0, 1, 256, [1.0], [1.0], [1.0]) == pytest.approx(17)


def test_kan_theorem_3_with_true_factors_is_vacuous() -> None:
    """D = 256, ‖W‖ = 1, nd = 1024: measured 2e2, linear bound 8.2e3, theorem 3 above 1e20 (review: 2.4e2, 8.2e3, 4.7e27)."""
    tokens, width, depth = 4, 256, 256
    x = normed(RNG.normal(size=(tokens, width)), centred=False)
    first, smallest = float(np.linalg.norm(x)), []
    for _ in range(depth):
        smallest.append(float(np.linalg.norm(x, axis=1).min()))
        y = normed(x, centred=False)
        logits = (y @ RNG.normal(size=(width, width))) @ y.T / width
        rows = np.exp(logits - logits.max(1, keepdims=True))
        w = np.linalg.qr(RNG.normal(size=(width, width)))[0]
        x = x + (rows / rows.sum(1, keepdims=True)) @ y @ w
    linear = first + depth * math.sqrt(tokens * width)
    assert linear == pytest.approx(8.2e3, rel=0.01)
    assert 1e2 < np.linalg.norm(x) < 6e2
    assert 1e20 < kan_pre(first, tokens, width, [1.0] * depth, smallest, [1.0] * depth) < 1e45


def test_mean_variance_grows_by_the_branch() -> None:
    """Kim et al., (4): Var(x_{l+1}) ≈ Var(x_l) + β_0 for a branch that is independent of the stream (here to 10 %)."""
    x = RNG.normal(size=(64, 256))
    for _ in range(30):
        x = x + normed(np.tanh(x @ RNG.normal(size=(256, 256))))
    assert x.var() == pytest.approx(31, rel=0.1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_formats_are_torchs(dtype: str) -> None:
    info = torch.finfo(getattr(torch, dtype))
    assert format_of(dtype).largest == info.max and 2.0 ** -(format_of(dtype).significand - 1) == info.eps


@pytest.mark.parametrize(("dtype", "torch_type"), [("bfloat16", torch.bfloat16), ("float16", torch.float16)])
def test_lost_addends(dtype: str, torch_type: torch.dtype) -> None:
    """Below 2^−(t+1) always lost, above 2^−t never, on 20,000 pairs."""
    torch.manual_seed(0)
    x = (torch.rand(20000) * 3 + 0.5).to(torch_type).double()
    share = torch.rand(20000).double() * 3 * possibly_lost(dtype)
    kept = ((x.to(torch_type) + (share * x).to(torch_type)).double() - x) != 0
    assert not kept[share < 0.99 * always_lost(dtype)].any() and kept[share > 1.01 * possibly_lost(dtype)].all()
    assert kept[(share > always_lost(dtype)) & (share < possibly_lost(dtype))].float().mean() not in (0.0, 1.0)
    assert always_lost("bfloat16") == 2**-9


def test_safe_depth_and_the_entry_that_needs_root_d() -> None:
    """A LayerNorm output has an entry √(d − 1) = 63.99 at d = 4096: entries are √d times the rms, not the rms."""
    one = np.zeros((1, 4096))
    one[0, 0] = 1.0
    assert np.abs(normed(one)).max() == pytest.approx(63.99, abs=0.01)
    depth = safe_depth("float16", 4096, start=1.0, step=1.0)
    assert depth < 65504 / 64 - 1 and safe_depth("float64", 4096, 1.0, 1e305) == math.floor(format_of("float64").largest / 64e305)
    stream = add = torch.tensor(normed(one, centred=False)).half()
    finite = 0
    while bool(torch.isfinite(stream).all()):  # adds of 64.0 are exact or rounded up and down by turns
        stream, finite = stream + add, finite + 1
    assert depth < finite <= 65504 / 64 + 1


def test_safe_depth_survives_rounding_up() -> None:
    """An addend that is rounded up at every add: float16 overflows before √d (r + N c) says so, and not before `safe_depth` does."""
    x, add = torch.tensor(1024.0).half(), torch.tensor(0.51).half()
    for _ in range(200):
        x = x + add  # to the next integer
    assert float(x) > 1024 + 200 * 0.75
    step, stream, count = 16.1, torch.tensor(32768.0).half(), 0
    while bool(torch.isfinite(stream)):
        stream, count = stream + torch.tensor(step).half(), count + 1
    assert safe_depth("float16", 1, 32768.0, float(torch.tensor(step).half())) < count < (65504 - 32768) / step


def test_safe_depth_of_nothing() -> None:
    assert safe_depth("float16", 64, 1e6, 1.0) == 0 == safe_depth("float16", 64, 1.0, 1.0, internal=7e4)
    assert math.isinf(safe_depth("float16", 64, 1.0, 0.0)) and safe_depth("bfloat16", 64, 1.0, 1.0) > 1e4
    with pytest.raises(ValueError, match="float8"):
        format_of("float8")


def test_squares_overflow_in_float16() -> None:
    assert bool(torch.isinf(torch.tensor(256.0).half() ** 2)) and bool(torch.isfinite(torch.tensor(255.0).half() ** 2))


def test_depth_of_loss() -> None:
    """Equal additions to a bfloat16 number: from 512 to 1024 of them on, one more changes nothing."""
    depth = depth_of_loss("bfloat16", 1.0, 1.0)
    assert depth == 511
    x = torch.tensor(1.0, dtype=torch.bfloat16)
    for _ in range(int(depth)):
        x = x + 1
    assert float(x) == float(x + 1) and math.isinf(depth_of_loss("bfloat16", 1.0, 0.0))


def test_refuses_an_unknown_norm() -> None:
    with pytest.raises(ValueError, match="required rms, layer or l2"):
        norm_output(1.0, kind="batch")  # type: ignore[arg-type]
