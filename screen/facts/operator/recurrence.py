"""States of a stream composed over its depth: the gain of the identity path, and how far each branch's output is carried.

With states s_k in data-flow order and branch outputs f_j, s_k = Σ_i c_ki·s_i + Σ_j d_kj·f_j + rest. One pass back from the last state gives
R(v), the sum over all paths from v to it, for every v at once:

    gain of the identity path   R(s_0)
    carried                     R(f_j): a branch of the block k blocks before the end counts as r_k

Where r_k falls like a power of a number below one the stream stays bounded for bounded branches, where it stays it grows linearly, where it
grows like a power of k faster (leapfrog: k), and exponentially where it does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from screen.facts.operator.forms import Form, Forms
from screen.facts.operator.layouts import is_permuted, is_whole
from screen.facts.operator.polynomial import ONE, ZERO, Atom, Polynomial, Range, of_atom
from screen.facts.operator.shares import is_mixture
from screen.graph import Node
from screen.structure.chains.identity_edges import Edge
from screen.structure.reach import used
from screen.structure.streams.reader import Reader
from screen.structure.types import Unknown

Law = Literal["decaying", "constant", "polynomial", "exponential"]
"""How what a branch adds is carried on, against the number of blocks behind it."""
BLOCKS = 3
"""Blocks below which a sequence has no second half of two parts."""
FEWEST = 12
"""Blocks from which a law is read off a sequence that is no power of one number."""
EVEN = 1e-6
"""Relative difference up to which two gains are one."""
SETTLED, SETTLING = 1.02, 0.6
"""A sequence that gains less than this in its second half, or in its last quarter less than this part of the one before (in logarithms; a power of
the depth gains 0.71 of it), has a limit."""
FORGOTTEN = 0.5
"""Share of its first state that a stream may keep at its end where it is said to settle: 1 − 1/2N in each of N blocks is 0.6 at any depth, and what N
branches add to that is linear in N (convention; of the steady factor with this end the sum is 0.72 of that of a stream that keeps all)."""
FALLING = 0.9
"""Share of the third quarter of a sequence that the last one has to be below, at least, for it to go on falling."""
STEADY, FAST = 0.85, 1.5
"""A sequence that gains at least this part of the quarter before, and at least this factor, grows exponentially."""


@dataclass(frozen=True)
class State:
    """One state as a sum over sources; a source below 0 is the part of the branch output ~source that is no linear map of states."""

    node: int
    terms: Mapping[int, Polynomial]
    rest: int | None
    lost: int | None
    trained: bool

    @property
    def is_convex(self) -> bool:
        """A mean of its sources with weights that are not negative and sum to one."""
        total = ZERO
        for p in self.terms.values():
            total = total + p
        return total.number is not None and abs(total.number - 1.0) < 1e-9 and all(p.nonnegative for p in self.terms.values()) and self.rest is None


@dataclass(frozen=True)
class StreamOperator:
    """The linear part of one stream over its depth."""

    begin: int
    """The first state: what enters the first block."""
    states: tuple[State, ...]
    """Of this stream, without the first; the last one is its end."""
    gain: Range | Unknown
    """Of the identity path over the whole depth, over all values of gates and learned scales."""
    start: Range | Unknown
    """The same with learned scales at the numbers that they start at."""
    breaks: tuple[int, ...]
    """Nodes at which a norm, an activation or another function of the stream ends every identity path."""
    carried: Law | Unknown
    """The upper law of R(f_j)."""
    grows: bool
    """The identity path alone grows exponentially, whatever the branches do."""
    clean: bool | Unknown
    """Whether every state is a sum of earlier states and branch outputs, and of nothing else."""
    convex: bool
    """Every state is a convex mean of earlier ones and branch outputs."""
    trained: bool
    """Weights are added on the stream itself."""
    reads_other: bool = False
    """States of other streams are added without a weight."""
    lost: int | None = None
    """An op that carries the stream in a way that is not known."""
    through: tuple[int, ...] = ()
    """Branch outputs that carry parts of the stream."""
    shares: Mapping[int, float] = field(default_factory=dict)
    """Of those that are a number times one state and something else, that number."""
    carried_first: Range | None = None
    """How far what the first branch adds is carried, where all blocks ran."""
    carried_at_start: Law | Unknown | None = None
    """The same as `carried` with learned scales at the numbers that they start at."""
    beside: int | None = None
    """A value that the first state is computed from, and that is added to a later one: the stream is older than its first state."""

    @property
    def atoms(self) -> frozenset[Atom]:
        """What its states are multiplied by, where that is no number."""
        return frozenset(a for s in self.states for p in s.terms.values() for monomial, _ in p.terms for a in monomial)

    @property
    def is_chain(self) -> bool:
        """Whether each state is made of the one before it alone, and of branch outputs: then the gain is that of what the first branch adds, too."""
        before = [self.begin, *(s.node for s in self.states)]
        return not self.reads_other and not self.through and all(not set(before[:n]) & set(s.terms) for n, s in enumerate(self.states))


def operators_of(readers: Sequence[Reader], blocks: Sequence[int], back: bool = False) -> tuple[StreamOperator | Unknown, ...]:
    """For each stream its operator. `blocks`: how many blocks of each ran; `back`: as gradients see it, past what is detached."""
    if not readers:
        return ()
    found_forks = [_forks(r) for r in readers]
    forks = [(*(_older(r, found) or _begin(r, found)), *found) for r, found in zip(readers, found_forks, strict=True)]
    outputs = [[b.output for _, b in r.branches] for r in readers]
    ends = [_end(r, found[0] if found else None) for r, found in zip(readers, forks, strict=True)]
    sources = frozenset(i for found in (*forks, *outputs) for i in found) | frozenset(ends)
    forms = Forms(readers[0].flow, readers[0].chains.edges.norms, sources, back)
    table: dict[int, State] = {}
    for found, end in zip(forks, ends, strict=True):
        for node in (*found[1:], end):
            table[node] = resolved(node, forms)
    first = {found[0] for found in forks if found}
    for found in forks:
        if found and found[0] not in table and ((form := forms.inside(found[0])).terms or form.lost is not None):
            table[found[0]] = resolved(found[0], forms)  # it begins as a multiple of another one's state, or as what is made of it
    carrying = _carrying(readers, forms, frozenset(table) | first)
    table |= carrying
    return tuple(_operator(r, f, e, d, table, first, frozenset(carrying)) for r, f, e, d in zip(readers, forks, ends, blocks, strict=True))


def _carrying(readers: Sequence[Reader], forms: Forms, known: frozenset[int]) -> dict[int, State]:
    """Branch outputs that are themselves a sum of states and of something else (`x + (x + f)`, a velocity): what they carry of the stream counts."""
    found: dict[int, State] = {}
    wanted: set[int] = set()
    for reader in readers:
        for _, branch in reader.branches:
            output = branch.output
            form = forms.inside(output) if output not in known else Form({})
            if not form.terms and form.lost is None:
                continue
            carried = resolved(output, forms)
            own = {~output: ONE} if form.rest is not None and form.lost is None else {}
            found[output] = State(output, {**carried.terms, **own}, None, carried.lost, carried.trained)
            chains = (r.chain.nodes for r in readers if r is not reader)
            if form.lost is not None or known.intersection(carried.terms) or any(output in nodes for nodes in chains):
                wanted.add(output)
    while more := {o for o in found if o not in wanted and wanted & set(found[o].terms)}:
        wanted |= more
    return {o: s for o, s in found.items() if o in wanted}


def _forks(reader: Reader) -> tuple[int, ...]:
    """The states that branches and skips leave from, in order, one for each group of parallel adds."""
    found: list[int] = []
    adds = reader.chain.adds
    for position in range(len(adds)):
        before = adds[position - 1] if position else -1
        own = [s for s in reader.reads(position) if s >= before]
        entry = min([*own, *(b.state for p, b in reader.branches if p == position)], default=None)
        if entry is not None and (not found or entry > found[-1]):
            found.append(entry)
    return tuple(found)


def _older(reader: Reader, forks: tuple[int, ...]) -> tuple[int, ...]:
    """The first value of the stream's own, before any branch leaves it, that something behind the first sum adds again, or joins before the stream's
    end; nothing where there is none. What is laid beside that end (features of two models), or added to a norm of it, was not carried past the
    stream."""
    chain = reader.chain
    first = chain.adds[0]
    for node in chain.nodes:
        if not forks or node >= forks[0]:
            return ()
        if any(e.node > first and _is_carried_to(reader, e.node) for e in _taken_up(reader, node, first)):
            return (node,)
    return ()


def _is_carried_to(reader: Reader, node: int) -> bool:
    """Whether a value is one of the stream's, or a sum with its end, times a number at most: behind a norm the stream is not carried on."""
    end, into = reader.chain.nodes[-1], reader.chains.into
    sources = [e.source for e in into[node] if e.kind != "join"] if node > end else []
    for source in sources:
        while source > end and len(edges := into[source]) == 1 and edges[0].kind in ("same", "scale"):
            source = edges[0].source
        if source == end:
            return True
    return node <= end


def _taken_up(reader: Reader, node: int, first: int) -> list[Edge]:
    """The identity edges out of a value; where a view of it is taken behind the first sum, those out of that view."""
    found: list[Edge] = []
    stack = [node]
    while stack:
        here = stack.pop()
        for edge in (e for u in reader.flow.graph.users[here] for e in reader.chains.into[u] if e.source == here):
            if edge.kind in ("same", "part") and edge.node > first:
                stack.append(edge.node)
            else:
                found.append(edge)
    return found


def _begin(reader: Reader, forks: tuple[int, ...]) -> tuple[int, ...]:
    """The state that enters the call of the first block, where something happens to the stream before its first branch leaves it; else nothing. What
    happens in the first block alone (its norm of the embedding, or the front of a stage that makes the state in the one call) comes before all."""
    chain, calls = reader.chain, [_call_of_block(reader, a) for a in reader.chain.adds]
    if calls[0] is None or not forks or forks[0] not in chain.nodes:
        return ()
    inside = _before_fork(reader, calls[0], forks[0])
    following = next((c for c in calls if c is not None and c != calls[0]), None)
    if not inside or (following is not None and not _before_fork(reader, following, _fork_of(reader, calls.index(following), forks))):
        return ()
    if inside[0] == chain.nodes[0]:
        return inside[:1] if following is not None else ()
    return (chain.nodes[chain.nodes.index(inside[0]) - 1],)


def _before_fork(reader: Reader, call: int, fork: int) -> tuple[int, ...]:
    """What a call makes of the stream before its first branch leaves it."""
    nodes, graph = reader.chain.nodes, reader.flow.graph
    end = nodes.index(fork) + 1 if fork in nodes else 0
    return tuple(n for n in nodes[:end] if call in graph.call_path(graph.nodes[n].call))


def _fork_of(reader: Reader, position: int, forks: tuple[int, ...]) -> int:
    """The latest state that branches leave from before an add."""
    return max((f for f in forks if f < reader.chain.adds[position]), default=forks[0])


def _end(reader: Reader, begin: int | None) -> int:
    """The stream behind its last block: the value of its sizes that the call of that block hands on; without such a call the last sum. Where the
    sums are parts of what the blocks began with, that is put together again."""
    graph = reader.flow.graph
    live = used(graph)
    known = {*reader.chain.nodes, *(b.output for _, b in reader.branches)}
    last = next((n for n in reversed(reader.chain.nodes) if n in live), reader.chain.nodes[-1])
    while (more := _next_sum(reader, last, known, live)) is not None:
        last = more
        known.add(last)
    call = _call_of_block(reader, reader.chain.adds[-1])
    if call is None:
        return _to_output(reader, _as_before(reader, last))
    inside = {n.index for n in graph.nodes[last:] if call in graph.call_path(n.call)}
    shape = sorted(graph.nodes[last if begin is None else begin].shape or ())
    alike = [i for i in inside if sorted(graph.nodes[i].shape or ()) == shape and reader.flow.data[i]]  # perhaps with its axes moved
    handed = [i for i in alike if i == last or reader.flow.depends(i, last)]
    handed = [i for i in handed if i in graph.outputs or not inside.issuperset(graph.users[i])]
    return _as_before(reader, last) if last in handed else max(handed, default=last)


def _next_sum(reader: Reader, last: int, known: set[int], live: frozenset[int]) -> int | None:
    """A sum of the last value, perhaps times a number, with values that are known: a velocity is multiplied before it is added."""
    graph = reader.flow.graph
    for user in graph.users[last]:
        leaves = graph.nodes[user].op == "sub" and reader.chain.nodes[reader.chain.begin] in graph.nodes[user].inputs  # what all blocks added
        if user in live and graph.nodes[user].op in ("add", "sub") and not leaves and _is_sum(reader, user, known):
            return user
        multiplied = user in live and graph.nodes[user].op in _TIMES and _of_numbers(reader, user) == last
        if multiplied and (found := _next_sum(reader, user, {*known, user}, live)) is not None:
            return found
    return None


_TIMES = ("mul", "div", "true_divide", "neg")


def _of_numbers(reader: Reader, node: int) -> int | None:
    """The value that is multiplied or divided by a number here."""
    here = reader.flow.graph.nodes[node]
    return here.inputs[0] if len(here.inputs) == 1 and here.shape == reader.flow.graph.nodes[here.inputs[0]].shape else None


def _is_sum(reader: Reader, add: int, known: set[int]) -> bool:
    """Whether a value is made by sums alone, and by numbers that multiply, from the known ones."""
    graph = reader.flow.graph
    stack, seen = [add], set[int]()
    while stack:
        node = stack.pop()
        if node in seen or node in known:
            continue
        seen.add(node)
        here = graph.nodes[node]
        multiplied = here.op in _TIMES and _of_numbers(reader, node) is not None
        if not multiplied and (here.op not in ("add", "sub") or not here.inputs):
            return False
        stack.extend(here.inputs)
    return True


def _call_of_block(reader: Reader, add: int) -> int | None:
    """The outermost call around a sum that may be one of several blocks. Of two, one that is in no list and holds every sum of the stream is the
    stack: an encoder and a decoder of one class look like two blocks."""
    graph, adds = reader.flow.graph, reader.chain.adds
    first, last = (graph.call_path(graph.nodes[a].call) for a in (adds[0], adds[-1]))
    calls = [c for c in graph.call_path(graph.nodes[add].call) if c in graph.members]
    listed = [c for c in calls if (parent := graph.modules[graph.calls[c].module].parent) is not None and graph.modules[parent].container == "list"]
    is_stack = bool(listed) and calls[0] not in listed and calls[0] in first and calls[0] in last
    return next(iter(calls[is_stack:]), None)


def _as_before(reader: Reader, last: int) -> int:
    """The value behind the last sum up to which the lines run again that ran behind the sum before: factors and norms that end a block of a loop by
    hand, be the sum in the loop or in what it calls."""
    graph, adds = reader.flow.graph, reader.chain.adds
    same = [n for n in reader.chain.nodes if n < min(last, adds[-1]) and _is_alike(graph.nodes[n], graph.nodes[last])]
    for sum_before in same[:-3:-1]:  # a line may hold two sums
        following, end = next(a for a in adds if a > sum_before), last
        for node in (graph.nodes[n] for n in reader.chain.nodes if sum_before < n < following):
            again = [u for u in graph.users[end] if _is_alike(graph.nodes[u], node)]
            if len(again) != 1:
                break
            end = again[0]
        if end != last and (last == adds[-1] or end in reader.chains.edges.norms.by_node):
            return end
    return last


def _to_output(reader: Reader, last: int) -> int:
    """The model's output, where it is the stream times a number: the mean of two streams is their sum, halved."""
    graph = reader.flow.graph
    value = last
    while value not in graph.outputs:
        users = graph.users[value]
        if len(users) != 1 or graph.nodes[users[0]].op not in ("mul", "div", "true_divide", "neg"):
            return last
        node = graph.nodes[users[0]]
        if node.inputs != (value,) or node.shape != graph.nodes[value].shape:
            return last
        value = node.index
    return value


def _is_alike(one: Node, other: Node) -> bool:
    return (one.op, one.file, one.line, one.shape) == (other.op, other.file, other.line, other.shape)


def resolved(node: int, forms: Forms) -> State:
    """Terms by source alone: a source whose entries stand elsewhere is permuted, or comes in parts; one that is averaged may be left without the
    copies of its averages."""
    form, entries = forms.inside(node), math.prod(forms.flow.graph.nodes[node].shape or ())
    table: dict[int, Polynomial] = {}
    for (source, layout), p in form.terms.items():
        if 0 < entries < (size := math.prod(layout.sizes)):
            p = p * of_atom(Atom(("fewer", entries, size), "repeat", entries=entries / size))
        if not is_whole(layout):
            kind: Literal["permutation", "part"] = "permutation" if is_permuted(layout) else "part"
            p = p * of_atom(Atom(("moved", layout.sizes, layout.strides, layout.offset), kind))
        table[source] = table[source] + p if source in table else p
    return State(node, {s: p for s, p in table.items() if p.terms}, form.rest, form.lost, form.trained)


def _operator(
    reader: Reader, forks: tuple[int, ...], end: int, blocks: int, table: Mapping[int, State], first: set[int], carrying: frozenset[int]
) -> StreamOperator | Unknown:
    if not forks:
        return Unknown("no branch leaves the stream")
    states = tuple(table[n] for n in (*forks[1:], end) if n in table and n != forks[0])
    others = {s for state in states for s in state.terms if s in table or s in first} - {s.node for s in states} - {forks[0]}
    joint = [table[n] for n in sorted({*(s.node for s in states), *_reach(others, table)})]
    lost = next((s.lost for s in states if s.lost is not None), next((s.lost for s in joint if s.lost is not None), None))
    foreign = bool({*others, *(s.node for s in joint)} - {s.node for s in states} - carrying - {forks[0]})
    back = _back(end, joint)
    started = back_at_start(end, joint)
    own, own_at_start = back.get(forks[0], ZERO), started.get(forks[0], ZERO)
    reached = {*_reach({end}, table)}
    whole = forks[0] in {t for n in reached for t in table[n].terms}
    cut = [s.rest for s in states if s.rest is not None and not any(t in first or t in table.keys() - carrying for t in s.terms)]
    breaks = () if whole else tuple(cut)
    handed_on = [s for s in states if s.node in reached]  # without states that branches alone read
    steps = _steps(handed_on, forks, frozenset(table) | first)
    times = _times(reader, forks[0], handed_on)
    trained, through = any(s.trained for s in states), tuple(sorted(others & carrying))
    if lost is not None:
        why = Unknown(f"how `{reader.flow.graph.nodes[lost].op}` carries the stream is not known", (lost,))
        through = tuple(sorted(carrying.intersection(b.output for _, b in reader.branches)))  # which of them reach the end is not known either
        return StreamOperator(forks[0], states, why, why, (), why, False, why, False, trained, foreign, lost, through)
    if is_mixture(p for s in joint for p in s.terms.values()):
        mixing = Unknown("some of its matrices take means of copies, and others share them out: together they have no bound", (end,))
        return StreamOperator(forks[0], states, mixing, mixing, (), mixing, False, mixing, False, trained, foreign, None, through)
    gain, start = _gain(own, steps, times), _gain(own_at_start, [p.at_start() for p in steps], times)
    beside = next((s.rest for s in states if s.rest is not None and reader.flow.depends(forks[0], s.rest)), None)
    if beside is not None:
        gain = start = Unknown("a value that its first state is computed from is added to a later one", (beside,))
    elif breaks:
        why = Unknown("every path crosses a norm, a trained matrix or another function of the stream", breaks)
        gain = start = why
    elif not own.terms and all(s.rest is None for s in states):
        gain = start = Range(0.0, 0.0)  # each state is a sum of what branches gave, and holds nothing of the first one
    elif not own.terms:
        gain = start = Unknown("its paths cancel, or do not reach its last state", (end,))
    rest = next((s.rest for s in states if s.rest is not None), None)
    clean: bool | Unknown = True if rest is None else Unknown(f"`{reader.flow.graph.nodes[rest].op}` adds to the stream what is no branch", (rest,))
    carried, grows = (gain, False) if isinstance(gain, Unknown) else _law(steps, back, reader, max(1, blocks))
    if carried == "decaying" and steps and isinstance(gain, Range):
        carried = _told(gain)
    begun = carried
    if isinstance(carried, Unknown) and isinstance(start, Range):
        begun, _ = _law([p.at_start() for p in steps], started, reader, max(1, blocks))
        begun = _told(start) if begun == "decaying" and steps else begun
        if not steps and any(p.gain.high > 1 + EVEN for p in started.values()):
            begun = carried  # numbers that differ from block to block are no law
    convex = bool(states) and all(s.is_convex for s in states)
    shares = {o: share for o in through if (share := _share(table[o])) is not None}
    added = next((n for _, b in reader.branches[:1] for n in (b.output, ~b.output) if n in back), None)
    first_added = None if added is None or any(n > 1 for n in times) else started[added].gain
    return StreamOperator(
        forks[0], states, gain, start, breaks, carried, grows, clean, convex, trained, foreign,
        through=through, shares=shares, carried_first=first_added, beside=beside, carried_at_start=begun,
    )  # fmt: skip


def _share(carried: State) -> float | None:
    """Of one state in a branch output."""
    parts = [p for source, p in carried.terms.items() if source != ~carried.node]
    return parts[0].gain.number if len(parts) == 1 and carried.lost is None else None


def _reach(wanted: set[int], table: Mapping[int, State]) -> Iterator[int]:
    """States of other streams that are read, and what these are made of."""
    stack, seen = list(wanted), set[int]()
    while stack:
        node = stack.pop()
        if node in seen or node not in table:
            continue
        seen.add(node)
        yield node
        stack.extend(table[node].terms)


def _back(end: int, states: Sequence[State]) -> dict[int, Polynomial]:
    """R of every source, from the last state back."""
    found: dict[int, Polynomial] = {end: ONE}
    for state in sorted(states, key=lambda s: -s.node):
        mine = found.get(state.node)
        if mine is None:
            continue
        for source, p in state.terms.items():
            found[source] = found[source] + p * mine if source in found else p * mine
    return found


def back_at_start(end: int, states: Sequence[State]) -> dict[int, Polynomial]:
    """The same with learned scales at the numbers that they start at, put in before anything is multiplied: products of many scales have no bound."""
    return _back(end, [replace(s, terms={n: p.at_start() for n, p in s.terms.items()}) for s in states])


def _steps(states: Sequence[State], forks: tuple[int, ...], all_states: frozenset[int]) -> list[Polynomial]:
    """Coefficient of each state in the one before it; empty where a state reads an older one, or another stream's."""
    steps: list[Polynomial] = []
    before = forks[0]
    for state in states:
        if {s for s in state.terms if s in all_states} - {before}:
            return []
        steps.append(state.terms.get(before, ZERO))
        before = state.node
    return steps


def _times(reader: Reader, begin: int, states: Sequence[State]) -> list[int]:
    """For each step between two states how often it is taken: members that did not run are like the one that stands for them."""
    graph, before, found = reader.flow.graph, begin, list[int]()
    for state in states:
        adds = [a for a in reader.chain.adds if before < a <= state.node]
        found.append(graph.times_of(graph.nodes[adds[-1]].call) if adds else 1)
        before = state.node
    return found


def _gain(own: Polynomial, steps: list[Polynomial], times: Sequence[int]) -> Range | Unknown:
    """Over all blocks: the product of the steps, each as often as it is taken; or the sum over all paths, where all blocks ran."""
    absent = any(n > 1 for n in times)
    if not steps and absent:
        return Unknown("not all blocks ran, and a state reads older ones than the one before it")
    if not steps or (not absent and (own.gain.number is not None or len(steps) == 1)):
        return own.gain
    ranges = [p.gain for p in steps]
    return Range(_power([r.low for r in ranges], times), _power([r.high for r in ranges], times))


def _power(values: Sequence[float], times: Sequence[int]) -> float:
    """Π value^times, at most what a float holds."""
    if 0.0 in values:
        return 0.0
    total = math.fsum(n * math.log(v) for v, n in zip(values, times, strict=True) if math.isfinite(v))
    return math.inf if not all(map(math.isfinite, values)) else math.exp(min(max(total, -700.0), 700.0))


def _law(steps: list[Polynomial], back: Mapping[int, Polynomial], reader: Reader, blocks: int) -> tuple[Law | Unknown, bool]:
    """(upper law of what is carried, whether the identity path grows exponentially)."""
    if steps:
        ranges = [p.gain for p in steps]
        per = max(len(steps) // blocks, 1)
        inner = ranges[per:-per] if len(ranges) > 2 * per else ranges
        top, low = _mean(inner, "high", per), _mean(inner, "low", per)
        if top < 1 - EVEN and all(r.high <= 1 + EVEN for r in inner):
            return "decaying", False
        if top <= 1 + EVEN and (all(r.high <= 1 + EVEN for r in inner) or len(inner) % per == 0):
            return "constant", False
        return ("exponential", low > 1 + EVEN) if math.isfinite(top) else (Unknown("a multiplier of the stream has no bound"), False)
    outputs = [b.output if b.output in back or ~b.output not in back else ~b.output for _, b in reader.branches]
    sizes = [back.get(o, ZERO).gain for o in outputs]
    highs = [r.high for r in sizes][::-1]
    if not highs or not all(map(math.isfinite, highs)):
        return Unknown("how far branch outputs are carried is not bounded"), False
    exact = all(r.number is not None for r in sizes)
    law = "constant" if exact and all(abs(h - 1.0) <= EVEN for h in highs) else law_of_carried(highs, blocks)
    if isinstance(law, Unknown) or exact or law in ("decaying", "constant"):
        return law, law == "exponential" and exact
    return Unknown("how far branch outputs are carried is known as a loose bound alone"), False


def law_of_carried(sizes: Sequence[float], blocks: int) -> Law | Unknown:
    """How far what branches add is carried, by the number of blocks behind them; the last branch comes first."""
    per = len(sizes) // blocks if blocks and len(sizes) % blocks == 0 else 1
    return _of_sequence([max(sizes[i : i + per]) for i in range(0, len(sizes), per)], len(sizes))


def _told(gain: Range) -> Law:
    """The law of multipliers below one, by what all of them leave of the first state."""
    return "constant" if gain.high > FORGOTTEN else "decaying"


def _mean(ranges: Sequence[Range], end: Literal["low", "high"], per: int) -> float:
    """Geometric mean of a block's gain."""
    logs = [math.log(v) if (v := getattr(r, end)) > 0 else -math.inf for r in ranges]
    if not logs:
        return 1.0
    total = math.fsum(logs) if -math.inf not in logs else -math.inf
    return math.exp(min(total / max(len(logs) / per, 1), 700.0))


BENT = "what branches add is carried on by another rule from one place on, which a deeper model has elsewhere"
"""Why a sequence that rises in one of its parts alone, or ends to rise at once, has no law."""


def _of_sequence(highs: Sequence[float], branches: int | None = None) -> Law | Unknown:
    """The law of a sequence, r_0 the last one's: of branches, or of blocks that hold so many `branches`. Growths are compared by the length of the
    part that they are of: six blocks have no four equal quarters."""
    branches = len(highs) if branches is None else branches
    if branches < FEWEST:
        return Unknown(f"{branches} branches are too few to read a law off")
    if len(highs) < BLOCKS:
        return Unknown(f"{len(highs)} blocks are too few to read a law off")
    ends = [math.ceil(len(highs) * part / 8) for part in (1, 2, 4, 6, 8)]
    early, quarter, half, late, whole = (max(highs[:end]) for end in ends)
    rising = half > quarter * SETTLED  # in the second quarter
    slowing = not rising or math.log(half / quarter) * (ends[1] - ends[0]) < STEADY * math.log(quarter / early) * (ends[2] - ends[1])
    if whole <= half * SETTLED:
        third, tail = max(highs[len(highs) // 2 : len(highs) * 3 // 4]), max(highs[len(highs) * 3 // 4 :])
        if not slowing:
            return Unknown(BENT)
        return "decaying" if tail < 0.5 * half and tail < FALLING * third else "constant"  # what falls once and stays is carried on for good
    before, last = math.log(late / half), math.log(whole / late) * (ends[3] - ends[2]) / max(ends[4] - ends[3], 1)
    step = not rising and whole <= late * SETTLED  # in the third quarter
    if step or (late <= half * SETTLED and not _keeps_rising(highs)):
        return Unknown("what branches add is carried on more than before from one place on: one step is no law")
    if not rising:
        return "polynomial" if _is_arithmetic([v for v in highs if v > half * SETTLED]) else Unknown(BENT)
    if last < STEADY * before:
        settles = last < SETTLING * before and quarter < half
        return ("constant" if settles else "polynomial") if slowing else Unknown(BENT)
    return "exponential" if last > math.log(FAST) else Unknown(f"{branches} branches are too few to read a law off")


def _is_arithmetic(values: Sequence[float]) -> bool:
    """Whether each one is as much more than the one before: in a model that is deeper they go on so, from a later place."""
    steps = [b - a for a, b in itertools.pairwise(values)]
    return len(steps) > 1 and all(abs(step - steps[0]) <= EVEN * max(values) for step in steps)


def _keeps_rising(highs: Sequence[float]) -> bool:
    """Whether at least half of the branches of the last quarter are carried on more than all behind them: one or two (those of a state that all
    blocks add again) are no law, since they stay one or two in a deeper model."""
    start = math.ceil(len(highs) * 3 / 4)
    rises = sum(value > max(highs[:at]) * SETTLED for at, value in enumerate(highs) if at >= start)
    return 2 * rises >= len(highs) - start


__all__ = ["Law", "State", "StreamOperator", "law_of_carried", "back_at_start", "operators_of", "resolved"]
