"""Axes as products of atoms, and how facts follow reshapes.

A layout gives for each axis the sizes of its atoms, outer first (row-major); atoms of size 1 are left out. Splitting an atom is exact: both
parts inherit its place in I or O. Merging atoms with different places has two sound readings, kept side by side:
(a) the merged atom stands in neither;  (b) parts that were in neither are added at a cost of √size (rule 3 of `mixed_norms`).
"""

from __future__ import annotations

import itertools
import math

from screen.calculi.bounds.expr import mul, num
from screen.calculi.bounds.expr.memo import memo
from screen.calculi.bounds.mixed_norms import Bound, Fact, Facts, tidy
from screen.structure.types import Unknown

Layout = tuple[tuple[int, ...], ...]


@memo
def plain(shape: tuple[int, ...]) -> Layout:
    """One atom per axis."""
    return tuple((n,) if n != 1 else () for n in shape)


@memo
def sizes(layout: Layout) -> tuple[int, ...]:
    """Sizes of all atoms."""
    return tuple(n for group in layout for n in group)


@memo
def atoms(layout: Layout, axis: int) -> tuple[int, ...]:
    """Positions of the atoms of one axis; a single number has none."""
    if not layout:
        return ()
    axis %= len(layout)
    start = sum(len(g) for g in layout[:axis])
    return tuple(range(start, start + len(layout[axis])))


def _edges(flat: tuple[int, ...]) -> list[int]:
    """Cumulative products from the innermost atom: 1, …, total."""
    found = [1]
    for n in reversed(flat):
        found.append(found[-1] * n)
    return found


def _is_chain(edges: list[int]) -> bool:
    return all(b % a == 0 for a, b in itertools.pairwise(edges))


@memo
def refine(old: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Atoms with every boundary of `wanted`, and of `old` those that fit between them."""
    have, want = _edges(old), _edges(wanted)
    found = sorted(set(want))
    for edge in have:
        merged = sorted({*found, edge})
        if _is_chain(merged):
            found = merged
    return tuple(b // a for a, b in reversed(list(itertools.pairwise(found))))


@memo
def recast(bound: Bound, old: tuple[int, ...], new: tuple[int, ...]) -> Bound:
    """Facts on the atoms `old` as facts on the atoms `new` of the same total (row-major)."""
    if isinstance(bound, Unknown) or old == new:
        return bound
    joint = sorted({*_edges(old), *_edges(new)})
    if not _is_chain(joint):  # merge what does not fit, then split
        common = sorted(set(_edges(old)) & set(_edges(new)))
        middle = tuple(b // a for a, b in reversed(list(itertools.pairwise(common))))
        return recast(recast(bound, old, middle), middle, new)
    fine = tuple(b // a for a, b in reversed(list(itertools.pairwise(joint))))
    return _merge(_split_atoms(bound, old, fine), fine, new)


def _owner(fine: tuple[int, ...], coarse: tuple[int, ...]) -> list[int]:
    """For each fine atom the coarse atom that it is part of."""
    found, position, product = [], 0, 1
    for n in fine:
        found.append(position)
        product *= n
        if product == coarse[position]:
            position, product = position + 1, 1
    return found


def _split_atoms(facts: Facts, old: tuple[int, ...], fine: tuple[int, ...]) -> Facts:
    if old == fine:
        return facts
    owner = _owner(fine, old)
    return tuple(
        Fact(
            f.bound,
            frozenset(i for i, o in enumerate(owner) if o in f.inner),
            frozenset(i for i, o in enumerate(owner) if o in f.outer),
            f.p,
        )
        for f in facts
    )


def _merge(facts: Facts, fine: tuple[int, ...], new: tuple[int, ...]) -> Facts:
    if fine == new:
        return facts
    parts: dict[int, list[int]] = {}
    for i, o in enumerate(_owner(fine, new)):
        parts.setdefault(o, []).append(i)
    return tidy([g for f in facts for inflate in (True, False) for g in (_merged(f, parts, fine, inflate),)], new)


def _merged(f: Fact, parts: dict[int, list[int]], fine: tuple[int, ...], inflate: bool) -> Fact:
    inner: set[int] = set()
    outer: set[int] = set()
    cost = 1.0
    for merged, members in parts.items():
        within = [i for i in members if i in f.inner]
        around = [i for i in members if i in f.outer]
        free = [i for i in members if i not in f.inner and i not in f.outer]
        if not within and not around:
            continue
        if free:
            if not inflate:
                continue
            size = math.prod(fine[i] for i in free)
            cost *= size if within and f.p == 1 else math.sqrt(size)
        if around and within and f.p == 1:
            cost *= math.sqrt(math.prod(fine[i] for i in around))
        (inner if within else outer).add(merged)
    return Fact(mul(num(cost), f.bound), frozenset(inner), frozenset(outer), f.p)


def regroup(flat: tuple[int, ...], shape: tuple[int, ...]) -> Layout:
    """The layout of `shape` whose atoms are `flat` (each boundary of the shape is one of the atoms')."""
    found: list[tuple[int, ...]] = []
    position = 0
    for n in shape:
        start, product = position, 1
        while product != n:
            product *= flat[position]
            position += 1
        found.append(flat[start:position])
    return tuple(found)
