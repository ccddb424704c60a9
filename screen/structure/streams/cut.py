"""Blocks that end their own stream: `x = x + a(N(x)); x = mlp(N(x))`, or a linear map on the stream in every block.

The chain of adds begins anew behind each such map, so that every block has a stream of its own. Where calls of one program follow one another, and
each stream feeds the next through weights, they are one stream that is cut in every block. Stages of a pyramid are not: each has blocks of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from screen.graph import Graph, numel
from screen.graph.repetition import stacked
from screen.structure.dataflow import Flow, nodes_of
from screen.structure.norms.find import place_of
from screen.structure.streams.ends import Ends, signature
from screen.structure.streams.equal_calls import EqualCalls
from screen.structure.streams.kinds import ranges, unique_names
from screen.structure.streams.reader import Reader
from screen.structure.types import IdentityPath, Kind, Place, Scale, Stream, Sublayer

FEWEST = 3
"""Streams in a row that are one."""
MOST = 4
"""Sublayers of a block that is found without a call of its own."""


def joined(streams: Sequence[Stream], readers: Sequence[Reader]) -> tuple[list[Stream], list[Reader]]:
    """The streams with those of one cut stream as one, and the reader of each (of its first part)."""
    outer = [n for n, r in enumerate(readers) if not r.chain.inner]
    taken: dict[int, Stream | None] = {}
    for run in _skipping(outer, streams, readers):
        taken.update({run[0]: _in_a_row([streams[n] for n in run], [readers[n] for n in run]), **dict.fromkeys(run[1:])})
    outer = [n for n in outer if n not in taken]
    for run in _runs(outer, streams, readers):
        found = _as_one([streams[n] for n in run], [readers[n] for n in run]) if len(run) >= FEWEST else None
        if found is not None:
            taken.update({run[0]: found, **dict.fromkeys(run[1:])})
    kept = [(taken.get(n, s), readers[n]) for n, s in enumerate(streams)]
    return [s for s, _ in kept if s is not None], [r for s, r in kept if s is not None]


def _runs(outer: list[int], streams: Sequence[Stream], readers: Sequence[Reader]) -> list[list[int]]:
    """Streams of one width each of which is made of the one before, of as many tokens: a map that leaves out every second one ends a stage."""
    runs: list[list[int]] = []
    sizes = [numel(r.flow.graph.nodes[r.chain.nodes[-1]].shape or ()) for r in readers]
    for n in outer:
        before = runs[-1][-1] if runs else None
        if before is not None and (streams[before].width, sizes[before]) == (streams[n].width, sizes[n]) and _cut(readers[before], readers[n]):
            runs[-1].append(n)
        else:
            runs.append([n])
    return runs


def _skipping(outer: list[int], streams: Sequence[Stream], readers: Sequence[Reader]) -> list[list[int]]:
    """Streams of one width each of which goes on with the one before behind `Linear(cat(skip, x))` (U-Net-like), two and more."""
    runs: list[list[int]] = []
    for n in outer:
        before = readers[n].chains.continued(readers[n].chain, [readers[m].chain for m in outer])
        run = next((r for r in runs if readers[r[-1]].chain is before and streams[r[-1]].width == streams[n].width), None)
        if run is not None:
            run.append(n)
        else:
            runs.append([n])
    return [run for run in runs if len(run) > 1]


def _in_a_row(streams: list[Stream], readers: list[Reader]) -> Stream:
    """One stream with the blocks of several, one after the other."""
    graph, depth = readers[0].flow.graph, 0
    kinds: dict[object, Kind] = {}
    for stream in streams:
        for kind in stream.kinds:
            shape = tuple(map(signature, kind.sublayers))
            layers = tuple((first + depth, last + depth) for first, last in kind.layers)
            old = kinds.get(shape)
            kinds[shape] = (
                replace(kind, id=f"k{len(kinds)}", layers=layers)
                if old is None
                else replace(old, count=old.count + kind.count, layers=ranges((*old.layers, *layers)))
            )
        depth += stream.depth
    cuts = tuple(place_of(graph, r.chain.nodes[0]) for r in readers[1:])
    return replace(
        streams[0], depth=depth, kinds=tuple(kinds.values()), identity=IdentityPath(False, None, 0, cuts), final_norm=streams[-1].final_norm,
        pooled_norm=streams[-1].pooled_norm, cuts=cuts, joins=cuts, states=tuple(sorted({n for s in streams for n in s.states})),
        end_norm=streams[-1].end_norm,
        long_skips=tuple(skip for s in streams for skip in s.long_skips),
    )  # fmt: skip


def _cut(one: Reader, other: Reader) -> list[int]:
    """The matrices between the end of a stream and the start of the next, which are all that leads there: those on every way, or all where the
    ways have none in common."""
    flow = one.flow
    end, start = one.chain.nodes[-1], other.chain.nodes[0]
    if not flow.depends(start, end):
        return []
    found = [i for i in nodes_of(flow.keys[start] & ~flow.keys[end]) if flow.weighted[i] and flow.depends(i, end)]
    return [i for i in found if not _leads_past(flow, i, end, start)] or found


def _leads_past(flow: Flow, node: int, end: int, start: int) -> bool:
    """Whether some way of values from one node to another does not cross a third."""
    seen, stack = {node}, [start]
    while stack:
        here = stack.pop()
        if here == end:
            return True
        if here not in seen and flow.depends(here, end):
            seen.add(here)
            stack.extend(flow.graph.nodes[here].inputs)
    return False


def _as_one(streams: list[Stream], readers: list[Reader]) -> Stream | None:
    """One stream of as many blocks as calls of one program hold these; None where there are no such calls."""
    graph = readers[0].flow.graph
    subs = {s.add: s for reader in readers for s, _ in Ends(reader).sublayers}
    calls = _calls(graph, sorted(subs))
    fewest = 2 if len(streams) > len(calls) else FEWEST  # a part that reaches from one call into the next shows that they are blocks
    if len(calls) < fewest or not EqualCalls(graph).are_equal(list(calls)):
        return _written_out(streams, readers)
    members = [[subs[a] for a in adds] for adds in calls.values()]
    if stacked([(s.role, s.place.file, s.place.line) for s in members[0]], [False] * len(members[0])):
        return None  # each is a stage of several blocks
    chosen = members[0] if list(map(signature, members[0])) == list(map(signature, members[1])) else members[1]
    depth = graph.loop.count if graph.loop is not None else sum(map(graph.times_of, calls))
    cuts = _places(graph, readers, next(iter(calls)))
    return _of_equal_blocks(streams, readers, chosen, depth, cuts, graph.modules[graph.calls[next(iter(calls))].module].path)


def _written_out(streams: list[Stream], readers: list[Reader]) -> Stream | None:
    """One stream of equal blocks that stand in no calls, in a loop that is written out: between the first part and the last one all are alike, and
    each is one block, or the end of one and the beginning of the next."""
    inner = [tuple(tuple(map(signature, k.sublayers)) for k in s.kinds) for s in streams[1:-1]]
    flat = [s for reader in readers for s, _ in Ends(reader).sublayers]
    per = len(Ends(readers[1]).sublayers)
    if len(streams) <= FEWEST or len(set(inner)) > 1 or per > MOST or not per or len(flat) % per or len({s.place.line for s in flat}) > per:
        return None
    graph, depth = readers[0].flow.graph, len(flat) // per
    return _of_equal_blocks(streams, readers, flat[per : 2 * per], depth, _places(graph, readers[:2], -1), "")


def _of_equal_blocks(
    streams: list[Stream], readers: list[Reader], chosen: Sequence[Sublayer], depth: int, cuts: tuple[Place, ...], path: str
) -> Stream:
    graph = readers[0].flow.graph
    scale = Scale("learned", None, _parameters(graph, cuts))  # the stream is multiplied by matrices that are learned
    chosen = [*chosen[:-1], replace(chosen[-1], alpha=scale)]
    kind = Kind("k0", depth, ((0, depth - 1),), path, unique_names(chosen))
    return replace(
        streams[0], depth=depth, kinds=(kind,), identity=IdentityPath(False, None, 0, cuts), final_norm=streams[-1].final_norm,
        pooled_norm=streams[-1].pooled_norm, cuts=cuts,
        states=tuple(sorted({n for s in streams for n in s.states})), end_norm=streams[-1].end_norm,
        long_skips=tuple(skip for s in streams for skip in s.long_skips),
    )  # fmt: skip


def _calls(graph: Graph, adds: list[int]) -> dict[int, list[int]]:
    """The calls side by side that hold some adds, with those of each; none where some stand in no call of a block."""
    paths = [graph.call_path(graph.nodes[a].call) for a in adds]
    level = next((n for n, calls in enumerate(zip(*paths, strict=False)) if len(set(calls)) > 1), 0)
    found: dict[int, list[int]] = {}
    for add, path in zip(adds, paths, strict=True):
        found.setdefault(path[level], []).append(add)
    return found if level and all(c in graph.members for c in found) else {}


def _places(graph: Graph, readers: list[Reader], first: int) -> tuple[Place, ...]:
    """Where the matrices of one block stand: of the first, as far as they stand in it."""
    every = [i for one, other in pairwise(readers) for i in _cut(one, other)]
    own = [i for i in every if first in graph.call_path(graph.nodes[i].call)]
    return tuple(place_of(graph, i) for i in own or every[:1])


def _parameters(graph: Graph, places: tuple[Place, ...]) -> tuple[str, ...]:
    names = [graph.nodes[i].name for p in places for i in graph.nodes[p.node].inputs if graph.nodes[i].op == "parameter"]
    return tuple(dict.fromkeys(names))


__all__ = ["joined"]
