"""Rotary positions: a rotation of pairs of features by angles, an isometry where it is recognised; else a sum like any other.

Recognised by data flow: x·c + r(x)·s, where c and s are the cosine and the sine of the same angles (both times the same constant m), the two
entries of a pair share the angle (the angles are `cat(f, f)`, or the cosines `cat(cos f, cos f)`), and r(x) = cat(−x₂, x₁) for the halves
x₁, x₂ of x. Then ‖·‖ over the axis is m·‖x‖; per entry at most √2·m·max|x|.
"""

from __future__ import annotations

import math
from dataclasses import replace

from screen.facts.bounds.domain import Bound, Fact, query, tidy
from screen.facts.bounds.expr import mul, num
from screen.facts.bounds.value import Value
from screen.facts.bounds.walk import Walk
from screen.facts.flow import number, strip
from screen.facts.nouns import Unknown
from screen.graph import Node, Ref


def rotated(walk: Walk, node: Node) -> Value | None:
    """The value of a recognised rotation; None when it is none."""
    if node.op != "add" or len(node.inputs) != 2 or node.kwarg("alpha") not in (None, 1):
        return None
    for plain_side, turned_side in (node.inputs, node.inputs[::-1]):
        x, c = _factors(walk, plain_side)
        turned, s = _factors(walk, turned_side)
        if x is None or c is None or turned is None or s is None or _half_turn(walk, turned) != strip(walk.flow, x):
            continue
        size = _same_angles(walk, c, s)
        if size is not None:
            return _kept(walk.one(x), size, node.shape or ())
    return None


def _factors(walk: Walk, index: int) -> tuple[int | None, int | None]:
    """(stream factor, constant factor) of a product."""
    node = walk.graph.nodes[strip(walk.flow, index)]
    if node.op != "mul" or len(node.inputs) != 2:
        return None, None
    a, b = node.inputs
    moving = [i for i in (a, b) if walk.flow.data[i]]
    if len(moving) != 1:
        return None, None
    return moving[0], b if moving[0] == a else a


def _half_turn(walk: Walk, index: int) -> int | None:
    """x for cat(−x₂, x₁) along the last axis."""
    node = walk.graph.nodes[strip(walk.flow, index)]
    parts = node.args[0] if node.op == "cat" and node.args else None
    rank = len(node.shape or ())
    if not isinstance(parts, tuple) or len(parts) != 2 or walk.flow.operand(node, 1, "dim") not in (-1, rank - 1):
        return None
    if not all(isinstance(p, Ref) for p in parts):
        return None
    first, second = (walk.graph.nodes[strip(walk.flow, p.node)] for p in parts if isinstance(p, Ref))
    if first.op != "neg":
        return None
    upper = walk.one(first.inputs[0]).piece
    lower = walk.one(second.index).piece
    n = (node.shape or (0,))[-1]
    if upper is None or lower is None or upper.node != lower.node or upper.axis != -1 or lower.axis != -1:
        return None
    halves = (lower.start, lower.stop, upper.start, upper.stop) == (0, n // 2, n // 2, n)
    return strip(walk.flow, upper.node) if halves else None


def _same_angles(walk: Walk, cos: int, sin: int) -> float | None:
    """m when the two are m·cos and m·sin of the same angles, shared by the two entries of a pair."""
    c, s = _angle(walk, cos, "cos"), _angle(walk, sin, "sin")
    if c is None or s is None or c != s or not c[2]:
        return None
    return abs(c[1])


_CARRY = frozenset({"unsqueeze", "expand", "view", "reshape", "squeeze"})


def _angle(walk: Walk, index: int, op: str) -> tuple[int, float, bool, tuple[object, ...]] | None:
    """(node of the angles f, constant factor, whether it is laid out as cat(f, f), the views passed) behind views that keep the last axis."""
    factor, paired, inside = 1.0, False, False
    trail: list[object] = []
    for _ in range(24):
        node = walk.graph.nodes[index]
        width = (node.shape or (0,))[-1]
        if not node.inputs:
            break
        below = node.inputs[0]
        same = ((walk.graph.nodes[below].shape or (0,))[-1]) == width
        if strip(walk.flow, index) != index:
            index = strip(walk.flow, index)
        elif node.op in _CARRY | {"transpose", "getitem"} and same and _keeps_last(node):
            trail.append((node.op, node.args[1:], node.kwargs))
            index = below
        elif node.op == "mul" and not inside and (value := number(node.args[1] if len(node.args) > 1 else None)) is not None:
            factor, index = factor * value, below
        elif node.op == op and not inside:
            inside, index = True, below
        elif node.op == "cat" and not paired and _doubles(walk, node):
            paired, index = True, below
        else:
            break
    return (index, factor, paired, tuple(trail)) if inside else None


def _keeps_last(node: Node) -> bool:
    if node.op == "transpose":
        return -1 not in node.args and len(node.shape or ()) - 1 not in node.args[1:]
    if node.op == "getitem":
        index = node.args[1]
        items = index if isinstance(index, tuple) and index[:1] != ("slice",) else (index,)
        whole = items[-1:] == (("slice", None, None, None),) or items[-1:] == ("...",)
        return whole or len([i for i in items if i is not None]) < len(node.shape or ())
    return True


def _doubles(walk: Walk, node: Node) -> bool:
    parts = node.args[0]
    rank = len(node.shape or ())
    if not isinstance(parts, tuple) or len(parts) != 2 or walk.flow.operand(node, 1, "dim") not in (-1, rank - 1):
        return False
    ends = [strip(walk.flow, p.node) for p in parts if isinstance(p, Ref)]
    return len(ends) == 2 and ends[0] == ends[1]


def _kept(x: Value, size: float, shape: tuple[int, ...]) -> Value | None:
    if x.shape != shape:
        return None
    along = x.axis(-1)

    def moved(bound: Bound) -> Bound:
        if isinstance(bound, Unknown):
            return bound
        made = [Fact(mul(num(size), f.bound), f.inner, f.outer, f.p) for f in bound if along <= f.inner and f.p == 2]
        whole = mul(num(size), query(bound, x.flat, along))
        entry = mul(num(size * math.sqrt(2.0)), query(bound, x.flat))
        return tidy([*made, Fact(whole, along), Fact(entry)], x.flat)

    high = math.sqrt(2.0) * size * max(abs(x.low), abs(x.high))
    return replace(x.bare(), mag=moved(x.mag), der=moved(x.der), low=-high, high=high, piece=x.piece)


