"""Copies of a stream that are mixed by a matrix made from the data, as a coefficient: what is known where its shares sum to one.

x'_i = Σ_j M_ij·x_j over a few copies (hyper-connections with matrices made from the stream). With M ≥ 0

    Σ_j M_ij = 1  each copy becomes a mean of all: what all copies share is kept, and the largest copy bounds all that follow
    Σ_i M_ij = 1  each copy is shared out: the sum of the copies is kept, and the sum of their sizes bounds all that follow

so that such a product has gain 1 whatever the data, in the norm of the largest copy, or in that of their sum. Mixtures of both have no bound
(a mean may put all copies at the largest, and a sum adds them up): `is_mixture`. Sinkhorn's iteration ends in one of the two, and is near the other.

Source: Zhu et al. 2024 (hyper-connections), Xie et al. 2025 (mHC: manifold-constrained hyper-connections).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from screen.facts.operator import layouts
from screen.facts.operator.gates import RANGES
from screen.facts.operator.polynomial import Atom, Polynomial, of_atom
from screen.graph import Node, Ref
from screen.structure.copies import is_plain_view, mixing_of
from screen.structure.dataflow import Flow, axes_of, number, one_behind, strip
from screen.structure.shares import sum_below

Side = Literal["read", "written"]
"""Over which copies the shares sum to one: those that a product reads, or those that it writes."""
DEEPEST = 400
"""Steps of an iteration that are followed."""


def mixed(flow: Flow, node: Node) -> tuple[int, Polynomial] | None:
    """(the copies, the coefficient of the mixing) of a product or a sum that keeps their shape; None for any other."""
    found = mixing_of(flow, node)
    if found is None:
        return None
    sides: tuple[tuple[Side, int], ...] = (("read", found.read), ("written", found.written))
    for side, axis in sides:
        at_most = _sums_to_one(flow, found.matrix, axis)
        if at_most is not None:
            shares = of_atom(Atom(("shares", side, node.index), "average", node=found.matrix))
            below = of_atom(Atom(("below one", node.index), "gate", 0.0, 1.0, None, found.matrix, False))
            return found.copies, shares * below if at_most else shares
    return found.copies, of_atom(Atom(("mixing", node.index), "gate", node=found.matrix, uniform=False))


def is_mixture(polynomials: Iterable[Polynomial]) -> bool:
    """Whether some products take means of copies, and others share them out; or a mean is subtracted besides, whose gain is that of the 2-norm."""
    found = tuple(polynomials)
    sides = {a.key[1] for p in found for m, _ in p.terms for a in m if a.key[0] == "shares"}
    return len(sides) > 1 or (bool(sides) and any(p.is_euclidean for p in found))


def _sums_to_one(flow: Flow, matrix: int, axis: int) -> bool | None:
    """Whether the entries along an axis are shares of at most one (True) or of one (False); None where that is not known."""
    root, along = _behind(flow, matrix, axis)
    if along is None:
        return None
    node = flow.graph.nodes[root]
    rank = len(node.shape or ())
    if node.op == "softmax":
        return False if axes_of(flow.operand(node, 1, "dim"), rank) == (along - rank,) else None
    if node.op == "exp":
        return False if _is_log_share(flow, strip(flow, node.inputs[0]), along - rank) else None
    if node.op not in ("div", "true_divide") or node.kwarg("rounding_mode") is not None or (found := sum_below(flow, node)) is None:
        return None
    below, raised = found
    if axes_of(flow.operand(below, 1, "dim", "axis"), rank) != (along - rank,):
        return None
    same = strip(flow, below.inputs[0]) == strip(flow, node.inputs[0])
    return raised if same and _is_nonnegative(flow, node.inputs[0]) else None


def _behind(flow: Flow, index: int, axis: int) -> tuple[int, int | None]:
    """The value behind views, and the axis of it that an axis of the view is; no axis where it is none, or part of one."""
    views: list[Node] = []
    root = index
    while True:
        node = flow.graph.nodes[root]
        if (below := one_behind(flow, root)) is None and is_plain_view(flow, root):
            below = node.inputs[0]
        if below is None:
            break
        views.append(node)
        root = below
    shape = flow.graph.nodes[root].shape
    layout = None if shape is None else layouts.whole(shape)
    for node in reversed(views):
        layout = None if layout is None else layouts.viewed(flow, node, layout)
    if layout is None or not layouts.is_permuted(layout):
        return root, None
    plain = layouts.whole(shape or ())
    wanted = (layout.sizes[axis], layout.strides[axis])
    found = [i for i, one in enumerate(zip(plain.sizes, plain.strides, strict=True)) if one == wanted and wanted[0] > 1]
    return root, found[0] if found else None


def _is_log_share(flow: Flow, index: int, axis: int) -> bool:
    """A logarithm of shares: of a softmax along the axis, or z less its logsumexp."""
    node = flow.graph.nodes[index]
    rank = len(node.shape or ())
    if node.op == "log_softmax":
        return axes_of(flow.operand(node, 1, "dim"), rank) == (axis,)
    if node.op != "sub" or len(node.inputs) != 2 or node.kwarg("alpha") not in (None, 1):
        return False
    total = flow.graph.nodes[strip(flow, node.inputs[1])]
    if total.op != "logsumexp" or flow.operand(total, 2, "keepdim") is not True:
        return False
    return strip(flow, total.inputs[0]) == strip(flow, node.inputs[0]) and axes_of(flow.operand(total, 1, "dim"), rank) == (axis,)


def _is_nonnegative(flow: Flow, index: int) -> bool:
    """Whether no entry is below 0: a function whose range ends there, and sums, products and quotients of such values."""
    waiting, seen = [index], set[int]()
    while waiting:
        here = flow.root(waiting.pop())
        node = flow.graph.nodes[here]
        if here in seen or RANGES.get(node.op, (-1.0, 1.0))[0] >= 0:
            continue
        seen.add(here)
        numbers = [number(a) for a in node.args[:2] if not isinstance(a, Ref)]
        if node.op in ("clamp", "clamp_min"):
            low = number(flow.operand(node, 1, "min"))
            if low is not None and low >= 0:
                continue
        if len(seen) > DEEPEST or not node.inputs or node.op not in _KEEPS_SIGN or (node.op in _TWO and any(n is None or n < 0 for n in numbers)):
            return False
        waiting.extend(node.inputs)
    return True


_TWO = ("add", "mul", "div", "true_divide")
_KEEPS_SIGN = frozenset({*_TWO, "sum", "mean", "clamp", "clamp_min", "alias", "dropout"})

__all__ = ["Side", "is_mixture", "mixed"]
