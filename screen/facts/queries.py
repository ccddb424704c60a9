"""Questions that several rules ask, answered from claims: what a measurement refutes is not known."""

from __future__ import annotations

import math
from itertools import compress
from operator import attrgetter
from typing import Literal

from screen.calculi.bounds import BranchBounds
from screen.calculi.bounds.boundedness import survives
from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.softmax import Beside, SoftmaxBound
from screen.calculi.meanfield.far import Far
from screen.facts.claims.claim import AWAKE, FROM_LARGE_STATES, LARGEST, Claim, ClaimKind, Weights
from screen.facts.claims.derive import has_no_scale, is_held, rests_on_once, weighing
from screen.facts.claims.gradients import FLAT
from screen.facts.claims.slopes import is_renormalised, is_scale_free, keeps_slope, starts_at_zero, where
from screen.facts.claims.states_read import moving_inputs, norms_behind, reader_of, reads_grown_state
from screen.facts.operator import StreamOperator, Whole
from screen.facts.record import Facts
from screen.structure.streams import kinds
from screen.structure.streams.ends import Ends
from screen.structure.types import Kind, Norm, Stream, Sublayer, Tri, Unknown

MODEST = 2.0
"""Gain of the identity path over the whole depth, or its inverse, up to which it is a constant factor and no growth (convention)."""
EXPLOSIVE = 100.0
"""Growth of a stream over its depth from which its gradients, and logits that grow with its square, count as exploding (convention; at depth 64 a
stream of linear growth grows 64 times)."""
STARVED = 1e3
"""First-over-last gradient ratio beyond which, or below whose inverse, some blocks do not train beside others (issue of channel D; 1e5 for
output norms alone at 64 blocks, 6 for pre-norm: review, item 31)."""
CANCELS = "what its skips carry of the first state cancels"
"""Why no identity path runs through a stream that crosses no norm and breaks nowhere."""
STEEP = 10.0
"""First-over-last gradient ratio, or its inverse, up to which gradients that are exponential in depth do little harm at the depth that there is."""
DEEPER = 4
"""Times as many blocks at which a gradient ratio that is exponential in depth is told too (convention)."""
COLLAPSED = 4e-4
"""1 − cos at the last block below which tokens are nearly the same. Post-norm at 6+6 has 0.0176 with fairseq's gains and 5e-4 with literal Xavier, a
factor √2 in the start of Q, K and V, and trains; what is known to fail at the start has 1e-9 and less. Between the two no published run says."""
FEW = 2
"""Branches over the whole depth that make no law of depth (a convolution for positions before the first block, the head of a pyramid)."""
FEWER = 10.0
"""How far below `COLLAPSED` 1 − cos has to be for a failure where no identity path runs through the stream: draws of one post-norm stack of 24 blocks
differ by 30 (from 1.9e-4 to 5.5e-3 at width 32)."""
UPDATE_LIMIT = 2.0
"""Largest 2N(v² + w²)/α² that still counts as compensated (convention); DeepNorm's own constants give 1 (DeepNet, section 4)."""


# -- claims ---------------------------------------------------------------------------------------------------------------------------


def claim_of(facts: Facts, sublayer: Sublayer, claim: ClaimKind, weights: Weights = "all") -> Claim:
    """A claim about a sublayer."""
    stream, kind = where(facts, sublayer)
    return facts.claims.of(claim, weights, stream.name, kind.id, sublayer.name)


def _tri(claim: Claim) -> Tri:
    answer = claim.known
    return answer if isinstance(answer, bool | Unknown) else Unknown("it is no yes or no")


def is_output_bounded(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether the branch's output set is bounded over all its weights, norm gains fixed (K, theorem 2; review, items 19 to 21)."""
    return _tri(claim_of(facts, sublayer, "output_bounded"))


def has_softmax(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether the branch weighs values by a softmax over logits."""
    return _tri(claim_of(facts, sublayer, "softmax"))


def are_logits_bounded(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether all logits of the branch are bounded over all weights, the gains of norms fixed: QK-norm, cosine attention, or a cap."""
    return _tri(claim_of(facts, sublayer, "logits_bounded"))


def beside_products(facts: Facts, sublayer: Sublayer) -> tuple[Beside, ...]:
    """What is added to products of queries and keys in logits that are not known to be bounded, and is not bounded itself."""
    return tuple(s.beside for s in free_softmaxes(facts, sublayer) if s.beside is not None)


def only_beside_grows(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether what is added to products of queries and keys grows with the stream, and these do not: norms on them change nothing of it."""
    beside, moving = beside_products(facts, sublayer), moving_inputs(facts, where(facts, sublayer)[0], sublayer)
    free = [s for s in free_softmaxes(facts, sublayer) if s.role == "attention"]
    held = all(isinstance(b.products, Expr) and survives(b.products, moving) for b in beside)
    return bool(beside) and len(free) == len(beside) and held


def free_softmaxes(facts: Facts, sublayer: Sublayer) -> list[SoftmaxBound]:
    """The softmaxes that weigh or choose something by logits that are not known to be bounded."""
    analysis = facts.analysis(sublayer)
    return [] if isinstance(analysis, Unknown) else [s for s in weighing(analysis.bounds) if s.bounded is not True]


def unbounded_softmax(facts: Facts, sublayer: Sublayer) -> Literal["attention", "router", "pooling", "memory", "table"]:
    """What the softmaxes are for whose logits are not known to be bounded: attention where one of them is, or none is known; `memory` where what
    they weigh is stored, `table` where all share out by trained numbers, whatever is read."""
    free = free_softmaxes(facts, sublayer)
    if free and all(s.table for s in free):
        return "table"
    roles = {"memory" if s.stored else s.role for s in free if not s.table}
    single: tuple[Literal["router", "pooling", "memory"], ...] = ("router", "pooling", "memory")
    return "attention" if "attention" in roles else next((role for role in single if role in roles), "attention")


def growth_of(facts: Facts, stream: Stream, weights: Weights) -> str | Unknown:
    """Size of the stream against depth: `bounded`, `linear`, `polynomial`, `exponential`. What was only seen to hold at some inputs is no law."""
    claim = facts.claims.of("growth", weights, stream.name)
    if claim.status == "measured" and claim.value != "exponential":
        return Unknown(claim.reason, claim.nodes)
    answer = claim.known
    return answer if isinstance(answer, str | Unknown) else Unknown("it is no law")


def multiplies_large_states(facts: Facts, stream: Stream) -> bool:
    """Whether its growth is exponential since blocks were seen to multiply a state that is large; at the start that may not show."""
    claim = facts.claims.of("growth", "fixed", stream.name)
    return claim.measured is not None and claim.measured.value in (FROM_LARGE_STATES, AWAKE)


def starts_asleep(facts: Facts, stream: Stream) -> bool:
    """Whether that was seen with draws for weights that start at zero."""
    claim = facts.claims.of("growth", "fixed", stream.name)
    return claim.measured is not None and claim.measured.value == AWAKE


def number_of(facts: Facts, stream: Stream, claim: ClaimKind) -> float | Unknown:
    """A number at the start: derived where a measurement does not contradict it, else measured."""
    found = facts.claims.of(claim, "start", stream.name)
    if found.status == "proved" and isinstance(found.value, float) and not found.is_refuted:
        return found.value
    if found.measured is not None and isinstance(found.measured.value, float):
        return found.measured.value
    answer = found.known
    return answer if isinstance(answer, Unknown) else Unknown("it was not derived")


def so_many_times(ratio: float) -> str:
    """How much a stream grows, in words."""
    return "beyond the range of floats" if ratio >= LARGEST else f"{ratio:.3g} times"


def far_of(facts: Facts, stream: Stream) -> Far | Unknown:
    """What blocks far behind the first ones do to gradients on their way back."""
    found = facts.recursion(stream)
    return found if isinstance(found, Unknown) else found.far


def factor_of(facts: Facts, stream: Stream) -> float | None:
    """What each block multiplies gradients by on their way back, once that has settled; None where it does not, or is not known."""
    far = far_of(facts, stream)
    return None if isinstance(far, Unknown) or not far.multiplies else far.factor


def is_short(facts: Facts, stream: Stream) -> bool:
    """Whether it has so few branches, beside other streams of the model, that they make no depth: what happens once or twice is no law of it."""
    return len(facts.streams) > 1 and branches(facts, stream) <= FEW


def untold_factor(facts: Facts, stream: Stream) -> float | None:
    """What a block far behind multiplies gradients by on their way back, where that neither settles nor falls as the stream grows (a slope that
    saturates: the exponential of a root of the depth); None where it does, or where the deepest stacks would not come to `STARVED` by it."""
    far = far_of(facts, stream)
    return far.factor if not isinstance(far, Unknown) and far.law == "untold" and far.reaches(STARVED) else None


def start_by_layer(facts: Facts, stream: Stream) -> bool:
    """Whether its blocks start each in a way of its own, so that the first one's start is no measure of the others'."""
    reader = reader_of(facts, stream)
    return reader is not None and kinds.start_by_layer(Ends(reader))


def shows_when_deeper(facts: Facts, stream: Stream) -> bool:
    """Whether that makes gradients unlike at `DEEPER` times the depth."""
    factor = factor_of(facts, stream)
    return factor is not None and abs(math.log(factor)) * DEEPER * facts.depth(stream) > math.log(FLAT)


def when_deeper(facts: Facts, stream: Stream) -> str:
    """A sentence on the gradient ratio here, where blocks multiply gradients by a steady factor, and at `DEEPER` times the depth, where they are wide
    enough for that factor to tell it; empty where they do not multiply them."""
    far, ratio, depth = far_of(facts, stream), number_of(facts, stream, "gradient_ratio"), facts.depth(stream)
    if isinstance(far, Unknown) or not far.multiplies or isinstance(ratio, Unknown) or ratio <= 0:
        return ""
    each = f"far behind the first blocks each one multiplies gradients by {far.factor:.4g} on their way back"
    if not far.is_told_at(DEEPER * depth):
        few = f", as their maps sum over no more than {far.features} features" if far.features else ""
        return f"{each} if they are wide: first over last is {ratio:.3g} at {depth} blocks, and what it is at more of them is not told{few}"
    log = math.log(ratio) + (DEEPER - 1) * depth * math.log(far.factor)
    there = f"{math.exp(log):.2g}" if abs(log) < 15 else f"1e{log / math.log(10):.0f}"
    return f"{each}, so that first over last, {ratio:.3g} at {depth} blocks, would be about {there} at {DEEPER * depth} of them with the same numbers"


def basis_of(facts: Facts, stream: Stream, claim: ClaimKind) -> Literal["measured", "declared"]:
    """Where `number_of` has it from."""
    found = facts.claims.of(claim, "start", stream.name)
    return "declared" if found.status == "proved" and not found.is_refuted else "measured"


def program_doubt(facts: Facts, *, backward: bool = True) -> str:
    """Why the traced program is not the module, where a plain run of it says so; empty where it is, or was not run. `backward`: gradients count
    too."""
    claim = facts.claims.of("replay", "start")
    if not claim.is_refuted or (not backward and claim.reason.startswith("its gradients")):
        return ""
    return f"what was traced is not what the module computes: {claim.reason}"


def streams_in_sequence(facts: Facts) -> int:
    """The largest number of streams that a path from an input to an output runs through to their ends, one after the other."""
    ends = {stream.states[-1] for stream in facts.streams}
    passed = [0] * len(facts.graph.nodes)
    for node in facts.graph.nodes:
        passed[node.index] = max([passed[i] for i in node.inputs], default=0) + (node.index in ends)
    return max(passed, default=0)


# -- what the bounds say of sizes at fixed weights ---------------------------------------------------------------------------------------


def free_weight(facts: Facts, sublayer: Sublayer) -> str | None:
    """A weight that scales the branch's output, where there is one."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return None
    known = next((d.group for d in reversed(analysis.degrees.groups) if d.output is not None and d.output > 0), None)
    return known or _lifting(analysis.bounds)


def _lifting(bounds: BranchBounds) -> str | None:
    """The last parameter that lifts the bound of a branch's output by itself."""
    if isinstance(bounds.magnitude, Unknown):
        return None
    ones = dict.fromkeys(bounds.magnitude.symbols(), 1.0)
    free = (q for q in reversed(bounds.quantities) if q.symbol in bounds.free and q.symbol in ones)
    return next((q.parameter for q in free if bounds.magnitude.log({**ones, q.symbol: math.inf}) == math.inf), None)


def unproven(facts: Facts, sublayer: Sublayer) -> tuple[str, ...]:
    """What a bounded output set rests on that training has to see to and the graph does not show."""
    analysis = facts.analysis(sublayer)
    return () if isinstance(analysis, Unknown) else analysis.bounds.unproven


def is_input_bounded(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether what the branch adds stays of its size, at fixed weights, however large the stream is. Where its output is bounded over all
    weights, its size says nothing of what it reads: the logits tell."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return analysis
    if is_output_bounded(facts, sublayer) is True and has_softmax(facts, sublayer) is True:
        return do_logits_stay(facts, sublayer)
    return is_held(facts, where(facts, sublayer)[0], sublayer)


def do_logits_stay(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether the bounds of all its logits stay finite when the stream grows without limit; Unknown where one has no bound."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return analysis
    logits = [s.logits for s in weighing(analysis.bounds)]
    lost = next((u for u in logits if isinstance(u, Unknown)), None)
    if lost is not None:
        return lost
    return all(survives(u, moving_inputs(facts, where(facts, sublayer)[0], sublayer)) for u in logits if isinstance(u, Expr))


def grows_with_stream(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether the branch was shown to grow with the stream."""
    stream, _ = where(facts, sublayer)
    return is_held(facts, stream, sublayer) is False


def state_is_bounded(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether the state behind the sublayer is bounded over all weights, whatever the state before: a norm on the sum that nothing undoes."""
    found = facts.state_bounds.get((sublayer.add, sublayer.output))
    return False if found is None else found.always


def is_sum_normed(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether the sum is normalised and carries the stream on, so that one step moves a normalised stream by at most twice its size."""
    return "C" in sublayer.positions and not (sublayer.normed_skip or sublayer.norm_on_skip) and state_is_bounded(facts, sublayer) is True


def is_totalled(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> bool:
    """Whether what the branch gives is summed up besides, in a value that blocks hand on: what bounds the stream does not bound that sum."""
    summed = {n for t in (facts.whole.totals if isinstance(facts.whole, Whole) else ()) for n in t.added}
    reader = reader_of(facts, stream) if summed else None
    last = [b.output for _, b in reader.branches][-len(kind.sublayers) :] if reader is not None else []
    return any(sub is sublayer and output in summed for sub, output in zip(kind.sublayers, last, strict=False))


def gain_of(facts: Facts, stream: Stream) -> float | Unknown:
    """Largest gain of the identity path over the depth: a number; the upper end of what it may be where that is no growth to speak of."""
    operator = facts.operator(stream)
    claim = facts.claims.of("identity_gain", "start", stream.name)
    if claim.is_refuted:
        known = claim.known
        return known if isinstance(known, Unknown) else Unknown("it was measured otherwise")
    if isinstance(claim.value, float):
        return claim.value
    if isinstance(operator, Unknown):
        return operator
    if isinstance(operator.start, Unknown):
        return operator.start
    low, high = operator.start.low, operator.start.high
    if high <= MODEST or low == high:
        return high
    return Unknown("the stream is multiplied by what has no bound" if math.isinf(high) else f"it lies between {low:.3g} and {high:.3g}")


def is_straight_back(stream: Stream) -> bool:
    """Whether gradients come back along the identity path as they are, where values do not go along it: these are detached and put in their place
    (a straight-through estimate)."""
    return stream.identity.gain == "1 for gradients"


def nothing_grows(facts: Facts, stream: Stream) -> str:
    """Of a stream with a law: that no branch grows with it, but one that is met once where there is such a one."""
    return "no branch but one that stands once grows with it" if rests_on_once(facts, stream) else "no branch grows with it"


def measured_gain(facts: Facts, stream: Stream) -> float | None:
    """The gain of what is carried on at the start, where it was measured and is not derived."""
    claim = facts.claims.of("identity_gain", "start", stream.name)
    return claim.value if claim.status == "measured" and isinstance(claim.value, float) else None


def has_identity_path(facts: Facts, stream: Stream) -> Tri:
    """Whether a path of adds and linear steps without weights leads through the stream: by its operator, or by the gain that was measured of it."""
    found = stream.identity.exists
    gain = measured_gain(facts, stream)
    return gain > 0 if isinstance(found, Unknown) and gain is not None else found


# -- structure ------------------------------------------------------------------------------------------------------------------------


def before(kind: Kind, sublayer: Sublayer) -> Sublayer:
    """The sublayer whose result this one reads: the one before it in the block, or the last of the block before."""
    return kind.sublayers[kind.sublayers.index(sublayer) - 1]


def twins(facts: Facts, stream: Stream) -> tuple[Stream, ...]:
    """Other streams to which all branches of this one are added as well, as they are or on one side behind a factor or a norm (ResiDual)."""
    own = [_made(facts, s) for k in stream.kinds for s in k.sublayers]

    def takes(other: Stream) -> bool:
        every = (_unscaled(facts, output) for ran in other.traced for _, output in ran.branches)
        made = frozenset().union(*every, *(_made(facts, s) for k in other.kinds for s in k.sublayers))
        return all(not made.isdisjoint(one) for one in own)

    return tuple(o for o in facts.streams if o is not stream and takes(o))


def maps_by_weights(facts: Facts, stream: Stream, sublayer: Sublayer) -> bool:
    """Whether a matrix of weights maps something on the way from the stream to what a branch adds, be it through codes, steps or logits, which have
    no slope of their own (see `m`)."""
    reader, operator = reader_of(facts, stream), facts.operator(stream)
    if reader is None or not isinstance(operator, StreamOperator):
        return False
    ends = {operator.begin, *(s.node for s in operator.states)}
    todo, seen = [sublayer.output], set[int]()
    while todo:
        node = todo.pop()
        if node in seen or node in ends:
            continue
        seen.add(node)
        if reader.flow.weighted[node]:
            return True
        todo.extend(reader.flow.counting[node])
    return False


def shares_weights(facts: Facts, stream: Stream) -> bool:
    """Whether a map of one branch serves in another one."""
    nodes, reader = facts.graph.nodes, reader_of(facts, stream)
    parameters = compress(range(len(nodes)), map("parameter".__eq__, map(attrgetter("op"), nodes)))
    for used in [users for i in parameters if len(users := facts.graph.users[i]) > 1]:
        branches = () if reader is None else reader.branches
        if sum(any(n in branch.region and branch.flow.weighted[n] for n in used) for _, branch in branches) > 1:
            return True
    return False


def mixes_copies(facts: Facts, stream: Stream) -> bool:
    """Whether nothing breaks the identity path but trained matrices that mix copies of the stream (hyper-connections)."""
    breaks = stream.identity.breaks
    if not breaks or stream.identity.norms_crossed or not facts.readers:
        return False
    return all(facts.readers[0].flow.mixes_copies(facts.graph.nodes[p.node]) for p in breaks)


def _made(facts: Facts, sublayer: Sublayer) -> frozenset[int]:
    """What a branch adds, without the norm behind it, and without a factor."""
    return _unscaled(facts, sublayer.output).union(n.source for position, n in sublayer.norms if position == "B")


def _unscaled(facts: Facts, output: int) -> frozenset[int]:
    node = facts.graph.nodes[output]
    return frozenset({output, *(node.inputs if node.op in ("mul", "div") else ())})


def branches(facts: Facts, stream: Stream) -> int:
    """Residual branches that a value passes over the whole depth."""
    return sum(facts.passes(stream, kind) * len(kind.sublayers) for kind in stream.kinds)


def is_unit(norm: Norm) -> bool:
    """A layer or rms norm over the features of each token: rms at most max|γ| + rms β."""
    return norm.type in ("layernorm", "rmsnorm") and norm.radius is not None and abs(norm.radius - 1.0) < 1e-3


def normed_total(facts: Facts, stream: Stream) -> float | None:
    """Σ s over all branches of a stream of gain 1 whose branches each end in one norm per token, so that its rms grows by at most s·(max|γ| +
    rms β) at each, and nothing else is added; None for any other stream."""
    operator = facts.operator(stream)
    if isinstance(operator, Unknown) or not isinstance(operator, StreamOperator) or operator.clean is not True or operator.trained:
        return None
    if (
        isinstance(operator.gain, Unknown)
        or operator.gain.number is None
        or abs(operator.gain.number - 1.0) > ROUNDING
        or operator.carried != "constant"
    ):
        return None
    states = {operator.begin, *(s.node for s in operator.states)}
    added = [p.number for s in operator.states for source, p in s.terms.items() if source not in states]
    if any(factor is None or abs(abs(factor) - 1.0) > ROUNDING for factor in added):
        return None  # one output is added twice
    total = 0.0
    for kind in stream.kinds:
        for s in kind.sublayers:
            ends = [norm for position, norm in s.norms if position == "B"]
            plain = "B" in s.positions and not s.gated_output and bool(ends) and all(map(is_unit, ends))
            if not plain or s.branch.kind not in ("none", "constant"):
                return None
            scale = abs(1.0 if s.branch.value is None else s.branch.value)
            if not _is_of_size(facts, s, scale * math.sqrt(stream.width or 1)):
                return None
            total += facts.passes(stream, kind) * scale
    return total or None


ROUNDING = 1e-9


def _is_of_size(facts: Facts, sublayer: Sublayer, size: float) -> bool:
    """Whether the bound that is derived for what the branch adds is no more than `size` at gains 1 and biases 0: two norms may stand before one add.

    A gain that is 1 + w is 1 at w = 0, and 2 at w = 1."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown) or isinstance(analysis.bounds.magnitude, Unknown):
        return False
    magnitude = analysis.bounds.magnitude
    kinds = {q.symbol: q.kind for q in analysis.bounds.quantities}
    if any(kinds.get(name) not in ("max_abs", "l2") for name in magnitude.symbols()):
        return False
    none, one = (magnitude.evaluate({n: w if kinds[n] == "max_abs" else 0.0 for n in magnitude.symbols()}) / size for w in (0.0, 1.0))
    return one <= 1 + ROUNDING or (0 < none <= 1 + ROUNDING and one <= 2 + ROUNDING)


__all__ = [
    "CANCELS",
    "COLLAPSED", "EXPLOSIVE", "FEW", "FEWER", "FLAT", "MODEST", "ROUNDING", "STARVED", "STEEP", "UPDATE_LIMIT", "are_logits_bounded", "basis_of",
    "before", "beside_products", "branches", "claim_of", "do_logits_stay", "free_softmaxes", "free_weight", "gain_of", "grows_with_stream",
    "growth_of", "has_identity_path", "has_no_scale", "has_softmax", "is_held", "is_input_bounded", "is_output_bounded", "is_renormalised",
    "is_scale_free", "is_straight_back", "is_sum_normed", "is_totalled", "is_unit", "keeps_slope", "measured_gain", "mixes_copies",
    "multiplies_large_states", "normed_total",
    "norms_behind", "nothing_grows", "number_of", "only_beside_grows", "program_doubt", "reader_of", "reads_grown_state", "shares_weights",
    "so_many_times", "starts_asleep", "start_by_layer", "starts_at_zero", "state_is_bounded", "streams_in_sequence", "twins",
    "unbounded_softmax", "unproven",
    "untold_factor", "where",
]  # fmt: skip
