"""Products: out = Σ_K a·b, for entry-wise products (K empty), matrix products, and maps by a weight.

Atoms carry labels; K are the contracted ones. With L1 the ℓ1 norm over K, and every norm a sup over the atoms it does not speak of:

1. |out| <= ‖a‖_K ‖b‖_K   (Cauchy-Schwarz)
2. ‖out‖_(I, O) <= L1_K(a) · ‖b‖_(I, O)   for I free of K, and of the atoms of a when K is not empty (Minkowski); O may share atoms with a
3. ‖out‖_(A ∪ B) <= ‖a‖_(K ∪ A) · ‖b‖_(K ∪ B)   for A atoms of a, B atoms of b alone (Cauchy-Schwarz in each entry)
4. K empty: ‖out‖_1 over I <= ‖a‖_I ‖b‖_I
"""

from __future__ import annotations

from collections.abc import Mapping

from screen.calculi.bounds.expr import Expr, mul
from screen.calculi.bounds.mixed_norms import NONE, Atoms, Bound, Fact, Facts, is_zero, query, relabel, tidy, zero
from screen.structure.types import Unknown

Sizes = Mapping[int, int]


class Labelled:
    """Facts over labels, with the labels that the tensor has."""

    def __init__(self, facts: Facts, labels: tuple[int, ...], flat: tuple[int, ...]) -> None:
        names = dict(enumerate(labels))
        found = relabel(facts, names)
        assert not isinstance(found, Unknown)
        self.facts = found
        self.labels = frozenset(labels)
        top = max(labels, default=-1) + 1
        table = [1] * top
        for label, n in zip(labels, flat, strict=True):
            table[label] = n
        self.sizes = tuple(table)

    def norm(self, inner: Atoms = NONE, outer: Atoms = NONE, p: int = 2) -> Fact:
        """The fact about one norm; labels that the tensor lacks are ignored."""
        into, out = inner & self.labels, outer & self.labels
        return Fact(query(self.facts, self.sizes, into, out, p), into, out, p)


def product(a: Bound, b: Bound, labels_a: tuple[int, ...], labels_b: tuple[int, ...], flats: tuple[tuple[int, ...], tuple[int, ...]],
            contracted: Atoms, out: tuple[int, ...], out_sizes: tuple[int, ...]) -> Bound:
    """Bounds of Σ_K a·b with atoms labelled; `out` are the labels of the result in order."""
    if is_zero(a) or is_zero(b):
        return zero(len(out))
    if isinstance(a, Unknown):
        return a
    if isinstance(b, Unknown):
        return b
    left, right = Labelled(a, labels_a, flats[0]), Labelled(b, labels_b, flats[1])
    facts = _facts(left, right, contracted)
    names = {label: i for i, label in enumerate(out)}
    made = relabel(tuple(facts), names)
    assert not isinstance(made, Unknown)
    return tidy(made, out_sizes)


def _facts(a: Labelled, b: Labelled, k: Atoms) -> list[Fact]:
    found = []
    for x, y in ((a, b), (b, a)):
        weight = x.norm(k, p=1).bound
        exact = not k or any(f.p == 1 and k <= f.inner for f in x.facts)
        for f in y.facts:
            if f.inner & k or (not exact and not f.inner):
                continue  # rules 3 and 1 speak of these
            inner = f.inner - x.labels if k else f.inner
            found.append(Fact(mul(weight, _at(y, inner, f.outer - k, f.p if inner else 2)), inner, f.outer - k, f.p))
        if exact:
            found.append(Fact(mul(weight, y.norm().bound)))
    if k:
        found.append(Fact(mul(a.norm(k).bound, b.norm(k).bound)))
    found += _squares(a, b, k)
    return found


def _at(side: Labelled, inner: Atoms, outer: Atoms, p: int) -> Expr:
    return side.norm(inner, outer, p).bound


def _squares(a: Labelled, b: Labelled, k: Atoms) -> list[Fact]:
    """Rules 3 and 4."""
    found = []
    for f in a.facts:
        for g in b.facts:
            mine, theirs = (f.inner | f.outer) - k, (g.inner | g.outer) - k
            for left, right in ((mine, theirs - a.labels), (mine - b.labels, theirs)):
                if k <= f.inner | f.outer and k <= g.inner | g.outer and (k or (left and right)):
                    found.append(Fact(mul(a.norm(k | left).bound, b.norm(k | right).bound), left | right))
            both = f.inner & g.inner
            if not k and both:
                found.append(Fact(mul(a.norm(both).bound, b.norm(both).bound), both, NONE, 1))
    return found
