"""Every rule of the bounds on calls of its own: what it reads is measured in float64, what it says of its own node must hold, and must be of use."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.calculi.bounds.interpreter import ROWS, Walk
from screen.calculi.bounds.mixed_norms import query
from screen.calculi.bounds.rules.norm import _MACHINE
from screen.calculi.bounds.value import Value
from screen.structure.types import Unknown
from tests.rows.beside import BESIDE
from tests.rows.block import Call
from tests.rows.table import BY_OP, CALLS, written
from tests.soundness import draws
from tests.soundness.measure import Values, fibre
from tests.soundness.nodewise import broken, mixed_norm, tangents
from tests.soundness.quantities import value as quantity_value
from tests.soundness.region import Region
from tests.soundness.rowwise import on_measured

DRAWS = 3
TOLERANCE = 1e-9
BY_DIFFERENCE = frozenset({"heaviside", "cdist", "grid_sample"})
"""Ops for which torch has no forward derivative."""
LOOSE = {"hardsigmoid": 1e-7, **dict.fromkeys(BY_DIFFERENCE, 1e-4)}
"""Relative room: in the slope of hardsigmoid torch takes 1/6 in float32."""


INTEGERS = ("argsort", "argmax", "argmin", "bucketize", "searchsorted", "nonzero", "multinomial", "int", "long")
FLOOR = 0.1
"""Of each bound so much is reached in some draw: a rule that says "infinite" of everything is seen."""
LOW = {
    "detach-0": 0.0, "data-0": 0.0, "detach-1": 0.0, "data-1": 0.0,  # bounds count the slope that no gradient passes
    "isnan-0": 0.0, "isinf-0": 0.0,  # never so in a draw
    "softmax-3": 0.0, "log_softmax-1": 0.0,  # of a single number: 1 and 0
    "scaled_dot_product_attention-3": 0.2,  # a mask of any size makes the softmax hard
    "conv2d-2": 0.5, "conv2d-3": 0.4,  # filters of length one that all read one direction
    "scaled_dot_product_attention-4": 0.1, "adaptive_avg_pool2d-0": 0.5,
    "mul-9": 1e-3,  # the slope where the divisor is smallest
}  # fmt: skip
"""Where it is less: times so much."""
REFUSED = "div-4", "polar-1", "pad-2", "pad-3", "constant_pad_nd-1", "tensor_split-1", "addmm-1", "avg_pool2d-1", "fft_fft-3"
UNKNOWN = {
    **{key: {"no slope"} for key in ("sqrt-1", "atan2-0")},  # at 0 they have none
    **{f"{op}-0": {"no value"} for op in INTEGERS},
    **{key: {"no value", "no slope"} for key in REFUSED},
}  # fmt: skip
"""What a rule refuses."""
NORMS = ("layer_norm", "normalize", "group_norm")


@dataclass
class Judgement:
    """All draws of one call."""

    broken: list[Any] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    """Which of `value` and `slope` have a bound in each of its nodes."""
    reached: dict[str, float] = field(default_factory=dict)
    """The largest measured share of the bounds of the entries, and of the 2-norm of the last axis."""


@cache
def judged(call: Call) -> Judgement:
    """Draws of weights and inputs, the first of them ordinary; only the call's own nodes count."""
    region, walk, found = call.region, Walk(call.region.branch), Judgement()
    own = {n.index for n in call.results}
    for seed in range(DRAWS):
        rng = random.Random(f"{call}:{seed}")
        torch.default_generator.manual_seed(seed)
        weights = draws.weights(region.shapes(), rng) if seed else {n: torch.randn(s, dtype=torch.float64) for n, s in region.shapes().items()}
        point = {i: draws.inputs(call.shape, rng) if seed else torch.randn(call.shape, dtype=torch.float64) for i in region.leaves}
        step = {i: torch.randn_like(t) for i, t in point.items()}
        step = {i: t / t.norm(dim=-1, keepdim=True) for i, t in step.items()}
        seen = moved(region, point, weights, step) if call.op in BY_DIFFERENCE else tangents(region, point, weights, step)
        seen.update({i: (t, step[i]) for i, t in point.items()})
        seen.update(chosen(region, point, weights))
        held = {**weights, **region.named_buffers()}
        symbols = {q.symbol: quantity_value(q, held) for q in walk.names.quantities.values()}
        symbols["B"] = max(float(fibre(t)) for t in point.values())
        for index, made, values in on_measured(walk, seen, symbols, held, rng):
            if index in own:
                found.broken += [(seed, *b) for b in broken({index: made}, {index: seen[index]}, values, LOOSE.get(call.op, TOLERANCE))]
                reach(found, made, seen[index], values)
    return found


def reach(found: Judgement, made: Value, seen: tuple[Tensor, Tensor], values: Mapping[str, float]) -> None:
    """Enters what is known of one node, and how much of it was reached."""
    for what, bound, t in (("value", made.mag, seen[0]), ("slope", made.der, seen[1])):
        if isinstance(bound, Unknown):
            found.known.add(f"no {what}")
            continue
        for kind, along in (("entry", frozenset[int]()), ("row", made.axis(-1) if made.shape else frozenset[int]())):
            top, most = mixed_norm(t, made.flat, along, (), 2), query(bound, made.flat, along).evaluate(values)
            share = 1.0 if top == most == 0 else top / most if most else 0.0
            found.reached[f"{kind} {what}"] = max(found.reached.get(f"{kind} {what}", 0.0), share)


def chosen(region: Region, point: Values, weights: Values) -> dict[int, tuple[Tensor, Tensor]]:
    """Integers and truths, which do not move."""
    here = region.run(point, weights, copies=True)
    whole = {i: t.double() for i, t in here.items() if isinstance(t, Tensor) and not t.is_floating_point() and not t.is_complex()}
    return {i: (t, torch.zeros_like(t)) for i, t in whole.items()}


def moved(region: Region, point: Values, weights: Values, step: Values) -> dict[int, tuple[Tensor, Tensor]]:
    """Values and slopes as `tangents` gives them, by a difference."""
    size = 1e-6 * max(float(t.abs().max()) for t in point.values())
    here, up, down = (region.run({i: t + k * size * step[i] for i, t in point.items()}, weights, copies=True) for k in (0, 1, -1))
    return {i: (t, (up[i] - down[i]) / (2 * size)) for i, t in here.items() if isinstance(t, Tensor) and t.is_floating_point()}


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_rule_holds_for_its_own_node(call: Call) -> None:
    assert call.trace.graph.failure is None and call.nodes, "capture gives it another name"
    with sdpa_kernel(SDPBackend.MATH):
        found = judged(call)
    assert not found.broken
    if call.op in ROWS:
        assert found.known == UNKNOWN.get(str(call), set())
        assert found.reached or found.known
        assert {k: v for k, v in found.reached.items() if v < FLOOR * LOW.get(str(call), 1.0)} == {}


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", BESIDE)
def test_a_rule_holds_beside_the_table(name: str) -> None:
    call = BESIDE[name]
    assert call.trace.graph.failure is None and call.nodes, "capture gives it another name"
    assert not judged(call).broken


@pytest.mark.parametrize("call", [c for op in NORMS for c in BY_OP[op]], ids=str)
def test_norms_are_bounded(call: Call) -> None:
    assert judged(call).known == set()
    assert judged(call).reached["row value"] > 0.4


UNTOLD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda u, x: u + x, "difference": lambda u, x: x - u, "product": lambda u, x: u * x, "quotient": lambda u, x: u / (x.abs() + 1),
    "beside": lambda u, x: torch.cat([x, u]), "on": lambda u, x: torch.stack([x, u]), "power": lambda u, x: u**2, "kernel": lambda u, x: u @ x.mT,
    "choice": lambda u, x: torch.where(x > 0, x, u), "written": lambda u, x: written(x, (slice(None), 0), u[:, 0]), "view": lambda u, x: u.mT,
    "written to": lambda u, x: written(u, (slice(None), 0), x[:, 0]), "part": lambda u, x: u[:, 1:], "total": lambda u, x: u.sum(-1),
    "values": lambda u, x: F.scaled_dot_product_attention(x, x, u), "map": lambda u, x: F.linear(u, x[0]), "size": lambda u, x: u.norm(dim=-1),
    "larger": torch.maximum, "largest": lambda u, x: u.amax(-1), "sums": lambda u, x: u.cumsum(1),
    "first": lambda u, x: u.topk(2)[0],
    "between": lambda u, x: torch.lerp(x, u, 0.3), "spread": lambda u, x: u.std(-1), "copies": lambda u, x: u.repeat(1, 2, 1),
    "root": lambda u, x: u.abs().sqrt(),
    "places": lambda u, x: x.scatter(1, torch.zeros(2, 1, 4, dtype=torch.int64), u[:, :1]), "distance": torch.cdist,
    "added": lambda u, x: x.index_add(1, torch.zeros(3, dtype=torch.int64), u), "added to": lambda u, x: u.index_put((torch.tensor([0]),), x[:1]),
    "spread over": lambda u, x: x.scatter_add(1, torch.zeros(2, 3, 4, dtype=torch.int64), u),
    "replaced": lambda u, x: x.slice_scatter(u[:, :1], 1, 0, 1),
}  # fmt: skip
"""Of a value u that has no bound, and of one that has."""


@pytest.mark.parametrize("name", UNTOLD)
def test_what_is_made_of_the_unknown_has_no_bound(name: str) -> None:
    call = Call("lgamma", lambda x: UNTOLD[name](torch.lgamma(x), x))
    found = Walk(call.region.branch).one(call.end.index)
    assert isinstance(found.mag, Unknown) and isinstance(found.der, Unknown)


def test_a_norm_without_eps_has_that_of_its_type() -> None:
    assert {name: torch.finfo(getattr(torch, name)).eps for name in _MACHINE} == _MACHINE


def test_every_rule_has_a_call() -> None:
    assert set(ROWS) - set(BY_OP) == {"cpu", "cuda", "type"}  # moves, which capture records as `to`
