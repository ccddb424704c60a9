"""Which scalar divides a weight: uᵀWv with two vectors of its own, ‖W‖₂ or ‖W‖_F; found by what is computed.

uᵀWv is read through products (dot, matrix times vector, batched ones with axes of size 1, a sum of entry-wise products) and views that keep the order
of all axes that are longer than 1, or turn the matrix. Products and quotients of weights alone are taken apart into factors, so that γW/σ, (γ/σ)W and
γ(W/σ) are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from screen.calculi.bounds.arrays import share_of
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.mixed_norms import is_zero
from screen.calculi.bounds.parts import Part
from screen.calculi.bounds.pointwise import by_number, multiplied
from screen.calculi.bounds.value import Value, of_part
from screen.graph import Node, Ref
from screen.structure.axis_order import TURNS, axis_order
from screen.structure.dataflow import number, strip

_VIEWS = frozenset({"view", "reshape", "squeeze", "unsqueeze", "flatten", "clone", "contiguous"})
_PRODUCTS = frozenset({"dot", "vdot", "mv", "mm", "matmul", "bmm"})


@dataclass(frozen=True)
class Term:
    """A vector (`left` alone), a weight, a weight times one vector, or uᵀWv, by nodes. `turned`: the weight stands as Wᵀ."""

    weight: int | None = None
    left: int | None = None
    right: int | None = None
    turned: bool = False

    @property
    def axes(self) -> int:
        """How many axes are longer than 1."""
        return 1 if self.weight is None else 2 - (self.left is not None) - (self.right is not None)


@dataclass(frozen=True)
class Size:
    """A size of a weight: |uᵀWv|, or its spectral norm, or its Frobenius norm."""

    weight: int
    left: int | None = None
    right: int | None = None
    frobenius: bool = False


def size_of(walk: Walk, index: int) -> Size | None:
    """What scalar of a weight a node is."""
    node = walk.graph.nodes[_behind(walk, index)]
    if _long(node.shape):
        return None
    exact = _norm(walk, node)
    if exact is not None:
        return exact
    term = _term(walk, index)
    found = term is not None and term.weight is not None and term.left is not None and term.right is not None
    return Size(term.weight, term.left, term.right) if found and term is not None and term.weight is not None else None


def over_its_size(walk: Walk, node: Node) -> Value | None:
    """γW/σ for weights alone, in any order of its products; None for anything else."""
    if walk.flow.data[node.index] or node.shape is None or len(node.shape) < 2:
        return None
    above, below, factor = _factors(walk, node.index)
    if len(below) != 1:
        return None
    size = size_of(walk, below[0])
    mine = [i for i in above if size is not None and _behind(walk, i) == size.weight]
    others = [walk.one(i) for i in above if i not in mine]
    if size is None or len(mine) != 1 or any(v.holes or not is_zero(v.der) or _long(v.shape) for v in others):
        return None
    parts = [None if i is None else _fixed(walk, i) for i in (size.left, size.right)]
    weight = walk.one(size.weight).part
    if weight is None or weight.shift or (size.left is not None and None in parts):
        return None
    gain = next((v.part for v in others if v.part is not None), None)
    made = of_part(share_of(weight, parts[0], parts[1], gain if gain is None else _scalar(gain), size.frobenius), walk.names)
    for v in others:
        made = made if v.part is gain and gain is not None else multiplied(walk, made, v)
    made = made if factor == 1.0 else by_number(made, factor)
    return made if made.shape == node.shape else None


def _scalar(part: Part) -> Part:
    return replace(part, sizes=(), strides=())


def _fixed(walk: Walk, index: int) -> Part | None:
    """A vector that is not trained."""
    found = walk.one(index)
    return None if walk.flow.trained[index] or not is_zero(found.der) or len(found.shape) != 1 else found.part


def _factors(walk: Walk, index: int) -> tuple[list[int], list[int], float]:
    """Nodes whose product is above and below the line, and the numbers among the factors."""
    node = walk.graph.nodes[strip(walk.flow, index)]
    if node.op not in ("mul", "div", "true_divide") or len(node.args) < 2 or node.kwarg("rounding_mode") is not None:
        return [index], [], 1.0
    sides = [_factors(walk, a.node) if isinstance(a, Ref) else ([], [], number(a)) for a in node.args[:2]]
    (a, b, x), (c, d, y) = sides
    if x is None or y is None or (node.op != "mul" and y == 0.0):
        return [index], [], 1.0
    return ([*a, *c], [*b, *d], x * y) if node.op == "mul" else ([*a, *d], [*b, *c], x / y)


def _behind(walk: Walk, index: int) -> int:
    """The value behind casts, copies and reshapes."""
    index = strip(walk.flow, index)
    node = walk.graph.nodes[index]
    return _behind(walk, node.inputs[0]) if node.op in _VIEWS and len(node.inputs) == 1 else index


def _long(shape: tuple[int, ...] | None) -> list[int]:
    return [n for n in shape or () if n != 1]


def _norm(walk: Walk, node: Node) -> Size | None:
    """‖W‖₂ or ‖W‖_F of a whole weight."""
    flow, graph = walk.flow, walk.graph
    if node.op in ("getitem", "amax", "max") and node.inputs and (node.op != "getitem" or node.args[1:] == (0,)):
        values = graph.nodes[node.inputs[0]]
        call = graph.nodes[values.inputs[0]] if values.op == "getitem" and values.args[1:] == (1,) else values
        ordered = call.op in ("_linalg_svd", "linalg_svd") and call is not values
        return _whole(walk, call, False) if ordered or call.op == "linalg_svdvals" else None
    if node.op not in ("norm", "linalg_norm", "linalg_matrix_norm", "linalg_vector_norm", "vector_norm"):
        return None
    order = flow.operand(node, 1, "ord", "p")
    axes = flow.operand(node, 2, "dim")
    if axes not in (None, (), (-2, -1), (0, 1)):
        return None
    spectral = order == 2 and node.op in ("linalg_norm", "linalg_matrix_norm")
    euclidean = order in (None, "fro") or (order == 2 and not spectral)
    return _whole(walk, node, not spectral) if spectral or euclidean else None


def _whole(walk: Walk, call: Node, frobenius: bool) -> Size | None:
    weight = _behind(walk, call.inputs[0]) if call.inputs else -1
    shape = walk.graph.nodes[weight].shape if weight >= 0 else None
    flat = walk.graph.nodes[call.inputs[0]].shape if call.inputs else None
    whole = shape is not None and len(shape) >= 2 and (frobenius or (flat is not None and len(flat) == 2 and flat[0] == shape[0]))
    return Size(weight, frobenius=frobenius) if whole else None


def _term(walk: Walk, index: int) -> Term | None:
    """What a node is of a weight and vectors."""
    index = strip(walk.flow, index)
    node = walk.graph.nodes[index]
    if node.op in _VIEWS | TURNS | {"getitem"} and len(node.inputs) == 1:
        inner = _term(walk, node.inputs[0])
        return None if inner is None else _viewed(walk, node, inner)
    if node.op == "sum" and not _long(node.shape) and len(node.inputs) == 1:
        times = walk.graph.nodes[strip(walk.flow, node.inputs[0])]
        sides = [walk.graph.nodes[i].shape for i in times.inputs]
        return _contracted(walk, times) if times.op == "mul" and len(sides) == 2 and _long(sides[0]) == _long(sides[1]) else None
    if node.op in _PRODUCTS and len(node.inputs) == 2:
        return _contracted(walk, node)
    if walk.flow.data[index]:
        return None
    count = len(_long(node.shape))
    return Term(left=index) if count == 1 else Term(weight=index) if count >= 2 and len(node.shape or ()) == count else None


def _viewed(walk: Walk, node: Node, inner: Term) -> Term | None:
    """Through a view: all axes that are longer than 1 in their order, or the weight turned; a filter's axes behind the first as one."""
    before, after = _long(walk.graph.nodes[node.inputs[0]].shape), _long(node.shape)
    if node.op not in TURNS:
        flat = node.op in _VIEWS and inner.axes == 2 and len(before) > 2 and len(after) == 2 and after[0] == before[0]
        return inner if before == after or flat else None
    if inner.axes < 2:
        return inner
    turned = _is_turned(walk, node)
    return None if turned is None or len(before) != 2 else replace(inner, turned=inner.turned != turned)


def _is_turned(walk: Walk, node: Node) -> bool | None:
    """Whether a permutation turns the two long axes around."""
    shape = walk.graph.nodes[node.inputs[0]].shape or ()
    order = axis_order(node, len(shape))
    kept = [i for i in order or () if shape[i] != 1]
    return None if order is None else kept != sorted(kept)


def _contracted(walk: Walk, node: Node) -> Term | None:
    """A product that leaves an axis fewer: of a weight and a vector on its side, or of that and a vector."""
    first, second = (_term(walk, i) for i in node.inputs)
    if first is None or second is None:
        return None
    for term, vector, ahead in ((first, second, True), (second, first, False)):
        if term.weight is None or vector.weight is not None or len(_long(node.shape)) not in (0, 1):
            continue
        if node.op in ("mul", *_PRODUCTS) and term.axes == 1 and not _long(walk.graph.nodes[node.index].shape if node.op != "mul" else ()):
            return replace(term, left=vector.left) if term.left is None else replace(term, right=vector.left)
        if node.op in _PRODUCTS and term.axes == 2:
            columns = ahead != term.turned  # W v, or vᵀ Wᵀ
            return replace(term, right=vector.left) if columns else replace(term, left=vector.left)
    return None


__all__ = ["over_its_size", "size_of"]
