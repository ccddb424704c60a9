"""Multipliers: α on the stream's side of an add, s on the branch's, constant, learned or dependent on data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from screen.facts.branches import Branch
from screen.facts.edges import Edge
from screen.facts.flow import strip
from screen.facts.inits import starting_value
from screen.facts.nouns import Scale

if TYPE_CHECKING:
    from screen.facts.placement import Reader


@dataclass(frozen=True)
class Scales:
    """Reads the multipliers of one chain."""

    reader: Reader

    def of_stream(self, position: int) -> Scale:
        """Multipliers of the stream: on the skip alone before this add, or on the sum after it."""
        add = self.reader.chain.adds[position]
        read = self.reader.reads(position)
        before = [e for e in self.reader.segments[position].edges if e.node == add or not self._is_read_after(e.node, read)]
        if position == 0:
            before = [e for e in before if e.node == add or self._skip_only(e, read)]
        adds = self.reader.chain.adds
        after: list[Edge] = []
        if position + 1 < len(adds):
            later = self.reader.reads(position + 1)
            after = [e for e in self.reader.segments[position + 1].edges if e.node not in adds and self._is_read_after(e.node, later)]
        else:
            after = [e for e in self.reader.segments[-1].edges if self._twin_scales(position)]
        paths = [p for place, b in self.reader.branches if place == position for p in b.exit.carried]
        edges = [e for e in before + after if not self.is_affine(e)]
        return self._sum_of_paths(edges, paths) if paths else self._scale(edges)

    def scales_embedding(self) -> bool:
        """Whether the state that the first branch reads has been multiplied since the stream's start; the first skip's own multiplier is none."""
        read, adds = self.reader.reads(0), self.reader.chain.adds
        edges = [e for e in self.reader.segments[0].edges if e.kind == "scale" and e.node not in adds and not self._skip_only(e, read)]
        return any(not self.is_affine(e) for e in edges)

    def _sum_of_paths(self, edges: list[Edge], paths: list[tuple[Edge, ...]]) -> Scale:
        """Several identity paths from one state to the next: their coefficients add up."""
        scales = [self._scale(edges), *(self._scale(list(p)) for p in paths)]
        if all(s.value is not None for s in scales):
            return Scale("constant", math.fsum(s.value for s in scales if s.value is not None))
        kind = "data" if any(s.kind == "data" for s in scales) else "learned" if any(s.kind == "learned" for s in scales) else "constant"
        return Scale(kind, None, tuple(n for s in scales for n in s.parameters))  # type: ignore[arg-type]

    def _twin_scales(self, position: int) -> bool:
        """Multipliers after the last add count when an earlier add of the same line has them after it."""
        twins = [other for other in range(position) if self.reader.is_twin(other, position)]
        return any(e.kind == "scale" for other in twins for e in self.reader.segments[other + 1].edges)

    def _skip_only(self, edge: Edge, read: frozenset[int]) -> bool:
        return edge.kind in ("scale", "gate") and any(r < edge.node for r in read)

    def _is_read_after(self, node: int, read: frozenset[int]) -> bool:
        """Whether the branch reads the stream at or after a node."""
        return any(r >= node for r in read)

    def is_affine(self, edge: Edge) -> bool:
        """The gain of a decomposed norm: a trained vector right after it."""
        if edge.scale is None or not self.reader.flow.trained[edge.scale]:
            return False
        return strip(self.reader.flow, edge.source) in self.reader.chains.edges.norms.by_node

    def of_branch(self, branch: Branch) -> Scale:
        """Multipliers at the end of a branch, that of the add itself (`alpha=`, `lerp`, a minus) included."""
        own = [e for e in self.reader.chains.into[branch.add] if e.source == branch.output and e.kind == "add" and self._weighs(e)]
        return self._scale([e for e in (*own, *branch.exit.scales) if not self.is_affine(e)])

    def _weighs(self, edge: Edge) -> bool:
        return edge.factor != 1.0

    def _scale(self, edges: list[Edge]) -> Scale:
        graph = self.reader.flow.graph
        scaled = [e for e in edges if e.kind in ("scale", "gate", "free") or (e.kind == "add" and e.factor != 1.0)]
        scaled += [e for e in edges if e.kind == "add" and e.scale is not None and e not in scaled]
        if not scaled:
            return Scale("none", 1.0)
        if any(e.kind == "gate" or (e.scale is not None and self.reader.flow.data[e.scale]) for e in scaled):
            return Scale("data")
        learned = [e.scale for e in scaled if e.scale is not None and self.reader.flow.trained[e.scale]]
        if learned:
            mask = 0
            for node in learned:
                mask |= self.reader.flow.ancestors[node]
            names = tuple(n.name for n in graph.nodes if mask >> n.index & 1 and n.op == "parameter")
            return Scale("learned", None, names, starting_value(graph, names))
        if any(e.factor is None for e in scaled):
            return Scale("constant", None)
        return Scale("constant", math.prod(e.factor for e in scaled if e.factor is not None))
