"""The weights of an attention add up to 1 over the axis that values are summed over.

Why: attention is a mean of values only if its softmax runs over the keys. Over the queries (`dim=-2` for `dim=-1`) the weights of one token have
any sum between 0 and the number of tokens: its size depends on how many tokens ask for the same value and on the length of the sequence, and the
bound ‖A v‖ ≤ max‖v‖ is lost. In a loss curve: slow learning, noise, and a break at lengths that were not trained on.
Assumes: the weights reach the product with values scaled, masked, moved or dropped at most; weights that are divided by a sum again are not judged.
Cannot tell: when an op without a row reads the weights.
Source: Vaswani et al. 2017, eq. 1.
"""

from __future__ import annotations

import math

from screen.graph import Node
from screen.ops import CLASSES
from screen.rule import Example, Facts, Outcome, Rule, Site, place_of
from screen.structure.axis_order import TURNS, axis_order
from screen.structure.logits import FUSED, SOFTMAX, is_product

NEEDS = ("graph.nodes",)
RULE = Rule("G129", "softmax-over-summed-axis", "structure", None, "warning", NEEDS, "Vaswani et al. 2017, eq. 1")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        scores = self.q(h) @ self.k(h).transpose(-2, -1) / 32**0.5
        return x + self.o(WEIGHTS @ self.v(h))
"""
SUMMED = "WEIGHTS @ self.v(h)"
HEADS = BLOCK.replace(SUMMED, 'torch.einsum("bnij,jbnd->ibnd", WEIGHTS[:, None], self.v(h).transpose(0, 1)[:, :, None])[:, :, 0].transpose(0, 1)')
HOLDS = (
    Example("over keys", BLOCK.replace("WEIGHTS", "F.softmax(scores, dim=-1)")),
    Example("over keys, tokens first (XLNet)", HEADS.replace("WEIGHTS[:, None]", "F.softmax(scores[:, None], dim=3)")),
)
VIOLATES = (
    Example("over queries, tokens first", HEADS.replace("WEIGHTS[:, None]", "F.softmax(scores[:, None], dim=2)")),
    Example("over queries", BLOCK.replace("WEIGHTS", "F.softmax(scores, dim=-2)")),
    Example("over queries, counted from the front", BLOCK.replace("WEIGHTS", "F.softmax(scores, dim=1)")),
)
CANNOT_TELL = (Example("an op without a row reads the weights", BLOCK.replace("WEIGHTS", "torch.special.bessel_j0(F.softmax(scores, dim=-1))")),)

PRODUCTS = ("matmul", "bmm", "mm")
PLAIN = (
    "to", "type", "type_as", "float", "half", "bfloat16", "contiguous", "clone", "detach", "dropout", "mul", "div", "add", "masked_fill", "where",
    "alias",
)  # fmt: skip
"""Ops between the softmax and the product that keep the axes."""
MOST = 16
"""Ops that are followed."""


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per softmax whose weights are summed over one axis, or read by an op without a row; one for the whole model where there is none."""
    graph = facts.graph
    found: list[Outcome] = []
    lost = False
    for node in graph.nodes:
        axis = _axis(node) if node.op in SOFTMAX else None
        if axis is None and node.op not in FUSED:
            continue
        place = place_of(facts, node.index)
        if axis is None:
            found.append(Outcome("holds", f"The attention at {place.words} is one call, whose softmax runs over keys.", Site(place=place)))
            continue
        outcome = _judge(facts, node, axis, Site(place=place))
        found += [outcome] if outcome is not None else []
        lost |= outcome is None
    none = "of no softmax the weights were followed to values that are summed." if lost else "no softmax weighs values that are summed."
    return tuple(found) or (Outcome("not_applicable", none),)


def _judge(facts: Facts, softmax: Node, axis: int, site: Site) -> Outcome | None:
    graph, here, name = facts.graph, softmax, place_of(facts, softmax.index).words
    for _ in range(MOST):
        readers = [graph.nodes[u] for u in graph.users[here.index]]
        if any(CLASSES.get(r.op) is None and r.op != "alias" for r in readers):
            message = f"What the weights of the softmax at {name} are summed over is unknown: an op without a row reads them."
            return Outcome("cannot_tell", message, site)
        products = [r for r in readers if r.op in PRODUCTS and is_product(graph, r)]
        if products:
            summed = -1 if products[0].inputs[0] == here.index else -2
            if axis == summed:
                return Outcome("holds", f"The softmax at {name} runs over the axis that its values are summed over.", site)
            message = f"The softmax at {name} runs over axis {axis}, and values are summed over axis {summed}: weights do not add up to 1."
            return Outcome("violated", message, site, theorem="‖A v‖ ≤ max‖v‖ needs Σ_k A_qk = 1", remedy="take the softmax over the keys")
        kept = [r for r in readers if all(i == here.index or i < softmax.index for i in r.inputs)]  # not divided by their own sum
        moved = [(r, to) for r in kept if (to := _moved(here, r, axis)) is not None]
        if len(moved) != 1:
            return None
        here, axis = moved[0]
    return None


def _axis(node: Node) -> int | None:
    """The axis of a softmax, counted from the end."""
    axis = node.args[1] if len(node.args) > 1 else node.kwarg("dim")
    return None if not isinstance(axis, int) or node.shape is None else axis - len(node.shape) if axis >= 0 else axis


def _moved(before: Node, node: Node, axis: int) -> int | None:
    """Where an axis of a value stands behind an op; None where the op may give the weights another sum."""
    old, new = before.shape, node.shape
    if old is None or new is None:
        return None
    if node.op in PLAIN:
        return axis if new == old else None
    if node.op in TURNS:
        order = axis_order(node, len(old))
        return None if order is None else order.index(axis % len(old)) - len(old)
    if node.op == "expand" and len(old) > 1 and old[-2:] == new[-2:] and axis >= -2:
        return axis
    if node.op in ("view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten"):
        size, outer = old[axis % len(old)], math.prod(old[: axis % len(old)])
        places = [i for i, n in enumerate(new) if n == size and math.prod(new[:i]) == outer]
        return places[0] - len(new) if len(places) == 1 else None
    return None
