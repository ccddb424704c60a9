"""Which states of a stream its branches read."""

from __future__ import annotations

from collections.abc import Mapping

from screen.calculi.bounds.boundedness import INPUTS
from screen.facts.record import Facts
from screen.structure.branches.branch import Branch
from screen.structure.branches.region import Region
from screen.structure.dataflow import strip
from screen.structure.streams.reader import Reader
from screen.structure.types import Kind, Norm, Stream, Sublayer


def reader_of(facts: Facts, stream: Stream) -> Reader | None:
    """What read a stream, where it is at hand."""
    return next((r for s, r in zip(facts.streams, facts.readers, strict=False) if s.name == stream.name), None)


def branch_of(reader: Reader, stream: Stream, sublayer: Sublayer) -> Branch | None:
    """The branch that a sublayer is judged by."""
    return reader.typical(stream).get((sublayer.add, sublayer.output))


def borders_of(reader: Reader, branch: Branch) -> dict[int, str | None]:
    """All that the values of a branch are made of, and what it is of the stream; None inside of the branch."""
    return {i: branch.border(i) for n in branch.region for i in reader.flow.counting[n]}


def reads_grown_state(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> bool:
    """Whether in some block it reads a state that other blocks have added to and no norm has just given: not only the first one. True where
    nothing is known of it."""
    reader = reader_of(facts, stream)
    read = set() if reader is None else _states_read(reader, stream, kind, sublayer)
    if reader is None or not read:
        return True
    norms = reader.chains.edges.norms.by_node
    return any(n >= _first_add(reader) and strip(reader.flow, n) not in norms for n in read)


def _states_read(reader: Reader, stream: Stream, kind: Kind, sublayer: Sublayer) -> set[int]:
    """The states that a sublayer reads, in all blocks of its kind that ran."""
    place = kind.sublayers.index(sublayer)
    ran = {b.branches[place] for b in stream.traced if b.kind == kind.id and place < len(b.branches)}
    met = reader.states_met
    return {n for _, b in reader.branches if (b.add, b.output) in ran for n in met[b.add, b.output]}


def reads_first_state(facts: Facts, stream: Stream) -> bool:
    """Whether some branch of every block reads what stood before the first one, alone or without a norm beside others: it adds more where the input
    is larger, and no more where there are more blocks."""
    subs = [(k, s) for k in stream.kinds for s in k.sublayers]
    return any(not reads_grown_state(facts, stream, k, s) for k, s in subs) or any(_reads_first_beside(facts, stream, s) for _, s in subs)


def _reads_first_beside(facts: Facts, stream: Stream, sublayer: Sublayer) -> bool:
    reader = reader_of(facts, stream)
    branch = None if reader is None else branch_of(reader, stream, sublayer)
    if reader is None or branch is None:
        return False
    return any(n < _first_add(reader) for n in _older(reader, branch, borders_of(reader, branch)))


def norms_behind(facts: Facts, stream: Stream, sublayer: Sublayer) -> tuple[Norm, ...]:
    """Norms of tokens that stand on every way from what a branch adds to the next block, or to the end of the stream; none where some way passes
    none of them."""
    own = (sublayer.add, sublayer.output)
    place = next((n for n, block in enumerate(stream.traced) if own in block.branches), None)
    reader = reader_of(facts, stream)
    if place is None or reader is None or not stream.states:
        return ()
    following = stream.traced[place + 1].branches if place + 1 < len(stream.traced) else ()
    end = min((add for add, _ in following), default=stream.states[-1])
    norms, found = reader.chains.edges.norms.by_node, list[Norm]()
    stack, seen = [sublayer.output], {sublayer.output}
    while stack:
        node = stack.pop()
        if node == end:
            return ()
        if (norm := norms.get(node)) is not None and norm.of_tokens and norm.source in seen:
            found.append(norm)
            continue
        users = [u for u in facts.graph.users[node] if u <= end and u not in seen]
        seen.update(users)
        stack.extend(users)
    return tuple(found)


FEW = 4
"""Values of earlier blocks that one branch reads: keys and values are two; a sum over all blocks before grows with their number."""
KEPT = frozenset({"weighted", "view", "part", "join", "activation", "softmax"})
"""Classes of ops behind which what is made of norms is bounded, at fixed weights."""


def moving_inputs(facts: Facts, stream: Stream, sublayer: Sublayer) -> frozenset[str]:
    """Sizes of inputs of a branch that may grow without limit at fixed weights: that of the stream unless a norm stands on it wherever it is
    read; those of what an earlier block made only where it made that of a state without a norm; those of other streams where some stream grows."""
    still = frozenset[str]() if stream.name in facts.growing else frozenset({"B_memory"})
    reader, kind = reader_of(facts, stream), next((k for k in stream.kinds if sublayer in k.sublayers), None)
    if reader is not None and kind is not None and (states := _states_read(reader, stream, kind, sublayer)):
        norms = reader.chains.edges.norms.by_node
        still |= {"B"} if all((norm := norms.get(strip(reader.flow, n))) is not None and norm.of_tokens for n in states) else set()
    branch = None if reader is None else branch_of(reader, stream, sublayer)
    if reader is not None and branch is not None:
        read = borders_of(reader, branch)
        earlier = {i for i, border in read.items() if border == "earlier"}
        older = _older(reader, branch, read)
        plain = len(earlier) <= FEW and all(n < _first_add(reader) for n in older) and all(_is_made_of_norms(reader, i) for i in earlier)
        if plain and (older or earlier):
            still |= {"B_earlier"}
    return INPUTS - still


def _first_add(reader: Reader) -> int:
    return min((b.add for _, b in reader.branches), default=0)


def _older(reader: Reader, branch: Region, read: Mapping[int, str | None]) -> set[int]:
    """The states that a branch reads without a norm beside the one that it is added to."""
    return {strip(reader.flow, i) for i in _read_bare(reader, branch) if read[i] == "raw"} - {strip(reader.flow, branch.state)}


def _read_bare(reader: Reader, branch: Region) -> set[int]:
    """What a branch reads otherwise than by a norm: one that the first branch of a block has read too is as large whatever the state is. What a norm
    is made of, where it is written out, reads nothing by itself."""
    norms, found, stack = branch.norms.by_node, set[int](), [branch.output]
    while stack:
        here = stack.pop()
        norm = norms.get(here)
        if norm is not None and norm.of_tokens:
            continue
        new = {i for i in reader.flow.counting[here] if i not in found}
        found |= new
        stack.extend(i for i in new if branch.border(i) is None)
    return found


def _is_made_of_norms(reader: Reader, node: int) -> bool:
    """Whether a value is made of norms of the stream by maps, sums, views and functions without a pole (keys and values of another block)."""
    flow, norms, stack, seen = reader.flow, reader.chains.edges.norms.by_node, [node], set[int]()
    while stack:
        here = stack.pop()
        if here in seen or not flow.data[here] or (here in norms and norms[here].of_tokens):
            continue
        seen.add(here)
        kept = flow.classes[here] in KEPT or flow.graph.nodes[here].op in ("add", "sub", "mul", "neg")
        if here in reader.states or not kept or not flow.graph.nodes[here].inputs:
            return False
        stack.extend(flow.counting[here])
    return True


__all__ = ["borders_of", "branch_of", "moving_inputs", "norms_behind", "reader_of", "reads_first_state", "reads_grown_state"]
