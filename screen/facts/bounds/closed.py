"""From the walk to closed answers: is the branch bounded over all its weights, what breaks it, and the Hamiltonian of its last norm.

"Over all weights": every trained map and bias may grow without limit, while the gains and biases of recognised norms, and gains that follow
a norm (LayerScale, ReZero), are held fixed and listed (`given`). The bound is monotone in its symbols, so that it is finite over all weights
exactly when it stays finite with those symbols at infinity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from screen.facts.bounds.expr import Expr
from screen.facts.bounds.value import Value
from screen.facts.bounds.walk import Walk
from screen.facts.norms import place_of
from screen.facts.nouns import Place, Tri, Unknown

INPUTS = frozenset({"B", "B_memory", "B_earlier"})
"""Magnitudes of inputs."""


def at_infinity(walk: Walk, expr: Expr, inputs: float) -> float:
    """The bound with all free weights at infinity, the given ones at 1, and input magnitudes at `inputs`."""
    values: dict[str, float] = {}
    for name in expr.symbols():
        values[name] = inputs if name in INPUTS else 1.0 if name in walk.given or name.startswith(("sigma_", "theta_")) else math.inf
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
        trained = [i for i in wild if walk.flow.trained[i]]
        kind = walk.flow.classes[index]
        if trained and kind in ("weighted", "product", "linear"):
            return Breaker(index, True, "a trained map, gain or bias without a constraint")
        if not wild:
            return Breaker(index, False, "not understood")
        if kind not in _CARRIES and kind not in ("product", "weighted", "write") and node.op not in _GROWS:
            return Breaker(index, False, "not understood")
        index = next((i for i in wild if walk.flow.data[i]), wild[0])
    return Breaker(index, False, "not understood")


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


# -- the Hamiltonian of the last norm -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HamiltonianForm:
    """H(P) = sup over the outputs of −⟨P, f⟩, per token p_j (a column of P), when the last op of the branch is a norm.

    An upper bound for the branch; equal when the branch can give each token any direction (distinct tokens, a free map before the norm). With
    ε > 0 it is a supremum that is not attained. For P = 0 it is 0 (review, 20)."""

    kind: str
    """rms, layer, l2 or group."""
    width: int
    gain: tuple[str, ...]
    """Names of the gains after the norm (several multiply: γ → λγ)."""
    bias: tuple[str, ...]
    text: str
    """SymPy text per token: d, and the norm of `ΓP` entries as symbols."""
    maximiser: str
    attained: bool
    """ε = 0: the supremum is a maximum."""
    conditions: tuple[str, ...]


def hamiltonian(walk: Walk, parameters: Mapping[str, str]) -> HamiltonianForm | None:
    """The form of the branch's last norm; None when the branch does not end in one (`parameters`: symbol -> parameter name)."""
    norm = walk.branch.exit.norm
    if norm is None or walk.branch.exit.normed is not True or walk.branch.exit.gated:
        return None
    kind = {"layernorm": "layer", "rmsnorm": "rms", "l2": "l2", "groupnorm": "group"}.get(norm.type)
    output = walk.table.get(walk.branch.output)
    if kind is None or kind == "group" or not isinstance(output, Value) or not output.after:
        return None
    gains, biases = _after(walk, norm.node, parameters)
    root = "" if kind == "l2" else f"sqrt({norm.size})*"
    inner = "(I - ones*ones.T/d)*Gamma*p_j" if kind == "layer" else "Gamma*p_j"
    bias = " - <p_j, beta>" if biases else ""
    centre = "(I - 11'/d) " if kind == "layer" else ""
    return HamiltonianForm(
        kind=kind, width=norm.size, gain=gains, bias=biases,
        text=f"Sum_j {root}||{inner}||_2{bias}".replace("/d)", f"/{norm.size})"),
        maximiser=f"f_j = -{root}Gamma*{centre}Gamma*p_j / ||{centre}Gamma*p_j||_2" + (" + beta" if biases else ""),
        attained=not norm.eps,
        conditions=(
            "an upper bound; equal when the branch can give each token any direction",
            *(("a supremum, not attained, since eps > 0",) if norm.eps else ()),
            f"the maximiser is unique exactly when {centre}Gamma*p_j is not 0",
            "for P = 0 it is 0",
        ),
    )


def _after(walk: Walk, start: int, parameters: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    gains: dict[str, None] = {}
    biases: dict[str, None] = {}
    output = walk.table.get(walk.branch.output)
    used = output.norm(-1).symbols() if isinstance(output, Value) and isinstance(output.norm(-1), Expr) else ()  # type: ignore[union-attr]
    for symbol in used:
        if symbol in walk.given and symbol in parameters:
            (biases if "bias" in walk.given[symbol] else gains)[parameters[symbol]] = None
    return tuple(gains), tuple(biases)
