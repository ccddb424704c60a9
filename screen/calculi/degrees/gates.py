"""x·g(x) with a bounded g: the GELU and the SiLU that people write by hand."""

from __future__ import annotations

from screen.calculi.degrees.laws import BOUNDED
from screen.graph import Node
from screen.structure.dataflow import Flow, strip

_ENTRYWISE = frozenset({"mul", "add", "sub", "div", "pow", "square", "neg"})


def self_gated(flow: Flow, node: Node) -> int | None:
    """The x of `x * g(x)`, where g is entry-wise and bounded; None when the product is something else."""
    if node.op != "mul" or len(node.inputs) != 2:
        return None
    for carried, gate in (node.inputs, node.inputs[::-1]):
        root = _unscaled(flow, carried)
        if flow.data[root] and flow.data[gate] and _is_bounded_function(flow, gate, root):
            return root
    return None


def _unscaled(flow: Flow, node: int) -> int:
    """The value behind constant factors, casts and copies."""
    node = strip(flow, node)
    here = flow.graph.nodes[node]
    while here.op in ("mul", "div") and len(here.inputs) == 1:
        node = strip(flow, here.inputs[0])
        here = flow.graph.nodes[node]
    return node


def _is_bounded_function(flow: Flow, node: int, root: int) -> bool:
    """Constants added to or multiplied with a bounded entry-wise function of `root` and of nothing else."""
    node = strip(flow, node)
    here = flow.graph.nodes[node]
    while here.op in ("mul", "add", "sub", "div") and len(here.inputs) == 1:
        node = strip(flow, here.inputs[0])
        here = flow.graph.nodes[node]
    return here.op in BOUNDED and here.op not in ("softmax", "softmin") and len(here.inputs) == 1 and _is_function(flow, here.inputs[0], root)


def _is_function(flow: Flow, node: int, root: int, depth: int = 16) -> bool:
    """An entry-wise function of `root` and constants alone."""
    node = strip(flow, node)
    if node == root:
        return True
    here = flow.graph.nodes[node]
    data = [i for i in here.inputs if flow.data[i]]
    if depth == 0 or not data or (here.op not in _ENTRYWISE and flow.classes[node] != "activation"):
        return False
    return all(_is_function(flow, i, root, depth - 1) for i in data)
