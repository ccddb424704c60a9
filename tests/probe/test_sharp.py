"""Sharp forms of bounds under attack: folded norms, spreads, weights divided by an estimate of their norm; and definitions against each other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from screen.calculi.bounds.arrays import matrix_of, rows_of, share_of, vector_of
from screen.calculi.bounds.head_products import Logit, Through
from screen.calculi.bounds.parts import Part, dense
from screen.calculi.bounds.quantities import Quantity
from screen.probe.bounds import attack as adversary
from screen.probe.bounds.arrays import Arrays
from screen.probe.bounds.point import half_diameter
from screen.probe.bounds.weight_norms import quantity
from screen.probe.plan.quantities import quantity_plan
from screen.probe.run import experiments
from tests.probe import sharp_models
from tests.probe.common import CPU, living
from tests.probe.test_bounds import bounds_only, shrunk


def part(name: str, *shape: int, shift: float = 0.0) -> Part:
    strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return Part(name, shape, 0, shape, strides, shift)


W, G, B, C = part("w", 6, 4), part("g", 4, shift=1.0), part("b", 4), part("c", 6)
FOLDS = {
    "map": matrix_of(W, G, False), "centred": matrix_of(W, None, True), "both": matrix_of(W, G, True), "constant": vector_of(W, B, C),
    "constant alone": vector_of(W, B, None), "rows": rows_of(W, part("c", 6, 1)), "share": share_of(W, part("c", 6), part("b", 4)),
    "share with a gain": share_of(W, part("c", 6), part("b", 4), part("y")), "spectral": share_of(W, None, None),
    "spectral with a gain": share_of(W, None, None, part("y")), "frobenius": share_of(W, None, None, part("y"), True),
}  # fmt: skip


Q, K, P, V = (part(n, *shape) for n, shape in (("q", (2, 3, 5)), ("k", (2, 3, 4)), ("p", (2, 3)), ("v", (2, 3, 5))))
PAIRS = {
    "two maps": (dense(Q, (2, 3, 3), Logit(Q, K, 1)), "src"), "two small maps": (dense(Q, (2, 3, 2), Logit(Q, K.sliced(2, 0, 2), 1)), "src"),
    "a map and a constant": (dense(Q, (2, 3), Logit(Q, P, 1)), "sr"), "a constant and a map": (dense(P, (2, 3), Logit(P, K, 1)), "sr"),
    "two constants": (dense(P, (2,), Logit(P, K.dropped(2), 1)), "s"), "one head": (dense(W, (4, 4), Logit(W, part("w", 6, 4), 0)), "rc"),
    "values": (dense(W, (6, 6), Through(part("o", 6, 2, 3), V)), "rc"), "entries": (dense(W, (6, 6), Through(part("o", 6, 2, 3), V)), "sc"),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_products_by_heads_are_measured_alike(name: str) -> None:
    rng = np.random.default_rng(2)
    shapes = {"w": (6, 4), "q": (2, 3, 5), "k": (2, 3, 4), "p": (2, 3), "v": (2, 3, 5), "o": (6, 2, 3)}
    weights = {n: rng.standard_normal(shape) for n, shape in shapes.items()}
    made, roles = PAIRS[name]
    asked = Quantity("W0", "spectral", made, roles)
    ours = quantity(quantity_plan(asked), Arrays({n: torch.from_numpy(w) for n, w in weights.items()}))
    assert ours == pytest.approx(asked.of(weights), rel=1e-8) and ours > 0


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("roles", ["rc", "sc", "sa", "hrc"])
def test_what_is_made_of_weights_is_measured_alike(name: str, roles: str) -> None:
    """numpy in `screen.calculi.bounds.arrays`, torch in `screen.probe.bounds.arrays`, each from the formula."""
    rng = np.random.default_rng(1)
    weights = {"w": rng.standard_normal((6, 4)), "g": rng.standard_normal(4), "b": rng.standard_normal(4), "c": rng.standard_normal(6)}
    weights["y"] = np.asarray(-1.7)
    made = FOLDS[name]
    if len(made.sizes) == 1:
        roles = "r"
    elif "h" in roles:
        made = made.split(0, (2, 3))
    asked = Quantity("W0", "spectral", made, roles)
    ours = quantity(quantity_plan(asked), Arrays({n: torch.from_numpy(w) for n, w in weights.items()}))
    assert ours == pytest.approx(asked.of(weights), rel=1e-8) and ours > 0


def attacked(case: str, factor: float) -> list[dict[str, Any]]:
    built, plan, watch = living(*getattr(sharp_models, case)())
    found = list(experiments(shrunk(bounds_only(plan), factor), built, watch, CPU))[1:]
    return [e for e in found if e["name"] == "bounds"]


@pytest.mark.by_the_day
def test_folds_are_measured_again_at_every_place() -> None:
    """Outlying gains: max|γ|‖W‖ is 2.5 times the norm of W Γ Π and more, and the attack reaches the bound in the latter."""
    found = attacked("outlying", 1.0)
    assert {e["outcome"] for e in found} == {"confirmed"}, found
    near = {(e["sublayer"], e["what"].partition(" over")[0]): e["measured"] for e in found if "at the point" not in e["what"]}
    assert len(near) == 7 and all(v > 0.9 for (_, what), v in near.items() if "‖J‖" not in what) and near["ffn", "largest ‖J‖"] > 0.8, near
    built, plan, watch = living(*sharp_models.outlying())
    plain = replace(plan, sublayers=tuple(replace(s, bounds=s.plain) for s in plan.sublayers))
    coarse = [e for e in list(experiments(bounds_only(plain), built, watch, CPU))[1:] if e["name"] == "bounds" and "‖F(x)‖" in e["what"]]
    sharp = [e for e in found if "‖F(x)‖" in e["what"]]
    far, near_by = ([e["numbers"]["inputs"] for e in es] for es in (coarse, sharp))
    assert len(far) == 2 and all(1.5 * f < n for f, n in zip(far, near_by, strict=True)), (far, near_by)


@pytest.mark.by_the_day
def test_sharp_bounds_that_are_too_small_are_broken() -> None:
    found = attacked("outlying", 0.3)
    assert {e["outcome"] for e in found if not (e["sublayer"] == "attention" and "‖J‖" in e["what"])} == {"refuted"}, found


def test_half_diameters() -> None:
    v = torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    apart = [[max(float((a - b).norm()) for a in head for b in head) / 2 for head in sample] for sample in v]
    slow = math.sqrt(sum(max(sample[h] for sample in apart) ** 2 for h in range(2)))
    assert half_diameter(v) == pytest.approx(slow, rel=1e-12) and half_diameter(v) >= slow


@pytest.mark.by_the_day
def test_the_spread_of_values_stands_in_the_bound_at_the_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def bound() -> float:
        (one,) = (e for e in attacked("outlying", 1.0) if "at the point" in e["what"] and e["sublayer"] == "attention")
        return float(one["numbers"]["bound"])

    true = bound()
    monkeypatch.setattr(adversary, "half_diameter", lambda v: 0.0)
    assert bound() < 0.5 * true


@pytest.mark.by_the_day
def test_a_weight_over_an_estimate_of_its_norm_is_measured() -> None:
    """W/(uᵀWv) with u and v that do not belong to the W that was turned: ‖F‖ is thousands of times what converged vectors allow."""
    found = attacked("spectral", 1.0)
    assert {e["outcome"] for e in found} == {"confirmed"} and sum(e["status"] == "all weights" for e in found) == 1, found
    assert all(e["measured"] > 0.5 and e["numbers"]["attempt"] > 100 for e in found if "‖F(x)‖" in e["what"]), found
    assert {e["outcome"] for e in attacked("spectral", 0.3)} == {"refuted"}


def test_rows_of_trained_length_are_measured() -> None:
    found = attacked("rows", 1.0)
    assert {e["outcome"] for e in found} == {"confirmed"}, found
    assert not any(e["status"] == "all weights" for e in found), "the lengths are free"
    assert {e["outcome"] for e in attacked("rows", 0.2) if "‖F(x)‖" in e["what"] and not e["status"]} == {"refuted"}


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "confirmed"), (0.97, "refuted")])
def test_hamiltonian(factor: float, outcome: str) -> None:
    """A LayerNorm with outlying gains and a bias: the branch reaches H(P) for the P that its own output maximises."""
    built, plan, watch = living(*sharp_models.behind())
    forms = [s.hamiltonian for s in plan.sublayers]
    assert all(h is not None and h.centred and [kind for kind, _, _ in h.steps] == ["gain", "bias"] for h in forms)
    subs = tuple(replace(s, hamiltonian=replace(h, radius=h.radius * factor)) for s, h in zip(plan.sublayers, forms, strict=True) if h is not None)
    found = [e for e in list(experiments(bounds_only(replace(plan, sublayers=subs)), built, watch, CPU))[1:] if "Hamiltonian" in e["what"]]
    assert found and {e["outcome"] for e in found} == {outcome} and all(e["measured"] > 0.95 for e in found), found
