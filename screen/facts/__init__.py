"""Facts: what a graph says about streams, norms and branches, by data flow alone. No torch here."""

from __future__ import annotations

from screen.facts.assemble import streams_of
from screen.facts.coverage import coverage_of, doubled_norms, guessed, hollow_norms
from screen.facts.edges import Edges
from screen.facts.flow import Flow
from screen.facts.norms import Norms
from screen.facts.nouns import Facts
from screen.facts.streams import Chains
from screen.graph import Graph


def derive(graph: Graph) -> Facts:
    """All facts of a graph."""
    flow = Flow(graph)
    norms = Norms(flow)
    chains = Chains(flow, Edges(flow, norms))
    streams = streams_of(chains)
    return Facts(
        graph=graph,
        streams=streams,
        norms=tuple(norms.by_node.values()),
        doubled=doubled_norms(chains),
        hollow=hollow_norms(chains, streams),
        coverage=coverage_of(chains, streams),
        guessed_nodes=guessed(graph),
    )


__all__ = ["Facts", "derive"]
