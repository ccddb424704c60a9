"""Softmaxes of a graph by what is computed: calls, fused attention, `exp(u − max u)/Σ`, `exp(log_softmax(u))`; and what their shares are for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from screen.graph import Node, numel
from screen.structure.axes import Features
from screen.structure.dataflow import Flow, axes_of, nodes_of, number, strip

SoftmaxRole = Literal["attention", "pooling", "router", "other"]
"""Weighs tokens for each of several queries; weighs tokens once; weighs or chooses what is no axis of tokens (experts); weighs nothing."""
FUSED = frozenset({"scaled_dot_product_attention", "flex_attention"})
CALLS = frozenset({"softmax", "softmin", "gumbel_softmax", "sparsemax"})


@dataclass(frozen=True)
class Softmax:
    """One softmax: the node of the shares (of fused attention the call), and of its logits (None: they are made inside)."""

    node: int
    logits: int | None
    axis: int
    """Negative: the axis over which the shares sum to 1."""
    value: int | None = None
    """What it weighs, where that is part of the same call or quotient."""


_MAY_BE = frozenset({*FUSED, *CALLS, "log_softmax", "exp", "div", "true_divide"})


def softmax_at(flow: Flow, index: int) -> Softmax | None:
    """The softmax that a node is."""
    node = flow.graph.nodes[index]
    if node.op not in _MAY_BE:
        return None
    if node.op in FUSED:
        return Softmax(index, None, -1, flow.ref(node, 2, "value"))
    if node.shape is None or not node.inputs:
        return None
    if node.op in CALLS or node.op == "log_softmax":
        given = flow.operand(node, 3 if node.op == "gumbel_softmax" else 1, "dim")
        return Softmax(index, node.inputs[0], _axis(given, len(node.shape)))
    if node.op == "exp":
        return _of_logarithms(flow, node)
    return _quotient(flow, node) if node.op in ("div", "true_divide") and len(node.inputs) == 2 else None


def _axis(given: object, rank: int) -> int:
    axis = given if isinstance(given, int) and not isinstance(given, bool) else -1
    return axis - rank if axis >= 0 else axis


def shifted(flow: Flow, index: int) -> int:
    """u of u − max(u), which is softmax's own shift; else the node itself."""
    index = strip(flow, index)
    node = flow.graph.nodes[index]
    if node.op != "sub" or len(node.inputs) != 2 or node.kwargs:
        return index
    top = flow.graph.nodes[flow.root(node.inputs[1])]
    if top.op == "getitem" and top.inputs:
        top = flow.graph.nodes[top.inputs[0]]
    largest = top.op in ("amax", "max") and top.inputs and strip(flow, top.inputs[0]) == strip(flow, node.inputs[0])
    return strip(flow, node.inputs[0]) if largest else index


def _of_logarithms(flow: Flow, node: Node) -> Softmax | None:
    """exp(log_softmax(u)), exp(u − logsumexp(u))."""
    below = flow.graph.nodes[strip(flow, node.inputs[0])]
    if below.op == "sub" and len(below.inputs) == 2:
        total = flow.graph.nodes[flow.root(below.inputs[1])]
        if total.op == "logsumexp" and strip(flow, total.inputs[0]) == strip(flow, below.inputs[0]):
            axes = axes_of(flow.operand(total, 1, "dim"), len(node.shape or ()))
            return Softmax(node.index, strip(flow, below.inputs[0]), axes[-1]) if len(axes) == 1 else None
    return None


def _quotient(flow: Flow, node: Node) -> Softmax | None:
    """e/Σe and (e v)/Σe for e = exp(u), perhaps masked."""
    above, below = (flow.graph.nodes[strip(flow, i)] for i in node.inputs)
    while below.op in ("add", "clamp_min", "clamp") and below.inputs and (len(below.inputs) == 1 or number(below.args[-1]) is not None):
        below = flow.graph.nodes[strip(flow, below.inputs[0])]
    if (grouped := _of_groups(flow, node, above, below)) is not None:
        return grouped
    below = flow.graph.nodes[flow.root(below.index)]
    if below.op != "sum" or not below.inputs:
        return None
    shares = strip(flow, below.inputs[0])
    logits = exponent_of(flow, shares)
    axes = axes_of(flow.operand(below, 1, "dim", "axis"), len(flow.graph.nodes[shares].shape or ()))
    if logits is None or len(axes) != 1:
        return None
    if above.index == shares or _is_computed_again(above, flow.graph.nodes[shares]):
        return Softmax(node.index, logits, axes[0])
    if flow.classes[above.index] == "product" and any(strip(flow, i) == shares for i in above.inputs):
        others = [i for i in above.inputs if strip(flow, i) != shares]
        return Softmax(node.index, logits, axes[0], others[0] if others else None)
    return None


def _is_computed_again(one: Node, other: Node) -> bool:
    """exp(u)/exp(u).sum(): the same call of the same values, twice."""
    return one.op == other.op == "exp" and one.args == other.args and not one.kwargs and not other.kwargs


def _of_groups(flow: Flow, node: Node, above: Node, below: Node) -> Softmax | None:
    """e/Σe over groups: e = exp(u) is added up at the places that an index gives, and each entry reads the sum at its own place (edges that end in
    one node of a graph)."""
    sums = _at_own_place(flow, below)
    if sums is None or sums[0].op not in ("index_add", "scatter_add") or flow.graph.nodes[sums[0].inputs[0]].op not in _ZEROS:
        return None
    total, index, axis = sums
    added = flow.ref(total, 3, "source", "src")
    logits = exponent_of(flow, above.index)
    if added is None or logits is None or strip(flow, added) != above.index or above.op == "mul":
        return None
    less = flow.graph.nodes[logits]
    shift = less.op == "sub" and len(less.inputs) == 2 and not less.kwargs
    top = _at_own_place(flow, flow.graph.nodes[strip(flow, less.inputs[1])]) if shift else None
    if top is not None and top[0].op == "scatter_reduce" and top[1:] == (index, axis) and flow.operand(top[0], 4, "reduce") == "amax":
        largest = flow.ref(top[0], 3, "src")
        logits = strip(flow, less.inputs[0]) if largest is not None and strip(flow, largest) == strip(flow, less.inputs[0]) else logits
    return Softmax(node.index, logits, axis)


_ZEROS = ("zeros", "zeros_like", "new_zeros")


def _at_own_place(flow: Flow, node: Node) -> tuple[Node, int, int] | None:
    """(what was gathered from, the index, the axis) where a value is read by the index by which it was added up or reduced."""
    if node.op not in ("getitem", "index_select", "gather") or len(node.inputs) != 2 or not node.shape:
        return None
    by_axis = node.op != "getitem"
    source, rank = flow.graph.nodes[node.inputs[0]], len(node.shape)
    if source.op not in ("index_add", "scatter_add", "scatter_reduce") or len(source.shape or ()) != rank:
        return None
    axes = [flow.operand(source, 1, "dim"), flow.operand(node, 1, "dim") if by_axis else 0]
    read = flow.ref(node, 2 if by_axis else 1, "index")
    written = flow.ref(source, 2, "index")
    if not all(type(a) is int for a in axes) or read is None or written is None or _index(flow, read) != _index(flow, written):
        return None
    one, other = (int(a) % rank for a in axes if type(a) is int)
    return (source, _index(flow, read), one - rank) if one == other else None


def _index(flow: Flow, node: int) -> int:
    """An index without the axes along which it is repeated."""
    here = flow.graph.nodes[node]
    while here.op in ("expand", "expand_as", "unsqueeze", "view", "alias") or (here.op == "getitem" and len(here.inputs) == 1 and _is_widened(here)):
        here = flow.graph.nodes[here.inputs[0]]
    return here.index


def _is_widened(node: Node) -> bool:
    """`index[:, None]`: new axes alone."""
    items = node.args[1] if len(node.args) > 1 and isinstance(node.args[1], tuple) else ()
    return bool(items) and all(i is None or i in ("...", ("slice", None, None, None)) for i in items)


def exponent_of(flow: Flow, index: int) -> int | None:
    """u of exp(u − max u), perhaps times a mask or with entries set to 0."""
    node = flow.graph.nodes[strip(flow, index)]
    for _ in range(4):
        if node.op == "exp":
            return shifted(flow, node.inputs[0])
        if node.op not in ("mul", "masked_fill", "where") or not node.inputs:
            return None
        data = [i for i in node.inputs if flow.data[i] or flow.of_weights[i]]
        if len(data) != 1:
            return None
        node = flow.graph.nodes[strip(flow, data[0])]
    return None


def softmaxes_of(flow: Flow, nodes: Iterable[int]) -> tuple[Softmax, ...]:
    """All softmaxes among some nodes. The parts of one that is written out are not counted twice."""
    return tuple(s for i in nodes if (s := softmax_at(flow, i)) is not None)


@dataclass(frozen=True)
class Use:
    """Where shares go: the op that weighs or chooses by them, and the value that is weighed."""

    node: int
    value: int | None
    sums: bool
    """It adds up what it weighs."""


def uses_of(flow: Flow, node: int) -> tuple[Use, ...]:
    """The ops that weigh values by shares, or choose by them; none where they only leave the graph."""
    graph, found = flow.graph, list[Use]()
    stack, seen = [node], {node}
    while stack:
        here = stack.pop()
        for user in graph.users[here]:
            if user in seen:
                continue
            seen.add(user)
            use = _use(flow, graph.nodes[user], here, seen)
            if use is None:
                stack.append(user)
            else:
                found.append(use)
    return tuple(sorted(found, key=lambda u: u.node))


def _use(flow: Flow, node: Node, share: int, seen: set[int]) -> Use | None:
    """None: still shares, or a function of them."""
    kind = flow.classes[node.index]
    others = [i for i in node.inputs if i not in seen and (flow.data[i] or flow.of_weights[i])]
    if node.op in ("topk", "argmax", "sort", "argsort", "multinomial", "one_hot"):
        return Use(node.index, None, False)
    if kind in ("product", "weighted"):
        return Use(node.index, others[0] if others else None, True)
    if node.op in ("mul", "index_add", "scatter_add"):
        wide = [i for i in others if flow.data[i]]
        if wide:
            return Use(node.index, wide[0], _is_summed(flow, node.index))
        tables = [i for i in node.inputs if i not in seen and numel(flow.graph.nodes[i].shape or ()) > 1]
        return Use(node.index, tables[0], True) if tables and _is_summed(flow, node.index) else None
    return None


def _is_summed(flow: Flow, node: int) -> bool:
    """Whether entries of a value are added up, perhaps behind views, or at the places that an index gives."""
    users = flow.graph.users[node]
    if any(flow.ref(flow.graph.nodes[u], 3, "source", "src") == node for u in users if flow.graph.nodes[u].op in ("index_add", "scatter_add")):
        return True
    return any(flow.graph.nodes[u].op in ("sum", "mean") or (flow.classes[u] == "view" and _is_summed(flow, u)) for u in users)


def role_of(flow: Flow, features: Features, softmax: Softmax) -> SoftmaxRole:
    """What the shares are for."""
    if flow.graph.nodes[softmax.node].op in FUSED:
        return "attention"
    uses = uses_of(flow, softmax.node)
    if softmax.value is not None:
        uses = (Use(softmax.node, softmax.value, True), *uses)
    shape = flow.graph.nodes[softmax.logits if softmax.logits is not None else softmax.node].shape or ()
    if not uses:
        return "other"
    if any(u.value is None and not u.sums for u in uses):
        return "router"
    summed = [u for u in uses if u.sums and u.value is not None]
    if not summed:
        return "router"
    tokens = _holds_tokens(features, softmax.logits, softmax.axis)
    if tokens is not True and not any(_over_tokens(flow, features, u, shape, softmax.axis) or _is_sampled(flow, u.value) for u in summed):
        return "router" if tokens is False or not _compares(flow, softmax) else "attention"
    rest = [n for i, n in enumerate(shape[1:], 1) if i - len(shape) != softmax.axis and n > 1]
    return "attention" if rest else "pooling"


def _holds_tokens(features: Features, node: int | None, axis: int) -> bool | None:
    """Whether an axis holds tokens; None where that is not known."""
    layout = features.layouts[node] if node is not None else None
    return None if node is None or layout is None else features.spans_others(node, (axis,))


def _compares(flow: Flow, softmax: Softmax) -> bool:
    """Whether the logits come from a product of two values: of queries and keys."""
    found = softmax.logits
    return found is not None and any(flow.mixing[i] and flow.classes[i] == "product" for i in nodes_of(flow.keys[found]))


def _over_tokens(flow: Flow, features: Features, use: Use, shape: tuple[int, ...], axis: int) -> bool:
    """Whether what is weighed has, on the axis that is summed, no features: an axis as long as that of the shares."""
    assert use.value is not None
    value = flow.graph.nodes[use.value].shape or ()
    length = shape[axis] if shape else 0
    axes = [a for a in range(-len(value), 0) if value[a] == length]
    return any(features.spans_others(use.value, (a,)) for a in axes)


def _is_sampled(flow: Flow, value: int | None) -> bool:
    """Whether what is weighed are values at places of a grid that are computed, side by side (deformable attention)."""
    stack = [value] if value is not None else []
    while stack:
        node = stack.pop()
        if flow.graph.nodes[node].op == "grid_sample":
            return True
        if flow.classes[node] in ("view", "part", "join"):
            stack += flow.graph.nodes[node].inputs
    return False


__all__ = [
    "CALLS", "FUSED", "Softmax", "SoftmaxRole", "Use", "exponent_of", "role_of", "shifted", "softmax_at", "softmaxes_of",
    "uses_of",
]  # fmt: skip
