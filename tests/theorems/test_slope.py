"""T5: random blocks with trained gains and biases, attacked by ascent: 0 violations; the numbers of the review explained."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from screen.theorems.slope import (
    Activation,
    Head,
    InputNorm,
    attention_bound,
    attention_bound_emadi,
    attention_bound_plain,
    ffn_bound,
    gated_ffn_bound,
)

Array = NDArray[np.float64]
WIDTH, HIDDEN, HEADS, TOKENS = 16, 24, 2, 5


class Drawn:
    """One random branch of each kind behind one norm; `outliers`: gains (12, 6, 4, 1 …)."""

    def __init__(self, seed: int, outliers: bool = False, centred: bool = True) -> None:
        rng = np.random.default_rng(seed)
        self.centred = centred
        self.gamma = rng.normal(size=WIDTH) if not outliers else np.concatenate([[12.0, 6.0, 4.0], np.ones(WIDTH - 3)])
        self.beta = rng.normal(size=WIDTH) * 0.3
        self.value = rng.normal(size=(HEADS, WIDTH, WIDTH // HEADS)) / 4
        self.out = rng.normal(size=(HEADS, WIDTH // HEADS, WIDTH)) / 4
        self.value_bias, self.out_bias = rng.normal(size=(HEADS, WIDTH // HEADS)), rng.normal(size=WIDTH)
        self.up, self.gate, self.down = (rng.normal(size=s) / 4 for s in ((WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH)))
        self.up_bias, self.gate_bias, self.down_bias = rng.normal(size=HIDDEN), rng.normal(size=HIDDEN), rng.normal(size=WIDTH)
        self.norm = InputNorm(WIDTH, self.gamma, self.beta, centred)
        self.heads = [Head(v, o, b) for v, o, b in zip(self.value, self.out, self.value_bias, strict=True)]

    def normed(self, x: torch.Tensor) -> torch.Tensor:
        z = x - x.mean(-1, keepdim=True) if self.centred else x
        return z / z.pow(2).mean(-1, keepdim=True).sqrt() * torch.tensor(self.gamma) + torch.tensor(self.beta)

    def attention(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """`rows`: [heads, tokens, tokens], what softmax gave."""
        y = self.normed(x)
        values = y @ torch.tensor(self.value) + torch.tensor(self.value_bias)[:, None]
        return (rows @ values @ torch.tensor(self.out)).sum(0) + torch.tensor(self.out_bias)

    def ffn(self, x: torch.Tensor, phi: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return phi(self.normed(x) @ torch.tensor(self.up) + torch.tensor(self.up_bias)) @ torch.tensor(self.down) + torch.tensor(self.down_bias)

    def gated(self, x: torch.Tensor) -> torch.Tensor:
        y = self.normed(x)
        gate = torch.nn.functional.silu(y @ torch.tensor(self.gate) + torch.tensor(self.gate_bias))
        return gate * (y @ torch.tensor(self.up) + torch.tensor(self.up_bias)) @ torch.tensor(self.down) + torch.tensor(self.down_bias)


def attacked(branch: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], mass: float = 1.0, steps: int = 80) -> float:
    """Largest rms of a token of the branch, by ascent over the states and over rows of attention of sum `mass` or less."""
    torch.manual_seed(0)
    x = torch.randn(TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    logits = torch.randn(HEADS, TOKENS, TOKENS, dtype=torch.float64, requires_grad=True)
    sink = torch.zeros(HEADS, TOKENS, 1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([x, logits, sink], lr=0.1)
    best = 0.0
    for _ in range(steps):
        rows = torch.softmax(torch.cat([logits, sink], -1), -1)[..., :-1] if mass < 1 else torch.softmax(logits, -1)
        value = branch(x, rows).pow(2).mean(-1).sqrt().max()
        best = max(best, value.item())
        optimiser.zero_grad()
        (-value).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return best


@pytest.mark.by_the_day
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_no_attack_passes_the_bound(seed: int, centred: bool) -> None:
    drawn = Drawn(seed, outliers=seed % 2 == 0, centred=centred)
    whole = attention_bound(drawn.norm, drawn.heads, drawn.out_bias)
    partial = attention_bound(drawn.norm, drawn.heads, drawn.out_bias, stochastic=False)
    assert 0.3 * whole < attacked(drawn.attention) <= whole
    assert attacked(drawn.attention, mass=0.5) <= partial and whole <= partial
    for phi, activation in (
        (torch.relu, Activation()),
        (torch.nn.functional.gelu, Activation()),
        (torch.nn.functional.silu, Activation()),
        (torch.sigmoid, Activation(growth=0.25, at_zero=0.5)),
    ):
        bound = ffn_bound(drawn.norm, drawn.up, drawn.down, drawn.up_bias, drawn.down_bias, activation)
        assert 0.1 * bound < attacked(lambda x, _, phi=phi: drawn.ffn(x, phi)) <= bound
    bound = gated_ffn_bound(drawn.norm, drawn.gate, drawn.up, drawn.down, drawn.gate_bias, drawn.up_bias, drawn.down_bias)
    assert attacked(lambda x, _: drawn.gated(x)) <= bound


def test_one_head_without_bias_is_reached() -> None:
    """All weight on one token, x̂ along the leading direction: the second form is attained."""
    drawn = Drawn(0, centred=False)
    head = [Head(drawn.value[0], drawn.out[0])]
    norm = InputNorm(WIDTH, drawn.gamma, 0.0, centred=False)
    weight = drawn.gamma[:, None] * (drawn.value[0] @ drawn.out[0])
    left = np.linalg.svd(weight)[0][:, 0] * math.sqrt(WIDTH)
    assert np.linalg.norm(left @ weight) / math.sqrt(WIDTH) == pytest.approx(attention_bound(norm, head))


def test_gains_with_outliers() -> None:
    """Gains (12, 6, 4, 1 …), width 64, 4 heads, W ~ 1/fan-in, b_V = b_O = 0: the folded form is 2 to 5 times below max|γ|‖W‖, and the sum
    over heads of Emadi is twice the root of squares. (The review has 23.6, 75.1, 142.7 on weights that were not kept: the ratios 3.2
    and 1.9 are reproduced, not the weights.)
    """
    width, heads = 64, 4
    ratios, sums = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        gamma = np.concatenate([[12.0, 6.0, 4.0], np.ones(width - 3)])
        value = rng.normal(size=(heads, width, width // heads)) / math.sqrt(width)
        out = rng.normal(size=(heads, width // heads, width)) / math.sqrt(width)
        whole, norms = float(np.linalg.norm(np.concatenate(out), 2)), [float(np.linalg.norm(v, 2)) for v in value]
        folded = attention_bound(InputNorm(width, gamma), [Head(v, o) for v, o in zip(value, out, strict=True)])
        plain = attention_bound_plain(12.0, 0.0, whole, norms)
        assert folded <= plain <= attention_bound_emadi(12.0, 0.0, whole, norms)
        ratios.append(plain / folded)
        sums.append(attention_bound_emadi(12.0, 0.0, whole, norms) / plain)
        up, down = rng.normal(size=(width, 4 * width)) / math.sqrt(width), rng.normal(size=(4 * width, width)) / math.sqrt(4 * width)
        ffn = 12 * float(np.linalg.norm(up, 2) * np.linalg.norm(down, 2)) / ffn_bound(InputNorm(width, gamma), up, down)
        assert 1.2 < ffn < 2  # review: 61/36.5 = 1.67
    assert min(ratios) > 2 and max(ratios) < 6 and np.mean(sums) == pytest.approx(2, abs=0.1)


def test_plain_forms_forget_biases() -> None:
    """W_V = 0 and b_O ≠ 0: the plain forms say 0, the branch gives rms(b_O)."""
    norm, head = InputNorm(4), [Head(np.zeros((4, 2)), np.zeros((2, 4)))]
    assert attention_bound(norm, head, [1.0, -2.0, 0.0, 3.0]) == pytest.approx(math.sqrt(14) / 2)
    assert attention_bound_plain(1.0, 0.0, 0.0, [0.0]) == 0


def test_refuses() -> None:
    with pytest.raises(ValueError, match="required shape"):
        InputNorm(4).fold(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="at least one head"):
        attention_bound(InputNorm(4), [])


def test_constant_parts_are_exact() -> None:
    """γ = 0: the branch is constant, (βW_V + b_V)W_O + b_O, or W_2 φ(βW_1 + b_1) + b_2, and the bounds say its size."""
    drawn = Drawn(3)
    norm = InputNorm(WIDTH, 0.0, drawn.beta)
    constant = sum((drawn.beta @ v + b) @ o for v, b, o in zip(drawn.value, drawn.value_bias, drawn.out, strict=True)) + drawn.out_bias
    assert attention_bound(norm, drawn.heads, drawn.out_bias) == pytest.approx(np.linalg.norm(constant) / math.sqrt(WIDTH))
    ones, hidden = np.ones((HIDDEN, WIDTH)), drawn.beta @ np.ones((WIDTH, HIDDEN))
    found = ffn_bound(norm, np.ones((WIDTH, HIDDEN)), ones)
    assert found == pytest.approx(np.linalg.norm(hidden @ ones) / math.sqrt(WIDTH))
    half = ffn_bound(InputNorm(WIDTH, 0.0), np.ones((WIDTH, HIDDEN)), ones, activation=Activation(growth=0.25, at_zero=0.5))
    assert half == pytest.approx(0.5 * HIDDEN)
    gated = gated_ffn_bound(norm, np.ones((WIDTH, HIDDEN)), np.ones((WIDTH, HIDDEN)), ones)
    assert gated == pytest.approx(np.linalg.norm(hidden**2 @ ones) / math.sqrt(WIDTH))


def test_rows_that_sum_to_less_than_one_do_not_cancel() -> None:
    """Two heads with opposite constants: 0 when all rows sum to 1; the size of one when the other head looks at a sink."""
    heads = [Head(np.zeros((2, 1)), [[3.0, 4.0]], [1.0]), Head(np.zeros((2, 1)), [[3.0, 4.0]], [-1.0])]
    assert attention_bound(InputNorm(2), heads) == 0
    assert attention_bound(InputNorm(2), heads, stochastic=False) >= 5 / math.sqrt(2)


def test_grouped_queries_count_per_query_head() -> None:
    """Four query heads share one value map and write the same way: 4 is reached; counting value heads once would claim 2."""
    value, out = np.zeros((4, 1)), np.zeros((1, 4))
    value[0, 0] = out[0, 1] = 1.0
    norm = InputNorm(4, centred=False)
    x = np.array([2.0, 0, 0, 0])  # rms 1
    reached = np.linalg.norm(4 * x @ value @ out) / 2
    assert reached == pytest.approx(attention_bound(norm, [Head(value, out)] * 4)) == pytest.approx(4)
    assert attention_bound_plain(1.0, 0.0, 2.0, [1.0] * 4) == pytest.approx(4)
    assert attention_bound_plain(1.0, 0.0, 2.0, [1.0]) == pytest.approx(2)
