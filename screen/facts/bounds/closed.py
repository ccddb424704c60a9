"""From the walk to closed answers: is the branch bounded over all its weights, and what breaks it.

"Over all weights": every trained map and bias may grow without limit, while the gains and biases of recognised norms, and gains that follow
a norm (LayerScale, ReZero), are held fixed and listed (`given`). The bound is monotone in its symbols, so that it is finite over all weights
exactly when it stays finite with those symbols at infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from screen.facts.bounds.expr import Expr
from screen.facts.bounds.value import Value
from screen.facts.bounds.walk import Walk
from screen.facts.norms import place_of
from screen.facts.nouns import Place, Tri, Unknown

INPUTS = frozenset({"B", "B_memory", "B_earlier"})
"""Magnitudes of inputs."""


def fixed(walk: Walk, symbol: str) -> str:
    """Why "over all weights" leaves a symbol as it is; empty for free weights."""
    quantity = walk.names.quantities.get(symbol)
    if symbol in walk.given or quantity is None:
        return walk.given.get(symbol, "")
    if quantity.part.fold is not None:
        return quantity.part.fold.fixed
    return "a buffer" if quantity.parameter in walk.names.buffers else ""


def is_proven(walk: Walk, symbol: str) -> bool:
    """Whether the graph shows that it stays; else training has to."""
    quantity = walk.names.quantities.get(symbol)
    return quantity is None or quantity.part.fold is None or quantity.part.fold.proven


def at_infinity(walk: Walk, expr: Expr, inputs: float) -> float:
    """The bound with all free weights at infinity, the given ones at 1, and input magnitudes at `inputs`."""
    values: dict[str, float] = {}
    for name in expr.symbols():
        held = name.startswith(("sigma_", "theta_")) or fixed(walk, name)
        values[name] = inputs if name in INPUTS else 1.0 if held else math.inf
    return expr.log(values)


def is_finite(walk: Walk, bound: Expr | Unknown, inputs: float = math.inf) -> bool:
    """Whether a bound stays finite over all weights."""
    return not isinstance(bound, Unknown) and at_infinity(walk, bound, inputs) < math.inf


@dataclass(frozen=True)
class Breaker:
    """Why a branch is not bounded: the node, and whether it is the weight (True) or something that was not understood."""

    node: int
    proven: bool
    reason: str


_CARRIES = frozenset({"view", "part", "join", "linear", "alias", "norm", "statistic", "mixing"})
_GROWS = frozenset({"relu", "gelu", "silu", "mish", "elu", "leaky_relu", "softplus", "hardswish", "abs", "selu", "celu", "square", "pow", "prelu"})


def breaker_of(walk: Walk, index: int, inputs: float) -> Breaker:
    """The last node before the output that a free weight (or the raw input) makes unbounded."""
    graph = walk.graph
    seen: set[int] = set()
    while index not in seen:
        seen.add(index)
        node = graph.nodes[index]
        if walk.branch.border(index) is not None and index != walk.branch.output:
            return Breaker(index, True, "reads the stream without a norm")
        wild = [i for i in node.inputs if walk.flow.is_float(graph.nodes[i]) and not _is_tame(walk, i, inputs)]
        trained = [i for i in wild if walk.flow.trained[i] and _is_known(walk, i)]
        kind = walk.flow.classes[index]
        if trained and kind in ("weighted", "product", "linear"):
            return Breaker(index, True, "a trained map, gain or bias without a constraint")
        if not wild:
            return Breaker(index, False, "not understood")
        if kind not in _CARRIES and kind not in ("product", "weighted", "write") and node.op not in _GROWS:
            return Breaker(index, False, "not understood")
        index = next((i for i in wild if walk.flow.data[i]), wild[0])
    return Breaker(index, False, "not understood")


def _is_known(walk: Walk, index: int) -> bool:
    """Whether a weight is free as it stands: what is made of weights in a way that is not understood may be constrained (`spectral_norm`)."""
    found = walk.table.get(index)
    return isinstance(found, Value) and not isinstance(found.mag, Unknown)


def _is_tame(walk: Walk, index: int, inputs: float) -> bool:
    found = walk.table.get(index)
    values = found if isinstance(found, tuple) else (found,)
    return all(isinstance(v, Value) and is_finite(walk, v.norm(-1) if v.shape else v.norm(), inputs) for v in values)


def boundedness(walk: Walk, bound: Expr | Unknown, inputs: float) -> tuple[Tri, Breaker | None]:
    """Whether {F_w(x)} is bounded over all weights, for inputs of at most that magnitude."""
    if isinstance(bound, Unknown):
        return _unknown_or_broken(walk, bound, inputs)
    if is_finite(walk, bound, inputs):
        return True, None
    found = breaker_of(walk, walk.branch.output, inputs)
    if found.proven:
        return False, found
    return Unknown(f"the bound is infinite, and the branch may be bounded all the same: {found.reason}", (found.node,)), found


def _unknown_or_broken(walk: Walk, bound: Unknown, inputs: float) -> tuple[Tri, Breaker | None]:
    """Nothing is known of the size; a trained map at the very end makes it unbounded whatever stands before."""
    found = breaker_of(walk, walk.branch.output, inputs)
    if found.proven and found.reason.startswith("a trained") and found.node >= max(bound.nodes, default=0):
        return False, found
    return bound, Breaker(max(bound.nodes, default=walk.branch.output), False, bound.reason)


def place(walk: Walk, breaker: Breaker | None) -> Place | None:
    """Where a breaker stands in the user's code."""
    return None if breaker is None else place_of(walk.graph, breaker.node)
