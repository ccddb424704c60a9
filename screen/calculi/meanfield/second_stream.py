"""κ where every branch of a stream is added to a second one as well, on which no norm stands, and the head reads the sum of both (ResiDual,
Xie et al. 2023).

    x ← C(α·x + F(x))        y ← y + F(x)        h = x + N(y)

A gradient g of h comes to every branch twice: along x through all later sums and norms, along y as it is. Both are of one g, so that with a the
product of what adds and norms multiply the identity of x by, and r = 1/rms(y), the branch has g²·(… + r² + 2·a·r). With f the share of r² + 2·a·r
in it, M − 1 (`first_update`) is 2f(1−f) + (1−f)²·(M_x − 1), as behind an add whose identity carries f.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from screen.calculi.meanfield.first_update import (
    SEQUENCES, At, FirstUpdate, Head, Tally, behind, every_between, in_common, loudness, moments_before, persistence, through_branch,
)  # fmt: skip
from screen.calculi.meanfield.head import Ended
from screen.calculi.meanfield.lower.lower import NORMS
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.propagate import Forward, Stack, added, norm_factor, normed
from screen.calculi.meanfield.stack_of_stream import Builder
from screen.calculi.meanfield.transfer import Normalise, Slots
from screen.graph import Graph
from screen.structure.types import Stream, Sublayer


@dataclass(frozen=True)
class Second:
    """A stream that carries what the branches of another one add."""

    end: int
    """The sum that the head reads."""
    final: Normalise
    """The norm behind it."""


def second_of(builder: Builder) -> Second | None:
    """The one beside a stream whose sums are normed, if there is such a one."""
    found = [s for other in builder.others if (s := _beside(builder, other)) is not None]
    return found[0] if len(found) == 1 else None


def _beside(builder: Builder, other: Stream) -> Second | None:
    graph, stream = builder.graph, builder.stream
    mine, its = ([pair for block in s.traced for pair in block.branches] for s in (stream, other))
    norms = stream.end_norm, other.end_norm
    if len(mine) != len(its) or not mine or norms[0] is None or norms[1] is None or not _plain(other) or other.identity.gain != "1":
        return None
    if not all(_as_it_is(graph, one, its) for (_, one), (_, its) in zip(mine, its, strict=True)):
        return None
    begin = builder.walk.plain(builder.cuts.entry(0))
    ends = [builder.walk.plain(n.node) for n in norms if n is not None]
    sums = [set(graph.users[end]) for end in ends]
    adds = {add for add, _ in its}
    read = {u for state in other.states if state > begin for u in graph.users[state]}
    if begin not in graph.nodes[its[0][0]].inputs or read - adds != {norms[1].node} or sums[0] != sums[1] or len(sums[0]) != 1:
        return None
    end = sums[0].pop()
    if graph.nodes[end].op != "add" or norms[1].type not in NORMS or norms[1].axes != (-1,):
        return None
    return Second(end, Normalise(0, 0, NORMS[norms[1].type], norms[1].eps or 0.0, 1.0))


def _plain(stream: Stream) -> bool:
    """Whether every branch is added as it is, and no norm stands on the sum."""

    def is_plain(sub: Sublayer) -> bool:
        return "C" not in sub.positions and sub.branch.kind in ("none", "constant") and sub.branch.value == 1.0

    return all(is_plain(s) for k in stream.kinds for s in k.sublayers)


def _as_it_is(graph: Graph, node: int, source: int) -> bool:
    """Whether a value is another one, or that times the number 1."""
    here = graph.nodes[node]
    return node == source or (here.op == "mul" and here.inputs == (source,) and 1.0 in here.args)


@dataclass(frozen=True)
class _Beside:
    """Moments of y, and of E x·y, behind the last add."""

    carried: Moments
    cross: Moments


@dataclass(frozen=True)
class Two:
    """Two streams at the start; `far`: with the gap of two tokens of different sequences."""

    second: Second
    slots: Sequence[Sequence[Slots]]
    """Of every add, those of its branches (far)."""
    sums: Sequence[Moments]
    """Of every add, x before C (far)."""
    carried: Moments
    carried_far: Moments
    end: Moments
    """Of h."""
    end_far: Moments

    @property
    def factor(self) -> float:
        """r."""
        return math.sqrt(norm_factor(self.second.final, self.carried))

    @property
    def sum(self) -> Ended:
        return Ended(self.second.end, self.end, self.factor)


def carried_by_two(stack: Stack, run: Forward, second: Second, between: Moments | None = None) -> Two:
    """What both streams carry from a start that they share; `between` as for `first_update`."""
    start = in_common(stack.start) if between is None else between
    slots, sums = every_between(stack, run, start)
    apart = Moments(stack.start.power, stack.start.power - (start.power - start.gap * (1 - 1 / stack.tokens)))
    own, far = _run(run, run.slots, stack.start), _run(run, slots, apart)
    r = math.sqrt(norm_factor(second.final, own.carried))
    ends = (_sum(x, y, r) for x, y in ((run.states[-1], own), (behind(run.adds[-1], sums[-1]), far)))
    return Two(second, slots, sums, own.carried, far.carried, *ends)


def _run(run: Forward, slots: Sequence[Sequence[Slots]], start: Moments) -> _Beside:
    y = cross = start
    for place, (add, total) in enumerate(zip(run.adds, run.sums, strict=True)):
        terms = [s[i.program.output].scaled(i.square) for s, i in zip(slots[place], add.inlets, strict=True)]
        y = added(y, terms)
        cross = added(cross.scaled(add.identity**0.5), terms)
        if add.close is not None:
            cross = cross.scaled(norm_factor(add.close, total) ** 0.5)
    return _Beside(y, cross)


def _sum(x: Moments, y: _Beside, r: float) -> Moments:
    """x + r·y."""
    return Moments(x.power + r * r * y.carried.power + 2 * r * y.cross.power, x.gap + r * r * y.carried.gap + 2 * r * y.cross.gap)


def first_update_of_two(stack: Stack, run: Forward, width: int, two: Two, *, entry: float, head: Head | None) -> FirstUpdate:
    """κ of x with y beside it; what is given is as for `first_update`."""
    tally = Tally(width, stack.tokens, SEQUENCES, loudness(two.end, two.end_far, stack, SEQUENCES, head or Head(), width))
    r, part = two.factor, 1 / two.end.power
    along, across, kept = Gradient(part, 0.0), part, 1.0
    tally.norm("final norm", At(along, across), *(normed(two.second.final, m) for m in (two.carried, two.carried_far)))
    for place in reversed(range(len(run.adds))):
        add = run.adds[place]
        if add.close is not None:
            tally.norm(add.inlets[-1].name, At(along, across), normed(add.close, run.sums[place]), normed(add.close, two.sums[place]))
            factor = norm_factor(add.close, run.sums[place])
            along, across, kept = along.scaled(factor), across * factor, kept * math.sqrt(factor)
        beside = (r * r + 2 * kept * r) * part
        at_x, share = tally.moments, beside / (along.power + beside)
        one, other = (1 + 2 * share * (1 - share) + (m - 1) * (1 - share) ** 2 for m in at_x)
        tally.moments = one, other
        back, back_across, excess = along.scaled(add.identity), across * add.identity, 0.0
        for inlet, found, others in zip(add.inlets, run.slots[place], two.slots[place], strict=True):
            entering, more, here = through_branch(tally, inlet, found, others, Gradient(along.power + beside, along.shared), across + beside)
            back, back_across, excess = back.plus(entering), back_across + more, max(excess, here)
        tally.moments = at_x
        tally.moments = moments_before(tally, along.scaled(add.identity), back, excess)
        tally.carried *= persistence(run, place, add.identity)
        along, across, kept = back, back_across, kept * math.sqrt(add.identity)
    tally.noise += (along.power + (r * r + 2 * kept * r) * part) * entry
    return tally.told()


__all__ = ["Second", "Two", "carried_by_two", "first_update_of_two", "second_of"]
