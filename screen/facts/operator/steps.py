"""How large a state can get from the one before it, by the calculus of bounds over everything between the two: norms, gates and functions that
stand on the stream itself, where the states are no plain sums."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce

from screen.calculi.bounds.boundedness import INPUTS, fixed, is_finite
from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.quantities import at_start
from screen.facts.operator.recurrence import StreamOperator
from screen.graph import SOURCES, Node, Ref
from screen.structure.branches.branch import Branch
from screen.structure.initial.laws import starting_value_of, starting_values_of
from screen.structure.streams.reader import Reader
from screen.structure.types import Stream, Tri, Unknown

LOW, HIGH = 1e8, 1e16
"""Sizes of the state before between which the slope of the bound is read off."""
LARGER, LARGEST = 1.5, 1e6
"""Sizes of free weights at which the slope has to be what it is at one."""
ROUNDING = 1e-9
"""Relative difference of two slopes up to which they are one."""
FARTHEST = 4
"""States back to which one is followed that is made of more than the last one."""


@dataclass(frozen=True)
class StateBound:
    """The size of one state, given the one before it."""

    held: Tri
    """Bounded however large the state before is, at fixed weights."""
    always: Tri
    """The same over all weights but gains of norms."""
    slope: float | None
    """The bound over the size of the state before, for a large one and weights of one; None where it is not known."""
    size: float | None = None
    """The bound itself, a 2-norm per token, with every weight at one and the state before of any size; None where it is infinite."""
    weighed: bool = False
    """The slope is what free weights make it; else it is a number."""
    skips: bool = False
    """It is the bound from a state further back than the one before it."""
    any_weights: bool = False
    """The bound is finite over all weights but gains of norms for every finite state before, with the same slope."""
    past: bool = False
    """It is the bound from a state before one that is bounded: what bounds that one does not bound this one."""


@dataclass(frozen=True)
class BlockMap(Branch):
    """Everything between two states of a stream, as a branch whose only stream value is the first of them."""

    def _border(self, node: int) -> str | None:
        if node in self.states:
            return "raw"
        if not self.flow.data[node]:
            return "other"
        if not self.chains.is_fed_by(node, self.chain.nodes[0]):
            return self._elsewhere
        if node < self.state or not self.flow.depends(node, self.state):
            return "earlier"
        return None


class StateBounds:
    """The bounds of the states of one stream. `still`: inputs that are as large at any depth (a condition); they count as weights that are held."""

    def __init__(self, reader: Reader, operator: StreamOperator, still: frozenset[str] = frozenset()) -> None:
        self._reader, self._still = reader, still
        self._nodes = [operator.begin, *(s.node for s in operator.states)]
        self._of_programs: dict[object, StateBound] = {}

    def last(self) -> StateBound:
        """That of the last state."""
        return self.behind(self._nodes[-1])

    def behind(self, *adds: int) -> StateBound:
        """The first state behind an add, from the state before it; of several adds, one for each block of a kind, what holds of all of them."""
        bounds: list[StateBound] = []
        for add in adds:
            place = next((i for i, n in enumerate(self._nodes) if i and n >= add), None)
            if place is None:
                why = Unknown("no state stands behind it", (add,))
                return StateBound(why, why, None)
            program = _program(self._reader, self._nodes[max(place - FARTHEST, 0)], self._nodes[place - 1], self._nodes[place])
            if program not in self._of_programs:
                self._of_programs[program] = _bound_at(self._reader, self._nodes, place, self._still)
            if self._of_programs[program] not in bounds:
                bounds.append(self._of_programs[program])
        return reduce(_of_both, bounds)


def _of_both(one: StateBound, two: StateBound) -> StateBound:
    """What holds of two states."""
    slopes = [b.slope for b in (one, two) if b.slope is not None]
    sizes = [b.size for b in (one, two) if b.size is not None]
    return StateBound(
        one.held if one.held is not True else two.held, one.always if one.always is not True else two.always,
        max(slopes) if len(slopes) == 2 else None, max(sizes) if len(sizes) == 2 else None, weighed=one.weighed or two.weighed,
        skips=one.skips or two.skips, any_weights=one.any_weights and two.any_weights, past=one.past or two.past,
    )  # fmt: skip


def _program(reader: Reader, begin: int, before: int, after: int) -> tuple[object, ...]:
    """What is computed from one state to the next: ops and arguments, with nodes by their distance. What stands before it counts by what it is, and
    weights by what is known of their start."""
    graph, flow = reader.flow.graph, reader.flow

    def started(node: Node) -> object:
        history = graph.histories.get(node.name, ()) if node.op in SOURCES else ()
        return starting_value_of(history), starting_values_of(history, node.shape)

    def spelled(value: object) -> object:
        if isinstance(value, Ref):
            node = graph.nodes[value.node]
            return (after - value.node,) if value.node >= begin else (node.op, node.shape, flow.data[value.node], started(node))
        if isinstance(value, tuple):
            return tuple(map(spelled, value))
        return (type(value).__name__, value)

    def line(node: Node) -> tuple[object, ...]:
        return node.op, node.shape, started(node), spelled(node.args), tuple((k, spelled(v)) for k, v in node.kwargs)

    return before - begin, *(line(graph.nodes[n]) for n in range(begin + 1, after + 1))


def normed_sums(reader: Reader, stream: Stream) -> dict[tuple[int, ...], StateBound]:
    """The states of a stream that passes matrices, behind the sublayers whose sum a norm follows: by that norm, whatever the sum is. None where a
    matrix stands behind the last norm of its block, which scales what the block hands on."""
    graph = reader.flow.graph
    subs = [s for k in stream.kinds for s in k.sublayers]
    shared = frozenset.intersection(*(frozenset(graph.call_path(graph.nodes[s.add].call)) for s in subs)) if subs else frozenset[int]()
    first = min((s.add for s in subs), default=-1)
    inside = all(c.node < first and shared.issubset(graph.call_path(graph.nodes[c.node].call)) for c in stream.cuts)
    found: dict[tuple[int, ...], StateBound] = {}
    for s in subs if inside else ():
        norm = next((n for position, n in s.norms if position == "C"), None)
        if norm is not None:
            found[(s.add, s.output)], _ = _between(reader, norm.source, norm.place.node)
    return found


def end_of_loop(reader: Reader) -> StateBound | None:
    """What the last copy of a block gives, from what enters it; None where no block is repeated, or its copies are handed several values."""
    graph, flow = reader.flow.graph, reader.flow
    if graph.loop is None or not graph.loop.copies or len(graph.outputs) != 1:
        return None
    last = graph.loop.copies[-1]
    own = [n for n in graph.nodes if last in graph.call_path(n.call)]
    handed = {i for n in own for i in flow.counting[n.index] if last not in graph.call_path(graph.nodes[i].call) and flow.from_input[i]}
    carried = [i for i in handed if graph.nodes[i].op != "input"]
    return _between(reader, carried[0], graph.outputs[0])[0] if len(carried) == 1 else None


def _bound_at(reader: Reader, nodes: list[int], place: int, still: frozenset[str]) -> StateBound:
    """The bound of one state from the one before it; where it reads earlier ones too, from the nearest that all of it is made of."""
    found, alone = _between(reader, nodes[place - 1], nodes[place], still)
    for back in range(2, min(place, FARTHEST) + 1):
        if alone:
            break
        earlier, alone = _between(reader, nodes[place - back], nodes[place], still)
        if earlier.held is True:
            return earlier  # however large the state is that all of it is made of
        past = _between(reader, nodes[place - back], nodes[place - back + 1], still)[0].held is True
        found = replace(earlier, skips=True, any_weights=False, past=past) if alone else found
        if past:
            break
    return found


def _between(reader: Reader, before: int, after: int, still: frozenset[str] = frozenset()) -> tuple[StateBound, bool]:
    """The bound of one state from another, and whether nothing but that one may make it large."""
    walk = Walk(BlockMap(reader.chains, reader.chain, frozenset({before}), -1, before, after))
    value = walk.one(after)
    alike = walk.graph.nodes[before].shape == walk.graph.nodes[after].shape
    axis = walk.feature_axis(before if alike else after)  # what reads a state tells its features, and nothing need read the last one
    bound = value.mag if isinstance(value.mag, Unknown) else value.norm(axis)
    if isinstance(bound, Unknown):
        return StateBound(bound, bound, None), True
    top = bound.log({name: math.inf if name in INPUTS - still else 1.0 for name in bound.symbols()})
    slope = _slope(walk, bound, 1.0, still)
    weighed = slope is not None and not _is_same(_slope(walk, bound, LARGER, still), slope)
    free = not weighed and slope is not None and still.isdisjoint(bound.symbols())  # weights may make what is still: it is not over all of them
    free = free and is_finite(walk, bound, inputs=1.0) and _is_same(_slope(walk, bound, LARGEST, still, started=False), slope)
    found = StateBound(top < math.inf, is_finite(walk, bound), slope, math.exp(top) if top < 700 else None, weighed, any_weights=free)
    return found, top < math.inf or "B_earlier" not in bound.symbols()


def _is_same(one: float | None, other: float | None) -> bool:
    """Whether two slopes are one, up to rounding."""
    return one is not None and other is not None and math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)


def _slope(walk: Walk, bound: Expr, weights: float, still: frozenset[str], started: bool = True) -> float | None:
    """The bound over the size of the state before, with free weights of that size, or of the one that is known of their start, and inputs that are
    `still`."""
    held = {name: 1.0 if fixed(walk, name) and name not in still else weights for name in bound.symbols()}
    for name, quantity in walk.names.quantities.items() if started else ():
        if name in held and not fixed(walk, name) and (size := at_start(quantity, walk.graph)) is not None:
            held[name] = size
    ends = [bound.log({**held, "B": size}) for size in (LOW, HIGH)]
    if not all(map(math.isfinite, ends)) or max(ends) > 700 or any(n in INPUTS - {"B"} - still for n in bound.symbols()):
        return None
    return (math.exp(ends[1]) - math.exp(ends[0])) / (HIGH - LOW)


__all__ = ["StateBound", "StateBounds", "end_of_loop", "normed_sums"]
