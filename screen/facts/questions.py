"""Questions that several rules ask of one sublayer, answered from its positions and its analysis, three-valued.

Positions answer first where they suffice; the calculi answer the rest.
"""

from __future__ import annotations

import math

from screen.facts.bounds.expr import Expr
from screen.facts.nouns import Facts, Kind, Norm, Stream, Sublayer, Tri, Unknown
from screen.graph import Node

SOFTMAX_ROLES = ("attention", "cross_attention")
MODEST = 2.0
"""Product over depth of the constants on a stream up to which it is a constant factor and no growth (convention)."""
EXPLOSIVE = 100.0
"""Growth of a stream over its depth from which its gradients, and logits that grow with its square, count as exploding (convention; at depth 64 a
stream of linear growth grows 64 times)."""
UPDATE_LIMIT = 2.0
"""Largest 2N(v² + w²)/α² that still counts as compensated (convention); DeepNorm's own constants give 1 (DeepNet, section 4)."""

BOUNDED = frozenset({"tanh", "sigmoid", "softmax", "erf", "sin", "cos", "hardtanh", "softsign", "atan", "hardsigmoid"})


def held_by(facts: Facts, stream: Stream) -> str:
    """A bounded function that stands on the stream itself, in every block: its name; else nothing."""
    nodes = [facts.graph.nodes[p.node] for p in stream.identity.breaks]
    bounded = [n for n in nodes if n.op in BOUNDED or (n.op == "clamp" and _has_both_ends(n))]
    between = sum(kind.count for kind in stream.kinds) - 1  # what stands behind the last block is not on its way
    return f"`{bounded[0].op}`" if bounded and len(bounded) >= max(between, 1) else ""


def _has_both_ends(clamp: Node) -> bool:
    ends = [clamp.args[i] if len(clamp.args) > i else clamp.kwarg(name) for i, name in ((1, "min"), (2, "max"))]
    return all(isinstance(e, int | float) for e in ends)


def is_renormalised(sublayer: Sublayer) -> bool:
    """The sum is normalised and carries the stream on (C, or a normed skip): the stream's size does not depend on depth."""
    return "C" in sublayer.positions or sublayer.normed_skip


def constant_gain(facts: Facts, stream: Stream) -> float:
    """Largest product of the constants that multiply the stream between two norms on it (over its depth where there is none); at most e^700."""
    layers = {layer: kind for kind in stream.kinds for first, last in kind.layers for layer in range(first, last + 1)}
    order = [layers[i] for i in sorted(layers)] or list(stream.kinds)
    stacked = 1 if stream.role == "inner" else facts.stacked or 1
    order = order[: facts.depth(stream)] if stream.role == "inner" else order
    resets = any(is_renormalised(s) for kind in order for s in kind.sublayers)
    largest = here = 0.0
    for kind in order * (min(stacked, 2) if resets else 1):
        for s in kind.sublayers:
            here = 0.0 if is_renormalised(s) else here + (math.log(abs(s.alpha.value)) if s.alpha.value else 0.0)
            largest = max(largest, here)
    return math.exp(min(700.0, largest if resets else here * stacked))


def is_output_bounded(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether the branch's output set is bounded over all its weights, norm gains fixed (K, theorem 2; review, items 19 to 21).

    A branch that is homogeneous of degree k > 0 in some weight is not: F(cW) = c^k·F(W)."""
    if "B" in sublayer.positions and not sublayer.gated_output:
        return True
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return analysis
    if not isinstance(analysis.bounds.bounded, Unknown):
        return analysis.bounds.bounded
    if free_weight(facts, sublayer) is not None:
        return False
    return analysis.bounds.bounded


def unproven(facts: Facts, sublayer: Sublayer) -> tuple[str, ...]:
    """What a bounded output set rests on that training has to see to and the graph does not show."""
    analysis = facts.analysis(sublayer)
    return () if isinstance(analysis, Unknown) or ("B" in sublayer.positions and not sublayer.gated_output) else analysis.bounds.unproven


def free_weight(facts: Facts, sublayer: Sublayer) -> str | None:
    """A weight that scales the branch's output, where there is one."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return None
    return next((d.group for d in reversed(analysis.degrees.groups) if d.output is not None and d.output > 0), None)


def is_input_bounded(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether what the branch computes from is bounded however large the stream is: an input norm, or a bounded map in its place.

    An input norm is not enough where the derived bound grows with the stream all the same."""
    analysis = facts.analysis(sublayer)
    if "A" in sublayer.positions:
        magnitude = Unknown("") if isinstance(analysis, Unknown) else analysis.bounds.magnitude
        return isinstance(magnitude, Unknown) or "B" in sublayer.positions or _survives(magnitude)
    if isinstance(analysis, Unknown):
        return False if sublayer.placement in ("post", "output_only") else analysis
    if "B" in sublayer.positions or is_output_bounded(facts, sublayer) is True:  # its size says nothing of what it reads: the logits tell
        return do_logits_stay(facts, sublayer)
    magnitude = analysis.bounds.magnitude
    if isinstance(magnitude, Unknown):
        return False if sublayer.placement in ("none", "post") else magnitude
    return _survives(magnitude)


def does_slope_fall(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether the branch moves less and less with the stream as that grows: as 1/‖x‖ behind an input norm, or where it is of degree 0 in the stream,
    as a norm on the output of a homogeneous branch makes it (of attention: where its logits stay); or by saturation, which is no power, where a
    bounded map stands in place of both. Elsewhere it need not: N(W sin(V x)) stays as steep however large x is."""
    if "A" in sublayer.positions:
        return is_input_bounded(facts, sublayer) is True
    if sublayer.multiplies_stream:
        return False
    if is_scale_free(facts, sublayer) and ("B" in sublayer.positions or is_input_bounded(facts, sublayer) is True):
        return True
    if "B" in sublayer.positions:
        return has_softmax(facts, sublayer) is True and do_logits_stay(facts, sublayer)
    analysis = facts.analysis(sublayer)
    slope = analysis if isinstance(analysis, Unknown) else analysis.bounds.lipschitz
    return is_input_bounded(facts, sublayer) is True and not isinstance(slope, Unknown) and _survives(slope)


def is_scale_free(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether F(cx) = F(x), at least for large x: the branch has degree 0 in the stream."""
    analysis = facts.analysis(sublayer)
    return not isinstance(analysis, Unknown) and analysis.degrees.stream == 0.0


def before(kind: Kind, sublayer: Sublayer) -> Sublayer:
    """The sublayer whose result this one reads: the one before it in the block, or the last of the block before."""
    return kind.sublayers[kind.sublayers.index(sublayer) - 1]


def does_read_bounded(facts: Facts, kind: Kind, sublayer: Sublayer) -> Tri:
    """Whether what the branch reads is bounded: by its own norm or map, or because the sum before it was normalised."""
    return True if is_renormalised(before(kind, sublayer)) else is_input_bounded(facts, sublayer)


def do_logits_stay(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether the bounds of all its logits stay finite when the stream grows without limit; False where there are none."""
    analysis = facts.analysis(sublayer)
    found = () if isinstance(analysis, Unknown) else analysis.bounds.logits
    return bool(found) and all(not isinstance(u, Unknown) and _survives(u) for u in found)


def _survives(bound: Expr) -> bool:
    """The bound stays finite when the stream grows without limit."""
    return bound.log({name: math.inf if name == "B" else 1.0 for name in bound.symbols()}) < math.inf


def has_softmax(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether the branch weighs values by a softmax over logits."""
    analysis = facts.analysis(sublayer)
    if not isinstance(analysis, Unknown) and analysis.bounds.logits:
        return True
    return sublayer.role in SOFTMAX_ROLES


def are_logits_bounded(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether the attention logits are bounded over all weights, the gains of norms fixed: QK-norm, cosine attention, or a cap."""
    if isinstance(sublayer.qk_norm, Unknown):
        return sublayer.qk_norm
    analysis = facts.analysis(sublayer)
    if sublayer.qk_norm != "none":
        return True
    if isinstance(analysis, Unknown):
        return False
    found = analysis.bounds.logits_bounded
    if found is None or isinstance(found, Unknown):
        return False
    return found


def starts_at_zero(sublayer: Sublayer) -> bool:
    """The branch is multiplied by a learned scale that is zero at the start (ReZero, SkipInit, a zero-initialised gate)."""
    return sublayer.branch.init == 0.0


def branches(facts: Facts, stream: Stream) -> int:
    """Residual branches that a value passes over the whole depth."""
    return sum(facts.passes(stream, kind) * len(kind.sublayers) for kind in stream.kinds)


def is_unit(norm: Norm) -> bool:
    """A layer or rms norm over the features of each token: rms at most max|γ| + rms β."""
    return norm.type in ("layernorm", "rmsnorm") and norm.radius is not None and abs(norm.radius - 1.0) < 1e-3


SUMS = frozenset({"add", "sub", "rsub", "lerp", "addcmul", "addcdiv", "addmm", "baddbmm", "addbmm", "addmv", "index_add", "sum", "mean", "stack"})
NORMING = frozenset({"sub", "rsub", "sum", "mean"})
"""Of these, what a norm behind the stream is written with."""
ROUNDING = 1e-9


def normed_total(facts: Facts, stream: Stream) -> float | None:
    """Σ s over all branches of the stream, where each ends in one norm per token and is added with a constant factor s to a stream of gain 1, so that
    its rms is at most s·(max|γ| + rms β), and nothing else is added; None for any other stream."""
    if not _adds_branches_only(facts, stream):
        return None
    total = 0.0
    for kind in stream.kinds:
        for s in kind.sublayers:
            ends = [norm for position, norm in s.norms if position == "B"]
            plain = "B" in s.positions and not s.gated_output and not is_renormalised(s) and bool(ends) and all(map(is_unit, ends))
            if not plain or s.alpha.kind not in ("none", "constant") or s.branch.kind not in ("none", "constant"):
                return None
            if abs(1.0 if s.alpha.value is None else s.alpha.value) != 1.0:
                return None
            scale = abs(1.0 if s.branch.value is None else s.branch.value)
            if not _is_of_size(facts, s, scale * math.sqrt(stream.width or 1)):
                return None
            total += facts.passes(stream, kind) * scale
    return total or None


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


def _adds_branches_only(facts: Facts, stream: Stream) -> bool:
    """Whether every add on the stream, from its first branch on, is that of a branch, or of a parameter (a bias, which may be 0).

    Blocks that did not run have no adds; they are counted where all kinds have equally many branches."""
    nodes, states = facts.graph.nodes, set(stream.states)
    first, last = min((s.add for k in stream.kinds for s in k.sublayers), default=0), stream.states[-1]
    behind = [n.index for n in nodes[last + 1 :] if n.op in SUMS - NORMING and last in n.inputs]
    sums = [state for state in stream.states if state >= first and nodes[state].op in SUMS]
    others = [[i for i in nodes[place].inputs if i not in states] for place in (*sums, *behind)]
    found = sum(not there or any(nodes[i].op != "parameter" for i in there) for there in others)
    absent = sum(module != run for repeat in facts.graph.repeats for module, run in repeat.members)
    each = {len(k.sublayers) for k in stream.kinds}
    return (not absent or len(each) == 1) and found == sum(k.count * len(k.sublayers) for k in stream.kinds) - absent * max(each)


__all__ = [
    "BOUNDED", "MODEST", "are_logits_bounded", "before", "branches", "constant_gain", "do_logits_stay",
    "does_read_bounded", "does_slope_fall", "free_weight", "has_softmax", "held_by",
    "is_input_bounded", "is_output_bounded", "is_scale_free",
    "is_renormalised", "is_unit", "normed_total", "starts_at_zero", "unproven",
]  # fmt: skip
