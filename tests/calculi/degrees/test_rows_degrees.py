"""Every rule of the degrees on calls of its own: weights are multiplied by λ in float64, and values and slopes of its nodes grow as is said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.calculi.degrees import _walked
from screen.calculi.degrees.monomials import Monomials
from screen.calculi.degrees.rules import _BY_CLASS, _ROWS
from screen.calculi.degrees.values import Value, Walk, settled
from screen.ops import CLASSES
from screen.probe.measure.branch import rows
from screen.structure.branches.role import Mixer
from tests.calculi.bounds.test_rows_bounds import BY_DIFFERENCE, moved
from tests.rows.beside import BESIDE
from tests.rows.block import Call
from tests.rows.table import BY_OP, CALLS
from tests.soundness.measure import Values
from tests.soundness.nodewise import tangents

REFUSED = frozenset({"exp-0", "exp-3", "exp2-0", "mul-3"})
"""Calls of which a rule knows nothing: exponentials of what may be positive."""
SMALL, LARGE = (1.0, 4.0), (2.0**14, 2.0**16)
"""Between these an exact exponent is measured, and one that holds for large weights."""


@cache
def walked(call: Call) -> Walk:
    """Its degrees."""
    return _walked(call.region.branch, Mixer(call.region.branch))


def overlapping(walk: Walk) -> frozenset[int]:
    """Groups that share a parameter with another one: the whole of what other groups are parts of acts on nothing itself."""
    count = Counter(m for members in walk.groups.members for m in members)
    return frozenset(g for g, members in enumerate(walk.groups.members) if any(count[m] > 1 for m in members))


def scaled(walk: Walk, weights: Values, group: int, c: float, biases: bool) -> Values:
    """The weights with those of a group multiplied by c, and with `biases` those that go with it by their powers of it."""
    nodes, name = walk.flow.graph.nodes, walk.groups.names[group]
    found = dict(weights)
    for member in walk.groups.members[group]:
        at = rows(name.rows, found[member].shape[name.axis])
        found[member] = found[member].index_copy(name.axis, at, found[member].index_select(name.axis, at) * c)
    for bias, power in walk.biases.get(group, {}).items() if biases else ():
        found[nodes[bias].name] = found[nodes[bias].name] * c ** float(power)
    return found


def grown(call: Call, group: int, ends: tuple[float, float], biases: bool) -> dict[int, tuple[Tensor, Tensor, Tensor, Tensor]]:
    """For each node of the call (value, slope) at both ends."""
    torch.default_generator.manual_seed(0)
    region, walk = call.region, walked(call)
    weights = {n: torch.randn(s, dtype=torch.float64) for n, s in region.shapes().items()}
    point = {i: torch.randn(call.shape, dtype=torch.float64) for i in region.leaves}
    step = {i: torch.randn_like(t) for i, t in point.items()}
    made = []
    for c in ends:
        torch.default_generator.manual_seed(1)
        given = scaled(walk, weights, group, c, biases)
        made.append(moved(region, point, given, step) if call.op in BY_DIFFERENCE else tangents(region, point, given, step))
    own = [n.index for n in call.results if n.index in made[0] and walk.flow.data[n.index]]
    return {i: (*made[0][i], *made[1][i]) for i in own}


def exponent(low: Tensor, high: Tensor, ends: tuple[float, float]) -> float:
    """d log size / d log λ; −∞ where nothing is left."""
    a, b = float(low.abs().max()), float(high.abs().max())
    return math.log(b / a) / math.log(ends[1] / ends[0]) if a > 1e-200 and b > 1e-200 else -math.inf


def most(walk: Walk, monomials: Monomials, group: int) -> float:
    """The largest power of a group."""
    return max((float(sum(p for site, p in m if site >= 0 and walk.groups.owner[site] == group)) for m in monomials), default=-math.inf)


def wrong(call: Call) -> Iterator[str]:
    """What is said of the call's nodes and is not so."""
    walk = walked(call)
    for group in range(len(walk.groups.names)):
        exact, large = grown(call, group, SMALL, True), grown(call, group, LARGE, False)
        rough = 0.05 if CLASSES.get(call.op) == "norm" else 1e-6  # ε
        for index, (one, _, four, _) in exact.items():
            value = settled(walk.values[index]) if index in walk.values else Value()
            if value.unknown is not None or (group not in value.laws and group in overlapping(walk)):
                continue
            who = f"node {index} in `{walk.groups.names[group].text}`"
            law = value.laws.get(group, (0, True))
            if law is not None and law[1] and not torch.allclose(four, one * 4.0 ** float(law[0]), rtol=rough, atol=1e-9):
                yield f"{who}: not homogeneous of degree {law[0]}"
            low, low_slope, high, high_slope = large[index]
            found = exponent(low, high, LARGE)
            if law is not None and not law[1] and math.isfinite(found) and abs(found - float(law[0])) > 0.05:
                yield f"{who}: grows as λ^{found:.3f}, said to be {law[0]} for large weights"
            slack = 0.3 if call.op in ("sin", "cos") else 0.05  # their slopes swing
            for what, seen, said in (("size", found, value.size), ("slope", exponent(low_slope, high_slope, LARGE), value.slope)):
                if seen > most(walk, said, group) + slack:
                    yield f"{who}: {what} grows as λ^{seen:.3f}, said to be at most {most(walk, said, group)}"


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_what_is_said_of_degrees_is_measured(call: Call) -> None:
    with sdpa_kernel(SDPBackend.MATH):
        assert list(wrong(call)) == []
    refused = [n.op for n in call.results if n.index in walked(call).values and walked(call).values[n.index].unknown is not None]
    assert not refused or str(call) in REFUSED or call.op not in _ROWS


@pytest.mark.parametrize("name", BESIDE)
def test_degrees_beside_the_table_are_measured(name: str) -> None:
    assert list(wrong(BESIDE[name])) == []


UNTOLD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda u, x: u + x, "product": lambda u, x: u * x, "quotient": lambda u, x: u / (x.abs() + 1), "quotient by it": lambda u, x: x / (u + 9),
    "beside": lambda u, x: torch.cat([x, u]), "bounded": lambda u, x: torch.tanh(u), "power": lambda u, x: u**2, "kernel": lambda u, x: u @ x.mT,
    "choice": lambda u, x: torch.where(x > 0, x, u), "write": lambda u, x: torch.index_add(x, 0, torch.arange(2), u), "view": lambda u, x: u.mT,
    "root": lambda u, x: u.abs().sqrt(), "sign": lambda u, x: torch.sign(u), "softmax": lambda u, x: u.softmax(-1), "part": lambda u, x: u[:, 1:],
    "logits": lambda u, x: F.scaled_dot_product_attention(u, x, x), "values": lambda u, x: F.scaled_dot_product_attention(x, x, u),
    "map": lambda u, x: F.linear(u, x[0]), "size": lambda u, x: x / u.norm(dim=-1, keepdim=True),
}  # fmt: skip
"""Of a value u without a row, and of one with degrees."""


@pytest.mark.parametrize("name", UNTOLD)
def test_what_is_made_of_the_unknown_is_unknown(name: str) -> None:
    call = Call("asinh", lambda x: UNTOLD[name](torch.asinh(x), x))
    assert walked(call).values[call.end.index].unknown is not None


def test_every_rule_has_a_call() -> None:
    assert set(_ROWS) - set(BY_OP) == set()
    assert {CLASSES[op] for op in BY_OP if op in CLASSES and op not in _ROWS} >= set(_BY_CLASS)
