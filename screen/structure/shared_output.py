"""Output maps that an attention and a feed-forward share: W·[attention; hidden], as parallel blocks write it to save a call."""

from __future__ import annotations

from screen.structure.dataflow import Flow


def shared_outputs(flow: Flow) -> dict[int, int]:
    """`linear` nodes whose only input is a `cat` along the features of what comes straight out of an attention and of what an activation made of a
    weighted map that no attention stands in. With each the node that ends it: itself, or the product with a gate made from the data that alone reads
    it."""
    nodes, found = flow.graph.nodes, dict[int, int]()
    for node in nodes:
        if node.op != "linear" or not node.inputs or (shape := nodes[node.inputs[0]].shape) is None:
            continue
        cat = nodes[node.inputs[0]]
        axis = flow.operand(cat, 1, "dim")
        if cat.op != "cat" or len(cat.inputs) != 2 or axis not in (-1, len(shape) - 1) or len(flow.graph.users[cat.index]) != 1:
            continue
        kinds = {_kind(flow, part) for part in cat.inputs}
        if kinds == {"attention", "hidden"} and flow.weighted[node.index]:
            found[node.index] = _end(flow, node.index)
    return found


def _end(flow: Flow, whole: int) -> int:
    """The product with a gate made from the data behind a map that nothing else reads, else the map."""
    users = flow.graph.users[whole]
    if len(users) != 1 or whole in flow.graph.outputs:
        return whole
    gated = flow.graph.nodes[users[0]]
    others = [i for i in gated.inputs if i != whole]
    plain = gated.op == "mul" and len(gated.inputs) == 2 and len(others) == 1 and gated.shape == flow.graph.nodes[whole].shape
    return gated.index if plain and flow.data[others[0]] else whole


def _kind(flow: Flow, node: int) -> str:
    """What made a value: `attention` (products that mix tokens, laid together, added, scaled or normed), `hidden` (an activation, or products entry
    by entry with one), else empty."""
    if _is_attended(flow, node):
        return "attention"
    stack = [node]
    seen, activated = set[int](), False
    while stack:
        here = stack.pop()
        if here in seen or flow.weighted[here] or not flow.data[here]:
            continue
        if flow.mixing[here]:
            return ""
        seen.add(here)
        activated |= flow.classes[here] == "activation"
        stack.extend(flow.graph.nodes[here].inputs)
    return "hidden" if activated else ""


def _is_attended(flow: Flow, node: int) -> bool:
    """Whether a value is made of products that mix tokens, and of nothing else of the data but gates, by views, parts, norms, sums and scales."""
    seen: dict[int, bool] = {}
    for here in sorted(_above(flow, node)):
        given = [i for i in dict.fromkeys(flow.graph.nodes[here].inputs) if flow.data[i]]
        kind, made = flow.classes[here], [seen.get(i, False) for i in given]
        if flow.mixing[here]:
            seen[here] = True
        elif flow.key[here] or kind in ("activation", "softmax", "unmodelled") or not given:
            seen[here] = False
        else:
            seen[here] = any(made) if flow.graph.nodes[here].op in ("mul", "div") else all(made)
    return seen.get(node, False)


def _above(flow: Flow, node: int) -> set[int]:
    """A value and what it is made of, up to products and maps."""
    found, stack = set[int](), [node]
    while stack:
        here = stack.pop()
        if here in found or not flow.data[here]:
            continue
        found.add(here)
        if not flow.key[here]:
            stack.extend(flow.graph.nodes[here].inputs)
    return found


__all__ = ["shared_outputs"]
