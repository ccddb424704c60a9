"""Where the linear part of a stream begins and ends: the states that its branches leave from, and what its last block hands on.

The call of a block is the outermost one around its sums that holds those of no other block; so that a stage, which makes the stream by a filter and a
norm and ends it in another norm, is none, however it is listed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from screen.graph import Node
from screen.structure.chains.identity_edges import Edge
from screen.structure.reach import used
from screen.structure.streams.reader import Reader
from screen.structure.types import TracedBlock


@dataclass(frozen=True)
class Span:
    """A stream from its first state to its end. `ran`: its blocks that ran."""

    reader: Reader
    ran: Sequence[TracedBlock]

    @cached_property
    def forks(self) -> tuple[int, ...]:
        """The states that branches leave from, behind the one that is older than all blocks or enters the first one, where there is such a state."""
        found = _forks(self.reader)
        return (*(_older(self.reader, found) or self._begin(found)), *found)

    @cached_property
    def calls(self) -> list[int | None]:
        """For each sum the call of its block: of several blocks the outermost one that holds sums of no other; of a single one the innermost that
        holds all. It is one that may be one of several blocks, or a member of a list."""
        graph, adds = self.reader.flow.graph, self.reader.chain.adds
        ends = sorted(max(add for add, _ in block.branches) for block in self.ran if block.branches)
        paths = [graph.call_path(graph.nodes[a].call) for a in adds]
        blocks: dict[int, set[int]] = {}
        for path, add in zip(paths, adds, strict=True):
            for call in path:
                blocks.setdefault(call, set()).add(min(bisect_left(ends, add), len(ends) - 1))
        if len(ends) > 1:
            return [next((c for c in path if c in graph.members and len(blocks[c]) == 1), None) for path in paths]
        common = set(paths[0]).intersection(*paths)
        listed = [c for c in paths[0] if c in common and (c in graph.members or graph.is_listed(c))]
        return [listed[-1] if listed and not self._lists_blocks(listed[-1]) else None] * len(adds)

    def _lists_blocks(self, call: int) -> bool:
        """Whether a call goes through a list of blocks by hand: what several branches run belongs to one member of a list in its module."""
        graph = self.reader.flow.graph
        weighted = [[n for n in b.region if any(graph.nodes[i].op == "parameter" for i in graph.nodes[n].inputs)] for _, b in self.reader.branches]
        above = [{m for n in nodes for m in graph.above(graph.scope(n).index)} for nodes in weighted if nodes]
        shared = set.intersection(*above) if len(above) > 1 else set()
        return any(graph.is_member(m) and graph.calls[call].module in graph.above(m)[1:] for m in shared)

    def _begin(self, forks: tuple[int, ...]) -> tuple[int, ...]:
        """The state that enters the call of the first block, where something happens to the stream before its first branch leaves it; else nothing.
        What happens in the first block alone (its norm of the embedding) comes before all blocks, and so does it where that makes the stream."""
        reader, calls = self.reader, self.calls
        nodes = reader.chain.nodes
        if calls[0] is None or not forks or forks[0] not in nodes:
            return ()
        inside = _before_fork(reader, calls[0], forks[0])
        following = next((c for c in calls if c is not None and c != calls[0]), None)
        if following is not None:
            again = bool(_before_fork(reader, following, _fork_of(reader, calls.index(following), forks)))
        else:
            again = not self._makes_it(calls[0])
        if not inside or not again:
            return ()
        return (nodes[nodes.index(inside[0]) - 1],) if inside[0] != nodes[0] else inside[:1]

    def _makes_it(self, call: int) -> bool:
        """Whether a call makes the stream of what has other sizes: a stage does, and one of equal blocks hands on what it was given."""
        flow, here = self.reader.flow, self.reader.chain.nodes[0]
        nodes = flow.graph.nodes
        sizes = (nodes[self.reader.chain.adds[0]].shape, None)  # of several results no sizes are known
        while call in flow.graph.call_path(nodes[here].call):
            same = [i for i in nodes[here].inputs if flow.data[i] and nodes[i].shape in sizes]
            if not same:
                return True
            here = same[0]
        return False

    @cached_property
    def end(self) -> int:
        """The stream behind its last block: the value of its sizes that the call of that block hands on. Without such a call, or where the block
        before hands its sum on as it is, the last sum. Where the sums are parts of what the blocks began with, that is put together again."""
        reader, begin = self.reader, self.forks[0] if self.forks else None
        graph, call = reader.flow.graph, self.calls[-1]
        live = used(graph)
        known = {*reader.chain.nodes, *(b.output for _, b in reader.branches)}
        last = next((n for n in reversed(reader.chain.nodes) if n in live), reader.chain.nodes[-1])
        while (more := _next_sum(reader, last, known, live)) is not None:
            last = more
            known.add(last)
        if call is None or self._hands_on_its_sum():
            return _to_output(reader, _as_before(reader, last))
        inside = {n.index for n in graph.nodes[last:] if call in graph.call_path(n.call)}
        shape = sorted(graph.nodes[last if begin is None else begin].shape or ())
        alike = [i for i in inside if sorted(graph.nodes[i].shape or ()) == shape and reader.flow.data[i]]  # perhaps with its axes moved
        handed = [i for i in alike if i == last or reader.flow.depends(i, last)]
        handed = [i for i in handed if i in graph.outputs or not inside.issuperset(graph.users[i])]
        return _as_before(reader, last) if last in handed else max(handed, default=last)


    def _hands_on_its_sum(self) -> bool:
        """Whether the block before the last does nothing to the stream behind its last sum, and the last one does: that comes behind all blocks."""
        graph, nodes, adds, calls = self.reader.flow.graph, self.reader.chain.nodes, self.reader.chain.adds, self.calls
        before = next((place for place in reversed(range(len(adds))) if calls[place] != calls[-1]), None)
        if before is None or calls[before] is None:
            return False
        behind = next((n for n in nodes if n > adds[before] and self.reader.flow.classes[n] != "view"), None)
        return behind is not None and calls[before] not in graph.call_path(graph.nodes[behind].call)


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


def _before_fork(reader: Reader, call: int, fork: int) -> tuple[int, ...]:
    """What a call makes of the stream before its first branch leaves it."""
    nodes, graph = reader.chain.nodes, reader.flow.graph
    end = nodes.index(fork) + 1 if fork in nodes else 0
    return tuple(n for n in nodes[:end] if call in graph.call_path(graph.nodes[n].call))


def _fork_of(reader: Reader, position: int, forks: tuple[int, ...]) -> int:
    """The latest state that branches leave from before an add."""
    return max((f for f in forks if f < reader.chain.adds[position]), default=forks[0])


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


__all__ = ["Span"]
