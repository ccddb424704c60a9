"""Whether a value stays bounded at fixed weights however large its inputs are, where no size of it is known: bounded values go through ops that make
bounded values of bounded ones (a transform, a product of data, a choice), and every way from a stream leads through one that is bounded anyway.

Ops that have a pole, or that no row describes, are left out; a divisor has to stay away from zero by a range of its own.
"""

from __future__ import annotations

import math

from screen.calculi.bounds.boundedness import INPUTS
from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.value import Value
from screen.graph import Node, Ref
from screen.ops import CLASSES
from screen.structure.dataflow import number

QUOTIENTS = frozenset({"div", "true_divide"})
POLES = frozenset({
    "reciprocal", "rsqrt", "pow", "floor_divide", "remainder", "fmod", "ldexp", "log", "log2", "log10", "log1p", "logit", "logaddexp", "tan", "atanh",
    "acosh", "erfinv", "digamma", "lgamma", "logsumexp", "logcumsumexp", "log_softmax", "linalg_solve", "linalg_solve_triangular", "istft",
    "rdiv", "_weight_norm", "_weight_norm_interface", "renorm", "local_response_norm", "cosine_similarity", "nanmean", "multinomial", "rrelu",
})  # fmt: skip
"""Ops that may make a large value of a small one, or none at all; logarithms of what may be zero among them."""
RANDOM = frozenset({"randn", "randn_like", "normal", "exponential", "log_normal", "cauchy", "geometric", "empty", "empty_like", "new_empty"})
"""Sources whose entries have no bound."""


def is_kept(walk: Walk, index: int) -> bool:
    """Whether a value of the branch is bounded for inputs of any size, weights as they are."""
    todo, seen = [index], set[int]()
    while todo:
        here = todo.pop()
        if here in seen:
            continue
        seen.add(here)
        node = walk.graph.nodes[here]
        if here != walk.branch.output and walk.branch.border(here) in ("raw", "earlier", "memory"):
            return False
        if _is_infinite(node) or node.op in RANDOM:
            return False
        chosen = node.dtype == "bool" or (CLASSES.get(node.op) == "choice" and not walk.flow.is_float(node) and not _is_complex(node))
        if chosen or is_sized(walk.value(here)):
            continue
        if not node.inputs:
            if node.op not in ("parameter", "buffer", "constant", "input") and CLASSES.get(node.op) != "factory":
                return False
            continue
        if CLASSES.get(node.op) is None or (node.op in POLES and not _is_power(walk, node)):
            return False
        read = walk.flow.counting[here]  # of `view_as(y)` the shape of y is read alone
        if node.op in QUOTIENTS:
            below = walk.flow.operand(node, 1, "other")
            if isinstance(below, Ref) and walk.flow.data[below.node] and not _is_away_from_zero(walk, below.node):
                return False
            if not isinstance(below, Ref) and not number(below):
                return False
            read = tuple(i for i in read if not isinstance(below, Ref) or i != below.node)
        todo.extend(read)
    return True


def is_sized(value: object) -> bool:
    """Whether its size is known for inputs of any size."""
    if not isinstance(value, Value) or value.holes:
        return False
    size = value.norm()
    return isinstance(size, Expr) and size.log({name: math.inf if name in INPUTS else 1.0 for name in size.symbols()}) < math.inf


def _is_away_from_zero(walk: Walk, index: int) -> bool:
    found = walk.value(index)
    return isinstance(found, Value) and (found.low > 0 or found.high < 0)


def _is_complex(node: Node) -> bool:
    return node.dtype is not None and node.dtype.startswith("complex")


def _is_power(walk: Walk, node: Node) -> bool:
    """A value to the power of a number that is not negative."""
    exponent = number(walk.flow.operand(node, 1, "exponent")) if node.op == "pow" else None
    return exponent is not None and exponent >= 0


def _is_infinite(node: Node) -> bool:
    """Whether an infinite number is among the arguments: entries that are masked out."""
    return any(isinstance(a, float) and not math.isfinite(a) for a in (*node.args, *(v for _, v in node.kwargs)))


__all__ = ["is_kept", "is_sized"]
