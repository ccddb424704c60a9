"""T5 and T10 inside of the bounds: gains folded into maps, and attention that moves only by the spread of its values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from screen.calculi.bounds import BranchBounds, values_of
from screen.calculi.bounds.arrays import matrix_of, vector_of
from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.parts import Part
from screen.calculi.bounds.quantities import Names
from screen.theorems.slope import Head, InputNorm, attention_bound, ffn_bound
from tests.calculi.bounds.test_bounds import HEADS, WIDTH, Attention, Stack, bounds


class Biased(nn.Module):
    """Attention with biases, queries, keys and values apart."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (m(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for m in (self.q, self.k, self.v))
        p = (q @ k.transpose(-2, -1) / 2.0).softmax(-1)
        return self.out((p @ v).transpose(1, 2).reshape(x.shape))


class Two(nn.Module):
    """An MLP with biases."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Turned(nn.Module):
    """A norm written out, its gain as 1 + w, and a map stored as [in, out]."""

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.up, self.down = (nn.Parameter(torch.randn(*s)) for s in ((WIDTH,), (WIDTH, 32), (32, WIDTH)))

    def forward(self, x: Tensor) -> Tensor:
        z = x - x.mean(-1, keepdim=True)
        y = (1.0 + self.gain) * (z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-6))
        flat = torch.addmm(torch.zeros(32), y.view(-1, WIDTH), self.up).view(*x.shape[:2], 32)
        return torch.relu(flat) @ self.down


def weights(branch: Any, before: Any = None) -> dict[str, np.ndarray]:
    """Random weights of the first block, with gains 12, 6, 4, 1, … in its norm."""
    torch.manual_seed(0)
    model = Stack(branch, before).double()
    found = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    if "before.0.weight" in found:
        found["before.0.weight"][:4] = (12.0, 6.0, 4.0, 1.0)
        found["before.0.bias"][:] = np.random.default_rng(1).normal(size=WIDTH)
    return found


def number(found: BranchBounds, claim: Any, w: dict[str, np.ndarray], **more: float) -> float:
    """A bound at given weights."""
    assert isinstance(claim, Expr)
    return claim.evaluate(values_of(found.quantities, w) | more)


def layer() -> nn.Module:
    return nn.LayerNorm(WIDTH)


def test_the_slope_of_pre_norm_attention_is_that_of_t5() -> None:
    found, w = bounds(Biased, layer), weights(Biased, layer)
    norm = InputNorm(WIDTH, w["before.0.weight"], w["before.0.bias"])
    size = WIDTH // HEADS
    v, c, o = w["branches.0.v.weight"].T, w["branches.0.v.bias"], w["branches.0.out.weight"].T
    heads = [Head(v[:, i : i + size], o[i : i + size], c[i : i + size]) for i in range(0, WIDTH, size)]
    ours = number(found, found.magnitude, w) / math.sqrt(WIDTH)
    assert ours == pytest.approx(attention_bound(norm, heads, w["branches.0.out.bias"]), rel=1e-9)
    assert number(found, found.plain(found.magnitude), w) / math.sqrt(WIDTH) > 2.5 * ours  # what outlying gains cost without folding


def test_the_slope_of_a_pre_norm_mlp_is_that_of_t5() -> None:
    found, w = bounds(Two, layer), weights(Two, layer)
    norm = InputNorm(WIDTH, w["before.0.weight"], w["before.0.bias"])
    up, down = w["branches.0.up.weight"].T, w["branches.0.down.weight"].T
    theirs = ffn_bound(norm, up, down, w["branches.0.up.bias"], w["branches.0.down.bias"])
    assert number(found, found.magnitude, w) / math.sqrt(WIDTH) == pytest.approx(theirs, rel=1e-9)
    assert str(found.magnitude) == "W1*(4*W0n + c0_l2) + b2_l2"


def test_gains_as_one_plus_w_and_turned_matrices_fold_too() -> None:
    found, w = bounds(Turned), weights(Turned)
    folded = (1.0 + w["branches.0.gain"])[:, None] * w["branches.0.up"]
    folded = folded - folded.mean(0)
    expected = 4.0 * np.linalg.norm(folded, 2) * np.linalg.norm(w["branches.0.down"], 2)
    assert number(found, found.magnitude, w) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("roles", ["rc", "hrc", "src", "sc", "r", "hr", "s"])
def test_folded_norms_are_at_most_their_plain_bounds(roles: str, turned: bool) -> None:
    """Of every view: rows 8 to 24 as two heads; vectors too."""
    rng = np.random.default_rng(2)
    w = {"w": rng.normal(size=(8, 24) if turned else (24, 8)), "g": rng.normal(size=8) * 3, "s": rng.normal(size=8), "b": rng.normal(size=24)}
    matrix = Part("w", w["w"].shape, 0, (24, 8), (1, 24) if turned else (8, 1))
    gain, shift, bias = (Part(n, w[n].shape, 0, w[n].shape, (1,)) for n in "gsb")
    dense = w["w"].T if turned else w["w"]
    vector = "c" not in roles
    part = vector_of(matrix, shift, bias) if vector else matrix_of(matrix, gain, True)
    array = dense @ w["s"] + w["b"] if vector else dense * w["g"]
    array = array if vector else array - array.mean(1, keepdims=True)
    view, cut = part.sliced(0, 8, 24), array[8:24]
    if len(roles) == (2 if vector else 3):
        view = view.split(0, (2, 8))
    names = Names()
    symbol = names.symbol(view, roles)
    values = values_of(tuple(names.quantities.values()), w)
    halves = [np.linalg.norm(h, *(() if vector else (2,))) for h in (cut[:8], cut[8:])]
    whole = {"rc": lambda: np.linalg.norm(cut, 2), "hrc": lambda: math.hypot(*halves), "hr": lambda: math.hypot(*halves), "src": lambda: max(halves),
             "sc": lambda: np.linalg.norm(cut, axis=1).max(), "r": lambda: np.linalg.norm(cut), "s": lambda: abs(cut).max()}  # fmt: skip
    assert values[symbol] == pytest.approx(whole[roles](), rel=1e-9)
    assert values[symbol] <= names.coarse[symbol].evaluate(values)


def test_attention_moves_by_the_spread_of_its_values() -> None:
    """T10: tokens whose values are alike leave the path through the logits closed; the constants of values do not count."""
    found, w = bounds(Biased, layer), weights(Biased, layer)
    assert [s.symbol for s in found.spreads] == ["spread_0"]
    local, point = found.lipschitz_local, {"sigma_0": 0.7, "theta_0": 1.0}
    value_path = number(found, local, w, spread_0=0.0, **point)
    v = w["branches.0.v.weight"] * w["before.0.weight"]
    v = (v - v.mean(1, keepdims=True)).reshape(HEADS, -1, WIDTH)
    heads = math.hypot(*(float(np.linalg.norm(h, 2)) for h in v))
    assert value_path == pytest.approx(heads * float(np.linalg.norm(w["branches.0.out.weight"], 2)) / 0.7, rel=1e-9)
    assert number(found, local, w, spread_0=1.0, **point) > value_path
    biased = dict(w, **{"branches.0.v.bias": 100.0 * w["branches.0.v.bias"]})
    assert number(found, found.lipschitz, biased) == number(found, found.lipschitz, w)


class Sunk(Attention):
    """Rows that need not sum to 1: an entry more in the softmax, left out after it."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        u = q @ k.transpose(-2, -1)
        p = torch.cat([u, torch.zeros(*u.shape[:-1], 1)], -1).softmax(-1)[..., :-1]
        return self.out((p @ v).transpose(1, 2).reshape(x.shape))


def test_rows_that_need_not_sum_to_one_have_no_spread() -> None:
    assert not bounds(Sunk, layer).spreads and isinstance(bounds(Sunk, layer).lipschitz_local, Expr)


class Shared(nn.Module):
    """One map after two norms."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.map = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(self.inner(self.map(x)))


def test_one_map_after_two_norms_is_folded_with_each() -> None:
    """Symbols of one base are compared with each other, so that W Γ₁ and W Γ₂ have bases of their own."""
    found, w = bounds(Shared, layer), weights(Shared, layer)
    assert str(found.magnitude) == "4*W0nn + c1_l2"
    gain = dict(w, **{"branches.0.inner.weight": 100.0 * w["branches.0.inner.weight"]})
    assert number(found, found.magnitude, gain) > 50 * number(found, found.magnitude, w)


class Shifted(nn.Module):
    """A buffer is added to what the branch makes."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.norm, self.table = nn.Linear(WIDTH, WIDTH), nn.RMSNorm(WIDTH), nn.Buffer(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.map(x)) + self.table


def test_a_buffer_is_a_quantity_that_is_held_fixed() -> None:
    found = bounds(Shifted)
    assert found.bounded is True and str(found.magnitude) == "4*g0_abs + b1_l2"
    assert any("branches.0.table" in g for g in found.given)
