"""From the walk to closed answers: is the branch bounded over all its weights, and what breaks it.

"Over all weights": every trained map and bias may grow without limit, while the gains and biases of recognised norms, gains that follow a norm, and
those of what a branch adds (LayerScale, ReZero) are held fixed and listed (`given`). The bound is monotone in its symbols, so that it is finite over
all weights exactly when it stays finite with those symbols at infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.growth import Growth, State
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.witness import candidates, grown, of_degree, witness
from screen.structure.norms.find import place_of
from screen.structure.types import Place, Tri, Unknown

INPUTS = frozenset({"B", "B_memory", "B_earlier"})
"""Magnitudes of inputs."""


def survives(bound: Expr, inputs: frozenset[str] = INPUTS) -> bool:
    """Whether a bound stays finite when its inputs grow without limit."""
    return bound.log({name: math.inf if name in inputs else 1.0 for name in bound.symbols()}) < math.inf


def fixed(walk: Walk, symbol: str) -> str:
    """Why "over all weights" leaves a symbol as it is; empty for free weights."""
    quantity = walk.names.quantities.get(symbol)
    if symbol in walk.given or quantity is None:
        return walk.given.get(symbol, "")
    if quantity.part.fold is not None:
        return quantity.part.fold.fixed
    return walk.names.buffers.get(quantity.parameter, "")


def is_free(walk: Walk, symbol: str) -> bool:
    """Whether "over all weights" leaves a symbol no bound."""
    return not symbol.startswith(("sigma_", "theta_")) and not fixed(walk, symbol)


def is_proven(walk: Walk, symbol: str) -> bool:
    """Whether the graph shows that it stays; else training has to."""
    quantity = walk.names.quantities.get(symbol)
    return quantity is None or quantity.part.fold is None or quantity.part.fold.proven


def is_finite(walk: Walk, bound: Expr | Unknown, given: frozenset[str] = frozenset(), inputs: float = math.inf) -> bool:
    """Whether a bound stays finite with all free weights at infinity and all inputs of that size; parameters `given` stay as they are, too."""
    if isinstance(bound, Unknown):
        return False
    values: dict[str, float] = {}
    for name in bound.symbols():
        quantity = walk.names.quantities.get(name)
        held = not is_free(walk, name) or (quantity is not None and quantity.parameter in given)
        values[name] = 1.0 if held else inputs if name in INPUTS else math.inf
    return bound.log(values) < math.inf


UNDECIDED = "no bound was derived that stays finite over all weights, and no weight was found that makes it grow without limit"


@dataclass(frozen=True)
class Breaker:
    """Why a value is not bounded, or not known to be: the node, and what a witness found there (else what was not understood)."""

    node: int
    proven: bool
    reason: str


def held(walk: Walk) -> frozenset[str]:
    """Parameters that "over all weights" leaves as they are: those of quantities that are given."""
    names: set[str] = set(walk.graph.frozen)
    for symbol, quantity in walk.names.quantities.items():
        if fixed(walk, symbol):
            fold = quantity.part.fold
            names.add(quantity.parameter)
            names.update(p.parameter for p in (fold.parts if fold is not None else ()) if fold is not None and p is not fold.matrix)
    return frozenset(names)


def boundedness(
    walk: Walk,
    bound: Expr | Unknown,
    node: int | None = None,
    asked: Callable[[dict[int, State]], State] | None = None,
    besides: frozenset[str] = frozenset(),
) -> tuple[Tri, Breaker | None]:
    """Whether a value (of the branch's output, or of a node) is bounded over all weights and all inputs.

    True is proven by a finite bound, False by a witness (`witness`); an infinite bound proves nothing. `asked`: how what is asked for grows with the
    values that the node reads, where it is not the node's own value. `besides`: parameters that stay as they are, too."""
    target = walk.branch.output if node is None else node
    if is_finite(walk, bound, besides):
        return True, None
    given = held(walk) | besides
    found = witness(walk, target, given, asked)
    if found is not None:
        return False, Breaker(found.node, True, "grows with a weight" if walk.flow.of_weights[found.source] else "grows with what it reads")
    group = of_degree(walk, target, given, asked is not None)
    if group is not None:
        return False, Breaker(_use_of(walk, group, target), True, f"is homogeneous in {f'`{group}`' if group else 'the stream'}")
    if isinstance(bound, Unknown):
        return bound, Breaker(max(bound.nodes, default=target), False, bound.reason)
    return Unknown(UNDECIDED, (target,)), Breaker(target, False, "not understood")


def in_stream(walk: Walk, bound: Expr | Unknown) -> Tri:
    """Whether the output stays bounded, weights fixed, however large the branch's own stream is; False by a witness alone."""
    target = walk.branch.output
    if isinstance(bound, Expr) and bound.log({n: math.inf if n == "B" else 1.0 for n in bound.symbols()}) < math.inf:
        return True
    everything = frozenset(walk.graph.parameters)
    streams = [i for i in candidates(walk, target, everything) if walk.branch.border(i) == "raw"]
    if any(isinstance(grown(walk, i, target).get(target), Growth) for i in streams) or of_degree(walk, target, everything) == "":
        return False
    return bound if isinstance(bound, Unknown) else Unknown("no bound was derived that stays finite when the stream grows", (target,))


def _use_of(walk: Walk, parameter: str, target: int) -> int:
    """Where a parameter acts on data."""
    node = walk.graph.parameters.get(parameter)
    uses = [i for i in walk.branch.region if node is not None and i <= target and walk.flow.data[i] and node.index in walk.graph.nodes[i].inputs]
    return max(uses, default=target)


def place(walk: Walk, breaker: Breaker | None) -> Place | None:
    """Where a breaker stands in the user's code."""
    return None if breaker is None else place_of(walk.graph, breaker.node)
