"""Sound bounds of a branch, by abstract interpretation of its part of the graph.

`bounds_of(branch)` gives expressions in norms of the weights for the branch's magnitude and for its Lipschitz constant in block-∞ (the largest
2-norm of a token), for its logits and for its largest inner entry, and says whether its outputs are bounded over all weights. Every rule stands
beside its line of mathematics: `mixed_norms`, `axes` (reshapes), `products`, `rules` (ops). What is not understood is
`Unknown(reason, node)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import overload

from screen.calculi.bounds import rules
from screen.calculi.bounds.boundedness import INPUTS, boundedness, fixed, held, in_stream, is_free, is_proven, place
from screen.calculi.bounds.expr import ONE, Expr, add, largest, num, sym
from screen.calculi.bounds.hamiltonian import HamiltonianForm, hamiltonian
from screen.calculi.bounds.interpreter import Spread, Walk
from screen.calculi.bounds.kept import is_kept, is_sized
from screen.calculi.bounds.parts import Part
from screen.calculi.bounds.quantities import Quantity, values_of
from screen.calculi.bounds.softmax import SoftmaxBound, opaque, softmaxes, verdict
from screen.calculi.bounds.value import Value
from screen.structure.branches.branch import Branch
from screen.structure.softmaxes import CALLS, FUSED
from screen.structure.types import Place, Tri, Unknown

_RULES = rules.__all__
"""Imported so that they are entered."""


@dataclass(frozen=True)
class BranchBounds:
    """What is known of the sizes in one branch. All norms per token are plain 2-norms over the feature axis."""

    magnitude: Expr | Unknown
    """sup over tokens of ‖F(x)_token‖₂, weights fixed, over all x with sup_token ‖x_token‖₂ <= B (the symbol stands in it only where the input
    arrives without a norm; B_memory: the same of another stream, B_earlier of an earlier branch or state;
    B_table of a table that forward is given, which is held)."""
    lipschitz: Expr | Unknown
    """Operator norm of ∂F/∂x from block-∞ to block-∞, over the same x: each norm counts its gain over its smallest divisor."""
    lipschitz_local: Expr | Unknown
    """The same at a point: `sigma_i` is the smallest divisor of norm i over the tokens there (ε included), `theta_i` the largest ‖diag p − pp'‖
    from max to sum norm (θ(p) <= 1) of softmax i, `spread_i` half the diameter of the vectors that it weighs. Routing fixed."""
    logits: tuple[Expr | Unknown, ...]
    """sup |logit| of each attention's softmax, before masks."""
    logits_bounded: Tri | None
    """Over all weights given the norms' gains, of all softmaxes that weigh tokens; None without one."""
    bounded: Tri
    """Whether the set of outputs over all weights and all x is bounded: True is proven by a bound, False by a witness."""
    breaker: Place | None
    """Where it breaks, or what was not understood."""
    given: tuple[str, ...]
    """What is held fixed, and what else is assumed."""
    bound: Expr | None
    """The bound of the output over all weights where it is bounded."""
    hamiltonian: HamiltonianForm | None
    """Of the last norm, where the branch ends in one."""
    internal: Expr | Unknown
    """The largest magnitude of any entry inside of the branch."""
    quantities: tuple[Quantity, ...]
    """What the weights' symbols stand for, in order of appearance."""
    ops: int
    """Nodes of the branch."""
    norms: tuple[tuple[str, int, float | None], ...]
    """(sigma symbol, node of the norm, smallest divisor; None when it can come near 0)."""
    axis: int
    """The feature axis of the output, negative."""
    logit_nodes: tuple[int, ...] = ()
    """The node of each of `logits`: a softmax or a fused attention."""
    unproven: tuple[str, ...] = ()
    """Of `given` what training has to see to: the graph does not show it."""
    spreads: tuple[Spread, ...] = ()
    """The symbols `spread_i` of `lipschitz_local`."""
    softmaxes: tuple[SoftmaxBound, ...] = ()
    """Every softmax of the branch, whatever it weighs or chooses."""
    opaque: tuple[int, ...] = ()
    """Ops without a row that data pass: what is said of softmaxes does not know them."""
    bounded_in_stream: Tri = field(default_factory=lambda: Unknown("not asked"))
    """Whether the output stays bounded, weights fixed, however large the stream is: True by a bound, False by a witness."""
    kept: bool = False
    """Whether it stays bounded so where no size is known, for other streams and earlier states of any size, too."""
    held: frozenset[str] = frozenset()
    """Parameters that "over all weights" leaves as they are."""
    free: frozenset[str] = frozenset()
    """Symbols that "over all weights" may grow without limit: those of inputs, and of parameters that are not held."""
    coarse: Mapping[str, Expr] = field(default_factory=dict)
    """Symbols of norms of folded weights (`arrays`) and of spreads -> a bound in norms of single parameters."""

    @overload
    def plain(self, claim: Expr) -> Expr: ...
    @overload
    def plain(self, claim: Expr | Unknown) -> Expr | Unknown: ...
    def plain(self, claim: Expr | Unknown) -> Expr | Unknown:
        """A bound in norms of single parameters alone: never smaller."""
        while isinstance(claim, Expr) and not self.coarse.keys().isdisjoint(claim.symbols()):
            claim = claim.substitute(self.coarse)
        return claim


def bounds_of(branch: Branch) -> BranchBounds:
    """All bounds of one branch."""
    walk = Walk(branch)
    _hold_last_gains(walk)
    output = walk.one(branch.output)
    axis = _feature_axis(walk)
    magnitude, local = output.norm(axis), output.slope(axis)
    lipschitz = _global(walk, output, local)
    bounded, breaker = boundedness(walk, magnitude)
    found = softmaxes(walk)
    cores = [s for s in found if s.role in ("attention", "pooling") and walk.graph.nodes[s.node].op in (*CALLS, *FUSED)]
    logits = tuple(s.logits for s in cores)
    hidden = opaque(walk)
    internal = _internal(walk)
    coarse = {**walk.names.coarse, **{s.symbol: s.coarse for s in walk.spreads}}
    used = _with_coarse(_used(magnitude, local, lipschitz, internal, *logits), coarse)
    quantities = tuple(q for s, q in walk.names.quantities.items() if s in used)
    names = {q.symbol: q.parameter for q in walk.names.quantities.values()}
    return BranchBounds(
        magnitude=magnitude, lipschitz=lipschitz, lipschitz_local=local, logits=logits,
        logit_nodes=tuple(s.node for s in cores), logits_bounded=verdict(found, hidden), softmaxes=found, opaque=hidden,
        bounded=bounded, breaker=place(walk, breaker), given=_given(walk, magnitude, logits, names),
        bound=magnitude if bounded is True and isinstance(magnitude, Expr) else None, hamiltonian=hamiltonian(walk), internal=internal,
        quantities=quantities, ops=len(branch.region), norms=tuple((f.symbol, f.node, f.least) for f in walk.floors), axis=axis,
        unproven=tuple(dict.fromkeys(fixed(walk, s) for s in _used(magnitude) if not is_proven(walk, s))),
        spreads=tuple(s for s in walk.spreads if s.symbol in used), coarse={s: e for s, e in coarse.items() if s in used},
        bounded_in_stream=in_stream(walk, magnitude), held=held(walk), kept=not is_sized(output) and is_kept(walk, branch.output),
        free=frozenset(s for s in (*walk.names.quantities, *walk.names.coarse, *INPUTS) if is_free(walk, s)),
    )


def _hold_last_gains(walk: Walk) -> None:
    """A number for each channel, or one for all, that multiplies what a branch adds is a gain as any other, whatever stands before it."""
    for edge in walk.branch.exit.scales:
        if edge.kind == "scale" and edge.scale is not None and walk.flow.trained[edge.scale]:
            shape = walk.graph.nodes[edge.scale].shape or ()
            if sum(n != 1 for n in shape) <= 1:
                walk.hold(walk.one(edge.scale).gain, "the gain of what is added")


def _feature_axis(walk: Walk) -> int:
    output, state = walk.graph.nodes[walk.branch.output], walk.graph.nodes[walk.branch.state]
    axis = walk.feature_axis(walk.branch.state)
    return axis if output.shape is not None and state.shape is not None and len(output.shape) == len(state.shape) else -1


def _global(walk: Walk, output: Value, local: Expr | Unknown) -> Expr | Unknown:
    if output.jump is not None:
        return Unknown("a choice made from data: it jumps at a tie", (output.jump,))
    if isinstance(local, Unknown):
        return local
    used = set(local.symbols())
    worst = dict.fromkeys(walk.thetas, ONE) | {s.symbol: s.coarse for s in walk.spreads}
    for floor in walk.floors:
        if floor.symbol in used and floor.least is None:
            return Unknown("a norm without an epsilon has no Lipschitz constant", (floor.node,))
        if floor.least is not None:
            worst[floor.symbol] = num(floor.least)
    return local.substitute(worst)


def _internal(walk: Walk) -> Expr | Unknown:
    """Over all nodes of the region that carry data."""
    found: list[Expr] = []
    for index in walk.branch.region:
        value = walk.table[index]
        if not isinstance(value, Value) or not walk.flow.data[index]:
            continue
        entry = value.norm()
        if isinstance(entry, Unknown):
            return entry
        found.append(entry)
    return largest(*found) if found else Unknown("the branch holds no data")


def _with_coarse(symbols: list[str], coarse: Mapping[str, Expr]) -> frozenset[str]:
    """Symbols, and those of their bounds in plainer ones."""
    found, new = set[str](), symbols
    while new:
        found.update(new)
        new = [s for s in _used(*(coarse[s] for s in new if s in coarse)) if s not in found]
    return frozenset(found)


def _used(*exprs: Expr | Unknown) -> list[str]:
    return list(dict.fromkeys(s for e in exprs if isinstance(e, Expr) for s in e.symbols()))


def _given(walk: Walk, magnitude: Expr | Unknown, logits: tuple[Expr | Unknown, ...], names: dict[str, str]) -> tuple[str, ...]:
    held: dict[str, None] = {}
    for symbol in _used(magnitude, *logits):
        why = fixed(walk, symbol)
        if why:
            held[f"{why} ({names.get(symbol, symbol)})"] = None
    return (*held, *walk.assumed)


__all__ = ["BranchBounds", "Expr", "HamiltonianForm", "Part", "Quantity", "SoftmaxBound", "add", "bounds_of", "sym", "values_of"]
