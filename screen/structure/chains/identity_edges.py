"""Identity edges: which operands a node carries through, and with which coefficient (theory, section 1).

Edges go into a node from an operand that it carries: views, casts, dropout; products with a constant, a weight or a gate; adds, subtractions,
`lerp`, `index_add`, `stack().sum()`; writes; and norms, which are marked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from screen.graph import Node, Ref, numel
from screen.structure.copies import mixing_of, weighing_of
from screen.structure.chains.cut_off import is_cut_off
from screen.structure.dataflow import Flow, axes_of, number
from screen.structure.initial.values import FILLED, LITERALS, start_of
from screen.structure.norms.find import Norms

LINEAR = ("fft", "cumsum", "avg_pool", "adaptive_avg_pool", "interpolate")
"""Ops that mix tokens, or entries, and are linear."""
EdgeKind = Literal["same", "add", "scale", "gate", "norm", "activation", "part", "join", "free", "opaque"]


class Edge(NamedTuple):
    """`node` carries the value of `source`."""

    source: int
    node: int
    kind: EdgeKind
    factor: float | None = 1.0
    """Constant coefficient; None when it is learned or depends on data."""
    scale: int | None = None
    """The node that multiplies, where it is a tensor."""


@dataclass(frozen=True)
class Edges:
    """Finds the identity edges."""

    flow: Flow
    norms: Norms
    loosely: bool = False
    """Whether linear ops that spread entries (pooling, transforms, products with a constant) carry a value, and choices add: asked where else no
    stream is found."""

    def all(self) -> tuple[tuple[Edge, ...], ...]:
        """Edges into each node; none into a weighted op, a mixing op, a source."""
        flow, norms, data = self.flow, self.norms.by_node, self.flow.data
        table: list[tuple[Edge, ...]] = []
        for index, (node, kind) in enumerate(zip(flow.graph.nodes, flow.classes, strict=True)):
            if (norm := norms.get(index)) is not None:
                table.append((Edge(norm.source, index, "norm"),) if data[norm.source] else ())
            elif not data[index]:
                table.append(())
            else:
                table.append(tuple([e for e in self._into(node, kind) if data[e.source]]))
        return tuple(table)

    def _into(self, node: Node, kind: str) -> Sequence[Edge]:
        """Of a node of data that is no norm."""
        if kind in ("product", "weighted") and self.flow.mixes_copies(node) and not self.flow.weighted[node.index]:
            return _copies(self.flow, node)
        if self.flow.weighted[node.index] and not (self.loosely and self._spread(node, kind) is not None):
            return ()
        if node.op == "sum" and (mixing := mixing_of(self.flow, node)) is not None:
            return [Edge(mixing.copies, node.index, "gate", None, mixing.matrix)]
        if kind == "product" and (copies := self.flow.copies_mixed(node)) is not None:
            return [Edge(copies, node.index, "gate", None, next(i for i in node.inputs if i != copies))]
        if kind == "product" and (fixed := _by_constant(self.flow, node)) is not None:
            return [fixed]
        if kind == "unmodelled":
            same = [i for i in node.inputs if self.flow.data[i] and self.flow.graph.nodes[i].shape == node.shape]
            return [Edge(i, node.index, "opaque", None) for i in same[:1]]
        if self.loosely and node.op == "where":
            return [e._replace(kind="add") for e in _where(self.flow, node)]
        if self.loosely and (spread := self._spread(node, kind)) is not None:
            return [Edge(spread, node.index, "opaque", None)]
        handler = _BY_OP.get(node.op) or _BY_CLASS.get(kind)
        return handler(self.flow, node) if handler is not None else ()

    def _spread(self, node: Node, kind: str) -> int | None:
        """The one value that a linear op without weights spreads."""
        data = [i for i in node.inputs if self.flow.data[i]]
        linear = node.op.startswith(LINEAR) if kind == "mixing" else kind in ("product", "weighted")
        return data[0] if linear and len(data) == 1 and not any(self.flow.trained[i] for i in node.inputs) else None


def _first(kind: EdgeKind) -> Callable[[Flow, Node], list[Edge]]:
    def edges(flow: Flow, node: Node) -> list[Edge]:
        return [Edge(node.inputs[0], node.index, kind)] if node.inputs else []

    return edges


def _all(kind: EdgeKind) -> Callable[[Flow, Node], list[Edge]]:
    def edges(flow: Flow, node: Node) -> list[Edge]:
        return [Edge(i, node.index, kind) for i in dict.fromkeys(node.inputs)]

    return edges


def _add(flow: Flow, node: Node) -> list[Edge]:
    sign = -1.0 if node.op == "sub" else 1.0
    factor = number(node.kwarg("alpha")) if node.kwarg("alpha") is not None else 1.0
    edges = []
    for position, name in ((0, "input"), (1, "other")):
        source = flow.ref(node, position, name)
        if source is not None:
            scale = 1.0 if position == 0 else sign * (factor if factor is not None else 1.0)
            edges.append(Edge(source, node.index, "add", scale))
    whole = [e for e in edges if _as_large(flow, e.source, node)]
    return whole or edges  # what is broadcast (a bias made from the data) is added, and carries nothing


def _mul(flow: Flow, node: Node) -> list[Edge]:
    left, right = flow.ref(node, 0, "input"), flow.ref(node, 1, "other")
    if left is None or right is None:
        source = left if left is not None else right
        value = number(flow.operand(node, 1, "other") if left is not None else flow.operand(node, 0, "input"))
        if source is None or (node.op == "div" and left is None):
            return []
        factor = None if value is None else (1.0 / value if node.op == "div" and value else value)
        return [Edge(source, node.index, "scale", factor)]
    pairs = [(left, right)] if node.op == "div" else [(left, right), (right, left)]
    edges = []
    for carried, gate in pairs:
        if not flow.data[carried]:
            continue
        if flow.is_given_mask(gate):
            edges.append(Edge(carried, node.index, "same"))
        elif not flow.data[gate]:
            masked = not flow.trained[gate] and (flow.from_input[gate] or _is_made_mask(flow, gate, node.shape or ()))
            edges.append(Edge(carried, node.index, "same" if masked else "scale", _filled(flow, gate), gate))
        elif _as_large(flow, carried, node):
            edges.append(Edge(carried, node.index, "free" if flow.keys[carried] == flow.keys[gate] else "gate", None, gate))
    contained = [e for e in edges if e.kind == "gate" and e.scale is not None and not flow.keys[e.source] & ~flow.keys[e.scale]]
    return contained if len(contained) == 1 else edges


def _is_made_mask(flow: Flow, node: int, masked: tuple[int, ...]) -> bool:
    """A tensor of several entries, one per token, made of factories alone: an attention mask that nobody gave. Tokens may stand behind channels."""
    shape = flow.graph.nodes[node].shape or ()
    turned = len(shape) == len(masked) > 2 and shape[0] == masked[0] > 1 and 1 in shape[1:]
    return flow.factory_made[node] and numel(shape) > 1 and (shape[-1] == 1 or turned)


def _filled(flow: Flow, gate: int) -> float | None:
    """The number in a factory, a zero-dimensional constant or a buffer that holds one; None where it is not known."""
    return start_of(flow.graph, gate) if flow.graph.nodes[gate].op in {*FILLED, *LITERALS, "buffer", "constant"} else None


def _as_large(flow: Flow, carried: int, node: Node) -> bool:
    return flow.graph.nodes[carried].shape == node.shape


def _lerp(flow: Flow, node: Node) -> list[Edge]:
    weight = number(flow.operand(node, 2, "weight"))
    gate = flow.ref(node, 2, "weight")
    found = []
    for position, names in ((0, ("input",)), (1, ("end",))):
        source = flow.ref(node, position, *names)
        if source is not None:
            factor = None if weight is None else (1.0 - weight if position == 0 else weight)
            found.append(Edge(source, node.index, "add", factor, gate))
    return found


def _copies(flow: Flow, node: Node) -> tuple[Edge, ...]:
    """A trained matrix that mixes copies of a stream carries them."""
    gate = next(i for i in node.inputs if flow.trained[i])
    return tuple(Edge(i, node.index, "scale", None, gate) for i in node.inputs if flow.data[i])[:1]


def _by_constant(flow: Flow, node: Node) -> Edge | None:
    """A product of one value with a matrix that is neither data nor trained (a Hadamard transform) carries the value, each entry by all."""
    data = [i for i in node.inputs if flow.data[i]]
    rest = [i for i in node.inputs if not flow.data[i]]
    if len(node.inputs) != 2 or len(data) != 1 or flow.trained[rest[0]] or flow.graph.nodes[data[0]].shape != node.shape:
        return None
    return Edge(data[0], node.index, "scale", None, rest[0])


def _accumulate(flow: Flow, node: Node) -> list[Edge]:
    target = flow.ref(node, 0, "input", "self")
    source = flow.ref(node, 3, "source", "src")
    return [Edge(i, node.index, "add") for i in (target, source) if i is not None]


def _index_put(flow: Flow, node: Node) -> list[Edge]:
    target, values = flow.ref(node, 0, "input", "self"), flow.ref(node, 2, "values")
    adds = flow.operand(node, 3, "accumulate") is True
    return [Edge(i, node.index, "add" if adds else "join") for i in (target, values) if i is not None]


def _where(flow: Flow, node: Node) -> list[Edge]:
    found = [flow.ref(node, p, *names) for p, names in ((1, ("input", "self")), (2, ("other",)))]
    return [Edge(i, node.index, "join") for i in found if i is not None]


def _reduced_stack(flow: Flow, node: Node) -> list[Edge]:
    """`torch.stack([a, b]).sum(0)` is a + b; `.mean(0)` the same with a factor; with numbers before the sum each has its own."""
    above = flow.graph.nodes[node.inputs[0]] if node.inputs else None
    if above is None or above.shape is None:
        return []
    if (weighing := weighing_of(flow, node)) is not None:
        return [Edge(i, node.index, "add", None, weighing.shares) for i in dict.fromkeys(weighing.states)]
    if above.op != "stack":
        return _summed_copies(flow, node, above.shape)
    axes = axes_of(flow.operand(node, 1, "dim", "axis"), len(above.shape))
    given = number(flow.operand(above, 1, "dim"))
    axis = int(given if given is not None else 0)
    if axes != (axis - len(above.shape) if axis >= 0 else axis,):
        return []
    factor = 1.0 / len(above.inputs) if node.op == "mean" else 1.0
    return [Edge(i, node.index, "add", factor) for i in dict.fromkeys(above.inputs)]


def _summed_copies(flow: Flow, node: Node, shape: tuple[int, ...]) -> list[Edge]:
    """A sum over an axis of at most eight that comes before the tokens: copies of a stream become one."""
    axes = axes_of(flow.operand(node, 1, "dim", "axis"), len(shape))
    few = len(axes) == 1 and len(shape) >= 4 and shape[axes[0]] <= 8 and axes[0] < -2
    return [Edge(node.inputs[0], node.index, "same")] if few else []


def _alias(flow: Flow, node: Node) -> list[Edge]:
    return [Edge(i, node.index, "join") for i in dict.fromkeys(node.inputs)]


def _cat(flow: Flow, node: Node) -> list[Edge]:
    """All parts; but none from a few entries of a state that are laid beside maps of it, which hold most (a class token kept, a strided filter of the
    others): with those another state begins."""
    nodes, size = flow.graph.nodes, numel(node.shape or ())
    maps = [i for i in dict.fromkeys(node.inputs) if flow.data[i] and 2 * numel(nodes[i].shape or ()) > size]
    edges = _all("join")(flow, node)
    edges = [e for e in edges if not (flow.data[e.source] and is_cut_off(flow, node, e.source))] or edges
    if len(maps) != 1 or len(edges) < 2:
        return edges
    return [e for e in edges if e.source == maps[0] or not flow.is_part_of_mapped(e.source, maps[0])]


def _copied(flow: Flow, node: Node) -> list[Edge]:
    """`x.copy_(y)`: y."""
    source = flow.operand(node, 1, "src", "other")
    return [Edge(source.node, node.index, "same")] if isinstance(source, Ref) else []


_BY_OP: dict[str, Callable[[Flow, Node], list[Edge]]] = {
    "add": _add, "sub": _add, "mul": _mul, "div": _mul, "lerp": _lerp, "where": _where, "masked_fill": _first("same"),
    "neg": _first("scale"), "index_add": _accumulate,
    "scatter_add": _accumulate, "index_put": _index_put, "sum": _reduced_stack, "mean": _reduced_stack, "setitem": _all("join"),
    "copy": _copied, "cat": _cat,
    "alias": _alias, "clamp": _first("activation"), "pow": _first("activation"), "square": _first("activation"),
    "fill": lambda flow, node: [], "zero": lambda flow, node: [],
}

_BY_CLASS: dict[str, Callable[[Flow, Node], list[Edge]]] = {
    "view": _first("same"), "part": _first("part"), "join": _all("join"), "activation": _first("activation"), "write": _all("join"),
}
