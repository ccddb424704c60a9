"""The kernel of the bounds on random tensors: facts that are equalities go in, and every fact that comes out must hold."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch import Tensor

from screen.calculi.bounds.axes import recast
from screen.calculi.bounds.expr import Expr, add, largest, mul, num, power, root, rss, smallest, sym
from screen.calculi.bounds.mixed_norms import Fact, Facts, plus, query, tidy, with_ceiling
from screen.calculi.bounds.products import product
from screen.structure.types import Unknown
from tests.soundness.nodewise import mixed_norm

SLACK = 1 + 1e-12


def _tensor(sizes: tuple[int, ...], rng: random.Random) -> Tensor:
    t = torch.randn(sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(rng.getrandbits(60)))
    kind = rng.randrange(5)
    if kind == 0:
        t = torch.ones_like(t)
    elif kind == 1:
        t = t * (t > 0.8)
    elif kind == 2 and sizes:
        t = torch.ones_like(t) * t.select(rng.randrange(len(sizes)), 0).unsqueeze(0).mean()
    return t if bool(t.any()) else t + 1


def _facts(t: Tensor, sizes: tuple[int, ...], rng: random.Random) -> Facts:
    """A few true facts with equality."""
    found = []
    for _ in range(rng.randint(1, 4)):
        roles = [rng.choice("ION") for _ in sizes]
        inner = frozenset(i for i, r in enumerate(roles) if r == "I")
        outer = frozenset(i for i, r in enumerate(roles) if r == "O")
        p = rng.choice((1, 2, 2)) if inner else 2
        found.append(Fact(num(mixed_norm(t, sizes, inner, outer, p)), inner, outer, p))
    return tuple(found)


def _broken(t: Tensor, sizes: tuple[int, ...], facts: object) -> list[Fact]:
    assert not isinstance(facts, Unknown)
    return [f for f in facts if mixed_norm(t, sizes, f.inner, f.outer, f.p) > f.bound.value * SLACK]  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(20))
def test_queries_hold(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        sizes = tuple(rng.choice((2, 3, 4)) for _ in range(rng.randint(1, 4)))
        t = _tensor(sizes, rng)
        facts = _facts(t, sizes, rng)
        assert not _broken(t, sizes, tidy(facts, sizes))
        for want in _facts(t, sizes, rng):
            assert want.bound.value <= query(facts, sizes, want.inner, want.outer, want.p).value * SLACK, (sizes, facts, want)
        top = float(t.abs().max())
        assert not _broken(t, sizes, with_ceiling(facts, top, sizes, [frozenset(range(len(sizes)))]))


@pytest.mark.parametrize("seed", range(20))
def test_sums_hold(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        sizes = tuple(rng.choice((2, 3, 4)) for _ in range(rng.randint(1, 4)))
        s, t = _tensor(sizes, rng), _tensor(sizes, rng)
        assert not _broken(s + t, sizes, plus(_facts(s, sizes, rng), _facts(t, sizes, rng), sizes))


@pytest.mark.parametrize("seed", range(20))
def test_reshapes_hold(seed: int) -> None:
    rng = random.Random(seed)
    cuts = {
        12: [(12,), (3, 4), (4, 3), (2, 6), (6, 2), (2, 2, 3), (3, 2, 2), (2, 3, 2)],
        24: [(2, 3, 4), (4, 6), (6, 4), (2, 2, 2, 3), (8, 3), (3, 8), (24,)],
    }
    for _ in range(100):
        total = rng.choice((12, 24))
        old, new = rng.choice(cuts[total]), rng.choice(cuts[total])
        t = _tensor(old, rng)
        facts = _facts(t, old, rng)
        assert not _broken(t.reshape(new), new, recast(facts, old, new)), (old, new, facts)


@pytest.mark.parametrize("seed", range(40))
def test_products_hold(seed: int) -> None:
    """Σ_K a·b with batch labels shared by both, labels of one alone, and K anything."""
    rng = random.Random(seed)
    for _ in range(60):
        labels = list(range(rng.randint(1, 4)))
        size = {i: rng.choice((2, 3)) for i in labels}
        where = {i: rng.choice(("a", "b", "both", "both", "k")) for i in labels}
        mine = tuple(i for i in rng.sample(labels, len(labels)) if where[i] in ("a", "both", "k"))
        yours = tuple(i for i in rng.sample(labels, len(labels)) if where[i] in ("b", "both", "k"))
        kept = tuple(i for i in rng.sample(labels, len(labels)) if where[i] != "k")
        sizes_a, sizes_b = tuple(size[i] for i in mine), tuple(size[i] for i in yours)
        a, b = _tensor(sizes_a, rng), _tensor(sizes_b, rng)
        if rng.random() < 0.3 and mine and mine == yours:
            b = a
        letters = "abcdefgh"
        spec = "{},{}->{}".format(*("".join(letters[i] for i in part) for part in (mine, yours, kept)))
        out = torch.einsum(spec, a, b)
        sizes = tuple(size[i] for i in kept)
        contracted = frozenset(i for i in labels if where[i] == "k")
        made = product(_facts(a, sizes_a, rng), _facts(b, sizes_b, rng), mine, yours, (sizes_a, sizes_b), contracted, kept, sizes)
        assert not _broken(out, sizes, made), (spec, size)


@pytest.mark.by_the_day
@pytest.mark.parametrize("seed", range(10))
def test_expressions_evaluate_alike(seed: int) -> None:
    """`evaluate`, `lambdify`, `log` and SymPy agree; what overflows is `inf`."""
    sympy = pytest.importorskip("sympy")
    rng = random.Random(seed)
    names = ("x", "y", "z")

    def grow(depth: int) -> Expr:
        if depth == 0:
            return rng.choice((num(rng.choice((0.5, 1.0, 2.0, 3.0))), *(sym(n) for n in names)))
        parts = [grow(depth - 1) for _ in range(rng.randint(2, 3))]
        return rng.choice((add, mul, smallest, largest, rss, lambda *p: root(add(*p)), lambda *p: power(mul(*p), rng.choice((2.0, 0.5)))))(*parts)

    for _ in range(10):
        e = grow(3)
        values = {n: 10 ** rng.uniform(-3, 3) for n in names}
        found = e.evaluate(values)
        assert e.lambdify()(values) == pytest.approx(found, rel=1e-9)
        assert e.log(values) == pytest.approx(math.log(found), rel=1e-9, abs=1e-9)
        assert float(sympy.sympify(e.sympy()).subs(values)) == pytest.approx(found, rel=1e-9)
        huge = dict.fromkeys(names, 1e300)
        for number in (e.evaluate(huge), e.lambdify()(huge)):
            assert number > 0 and not math.isnan(number)


def test_a_state_that_is_read_twice_in_each_step_is_written_once() -> None:
    """Forty steps have 160 parts, and 2⁴⁰ where each is written out."""
    e = sym("x")
    for step in range(40):
        e = root(add(power(e, 2.0), mul(sym(f"g{step}"), e)))
    assert len(e.sympy()) < 10_000
