"""Rotary positions: a rotation of pairs of features by angles, an isometry where it is recognised; else a sum like any other.

Recognised by data flow, where c and s are the cosine and the sine of the same angles (both times the same constant m), and x₁, x₂ are the two
halves of x, or its even and odd entries:
1. x·c + r(x)·s with r(x) = (−x₂, x₁) in the places of (x₁, x₂), and the two entries of a pair share the angle (`cat(f, f)` for halves,
   `repeat_interleave(f, 2)` for even and odd entries);
2. x₁c − x₂s and x₂c + x₁s, put side by side.
Then ‖·‖ over the axis is m·‖x‖; per entry at most √2·m·max|x|.
"""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.axes import plain
from screen.calculi.bounds.expr import mul, num
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.mixed_norms import Bound, Fact, query, tidy
from screen.calculi.bounds.value import Value, recut, reshaped
from screen.graph import Node, Ref
from screen.structure.axis_order import TURNS, axis_order
from screen.structure.dataflow import number, strip
from screen.structure.types import Unknown


def rotated(walk: Walk, node: Node) -> Value | None:
    """The value of a recognised rotation; None when it is none."""
    if node.op != "add" or len(node.inputs) != 2 or node.kwarg("alpha") not in (None, 1):
        return None
    for plain_side, turned_side in (node.inputs, node.inputs[::-1]):
        x, c = _factors(walk, plain_side)
        turned, s = _factors(walk, turned_side)
        if x is None or c is None or turned is None or s is None:
            continue
        turn = _turn(walk, turned)
        if turn is None or turn[0] != strip(walk.flow, x):
            continue
        size = _same_angles(walk, c, s, turn[1])
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


def _turn(walk: Walk, index: int) -> tuple[int, str] | None:
    """(x, "halves") for cat(−x₂, x₁), (x, "pairs") for the even and odd entries stacked and flattened."""
    node = walk.graph.nodes[strip(walk.flow, index)]
    kind = "halves"
    if node.op in ("flatten", "reshape", "view") and node.inputs:
        stacked = walk.graph.nodes[node.inputs[0]]
        if stacked.op != "stack" or (node.shape or ())[:-1] != (stacked.shape or ())[:-2]:
            return None
        node, kind = stacked, "pairs"
    elif node.op != "cat":
        return None
    parts = _operands(walk, node)
    if parts is None or walk.graph.nodes[parts[0]].op != "neg":
        return None
    found = _split(walk, parts[1], walk.graph.nodes[parts[0]].inputs[0])
    return found if found is not None and found[1] == kind else None


def _operands(walk: Walk, node: Node) -> tuple[int, int] | None:
    """The two values that are put side by side along the last axis."""
    parts = node.args[0] if node.args else None
    if not isinstance(parts, tuple) or len(parts) != 2 or walk.flow.operand(node, 1, "dim") not in (-1, len(node.shape or ()) - 1):
        return None
    found = [strip(walk.flow, p.node) for p in parts if isinstance(p, Ref)]
    return (found[0], found[1]) if len(found) == 2 else None


def _split(walk: Walk, first: int, second: int) -> tuple[int, str] | None:
    """(x, how) when the two nodes are x₁ and x₂ of one x."""
    one, two = walk.one(strip(walk.flow, first)).piece, walk.one(strip(walk.flow, second)).piece
    if one is None or two is None or one.node != two.node or one.axis != -1 or two.axis != -1:
        return None
    n = (walk.graph.nodes[one.node].shape or (0,))[-1]
    node = strip(walk.flow, one.node)
    if (one.start, one.stop, one.step, two.start, two.stop, two.step) == (0, n // 2, 1, n // 2, n, 1) and n % 2 == 0:
        return node, "halves"
    if (one.start, one.step, two.start, two.step) == (0, 2, 1, 2) and one.stop >= n - 1 and two.stop == n and n % 2 == 0:
        return node, "pairs"
    return None


def rotated_halves(walk: Walk, node: Node, parts: list[int]) -> Value | None:
    """Case 2: the value of x₁c − x₂s beside x₂c + x₁s."""
    if len(parts) != 2 or walk.flow.operand(node, 1, "dim") not in (-1, len(node.shape or ()) - 1):
        return None
    minus, plus = (walk.graph.nodes[strip(walk.flow, p)] for p in parts)
    if minus.op != "sub" or plus.op != "add" or len(minus.inputs) != 2 or len(plus.inputs) != 2 or minus.kwargs or plus.kwargs:
        return None
    (x1, c1), (x2, s1) = _factors(walk, minus.inputs[0]), _factors(walk, minus.inputs[1])
    for a, b in (plus.inputs, plus.inputs[::-1]):
        (y2, c2), (y1, s2) = _factors(walk, a), _factors(walk, b)
        ends = (x1, x2, y1, y2, c1, c2, s1, s2)
        if any(e is None for e in ends):
            continue
        p, q, u, v, c, d, s, t = (strip(walk.flow, e) for e in ends if e is not None)
        if (p, q, c, s) != (u, v, d, t):
            continue
        found = _split(walk, p, q)
        size = _same_angles(walk, c, s, None)
        if found is not None and size is not None:
            return _laid_out(walk, node, walk.one(found[0]), size)
    return None


def _laid_out(walk: Walk, node: Node, x: Value, size: float) -> Value | None:
    """The turned x in the shape of a concatenation (that of x) or of a stack (its last axis in two)."""
    shape = node.shape or ()
    whole = recut(replace(x.bare(), jump=x.jump), (*x.layout[:-1], plain(x.shape[-1:])[0]), x.shape, walk.names)
    turned = _kept(whole, size, x.shape)
    if turned is None or node.op != "stack":
        return turned if turned is not None and turned.shape == shape else None
    return reshaped(turned, shape, walk.names) if shape[:-2] == x.shape[:-1] and shape[-1] == 2 else None


def _same_angles(walk: Walk, cos: int, sin: int, paired: str | None) -> float | None:
    """m when the two are m·cos and m·sin of the same angles, laid out for pairs of that kind (None: one angle per pair)."""
    c, s = _angle(walk, cos, "cos"), _angle(walk, sin, "sin")
    if c is None or s is None or c != s or (paired is not None and c[2] != paired):
        return None
    return abs(c[1])


_CARRY = frozenset({"unsqueeze", "expand", "view", "reshape", "squeeze"})


def _angle(walk: Walk, index: int, op: str) -> tuple[int, float, str, tuple[object, ...]] | None:
    """(node of the angles f, constant factor, how each angle is there twice, the views passed) behind views that keep the last axis."""
    factor, paired, inside = 1.0, "", False
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
        elif node.op in _CARRY | TURNS | {"getitem"} and same and _keeps_last(node):
            trail.append((node.op, node.args[1:], node.kwargs))
            index = below
        elif node.op == "mul" and not inside and (value := number(node.args[1] if len(node.args) > 1 else None)) is not None:
            factor, index = factor * value, below
        elif node.op == op and not inside:
            inside, index = True, below
        elif node.op == "cat" and not paired and _doubles(walk, node):
            paired, index = "halves", below
        elif node.op == "repeat_interleave" and not paired and _repeats(walk, node):
            paired, index = "pairs", below
        else:
            break
    return (index, factor, paired, tuple(trail)) if inside else None


def _keeps_last(node: Node) -> bool:
    if node.op in TURNS:
        order = axis_order(node, len(node.shape or ()))
        return order is not None and order[-1:] == (len(order) - 1,)
    if node.op == "getitem":
        index = node.args[1]
        items = index if isinstance(index, tuple) and index[:1] != ("slice",) else (index,)
        whole = items[-1:] == (("slice", None, None, None),) or items[-1:] == ("...",)
        return whole or len([i for i in items if i is not None]) < len(node.shape or ())
    return True


def _repeats(walk: Walk, node: Node) -> bool:
    """`repeat_interleave(f, 2, dim=-1)`."""
    return walk.flow.operand(node, 1, "repeats") == 2 and walk.flow.operand(node, 2, "dim") in (-1, len(node.shape or ()) - 1)


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
    return replace(x.bare(), mag=moved(x.mag), der=moved(x.der), low=-high, high=high, piece=x.piece, after="biased" if x.after else "")


