"""A tensor that is made empty and then written slice by slice is the concatenation of what was written.

    out = torch.empty(b, n, c + d);  out[..., :c] = x;  out[..., c:] = y        is        cat((x, y), -1)

once the slices of one axis cover it without overlap, each written with a value of its own shape. Until then, and for any other index, nodes stay
as they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from screen.graph import Node, Ref

EMPTY = frozenset({"empty", "new_empty", "empty_like", "zeros", "new_zeros", "zeros_like"})
_WHOLE = ("slice", None, None, None)
Slice = tuple[int, int, int]
"""(axis, start, stop)."""


@dataclass(frozen=True)
class _Part:
    """A slice of a tensor, or a value that was written to it."""

    root: int
    place: Slice
    value: int = -1


def joined(nodes: Iterable[Node]) -> list[Node]:
    """The nodes, with `cat` where the last slice was written."""
    found: list[Node] = []
    made: dict[int, tuple[int, dict[Slice, int]]] = {}
    """Node -> (the empty tensor, slice -> what was written)."""
    parts: dict[int, _Part] = {}
    for node in nodes:
        if node.op in EMPTY and node.shape:
            made[node.index] = node.index, {}
        elif node.op == "getitem" and node.inputs[:1] and node.inputs[0] in made:
            place = _place(node, found[node.inputs[0]])
            if place is not None:
                parts[node.index] = _Part(made[node.inputs[0]][0], place)
        elif node.op == "copy" and len(node.inputs) == 2 and node.inputs[0] in parts and found[node.inputs[1]].shape == node.shape:
            parts[node.index] = replace(parts[node.inputs[0]], value=node.inputs[1])
        elif node.op in ("alias", "setitem") and node.inputs and node.inputs[0] in made:
            root, before = made[node.inputs[0]]
            written = _written(node, found, parts, root)
            if written is not None:
                after = {**before, **written}
                made[node.index] = root, after
                node = _cat(node, after) if after else node
        found.append(node)
    return found


def _place(node: Node, base: Node) -> Slice | None:
    """Where `x[…, a:b, …]` is in x; None for any other index."""
    rank, index = len(base.shape or ()), node.args[1]
    items = list(index) if isinstance(index, tuple) and index[:1] != ("slice",) else [index]
    if "..." in items:
        at = items.index("...")
        items[at : at + 1] = [_WHOLE] * (rank - len(items) + 1)
    items += [_WHOLE] * (rank - len(items))
    cut = [(axis, i) for axis, i in enumerate(items) if i != _WHOLE]
    if len(items) != rank or len(cut) != 1:
        return None
    axis, item = cut[0]
    if not isinstance(item, tuple) or item[:1] != ("slice",) or item[3] not in (None, 1) or not {type(end) for end in item[1:3]} <= {int, type(None)}:
        return None
    start, stop, _ = slice(item[1], item[2]).indices((base.shape or ())[axis])
    return axis, start, stop


def _written(node: Node, found: list[Node], parts: dict[int, _Part], root: int) -> dict[Slice, int] | None:
    """What a node has beyond its first operand; None where it is not known."""
    if node.op == "alias":
        writes = [parts.get(i) for i in node.inputs[1:]]
        known = [w for w in writes if w is not None and w.root == root and w.value >= 0]
        return {w.place: w.value for w in known} if len(known) == len(writes) else None
    place, value = _place(node, found[node.inputs[0]]), node.args[2]
    if place is None or not isinstance(value, Ref):
        return None
    axis, start, stop = place
    base = found[node.inputs[0]].shape or ()
    shape = (*base[:axis], stop - start, *base[axis + 1 :])
    return {place: value.node} if found[value.node].shape == shape else None


def _cat(node: Node, written: dict[Slice, int]) -> Node:
    """The node as a concatenation, where the slices cover one axis."""
    places = sorted(written)
    axis, size = places[0][0], (node.shape or ())[places[0][0]]
    ends: list[Any] = [0, *(stop for _, _, stop in places)]
    if any(a != axis for a, _, _ in places) or [start for _, start, _ in places] != ends[:-1] or ends[-1] != size:
        return node
    return replace(node, op="cat", args=(tuple(Ref(written[p]) for p in places),), kwargs=(("dim", axis),))


__all__ = ["joined"]
