"""Products of two maps head by head: logits through W_QᵀW_K, values through V·O (T5, T10); where something stands between them there is none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from screen.calculi.bounds import BranchBounds, bounds_of, values_of
from screen.calculi.bounds.broadcast import align
from screen.calculi.bounds.expr import Expr, num
from screen.calculi.bounds.mixed_norms import Fact
from screen.calculi.bounds.pointwise import filled
from screen.calculi.bounds.quantities import Names
from screen.calculi.bounds.value import constant, summed
from tests.calculi.bounds.test_bounds import WIDTH, Stack, branch_of, rms

HEADS = 4


class Attention(nn.Module):
    """Softmax attention, with what may stand between its maps."""

    def __init__(self, groups: int = HEADS, fused: bool = False, bias: bool = True, between: str = "") -> None:
        super().__init__()
        size = WIDTH // HEADS
        self.q, self.out = (nn.Linear(WIDTH, WIDTH, bias=bias) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, groups * size, bias=bias) for _ in range(2))
        self.groups, self.fused, self.between = groups, fused, between
        self.gain = nn.Parameter(torch.ones(size))

    def heads(self, x: Tensor, groups: int) -> Tensor:
        found = x.unflatten(-1, (groups, WIDTH // HEADS)).transpose(1, 2)
        repeats = HEADS // groups
        return found if repeats == 1 else found[:, :, None].expand(-1, -1, repeats, -1, -1).flatten(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(self.q(x), HEADS), self.heads(self.k(x), self.groups), self.heads(self.v(x), self.groups)
        if self.between == "rotary":
            t = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)[:, None] * torch.tensor([1.0, 0.1], device=x.device).repeat(2)
            q, k = (y * t.cos() + torch.cat((-y[..., 2:], y[..., :2]), -1) * t.sin() for y in (q, k))
        if self.between == "norm":
            q = q * torch.rsqrt(q.square().mean(-1, keepdim=True) + 1e-6)
        if self.between == "gain":
            q = q * self.gain
        if self.between == "activation":
            v = torch.relu(v)
        if self.fused:
            y = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            rows = torch.softmax(q @ k.mT / (WIDTH // HEADS) ** 0.5, -1)
            if self.between == "cut":
                rows = rows * 0.5 + rows.square()
            y = rows @ v
        return self.out(y.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def found(**settings: Any) -> BranchBounds:
    return bounds_of(branch_of(Stack(lambda: Attention(**settings), rms)))


def weights(**settings: Any) -> dict[str, np.ndarray]:
    torch.manual_seed(5)
    model = Stack(lambda: Attention(**settings), rms).double()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0.0, 0.5)
    return {k: v.detach().numpy() for k, v in model.named_parameters()}


def number(bounds: BranchBounds, claim: object, w: dict[str, np.ndarray]) -> float:
    assert isinstance(claim, Expr)
    return claim.evaluate(values_of(bounds.quantities, w) | {"spread_0": 1.0, "theta_0": 1.0, "sigma_0": 1.0})


def by_hand(w: dict[str, np.ndarray], groups: int) -> tuple[float, float]:
    """(logits, magnitude) of the formulas, with whole products of [width, width] matrices. W: [out, in]."""
    g, size = w["before.0.weight"], WIDTH // HEADS
    maps = {n: w[f"branches.0.{n}.weight"] * (g if n != "out" else 1.0) for n in ("q", "k", "v", "out")}
    bias = {n: w.get(f"branches.0.{n}.bias", np.zeros(len(maps[n]))) for n in maps}
    root, own = math.sqrt(WIDTH), [h * groups // HEADS for h in range(HEADS)]
    a = [maps["q"][h * size : (h + 1) * size] for h in range(HEADS)]
    c, v = ([maps[n][i * size : (i + 1) * size] for i in own] for n in ("k", "v"))
    p = [bias["q"][h * size : (h + 1) * size] for h in range(HEADS)]
    r, s = ([bias[n][i * size : (i + 1) * size] for i in own] for n in ("k", "v"))
    norm = np.linalg.norm
    terms = [
        max(norm(x.T @ y, 2) for x, y in zip(a, c, strict=True)) * WIDTH, max(norm(x.T @ y) for x, y in zip(a, r, strict=True)) * root,
        max(norm(y.T @ x) for x, y in zip(p, c, strict=True)) * root, max(abs(x @ y) for x, y in zip(p, r, strict=True)),
    ]  # fmt: skip
    sizes = [norm(x, 2) for x in v]
    stacked = np.concatenate([maps["out"][:, h * size : (h + 1) * size] @ x / n for h, (x, n) in enumerate(zip(v, sizes, strict=True))], 1)
    constant = np.concatenate(s)
    last = norm(maps["out"] @ constant + bias["out"]) if groups == HEADS else norm(maps["out"], 2) * norm(constant) + norm(bias["out"])
    return sum(terms) / math.sqrt(size), float(norm(stacked, 2) * math.hypot(*sizes) * root + last)


@pytest.mark.parametrize("settings", [{}, {"fused": True}, {"groups": 2}, {"groups": 1, "bias": False}, {"groups": 2, "fused": True}])
def test_products_are_those_of_the_formulas(settings: dict[str, Any]) -> None:
    bounds, w = found(**settings), weights(**settings)
    logits, size = by_hand(w, settings.get("groups", HEADS))
    assert number(bounds, bounds.logits[0], w) == pytest.approx(logits, rel=1e-9)
    assert number(bounds, bounds.magnitude, w) == pytest.approx(size, rel=1e-9)
    for claim in (bounds.logits[0], bounds.magnitude, bounds.lipschitz_local):
        plain = bounds.plain(claim)
        assert isinstance(plain, Expr) and number(bounds, claim, w) < number(bounds, plain, w)


@pytest.mark.parametrize(("between", "logits", "values"), [
    ("", True, True), ("rotary", False, True), ("gain", False, True), ("norm", False, True), ("activation", True, False), ("cut", True, False),
])  # fmt: skip
def test_what_stands_between_two_maps_leaves_no_product(between: str, logits: bool, values: bool) -> None:
    """Rotations by the position, a norm, an activation; rows that do not sum to 1."""
    bounds = found(between=between)
    made = {"logits": bounds.logits[0], "values": bounds.magnitude}
    told = {q.symbol: q.part.fold.told for q in bounds.quantities if q.part.fold is not None}
    has = {k: isinstance(e, Expr) and any("by heads" in told.get(s, "") for s in e.symbols()) for k, e in made.items()}
    assert has == {"logits": logits, "values": values}, (str(made), told)



def test_a_sum_stands_on_the_atoms_of_both_operands() -> None:
    """Heads that are copies of groups are two atoms, [2, 2]: what is broadcast over heads skips both, and its norm over keys stays one over keys."""
    shape, layout = (2, 4, 5, 5), ((2,), (2, 2), (5,), (5,))
    logits = replace(constant(shape, 0.0, 1.0), layout=layout, mag=(Fact(num(1.0)),))
    bias = replace(constant((2, 1, 5, 5), 0.0, 7.0), mag=(Fact(num(7.0), frozenset({2})),))
    aligned = align(logits, bias, Names())
    assert aligned is not None
    left, right = filled(aligned)
    assert left.layout == right.layout == layout
    assert isinstance(right.mag, tuple) and [f.inner for f in right.mag] == [frozenset({4})]
    assert isinstance(mag := summed(left, right).mag, tuple) and {f.inner for f in mag} == {frozenset(), frozenset({4})}
