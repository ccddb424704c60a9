"""The model as one linear operator: the gain of all identity paths together, where it is that of no stream alone.

1. Several streams that begin with one value and are summed at the end (two towers, a reversible net) have a gain each, and the model has that of
   their sum: x and x are 2x, and x − x is nothing. The sum is followed on to the last value that is linear in it: what divides it counts.
2. An argument that is multiplied before the first block begins the model, and its product the stream; so does what is multiplied before each block.
3. Streams that follow each other by way of a weight or a norm have a gain each, and nothing of the first one reaches the end of the last.
4. Where all states are summed once more behind the last block, or the end is divided by a number, the model has the gain of that.
5. Where the last block of a list gives what is returned, and nothing adds it to the stream as before, nothing of the stream is returned; nor is it
   where a memory is returned that stands beside the stream and began as what a branch adds. Where the first block of a list makes the first
   state, and nothing goes around it, nothing of what it reads reaches the end.
6. A block that hands on several values has the gain of all of them (`carried.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from screen.facts.operator.carried import Total, carried
from screen.facts.operator.forms import Forms
from screen.facts.operator.polynomial import ZERO, Range
from screen.facts.operator.recurrence import StreamOperator, back_at_start, resolved
from screen.graph import Graph
from screen.structure.dataflow import number
from screen.structure.reach import used
from screen.structure.streams.reader import Reader
from screen.structure.types import Unknown

EVEN = 1e-6
"""Relative difference up to which two gains are one."""
JOINS = frozenset({"add", "sub", "mean", "sum", "lerp", "where", "nansum", "einsum", "matmul", "tensordot", "bmm", "mm"})
"""Ops that can make one value of two."""
FOLLOWED = frozenset({"add", "sub", "mul", "div", "true_divide", "neg"})
"""Ops behind a sum that leave it linear, entry by entry."""


Streams = Sequence[tuple[Reader, StreamOperator]]


@dataclass(frozen=True)
class Whole:
    """A model from its beginning to its end."""

    begin: int
    end: int
    gain: Range | Unknown
    """Of the sum over all identity paths, with learned scales at the numbers that they start at."""
    held: tuple[int, ...]
    """What branches add, and first states of other streams: nothing is followed through these."""
    measured: bool = False
    """Whether it can be seen on a run in which these are nothing."""
    totals: tuple[Total, ...] = ()
    """What the copies of a block hand on beside the streams."""


def whole_of(readers: Sequence[Reader], operators: Sequence[StreamOperator | Unknown]) -> Whole | Unknown | None:
    """The gain of the model; None where that of its one stream is it, or where streams stand beside each other."""
    mine = [(r, o) for r, o in zip(readers, operators, strict=True) if not r.chain.inner]
    if not mine or any(isinstance(o, Unknown) or not o.states for _, o in mine):
        return None
    if mine[0][0].flow.graph.loop is not None:
        return _of_carried([(r, o) for r, o in mine if isinstance(o, StreamOperator)])
    sure = [(r, o) for r, o in mine if isinstance(o, StreamOperator)]
    roots = {o.begin for _, o in sure}
    flow, norms = sure[0][0].flow, sure[0][0].chains.edges.norms
    begin, last = min(roots), max(o.states[-1].node for _, o in sure)
    outputs = frozenset(b.output for r in readers for _, b in r.branches) - roots
    forms = Forms(flow, norms, frozenset({begin}))
    arguments = frozenset(n.index for n in flow.graph.nodes[:begin] if n.op == "input")
    origin, factor = _origin(Forms(flow, norms, arguments), begin)
    if len(sure) > 1:
        return _of_several(sure, _read(forms), outputs, (origin, begin, last), factor)
    start = sure[0][1].start
    if isinstance(start, Unknown):
        return None
    if (returned := _unadded(*sure[0], forms)) is not None:
        return Whole(origin, returned, Range(0.0, 0.0), ())
    if (before := _not_around(sure[0][0], begin)) is not None:
        return Whole(before, last, Range(0.0, 0.0), ())
    if (end := _summed_on(*sure[0], forms) or _divided(forms, last)) is not None:
        state = resolved(end, forms)
        own = state.terms.get(begin, ZERO).at_start().gain
        own = own if math.isfinite(own.high) else _by_states(forms, sure[0][1], end)
        gain = next(_doubts(sure, state.lost), _times(own, factor))
        return Whole(origin, end, gain, _held(forms, outputs), measured=True)
    if origin == begin:
        origin, factor = _multiplied_before_each(*sure[0])
    if origin == begin:
        return None
    return Whole(origin, last, _times(start, factor), _held(_read(forms), outputs), measured=True)


def _of_carried(streams: Streams) -> Whole | None:
    """Of a block that hands on several values."""
    states = sorted({n for _, o in streams for n in (o.begin, *(s.node for s in o.states))})
    found = carried(streams[0][0].flow, streams[0][0].chains.edges.norms, states)
    if found is None:
        return None
    totals = found.totals(frozenset(n for r, _ in streams for n in r.chain.nodes).union(states), states)
    if found.gain is None and not totals:
        return None
    gain = Unknown("a coefficient of what its blocks hand on is no number") if found.gain is None else Range(found.gain, found.gain)
    return Whole(found.begins[0], max(found.ends), gain, (), totals=totals)


def _of_several(streams: Streams, forms: Forms, outputs: frozenset[int], nodes: tuple[int, int, int], factor: float) -> Whole | Unknown | None:
    """Of streams that end in one sum, or that follow each other. `nodes`: where the model, and where its first stream begins, and the last end."""
    origin, begin, last = nodes
    begun = [(r, o) for r, o in streams if o.begin == begin or any(s == begin for s, _ in forms.of(o.begin).terms)]
    held = (*_held(forms, outputs), *sorted({o.begin for _, o in streams} - {o.begin for _, o in begun}))
    ends = frozenset(o.states[-1].node for _, o in begun)
    join = _join(_read(Forms(forms.flow, forms.norms, ends)), ends) if len(ends) > 1 else None
    if join is not None:
        end = _followed(forms.flow.graph, forms, join, {n.source for n in forms.norms.by_node.values()})
        state = resolved(end, forms)
        gain = next(_doubts(begun, state.lost), _times(state.terms.get(begin, ZERO).at_start().gain, factor))
        return Whole(origin, end, gain, held, measured=True)
    if _is_made_beside(streams, begun, forms):
        return Whole(origin, last, Range(0.0, 0.0), held)
    reached = forms.inside(last)
    if any(isinstance(o.start, Unknown) for _, o in streams):
        return None  # a weight that starts as the identity may stand on one of them
    graph = forms.flow.graph
    if not all(_passes(graph, o.states[-1].node, last) for _, o in streams if o.states[-1].node != last):
        return None  # one of them is returned by itself, too
    if _follow(streams) and reached.lost is None and all(s != begin for s, _ in reached.terms):
        return Whole(origin, last, Range(0.0, 0.0), held)
    if _follow(streams) and any(isinstance(o.start, Range) and o.start.low != o.start.high for _, o in streams):
        return Unknown("its streams follow each other, and how much of what it reads one of them keeps is not known", (last,))
    return None


def _is_made_beside(streams: Streams, begun: Streams, forms: Forms) -> bool:
    """Whether what is returned are streams alone that begin as sums of what branches of the first ones add: a memory beside the stream."""
    flow, added = forms.flow, frozenset(b.output for r, _ in begun for _, b in r.branches)
    beside = [(r, o) for r, o in streams if not any(o is mine for _, mine in begun)]
    made = Forms(flow, forms.norms, added | forms.sources)
    ends = {o.states[-1].node for _, o in beside if (terms := made.of(o.begin).terms) and all(source in added for source, _ in terms)}
    return bool(flow.graph.outputs) and ends.issuperset(flow.graph.outputs)


def _held(forms: Forms, outputs: frozenset[int]) -> tuple[int, ...]:
    """Those branch outputs that carry nothing of the first state by themselves."""
    return tuple(o for o in sorted(outputs) if not forms.inside(o).terms)


def _times(gain: Range, factor: float) -> Range:
    return Range(gain.low * factor, gain.high * factor)


def _origin(forms: Forms, begin: int) -> tuple[int, float]:
    """(the argument that a stream begins as a multiple of, that multiple), or the stream's own beginning where it is no such multiple."""
    terms = _read(forms, begin).of(begin).terms if begin not in forms.sources else {}
    number = next(iter(terms.values())).number if len(terms) == 1 else None
    if number is None or number == 0.0 or abs(abs(number) - 1.0) <= EVEN:
        return begin, 1.0
    return next(iter(terms))[0], abs(number)


def _multiplied_before_each(reader: Reader, operator: StreamOperator) -> tuple[int, float]:
    """(what the state is made of that the first branch reads, the number that multiplies it) where the state is multiplied by this number in front of
    every block, `x = block(c * x)`: the first one is of the loop as well, and no scale of an embedding. Else the stream's own beginning."""
    nodes, node, factor = reader.chain.nodes, operator.begin, 1.0
    position = nodes.index(node) if node in nodes else 0
    while position and (edge := reader.chain.edges[position - 1]).kind in ("same", "scale") and edge.factor:
        node, factor, position = edge.source, factor * edge.factor, position - 1
    if abs(abs(factor) - 1.0) <= EVEN or not operator.is_chain:
        return operator.begin, 1.0
    before = (operator.begin, *(s.node for s in operator.states))
    steps = [s.terms.get(b, ZERO).at_start().number or 0.0 for b, s in zip(before, operator.states, strict=False)]
    for period in range(1, len(steps) // 2 + 1):
        own = [c / factor if n % period == 0 and n < len(steps) else c for n, c in enumerate(steps, 1)]
        if len(own) % period == 0 and all(math.isclose(one, other, rel_tol=EVEN) for one, other in zip(own, own[period:], strict=False)):
            return node, abs(factor)
    return operator.begin, 1.0


def _follow(streams: Streams) -> bool:
    """Whether each stream is made of the end of the one before it."""
    order = sorted((o for _, o in streams), key=lambda o: o.begin)
    flow = streams[0][0].flow
    return all(two.begin > one.states[-1].node and flow.depends(two.begin, one.states[-1].node) for one, two in pairwise(order))


def _unadded(reader: Reader, operator: StreamOperator, forms: Forms) -> int | None:
    """What the last member of a list makes of the last state, where other members of that list gave what was added to the stream, and all that is
    returned is made of the state by way of it alone, with nothing of the stream in it."""
    graph, end = reader.flow.graph, operator.states[-1].node
    live, added = used(graph), _adding(reader)
    lists = {graph.modules[graph.calls[c].module].parent: (c, output) for c, output in added.items()}
    for node in graph.nodes[end:]:
        call = _member(graph, node.index)
        parent = None if call is None else graph.modules[graph.calls[call].module].parent
        if node.index not in live or call is None or call in added or parent not in lists or not reader.flow.depends(node.index, end):
            continue
        other, output = lists[parent]
        if any(_member(graph, u) == call for u in graph.users[node.index]) or _program(graph, call) != _program(graph, other):
            continue
        if node.shape != graph.nodes[output].shape or not _passes(graph, end, node.index):
            continue
        if all(not f.terms and f.lost is None for f in map(_read(forms).of, graph.outputs)):
            return node.index
    return None


def _not_around(reader: Reader, begin: int) -> int | None:
    """What the first member of a list reads that makes the first state, with nothing of what it reads in it, where other members of that list give
    what is added to the stream."""
    graph, call, added = reader.flow.graph, _member(reader.flow.graph, begin), _adding(reader)
    parent = None if call is None else graph.modules[graph.calls[call].module].parent
    others = [c for c in added if graph.modules[graph.calls[c].module].parent == parent]
    if call is None or call in added or not others or _program(graph, call) != _program(graph, others[0]):
        return None
    inside = [n.index for n in graph.nodes[: begin + 1] if n.inputs and _member(graph, n.index) == call]
    read = {i for n in inside for i in graph.nodes[n].inputs if reader.flow.data[i]} - set(inside)
    read = {i for i in read if graph.nodes[i].shape == graph.nodes[begin].shape}
    form = Forms(reader.flow, reader.chains.edges.norms, frozenset(read)).of(begin)
    return min(read) if read and not form.terms and form.lost is None else None


def _adding(reader: Reader) -> dict[int, int]:
    """Calls of members of lists that give what is added to a stream -> what they give."""
    return {c: b.output for _, b in reader.branches if (c := _member(reader.flow.graph, b.output)) is not None}


def goes_on(readers: Sequence[Reader], operator: StreamOperator) -> bool:
    """Whether a model goes on behind the end that a stream was found to have, so that a number between its ends is not the model's: what was made
    of that end meets what came before it by another way; or members of a list that gives branches run on it, and give no branch of any stream."""
    flow, end = readers[0].flow, operator.states[-1].node
    graph, live = flow.graph, used(flow.graph)
    behind = {end, *(n.index for n in graph.nodes[end + 1 :] if n.index in live and flow.depends(n.index, end))}
    if any(i not in behind and flow.depends(i, operator.begin) for n in behind - {end} for i in graph.nodes[n].inputs):
        return True
    added = {c for r in readers for _, b in r.branches if (c := _member(graph, b.output)) is not None}
    lists = {graph.modules[graph.calls[c].module].parent for c in added}
    width = (graph.nodes[end].shape or (0,))[-1]
    mapped = [n for n in behind if flow.weighted[n] and (graph.nodes[n].shape or (0,))[-1] == width]  # no norm or head at the end of the list
    later = {c for n in mapped if (c := _member(graph, n)) is not None}
    return any(graph.modules[graph.calls[c].module].parent in lists for c in later - added)


def _summed_on(reader: Reader, operator: StreamOperator, forms: Forms) -> int | None:
    """The last value that is a sum of the stream's end with what came before it: all states are summed once more behind the last block."""
    flow, end = reader.flow, operator.states[-1].node
    graph, live, met = flow.graph, used(flow.graph), False
    size = math.prod(graph.nodes[end].shape or ())
    for node in graph.nodes[end + 1 :]:
        if node.index not in live or not flow.depends(node.index, end):
            continue
        past = (i for i in node.inputs if i != end and not flow.depends(i, end))
        met = met or any(flow.depends(i, operator.begin) or i == operator.begin for i in past)
        if met and node.op in JOINS and math.prod(node.shape or ()) == size:
            form = _read(forms).inside(node.index)
            return _followed(graph, forms, node.index, {n.source for n in forms.norms.by_node.values()}) if form.terms and form.lost is None else None
    return None


def _by_states(forms: Forms, operator: StreamOperator, end: int) -> Range:
    """The gain up to a value, as what it is made of the states of a stream, and these of each other."""
    last = Forms(forms.flow, forms.norms, frozenset({operator.begin, *(s.node for s in operator.states)} - {end}))
    return back_at_start(end, [*operator.states, resolved(end, last)]).get(operator.begin, ZERO).gain


def _divided(forms: Forms, last: int) -> int | None:
    """The last value that is the stream's end times a number other than one: a mean of states, of which the end is the sum."""
    flow, norms, factor = forms.flow, {n.source for n in forms.norms.by_node.values()}, 1.0
    graph, live, end = flow.graph, used(flow.graph), last
    while end not in norms and len(users := [u for u in graph.users[end] if u in live]) == 1:
        node = graph.nodes[users[0]]
        by = None if len(node.args) != 2 or node.inputs != (end,) else number(flow.operand(node, 1, "other"))
        if node.op not in ("mul", "div", "true_divide") or not by:
            break
        end, factor = node.index, factor * (by if node.op == "mul" else 1 / by)
    if abs(abs(factor) - 1.0) <= EVEN:
        return None
    _read(forms)
    return end


def _program(graph: Graph, call: int) -> list[str]:
    """The ops that ran in a call of a member of a list."""
    return [n.op for n in graph.nodes if n.inputs and _member(graph, n.index) == call]


def _member(graph: Graph, node: int) -> int | None:
    """The outermost call of a member of a list around a node."""
    for call in graph.call_path(graph.nodes[node].call):
        parent = graph.modules[graph.calls[call].module].parent
        if parent is not None and graph.modules[parent].container == "list":
            return call
    return None


def _passes(graph: Graph, source: int, gate: int) -> bool:
    """Whether every way from a value to what is returned leads through another one."""
    stack, seen = [i for i in graph.outputs if i != gate], set[int]()
    while stack:
        here = stack.pop()
        if here == source:
            return False
        if here in seen or here == gate:
            continue
        seen.add(here)
        stack.extend(graph.nodes[here].inputs)
    return True


def _read(forms: Forms, last: int | None = None) -> Forms:
    """Forms of all nodes in order: they are sums of sums over the whole depth, and none is asked for before those that it is made of."""
    for node in forms.flow.graph.nodes if last is None else forms.flow.graph.nodes[: last + 1]:
        forms.inside(node.index)
    return forms


def _join(forms: Forms, ends: frozenset[int]) -> int | None:
    """The first value behind the streams that is linear in two of their ends."""
    graph = forms.flow.graph
    live = used(graph)
    size = math.prod(graph.nodes[min(ends)].shape or ())
    for node in graph.nodes[min(ends) :]:
        if node.index not in live or node.op not in JOINS or math.prod(node.shape or ()) != size:
            continue
        form = forms.inside(node.index)
        held = {s for s, _ in form.terms} | ({node.index} & ends)
        if form.lost is not None:
            held |= _above(graph, node.index, ends)
        if len(held) > 1:
            return node.index
    return None


def _above(graph: Graph, node: int, ends: frozenset[int]) -> set[int]:
    """The ends that an op without a row reads, behind views and joins."""
    found, stack, seen = set[int](), [node], set[int]()
    while stack:
        here = stack.pop()
        for i in graph.nodes[here].inputs:
            if i in ends:
                found.add(i)
            elif i not in seen and graph.nodes[i].op in ("stack", "cat", "view", "reshape", "unsqueeze", "transpose", "permute"):
                seen.add(i)
                stack.append(i)
    return found


def _followed(graph: Graph, forms: Forms, last: int, normed: set[int]) -> int:
    """The last value behind a sum that is that sum times something, or with something added."""
    live = used(graph)
    while last not in normed and last not in graph.outputs:
        users = [u for u in graph.users[last] if u in live]
        if len(users) != 1 or graph.nodes[users[0]].op not in FOLLOWED or graph.nodes[users[0]].shape != graph.nodes[last].shape:
            break
        form = forms.inside(users[0])
        if form.lost is None and form.rest == users[0]:
            break
        last = users[0]
    return last


def _doubts(begun: Streams, lost: int | None) -> Iterator[Unknown]:
    """Why the gain is not known: an op that is not, a stream that broke off, or members that did not run, which leave nothing out where each block
    has gain 1."""
    graph = begun[0][0].flow.graph
    if lost is not None:
        yield Unknown(f"how `{graph.nodes[lost].op}` carries the streams is not known", (lost,))
    absent = max(graph.times.values(), default=1) > 1
    for operator in (o for _, o in begun):
        if operator.breaks or operator.lost is not None:
            yield Unknown("every path of one of its streams crosses a norm, a trained matrix or another function of it", operator.breaks)
        number = None if isinstance(operator.start, Unknown) else operator.start.number
        if absent and (number is None or abs(number - 1.0) > EVEN):
            yield Unknown("not all blocks ran, and a stream is multiplied")


__all__ = ["Whole", "goes_on", "whole_of"]
