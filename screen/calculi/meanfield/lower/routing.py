"""What a router does to the logits of one token, op by op, in numpy: arrays are [rows, …], one row per token of a sample.

Only ops that treat each token for itself have a row here. Axes are those of the traced tensors; the leading token axes became `rows`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from screen import ops
from screen.calculi.meanfield.activation_kernels import FUNCTIONS
from screen.calculi.meanfield.experts import Array, Choice
from screen.calculi.meanfield.values import Stop
from screen.graph import Node, Ref

Table = dict[int, Any]
"""Node -> array, or a pair of arrays."""
Row = Callable[["Call"], Any]


@dataclass(frozen=True)
class Call:
    """One call on a sample."""

    node: Node
    table: Table
    rest: tuple[int, ...]
    """Shape of the result behind the tokens."""
    lead: int
    """Token axes of the first operand."""
    choice: Choice

    def operand(self, position: int, name: str = "") -> Any:
        """An argument as an array or a number; numbers of tensors that are no data are zero."""
        value = self.node.args[position] if position < len(self.node.args) else self.node.kwarg(name)
        return self.table.get(value.node, 0.0) if isinstance(value, Ref) else value

    @property
    def first(self) -> Array:
        """The first operand."""
        return np.asarray(self.operand(0))

    def axis(self, position: int = 1) -> int:
        """The axis of a reduction or of a choice."""
        value = self.node.args[position] if position < len(self.node.args) else self.node.kwarg("dim", -1)
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        if not isinstance(value, int):
            raise Stop("a router reduces over more than one axis", self.node.index)
        return value if value < 0 else value - self.lead + 1


def _softmax(call: Call) -> Array:
    x, axis = call.first, call.axis()
    weights = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(weights / weights.sum(axis, keepdims=True))


def _topk(call: Call) -> tuple[Array, Any]:
    """The k largest and where they are: argmax, max and topk alike."""
    count = call.operand(1, "k") if call.node.op == "topk" else 1
    axis = call.axis(2 if call.node.op == "topk" else 1)
    if axis != -1 and axis != call.first.ndim - 1:
        raise Stop("a router chooses along another axis than the last", call.node.index)
    if call.node.index not in call.choice:
        call.choice[call.node.index] = np.argsort(-call.first, axis=-1, kind="stable")[..., : int(count)]
    where = call.choice[call.node.index]
    values = np.take_along_axis(call.first, where, -1)
    return (values, where) if call.node.op == "topk" or call.node.kwarg("keepdim") else (values[..., 0], where[..., 0])


def _sum(call: Call) -> Array:
    return np.asarray(call.first.sum(call.axis(), keepdims=call.node.kwarg("keepdim", False) is True))


def _scatter(call: Call) -> Array:
    result = np.array(call.first, dtype=np.float64)
    value: Any = call.operand(3, "src") if len(call.node.args) > 3 or call.node.kwarg("src") else call.node.kwarg("value")
    where = np.asarray(call.operand(2, "index")).astype(np.int64)
    np.put_along_axis(result, where, value, call.axis())
    return result


def _clamp(call: Call) -> Array:
    low, high = call.operand(1, "min"), call.operand(2, "max")
    return np.clip(call.first, -math.inf if low is None else low, math.inf if high is None else high)


def _one_hot(call: Call) -> Array:
    count = call.operand(1, "num_classes")
    return np.asarray(np.arange(count) == call.first[..., None], dtype=np.float64)


def _function(call: Call) -> Array:
    return FUNCTIONS[call.node.op](call.first)


def _view(call: Call) -> Array:
    return call.first.reshape(len(call.first), *call.rest)


ROWS: dict[str, Row] = {
    "softmax": _softmax, "topk": _topk, "max": _topk, "sum": _sum, "scatter": _scatter, "clamp": _clamp, "one_hot": _one_hot,
    "argmax": lambda c: _topk(c)[1],
    "add": lambda c: c.operand(0) + c.operand(1), "sub": lambda c: c.operand(0) - c.operand(1),
    "mul": lambda c: c.operand(0) * c.operand(1), "div": lambda c: c.operand(0) / c.operand(1),
    "gather": lambda c: np.take_along_axis(c.first, np.asarray(c.operand(2, "index")).astype(np.int64), c.axis()),
    "expand": lambda c: np.broadcast_to(c.first, (len(c.first), *c.rest)),
    "getitem": lambda c: c.operand(0)[c.operand(1)],
    "bool": lambda c: c.first != 0, "bitwise_not": lambda c: c.first == 0, "logical_not": lambda c: c.first == 0,
    "masked_fill": lambda c: np.where(c.operand(1), c.operand(2), c.first),
    "zeros_like": lambda c: np.zeros_like(c.first), "ones_like": lambda c: np.ones_like(c.first),
}  # fmt: skip
"""Op -> what it does to each token."""


def row_of(node: Node) -> Row | None:
    """The row of an op; None without one."""
    if node.op == "getitem" and (len(node.args) < 2 or node.args[1] not in (0, 1)):
        return None
    if node.op in ROWS:
        return ROWS[node.op]
    if node.op in FUNCTIONS and len(node.inputs) == 1:
        return _function
    return _view if ops.CLASSES.get(node.op) in ("view", "alias") else None


__all__ = ["Call", "Table", "row_of"]
