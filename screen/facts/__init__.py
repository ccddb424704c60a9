"""Facts: what a graph says about streams, norms and branches, by data flow alone. No torch here."""

from __future__ import annotations

from dataclasses import replace

from screen.collecting import put_off
from screen.facts.analysis import analyses_of, sure
from screen.facts.assemble import readers_of, streams_of
from screen.facts.coverage import coverage_of, doubled_norms, guessed, hollow_norms
from screen.facts.edges import Edges
from screen.facts.flow import Flow
from screen.facts.norms import Norms
from screen.facts.nouns import Facts
from screen.facts.recursion import recursion_of
from screen.facts.streams import Chains
from screen.graph import Graph


@put_off()
def derive(graph: Graph, depth: int | None = None) -> Facts:
    """All facts of a graph. `depth`: how many times a block target is stacked; None for a whole model."""
    flow = Flow(graph)
    norms = Norms(flow)
    chains = Chains(flow, Edges(flow, norms))
    readers = readers_of(chains)
    streams = streams_of(readers)
    facts = Facts(
        graph=graph,
        streams=streams,
        norms=tuple(norms.by_node.values()),
        doubled=doubled_norms(chains),
        hollow=hollow_norms(chains, streams),
        coverage=coverage_of(chains, streams),
        guessed_nodes=guessed(graph),
        analyses=analyses_of(readers, streams),
        stacked=depth,
    )
    found = tuple(sure(recursion_of, s, graph, facts.depth(s), streams=streams, norms=norms.by_node) for s in streams)
    return replace(facts, recursions=found)


__all__ = ["Facts", "derive"]
