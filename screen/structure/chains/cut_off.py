"""What is laid beside a state for one branch and cut off behind it: it is read there, and carries no stream on (X-CLIP's messages of frames)."""

from __future__ import annotations

from screen.graph import Node
from screen.structure.dataflow import Flow, number

SUMS = 2
"""Sums from the join to the cut at most; what stands beside a state for longer (a class token) has a stream of its own (convention)."""
WHOLE = ("slice", None, None, None)


def is_cut_off(flow: Flow, cat: Node, source: int) -> bool:
    """Whether the entries of one operand of a `cat` of data are in no part that is taken of it, or of the next sums of it."""
    nodes, given = flow.graph.nodes, number(flow.operand(cat, 1, "dim", "axis"))
    rank = len(cat.shape or ())
    axis = int(given or 0) % rank if rank else 0
    sizes = [(nodes[i].shape or ())[axis : axis + 1] for i in cat.inputs]
    if not all(sizes) or cat.inputs.count(source) != 1 or sum(flow.data[i] for i in cat.inputs) < 2:
        return False
    first = sum(size for (size,) in sizes[: cat.inputs.index(source)])
    last = first + sizes[cat.inputs.index(source)][0]
    todo, found = [(cat.index, 0)], False
    while todo:
        here, sums = todo.pop()
        if here in flow.graph.outputs or sums > SUMS:
            return False
        for user in flow.graph.users[here]:
            node = nodes[user]
            if (taken := _taken(node, axis, (cat.shape or ())[axis])) is not None:
                if taken[0] < last and taken[1] > first:
                    return False
                found = True
            elif flow.weighted[user] or flow.mixing[user] or not flow.data[user]:
                continue
            elif node.shape == cat.shape and (node.op in ("add", "sub") or flow.classes[user] in ("view", "norm", "alias")):
                todo.append((user, sums + (node.op in ("add", "sub"))))
            else:
                return False
    return found


def _taken(node: Node, axis: int, size: int) -> tuple[int, int] | None:
    """The entries along an axis that `x[…, a:b, …]` takes; None for anything else."""
    if node.op != "getitem":
        return None
    items = node.args[1] if isinstance(node.args[1], tuple) and node.args[1][:1] != ("slice",) else (node.args[1],)
    if axis >= len(items) or any(item != WHOLE for n, item in enumerate(items) if n != axis):
        return None
    item = items[axis]
    if not isinstance(item, tuple) or item[:1] != ("slice",) or item[3] not in (None, 1) or not all(v is None or type(v) is int for v in item[1:3]):
        return None
    start, stop, _ = slice(item[1], item[2]).indices(size)
    return start, stop


__all__ = ["is_cut_off"]
