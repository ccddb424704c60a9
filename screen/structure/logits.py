"""Attention as it stands in the graph: what a value serves as on its way to a softmax, and which axis the weights of a softmax are summed over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from screen.graph import Graph, Node, Ref
from screen.ops import CLASSES
from screen.structure.initial.values import LITERALS, start_of
from screen.structure.reach import onward

FUSED = ("scaled_dot_product_attention", "flex_attention")
CARRYING = ("view", "part", "linear", "join")
SOFTMAX = ("softmax", "log_softmax")
PRODUCTS = ("matmul", "bmm", "mm", "baddbmm")
"""Of queries with keys, which are their last two operands."""


@dataclass(frozen=True)
class Uses:
    """What the values behind one value serve as."""

    logits: bool = False
    """A query or a key."""
    others: bool = False
    """Something else: a value, a feed-forward's input, the stream."""
    weights: bool = False
    """A weighted map stands between it and the logits."""
    unread: int | None = None
    """The first op without a row on the way."""


def has_weight(graph: Graph, node: Node) -> bool:
    """Whether an op contracts a parameter, as it is or moved and cut."""
    for i in node.inputs[1:] if node.op == "linear" else node.inputs:
        while CLASSES.get(graph.nodes[i].op) in ("view", "part") and graph.nodes[i].inputs:
            i = graph.nodes[i].inputs[0]
        if graph.nodes[i].op == "parameter":
            return True
    return False


def is_product(graph: Graph, node: Node) -> bool:
    """A product of two values that are made of data."""
    return CLASSES.get(node.op) == "product" and not has_weight(graph, node)


def feeds_softmax(graph: Graph, node: int, *, capped: bool = False) -> bool:
    """Whether a product's result goes into a softmax, scaled, masked and moved at most; or `capped` by a tanh on its way."""

    def stops(user: int) -> bool:
        return CLASSES.get(graph.nodes[user].op) not in CARRYING and not (capped and graph.nodes[user].op == "tanh")

    return any(graph.nodes[user].op in SOFTMAX for user, _ in onward(graph, node, stops))


def compared(graph: Graph, softmax: int) -> tuple[list[int], list[int]]:
    """The products that the logits of a softmax are made of, and the ops between them and it, each in the order of the program. What maps and
    tables add to the logits (biases of positions) is neither."""
    nodes, products, between = graph.nodes, set[int](), set[int]()
    reads: dict[int, bool] = {}

    def is_made(node: int) -> bool:
        """Whether a product stands before a value, with neither a map nor a norm between."""
        if node not in reads:
            reads[node] = False
            here = nodes[node]
            if here.op in PRODUCTS:
                products.add(node)
                reads[node] = True
            elif CLASSES.get(here.op) not in ("weighted", "norm"):
                made = [is_made(i) for i in here.inputs]  # of all of them, for the products that they hold
                reads[node] = any(made)
                between.update([node] if reads[node] else [])
        return reads[node]

    for i in nodes[softmax].inputs[:1]:
        is_made(i)
    return sorted(products), sorted(between)


HIDDEN = -1e4
"""What hides a key, and anything below."""
_ZEROS = ("zeros", "zeros_like", "new_zeros")


def added(graph: Graph, softmax: int) -> tuple[int, ...]:
    """What is added to the products that the logits of a softmax are made of and may be more than a mask: biases of positions, stored tables. A mask
    that chooses (`where`, booleans) adds nothing, and one that is made of numbers to hide by hides."""
    return tuple(i for i in _beside(graph, softmax) if not hides(graph, i))


def hides(graph: Graph, index: int) -> bool:
    """Whether a value is made as a mask: of zeros, and of numbers that hide a key."""
    node = graph.nodes[index]
    given = [start_of(graph, a.node) if isinstance(a, Ref) and graph.nodes[a.node].op in LITERALS else a for a in node.args]
    numbers = [float(a) for a in given if isinstance(a, int | float) and not isinstance(a, bool)]
    low = any(n <= HIDDEN for n in numbers)
    match node.op:
        case "triu" | "tril":
            source = graph.nodes[node.inputs[0]]
            return source.op in ("full", "full_like", "new_full") and any(isinstance(a, float) and a <= HIDDEN for a in source.args)
        case "masked_fill":
            return low and (graph.nodes[node.inputs[0]].op in _ZEROS or hides(graph, node.inputs[0]))
        case "where":
            return low and all(n in (0.0, -0.0) or n <= HIDDEN for n in numbers) and len(numbers) == 2
        case "mul":
            return low
    return CLASSES.get(node.op) in ("view", "part") and bool(node.inputs) and hides(graph, node.inputs[0])


def _beside(graph: Graph, softmax: int) -> tuple[int, ...]:
    nodes, node = graph.nodes, graph.nodes[softmax]
    if node.op in FUSED:
        given = node.args[3] if len(node.args) > 3 else node.kwarg("attn_mask")
        return (given.node,) if isinstance(given, Ref) and nodes[given.node].dtype != "bool" else ()
    products, between = compared(graph, softmax)
    made = {*products, *between}
    beside = [i for n in between if nodes[n].op in ("add", "sub") for i in nodes[n].inputs if i not in made and not is_scalar(nodes[i])]
    biased = [nodes[p].inputs[0] for p in products if nodes[p].op == "baddbmm"]
    return (*beside, *biased)


def is_scalar(node: Node) -> bool:
    """One number for all entries."""
    return all(n == 1 for n in node.shape or ())


def uses_of(graph: Graph, start: int, states: Collection[int]) -> Uses:
    """What the values behind `start` serve as, up to the first logits, norm or activation of each path."""
    found = Uses()
    seen: set[tuple[int, bool]] = set()
    todo = [(start, False)]
    while todo:
        here, weighted = todo.pop()
        for user in graph.users[here]:
            node = graph.nodes[user]
            kind = CLASSES.get(node.op)
            as_value = node.op in FUSED and here in [a.node for a in node.args[2:3] if isinstance(a, Ref)]
            if (node.op in FUSED and not as_value) or (is_product(graph, node) and feeds_softmax(graph, user)):
                found = Uses(True, found.others, found.weights or weighted, found.unread)
            elif kind is None and node.op != "alias":
                found = Uses(found.logits, found.others, found.weights, user)
            elif user not in states and (kind in CARRYING or node.op == "alias" or has_weight(graph, node)):
                step = (user, weighted or (kind in ("weighted", "product") and has_weight(graph, node)))
                if step not in seen:
                    seen.add(step)
                    todo.append(step)
            else:
                found = Uses(found.logits, True, found.weights, found.unread)
    return found


__all__ = ["FUSED", "PRODUCTS", "SOFTMAX", "Uses", "added", "compared", "feeds_softmax", "has_weight", "is_product", "uses_of"]
