"""Rows of a table that a forward computes of numbers alone, as sinusoids of positions: evaluated in float64 at the length of the trace."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from screen.calculi.meanfield.moments import Moments
from screen.graph import Graph, Node, Ref
from screen.structure.axis_order import TURNS, axis_order

LARGEST = 1 << 22
"""Entries of an array that is made."""
NARROWEST = 8
"""Entries of a row, from which its mean square stands for that of each of its entries."""
EVEN = 0.02
"""Largest difference of the first and the last rows' moments, in units of q, at which it does not matter where rows begin."""

Array = np.ndarray[Any, np.dtype[Any]]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "true_divide": np.divide, "pow": np.power, "neg": np.negative,
    "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "reciprocal": np.reciprocal, "sqrt": np.sqrt, "outer": np.outer,
}  # fmt: skip
CASTS = frozenset({"float", "double", "to", "type", "type_as", "contiguous", "clone", "detach", "alias"})
RESHAPES = frozenset({"view", "reshape", "unsqueeze", "squeeze", "flatten", "getitem"})
"""Ops that leave all entries in their order, where they leave all."""


def rows_of(graph: Graph, index: int, tokens: int) -> Moments | None:
    """(q, δ, m) of the rows of a matrix that no data and no weight is in, over as many rows as there are tokens, or over all; None where it is
    not computed of numbers alone, or where moments depend on where rows begin."""
    made = _value(graph, index, {})
    if made is None or made.ndim != 2 or made.shape[1] < NARROWEST or len(made) < 2 or not np.isfinite(made).all():
        return None
    count = min(len(made), tokens)
    first, last = _moments(made[:count]), _moments(made[-count:])
    even = first[0] > 0 and max(abs(a - b) for a, b in zip(first[:2], last[:2], strict=True)) <= EVEN * first[0]
    return Moments(first[0], first[0] - first[1], first[2]) if even else None


def _moments(rows: Array) -> tuple[float, float, float]:
    """(E x_ia², E x_ia·x_ja of different rows, the rms of the rows' means)."""
    count, width = rows.shape
    power = float(np.square(rows).mean())
    both = float(np.square(rows.sum(0)).sum()) / (count * (count - 1) * width) - power / (count - 1)
    return power, both, math.sqrt(float(np.square(rows.mean(1)).mean()))


def _value(graph: Graph, index: int, made: dict[int, Array | None]) -> Array | None:
    """The array that a node makes, of numbers alone; each node once."""
    if index not in made:
        made[index] = None
        node = graph.nodes[index]
        known = node.shape is not None and 0 < math.prod(node.shape) <= LARGEST
        if known and (node.op == "arange" or node.inputs):
            inputs = {i: _value(graph, i, made) for i in node.inputs}
            if all(a is not None for a in inputs.values()):
                with np.errstate(all="ignore"):
                    found = _made(node, {i: a for i, a in inputs.items() if a is not None})
                made[index] = found if found is not None and found.shape == node.shape else None
    return made[index]


def _made(node: Node, inputs: dict[int, Array]) -> Array | None:
    """A node's array from those of its inputs; None where it has no row here."""
    shape = node.shape or ()
    if node.op == "arange":
        numbers = [a for a in node.args if isinstance(a, int | float)]
        return np.arange(*numbers, dtype=np.float64) if len(numbers) == len(node.args) and 1 <= len(numbers) <= 3 else None
    if node.op in FUNCTIONS:
        given = [inputs[a.node] if isinstance(a, Ref) else a for a in node.args]
        plain = all(isinstance(a, int | float | np.ndarray) for a in given) and not any(node.kwarg(k) for k in ("alpha", "rounding_mode"))
        return np.asarray(FUNCTIONS[node.op](*(np.asarray(a, np.float64) for a in given))) if plain else None
    source = inputs[node.inputs[0]]
    if node.op in CASTS:
        kind = node.dtype or ""
        return source if kind.startswith(("float", "bfloat")) or (kind.startswith("int") and bool((source == np.trunc(source)).all())) else None
    if node.op in RESHAPES and len(inputs) == 1:
        return source.reshape(shape) if source.size == math.prod(shape) and _in_order(node) else None
    if node.op in ("expand", "broadcast_to", "expand_as"):
        return np.broadcast_to(source, shape)
    if node.op in TURNS and (order := axis_order(node, source.ndim)) is not None:
        return source.transpose(order)
    if node.op in ("cat", "concat", "stack") and isinstance(node.args[0], tuple):
        axis = node.args[1] if len(node.args) > 1 else node.kwarg("dim", 0)
        parts = [inputs[a.node] for a in node.args[0] if isinstance(a, Ref)]
        return (np.stack if node.op == "stack" else np.concatenate)(parts, axis=axis) if isinstance(axis, int) and parts else None
    return None


def _in_order(node: Node) -> bool:
    """Whether entries that are picked stay in their order: by whole slices and new axes."""
    if node.op != "getitem":
        return True
    index = node.args[1]
    items = index if isinstance(index, tuple) and not (index and index[0] == "slice") else (index,)
    return all(i is None or i == "..." or i == ("slice", None, None, None) for i in items)


__all__ = ["rows_of"]
