"""Which states of a stream its branches read."""

from __future__ import annotations

from screen.facts.record import Facts
from screen.structure.branches.region import Region
from screen.structure.dataflow import strip
from screen.structure.streams.reader import Reader
from screen.structure.types import Kind, Stream, Sublayer


def reads_grown_state(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> bool:
    """Whether in some block it reads a state that other blocks have added to and no norm has just given: not only the first one. True where
    nothing is known of it."""
    place = kind.sublayers.index(sublayer)
    ran = {b.branches[place] for b in stream.traced if b.kind == kind.id and place < len(b.branches)}
    reader = next((r for s, r in zip(facts.streams, facts.readers, strict=False) if s.name == stream.name), None)
    if reader is None or not ran:
        return True
    norms = reader.chains.edges.norms.by_node
    first = min((b.add for _, b in reader.branches), default=0)
    read = {n for _, b in reader.branches if (b.add, b.output) in ran for n in _met(reader, b)}
    return any(n >= first and strip(reader.flow, n) not in norms for n in read)


def reads_first_state(facts: Facts, stream: Stream) -> bool:
    """Whether some branch of every block reads nothing of the stream but what stood before the first one."""
    return any(not reads_grown_state(facts, stream, k, s) for k in stream.kinds for s in k.sublayers)


def _met(reader: Reader, branch: Region) -> set[int]:
    """The states where a walk up from what a branch adds first meets the stream; the one that it is added to where it meets none."""
    states, found, seen, stack = set(reader.chain.nodes), set[int](), set[int](), [branch.output]
    while stack:
        node = stack.pop()
        if node in states and node != branch.output:
            found.add(node)
        elif node not in seen:
            seen.add(node)
            stack.extend(reader.flow.graph.nodes[node].inputs)
    return found or {branch.state}


__all__ = ["reads_first_state", "reads_grown_state"]
