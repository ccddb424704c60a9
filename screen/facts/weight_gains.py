"""How large a branch starts: the gains of its weights along the shortest product of its sensitivity.

That product is V·O of softmax attention, both maps of a feed-forward, all three of a gated one: the path that no scale of other weights reaches
(docs/theory.md, 2.7). The unit of a gain is that of `screen.structure.initial.laws`: g² = σ²·√(rows·columns).
"""

from __future__ import annotations

import math

from screen.calculi.degrees.types import Degree
from screen.facts.record import Facts
from screen.structure.initial.laws import is_side, square_gains
from screen.structure.types import Stream, Sublayer, Unknown


def path_gains(facts: Facts, sublayer: Sublayer) -> tuple[float, ...] | Unknown:
    """g² of each weight map on the shortest product, in data-flow order; of experts side by side one stands for all."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return analysis
    orders = analysis.degrees.orders
    if isinstance(orders.min_degree, Unknown):
        return orders.min_degree
    path = set(orders.smallest_path)
    groups = [d for d in analysis.degrees.groups if d.group in path]
    if not groups:
        divided = f"norms divide out the sizes of all weights on the shortest path through `{sublayer.name}`"
        none = f"no weight stands on the shortest path through `{sublayer.name}`"
        return Unknown(divided if analysis.degrees.groups else none, (sublayer.output,))
    if shared := _shared(facts, sublayer, groups):
        why = f"which part of `{shared}` is that of `{sublayer.name}` cannot be told: another branch of the block reads it too"
        return Unknown(why, (sublayer.output,))
    found = square_gains(facts.graph, tuple(d.parameters[0] for d in groups))
    gains: list[float] = []
    for degree in groups:
        gain = found[degree.parameters[0]]
        if isinstance(gain, Unknown):
            return gain
        if degree.rows is None and degree.group not in degree.parameters:
            return Unknown(f"which rows of `{degree.parameters[0]}` are a part of their own cannot be told", (sublayer.output,))
        gains.append(gain * math.sqrt(_share(facts, degree)))
    if sublayer.role in ("attention", "cross_attention") and len(groups) == 2:
        gains[0] *= math.sqrt(_copies(facts, *groups))
    return tuple(gains)


def smallest_pair(facts: Facts, sublayer: Sublayer) -> tuple[float, float] | Unknown:
    """v² and w²: the two smallest g² on the shortest product, V and O of attention. A branch with one map gives it and 1."""
    gains = path_gains(facts, sublayer)
    if isinstance(gains, Unknown):
        return gains
    first, second = sorted([*gains, 1.0])[:2] if len(gains) == 1 else sorted(gains)[:2]
    return first, second


def through_decoder(facts: Facts, stream: Stream) -> float:
    """Σ v·w/α over the cross-attentions that read an encoder: what multiplies a change of it on the way to the output (docs/theory.md, 2.8).

    1 for any other stream, and where it is not known."""
    if stream.role != "encoder" or sum(s.role == "encoder" for s in facts.streams) != 1:
        return 1.0
    total = 0.0
    for other, kind in ((s, k) for s in facts.streams if s.role == "decoder" for k in s.kinds):
        for sub in (s for s in kind.sublayers if s.role == "cross_attention"):
            pair = smallest_pair(facts, sub)
            if isinstance(pair, Unknown) or not sub.alpha.value:
                return 1.0
            total += facts.passes(other, kind) * math.sqrt(math.prod(pair)) / abs(sub.alpha.value)
    return total or 1.0


def start_product(facts: Facts, sublayer: Sublayer) -> float | Unknown:
    """Π g² over the shortest product: the mean-square gain of the branch at its recorded initialisation, up to constants of its activations."""
    gains = path_gains(facts, sublayer)
    return gains if isinstance(gains, Unknown) else math.prod(gains)


def _shared(facts: Facts, sublayer: Sublayer, groups: list[Degree]) -> str:
    """A weight on the path that counts as a whole, though a branch beside this one counts it as a whole too: each has a slice of its own. Branches
    that follow each other may well have one matrix."""
    kind = next((k for s in facts.streams for k in s.kinds if sublayer in k.sublayers), None)
    beside = [s for s in (kind.sublayers if kind else ()) if s is not sublayer and not _follow(facts, s, sublayer)]
    others = [a for s in beside if not isinstance(a := facts.analysis(s), Unknown)]
    whole = {d.parameters[0] for a in others for d in a.degrees.groups if d.rows is None}
    return next((d.parameters[0] for d in groups if d.rows is None and d.parameters[0] in whole), "")


def _follow(facts: Facts, one: Sublayer, other: Sublayer) -> bool:
    """Whether one of two branches is computed from what the other adds."""
    first, last = sorted((one.output, other.output))
    return first != last and bool(facts.readers) and facts.readers[0].flow.depends(last, first)


def _copies(facts: Facts, values: Degree, output: Degree) -> float:
    """How often the output map reads a value: heads that share values are heads with equal ones."""
    shapes = [facts.graph.parameters[d.parameters[0]].shape or () for d in (values, output)]
    if any(len(s) != 2 or d.axis not in (0, 1) for s, d in zip(shapes, (values, output), strict=True)):
        return 1.0
    found = shapes[1][1 - output.axis] / (shapes[0][values.axis] * _share(facts, values))
    return found if found > 1 and found == int(found) else 1.0


def _share(facts: Facts, degree: Degree) -> float:
    """The share of a fused weight's output features that count, of those that its gain is told of."""
    if degree.rows is None or not is_side(facts.graph, degree.parameters[0], degree.axis):
        return 1.0
    span, _, period = degree.rows.partition(" of every ")
    first, last = (int(n) for n in span.split(":"))
    shape = facts.graph.parameters[degree.parameters[0]].shape or (1,)
    return (last - first) / (int(period) if period else shape[degree.axis])


__all__ = ["path_gains", "smallest_pair", "start_product", "through_decoder"]
