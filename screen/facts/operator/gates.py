"""Multipliers as coefficients: numbers of the program, learned scales with their start, gates made from the data with the range of their function."""

from __future__ import annotations

import math

from screen.facts.operator.polynomial import Atom, Polynomial, of_atom
from screen.facts.operator.polynomial import number as constant
from screen.graph import Node, Ref
from screen.structure.dataflow import Flow, number
from screen.structure.initial.values import start_of

RANGES: dict[str, tuple[float, float]] = {
    "sigmoid": (0.0, 1.0), "hardsigmoid": (0.0, 1.0), "softmax": (0.0, 1.0), "tanh": (-1.0, 1.0), "sin": (-1.0, 1.0), "cos": (-1.0, 1.0),
    "erf": (-1.0, 1.0), "softsign": (-1.0, 1.0), "relu": (0.0, math.inf), "exp": (0.0, math.inf), "softplus": (0.0, math.inf),
    "abs": (0.0, math.inf), "square": (0.0, math.inf), "bernoulli": (0.0, 1.0), "logsigmoid": (-math.inf, 0.0), "log_softmax": (-math.inf, 0.0),
}  # fmt: skip
"""Ranges of functions that gates end in."""
PARTS = frozenset({"getitem", "select", "narrow", "slice", "chunk", "split", "split_with_sizes", "tensor_split", "unbind", "diagonal"})
DEEPEST, LARGEST = 8, 700.0
"""Steps that a range is followed through, and the largest power of e that a float holds."""


def coefficient(flow: Flow, argument: object) -> Polynomial | None:
    """A multiplier as a polynomial: affine in atoms, so that g and 1 − g cancel. None where the argument is missing."""
    if isinstance(argument, Ref):
        return _of_node(flow, argument.node)
    value = number(argument)
    return None if value is None else constant(value)


def _of_node(flow: Flow, index: int, depth: int = 0) -> Polynomial:
    graph = flow.graph
    index = _behind_views(flow, index)
    node = graph.nodes[index]
    known = graph.range_of.get(index)
    if known is not None:
        return constant(known[0]) if known[0] == known[1] else of_atom(Atom(("constant", index), "gate", *known, None, index, False, True))
    if depth < 8 and (affine := _affine(flow, node, depth)) is not None:
        return affine
    if not flow.data[index] and not flow.trained[index]:
        if (value := start_of(graph, index)) is not None:
            return constant(value)
        if _is_mask(flow, node):
            return constant(1.0)  # nothing is masked in the statement
    low, high = _range(flow, node)
    start = start_of(graph, index) if flow.trained[index] else None
    shape = node.shape or ()
    return of_atom(Atom(("gate", index), "gate", low, high, start, index, math.prod(shape) == 1))


def _is_mask(flow: Flow, node: Node) -> bool:
    """What is 0 or 1 for each token: a comparison, an argument of booleans or integers, or a tensor of factories where nobody gave one."""
    shape = node.shape or ()
    if flow.from_input[node.index]:
        return node.dtype == "bool" or (node.op == "input" and not flow.is_float(node))
    return flow.factory_made[node.index] and math.prod(shape) > 1 and shape[-1] == 1


def _affine(flow: Flow, node: Node, depth: int) -> Polynomial | None:
    """1 − g, 2·g, g + 1 as polynomials in g; sums and products of gates."""
    if node.op not in ("add", "sub", "mul", "neg", "div") or (node.op in ("add", "sub") and node.kwarg("alpha") not in (None, 1)):
        return None
    values: list[Polynomial] = []
    for argument in node.args[:2]:
        if isinstance(argument, Ref):
            if flow.data[argument.node] and not _is_gate_like(flow, argument.node):
                return None
            values.append(_of_node(flow, argument.node, depth + 1))
        elif (value := number(argument)) is not None:
            values.append(constant(value))
    if node.op == "neg" and len(values) == 1:
        return values[0].scaled(-1.0)
    if len(values) != 2:
        return None
    left, right = values
    if node.op == "add":
        return left + right
    if node.op == "sub":
        return left + right.scaled(-1.0)
    if node.op == "mul":
        return left * right
    divisor = right.number
    return left.scaled(1.0 / divisor) if divisor else None


def _is_gate_like(flow: Flow, index: int) -> bool:
    """Whether a value of the data ends in a function with a range of its own, perhaps behind affine steps with numbers."""
    index = _behind_views(flow, index)
    node = flow.graph.nodes[index]
    if node.op in RANGES:
        return True
    data = [i for i in node.inputs if flow.data[i]]
    return node.op in ("add", "sub", "mul", "neg", "div") and len(data) <= 2 and all(_is_gate_like(flow, i) for i in data)


def _behind_views(flow: Flow, index: int) -> int:
    """The value behind views that keep all entries."""
    return flow.root(index)


def _range(flow: Flow, node: Node, depth: int = 0) -> tuple[float, float]:
    """Ends of all entries, whatever the data and the weights."""
    if node.op == "clamp":
        ends = [node.args[i] if len(node.args) > i else node.kwarg(name) for i, name in ((1, "min"), (2, "max"))]
        low, high = (number(e) for e in ends)
        return (-math.inf if low is None else low), (math.inf if high is None else high)
    if node.dtype == "bool":
        return 0.0, 1.0
    if depth < DEEPEST and (made := _made(flow, node, depth)) is not None:
        return made
    return RANGES.get(node.op, (-math.inf, math.inf))


def _made(flow: Flow, node: Node, depth: int) -> tuple[float, float] | None:
    """Of a part, a power of e, a product, from the ends of what it is made of: e^(−softplus), the first of two shares."""
    reads = [_operand_range(flow, a, depth + 1) for a in node.args[:2] if isinstance(a, Ref) or number(a) is not None]
    if node.op in PARTS and len(node.inputs) == 1:
        return _operand_range(flow, Ref(node.inputs[0]), depth + 1)
    if node.op == "exp" and len(reads) == 1:
        low, high = reads[0]
        return math.exp(min(low, LARGEST)), math.exp(high) if high < LARGEST else math.inf
    if node.op == "neg" and len(reads) == 1:
        return -reads[0][1], -reads[0][0]
    if node.op == "mul" and len(reads) == 2:
        ends = [_times(a, b) for a in reads[0] for b in reads[1]]
        return min(ends), max(ends)
    return None


def _operand_range(flow: Flow, argument: object, depth: int) -> tuple[float, float]:
    if isinstance(argument, Ref):
        return _range(flow, flow.graph.nodes[flow.root(argument.node)], depth)
    value = number(argument)
    return (-math.inf, math.inf) if value is None else (value, value)


def _times(a: float, b: float) -> float:
    return 0.0 if 0.0 in (a, b) else a * b


__all__ = ["coefficient"]
