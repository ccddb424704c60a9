"""Facts: what a graph says about streams, norms and branches, by data flow alone. No torch here."""

from __future__ import annotations

from dataclasses import replace

from screen.calculi.analysis import analyses_of, sure
from screen.calculi.meanfield import recursion_of
from screen.facts.beyond import reads_growing, softmax_anywhere, written_in
from screen.facts.claims import claims_of
from screen.facts.operator import StreamOperator, operators_of, whole_of
from screen.facts.operator.forms import DETACHED
from screen.facts.operator.identity import identity_of
from screen.facts.operator.steps import StateBound, StateBounds, end_of_loop, normed_sums
from screen.facts.record import Facts
from screen.facts.whole import blocks_in_one
from screen.graph import Graph
from screen.graph.gc_pause import put_off
from screen.graph.meant import meant, unfolded
from screen.graph.parted import parted
from screen.graph.unloop import first_copy
from screen.structure.chains.find import chains_of
from screen.structure.coverage import coverage_of, doubled_norms, guessed, hollow_norms
from screen.structure.dataflow import Flow
from screen.structure.folded_gains import folded_gains
from screen.structure.gated_means import gated_means, spelled
from screen.structure.norms.find import Norms
from screen.structure.shared_output import shared_outputs
from screen.structure.streams.build import readers_of, streams_of
from screen.structure.streams.reader import Reader
from screen.structure.types import Stream, Unknown

FEW = 3
"""Equal branches in a row up to which somebody may call them one block."""
CUT = "the stream itself passes matrices"


@put_off()
def derive(graph: Graph, *, is_block: bool = False) -> Facts:
    """All facts of a graph; of a loop whose copies hold several blocks, those of the first copy, which is a whole model. `is_block`: somebody says
    that the target is one block, whose few equal branches are then parts of it."""
    graph = parted(graph, shared_outputs(Flow(graph)))
    graph = meant(graph, *spelled(gated_means(Flow(graph))))
    graph = unfolded(graph, folded_gains(graph))
    facts, few = _derived(graph), FEW if is_block else 0
    if facts.is_loop and not facts.streams:  # all of it may begin at what each copy is given again
        alone = _derived(first_copy(graph))
        return alone if max((s.depth for s in alone.streams), default=0) > max(few, 1) else facts
    return _derived(first_copy(graph)) if blocks_in_one(facts) > few else facts


def _derived(graph: Graph) -> Facts:
    flow = Flow(graph)
    norms = Norms(flow)
    chains = chains_of(flow, norms)
    readers = readers_of(chains)
    streams = streams_of(readers)
    facts = Facts(
        graph=graph,
        streams=streams,
        norms=tuple(n for n in norms.by_node.values() if not n.put_back),
        doubled=doubled_norms(chains),
        hollow=hollow_norms(chains, streams),
        coverage=coverage_of(chains, streams),
        guessed_nodes=guessed(graph),
        analyses=analyses_of(readers, streams),
        softmax=softmax_anywhere(flow),
    )
    facts = _with_operators(facts, readers)
    found = tuple(
        Unknown(CUT, tuple(p.node for p in s.cuts))
        if s.cuts
        else sure(recursion_of, s, graph, facts.depth(s), streams=facts.streams, norms=norms.by_node)
        for s in facts.streams
    )
    facts = replace(facts, recursions=found)
    return replace(facts, claims=claims_of(facts))


def _with_operators(facts: Facts, readers: list[Reader]) -> Facts:
    """The linear part of every stream, what it says of the identity path, and the bounds of states that are no plain sums."""
    of_states = {r.chain.nodes: r for r in readers}
    starts = {r.chain.nodes[0]: r for r in reversed(readers)}
    mine = tuple(of_states.get(s.states) or starts[s.states[0]] for s in facts.streams)
    whole = [n for n, s in enumerate(facts.streams) if not s.cuts]
    found = sure(operators_of, [mine[n] for n in whole], [facts.streams[n].traced for n in whole])
    back: dict[int, StreamOperator | Unknown] = {}
    if any(node.op in DETACHED for node in facts.graph.nodes):
        seen = sure(operators_of, [mine[n] for n in whole], [facts.streams[n].traced for n in whole], back=True)
        back = {n: seen if isinstance(seen, Unknown) else seen[place] for place, n in enumerate(whole)}
    operators: list[StreamOperator | Unknown] = [Unknown(CUT, tuple(p.node for p in s.cuts)) for s in facts.streams]
    for place, n in enumerate(whole):
        operators[n] = found if isinstance(found, Unknown) else found[place]
    growing = frozenset(s.name for s, r in zip(facts.streams, mine, strict=True) if reads_growing(r))
    bounds: dict[tuple[int, ...], StateBound] = {}
    streams: list[Stream] = []
    for n, (stream, reader, operator) in enumerate(zip(facts.streams, mine, operators, strict=True)):
        streams.append(stream if stream.cuts else replace(stream, identity=identity_of(reader, operator, back.get(n))))
        if isinstance(operator, StreamOperator) and (operator.breaks or isinstance(operator.clean, Unknown)):
            bounds.update(_state_bounds(stream, reader, operator, frozenset[str]() if stream.name in growing else frozenset({"B_memory"})))
        elif stream.cuts:
            normed = sure(normed_sums, reader, stream)
            bounds.update({} if isinstance(normed, Unknown) else normed)
            end = sure(end_of_loop, reader) if stream.role != "inner" and sum(s.role != "inner" for s in facts.streams) == 1 else None
            bounds.update({(stream.states[-1],): end} if isinstance(end, StateBound) else {})
    written = dict(pair for r in readers for pair in written_in(r))
    facts = replace(facts, streams=tuple(streams), readers=mine, operators=tuple(operators), whole=sure(whole_of, mine, operators))
    return replace(facts, growing=growing, state_bounds=bounds, written_softmaxes=written)


def _state_bounds(stream: Stream, reader: Reader, operator: StreamOperator, still: frozenset[str]) -> dict[tuple[int, ...], StateBound]:
    """Behind each sublayer, by its add and output, in all blocks of its kind; of the last state by its node alone."""
    bounds = StateBounds(reader, operator, still)
    found: dict[tuple[int, ...], StateBound | Unknown] = {(s.node,): sure(bounds.last) for s in operator.states[-1:]}
    ran = stream.traced[:-1]  # behind the last block no other one begins, with what it does to the stream in front of its branches
    for kind in stream.kinds:
        for place, sublayer in enumerate(kind.sublayers):
            alike = [b.branches[place][0] for b in ran if b.kind == kind.id and len(b.branches) == len(kind.sublayers)]
            found[sublayer.add, sublayer.output] = sure(bounds.behind, *dict.fromkeys([sublayer.add, *alike]))
    return {key: StateBound(bound, bound, None) if isinstance(bound, Unknown) else bound for key, bound in found.items()}


__all__ = ["Facts", "derive"]
