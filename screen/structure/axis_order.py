"""Where the axes of a value go when they change places: every spelling of it is read here, for all calculi."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar

from screen.graph import Node

Label = TypeVar("Label")
"""What a calculus knows of a factor of an axis."""

TURNS = frozenset({"transpose", "swapaxes", "swapdims", "t", "T", "mT", "H", "mH", "adjoint", "permute", "movedim"})
"""Ops that put axes in another order and change no entry (H, mH and adjoint but for the conjugate)."""
_NAMES = {
    "transpose": ("dim0", "dim1"), "swapdims": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1"), "movedim": ("source", "destination"),
}  # fmt: skip


def axis_order(node: Node, rank: int) -> tuple[int, ...] | None:
    """For each axis of the result of one of `TURNS` the axis of its operand, which has `rank` of them; None where that cannot be told."""
    order = list(range(rank))
    if node.op in ("mT", "mH", "adjoint"):
        order[-2:] = reversed(order[-2:])
        return tuple(order) if rank >= 2 else None
    if node.op in ("t", "T", "H"):
        return tuple(reversed(order))
    if node.op == "permute":
        return _whole(_axes(node.args[1] if len(node.args) == 2 else node.args[1:] or node.kwarg("dims"), rank), rank)
    if node.op not in _NAMES:
        return None
    given = [node.args[p] if p < len(node.args) else node.kwarg(name) for p, name in enumerate(_NAMES[node.op], 1)]
    one, two = (_axes(places, rank) for places in given)
    if one is None or two is None or len(one) != len(two):
        return None
    if node.op == "movedim":
        left = iter([i for i in order if i not in one])
        return _whole(tuple(one[two.index(i)] if i in two else next(left, -1) for i in order), rank)
    order[one[0]], order[two[0]] = order[two[0]], order[one[0]]
    return tuple(order)


def regrouped(factors: Iterable[tuple[int, Label]], shape: Iterable[int]) -> tuple[tuple[tuple[int, Label], ...], ...] | None:
    """For each axis of a `view` the factors (size, label) that it is made of, row-major: they are cut where an axis ends. None where one is cut
    unevenly or left over, and of a tensor without entries."""
    left = [factor for factor in factors if factor[0] != 1][::-1]
    found = []
    for size in shape:
        axis = []
        while size > 1 and left:
            have, label = left.pop()
            part = math.gcd(have, size)
            if part != min(have, size):
                return None
            axis.append((part, label))
            size //= part
            if have > part:
                left.append((have // part, label))
        if size != 1:
            return None
        found.append(tuple(axis))
    return None if left else tuple(found)


def _axes(given: object, rank: int) -> tuple[int, ...] | None:
    """Axes counted from the first: one, or several in a row."""
    listed = given if isinstance(given, tuple) else (given,)
    found = tuple(a % rank for a in listed if type(a) is int and -rank <= a < rank)
    return found if found and len(found) == len(listed) else None


def _whole(order: tuple[int, ...] | None, rank: int) -> tuple[int, ...] | None:
    return order if order is not None and sorted(order) == list(range(rank)) else None


__all__ = ["TURNS", "axis_order", "regrouped"]
