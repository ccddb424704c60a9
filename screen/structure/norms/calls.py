"""Calls of norms: of vectors or of matrices, of which order, over which axes."""

from __future__ import annotations

import math

from screen.graph import Node
from screen.structure.dataflow import Flow, axes_of, number


NORMS = ("norm", "vector_norm", "linalg_norm", "linalg_matrix_norm", "matrix_norm")
"""Ops that give norms of vectors or matrices."""


def norm_of(flow: Flow, node: Node, rank: int) -> tuple[str, float, tuple[int, ...]] | None:
    """("vector" or "matrix", order, axes) of a norm call; the nuclear norm has order 0. None for what is no norm, or is not read.

    `linalg.norm` over two axes (or of a matrix) takes an order as that of a matrix norm: 2 is the largest singular value, 1 the largest column sum,
    ∞ the largest row sum. `torch.norm` and `vector_norm` take all entries for one vector."""
    given = flow.operand(node, 1, "p", "ord")
    dims = flow.operand(node, 2, "dim")
    axes = axes_of(dims, rank)
    by_name = node.op in ("linalg_matrix_norm", "matrix_norm")
    matrix = by_name or (node.op == "linalg_norm" and not isinstance(dims, int) and len(axes) == 2)
    if by_name and dims is None:
        axes = (-2, -1)
    if given in (None, "fro"):
        return "vector", 2.0, axes
    if given == "nuc":
        return "matrix", 0.0, axes
    order = math.inf if given in ("inf", "Infinity") else number(given)
    if order is None or order <= 0:
        return None
    if matrix and order not in (1.0, 2.0, math.inf):
        return None
    return "matrix" if matrix else "vector", order, tuple(dims) if matrix and isinstance(dims, tuple) and len(dims) == 2 else axes


def room_of(kind: str, order: float, sizes: tuple[int, ...]) -> float:
    """c of ‖x‖₂ <= c · norm: of vectors n^(1/2 − 1/p) for p > 2, of matrices √rank for the largest singular value, √columns for column sums."""
    if kind == "vector":
        return 1.0 if order <= 2 else math.prod(sizes) ** (0.5 - 1.0 / order)
    rows, columns = sizes
    return {2.0: math.sqrt(min(rows, columns)), 1.0: math.sqrt(columns), math.inf: math.sqrt(rows), 0.0: 1.0}[order]


__all__ = ["NORMS", "norm_of", "room_of"]
