"""The streams of a report as one `networkx` graph: what `screen graph` draws, for programs."""

from __future__ import annotations

import networkx

from screen.report.graph import each_kind
from screen.report.picture import draw
from screen.report.schema import KindPart, Report, StreamPart
import itertools


def stream_graph(report: Report) -> networkx.DiGraph[str]:
    """Nodes are named `stream/kind/n3`, with attributes `stream`, `kind`, `count` (blocks of the kind), `layers`, `shape` (state, norm, branch, scale
    or add), `position` (A, B, C) and `label`; edges carry `label`, and `stream` where they are the residual stream itself. An edge from the end of a
    kind to the beginning of one says with `times` how often a block of the second follows one of the first."""
    found: networkx.DiGraph[str] = networkx.DiGraph()
    ends: dict[tuple[str, str], tuple[str, str]] = {}
    for _, stream, kind in each_kind([report]):
        picture, prefix = draw(stream, kind), f"{stream.name}/{kind.id}"
        layers = ", ".join(f"{first}-{last}" for first, last in kind.layers)
        for box in picture.boxes:
            found.add_node(
                f"{prefix}/{box.id}", stream=stream.name, kind=kind.id, count=kind.count, layers=layers,
                shape=box.shape, position=box.position, label="\n".join(box.lines),
            )  # fmt: skip
        for arrow in picture.arrows:
            found.add_edge(f"{prefix}/{arrow.tail}", f"{prefix}/{arrow.head}", label=arrow.label, stream=arrow.stream)
        ends[stream.name, kind.id] = f"{prefix}/{picture.boxes[0].id}", f"{prefix}/{picture.boxes[-1].id}"
    for stream in report.streams:
        for one, other in _follows(stream):
            tail, head = ends[stream.name, one.id][1], ends[stream.name, other.id][0]
            times = found.edges[tail, head]["times"] if found.has_edge(tail, head) else 0
            found.add_edge(tail, head, label="", stream=True, times=times + 1)
    return found


def _follows(stream: StreamPart) -> list[tuple[KindPart, KindPart]]:
    """The kinds of each block and of the one behind it."""
    order = sorted((layer, place) for place, k in enumerate(stream.kinds) for first, last in k.layers for layer in range(first, last + 1))
    kinds = [stream.kinds[place] for _, place in order]
    return list(itertools.pairwise(kinds))


def graphml(reports: list[Report]) -> str:
    """GraphML, which yEd, Gephi and `networkx.read_graphml` read; of several targets the names of nodes begin with the target."""
    graphs = [stream_graph(r) for r in reports]
    if len(graphs) > 1:
        graphs = [networkx.relabel_nodes(g, lambda n, r=r: f"{r.target.spec}/{n}") for g, r in zip(graphs, reports, strict=True)]
    return "\n".join(networkx.generate_graphml(networkx.compose_all(graphs) if graphs else networkx.DiGraph())) + "\n"


__all__ = ["graphml", "stream_graph"]
