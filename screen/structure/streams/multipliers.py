"""Multipliers: α on the stream's side of an add, s on the branch's, constant, learned or dependent on data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from screen.structure.branches.branch import Branch
from screen.structure.chains.identity_edges import Edge
from screen.structure.dataflow import strip
from screen.structure.initial.values import start_of
from screen.structure.streams.chain_reader import ChainReader, Skip
from screen.structure.streams.norms import StreamNorms
from screen.structure.types import Scale


@dataclass(frozen=True)
class Scales:
    """Reads the multipliers of one chain."""

    reader: ChainReader
    norms: StreamNorms

    def of_stream(self, position: int) -> Scale:
        """Multipliers of the stream: on the skip alone before this add, or on the sum after it."""
        own = [b for place, b in self.reader.branches if place == position]
        if any(b.older is not None for b in own):
            return Scale("none", 1.0)  # the sum of both paths stands where the older one begins
        edges, later = self._between(position), self._later(position)
        paths = [(*p, *self._on_sum(position)) for b in own for p in (*b.exit.carried, *b.taken)]
        paths += [(*s.path, *(e for e in edges if e.node > s.add)) for s in self.around(position)]
        whole = [*edges, *(e for other, _ in later for e in self._between(other))]
        older = [(*b.older[1], *self._on_sum(q)) for q, b in later if b.older is not None and b.older[0] == position]
        if not paths and not older:
            return self._scale(whole)
        found = self._sum_of_paths(whole, [*paths, *older])
        return Scale("none", 1.0) if older and found.value is not None and math.isclose(found.value, 1.0) else found

    def _later(self, position: int) -> list[tuple[int, Branch]]:
        """Positions behind this one, where a state before it is added again, with the branch that this stands beside."""
        return [(q, b) for q, b in self.reader.branches if b.older is not None and b.older[0] <= position < q]

    def _between(self, position: int) -> list[Edge]:
        """Multipliers of the stream, as `of_stream` has them, without those of other paths."""
        add = self.reader.chain.adds[position]
        read = self.reader.reads(position)
        before = [e for e in self.reader.segments[position].edges if e.node == add or not self._is_read_after(e.node, read)]
        if position == 0:
            before = [e for e in before if e.node == add or self._skip_only(e, read)]
        return [*before, *self._on_sum(position)]

    def around(self, position: int) -> tuple[Skip, ...]:
        """Identity paths around this add alone, to a sum that stands before the next branch reads the stream: `x + 0.1 * (x + f)`, `x + (x + f)`."""
        sums = {e.node for e in self._on_sum(position)}
        return tuple(s for s in self.reader.skips if s.passed == (self.reader.chain.adds[position],) and s.add in sums)

    def _on_sum(self, position: int) -> list[Edge]:
        """Multipliers of the sum, which stream and branch share; the gain of a norm on it is none."""
        adds = self.reader.chain.adds
        if position + 1 < len(adds):
            later = self.reader.reads(position + 1)
            found = [e for e in self.reader.segments[position + 1].edges if e.node not in adds and self._is_read_after(e.node, later)]
        else:
            found = [e for e in self.reader.segments[-1].edges if self._twin_scales(position)]
        return [e for e in found if not self.is_affine(e)]

    def on_embedding(self) -> list[Edge]:
        """What the state that the first branch reads has been multiplied by since the stream's start; the first skip's own multiplier is none."""
        read, adds = self.reader.reads(0), self.reader.chain.adds
        edges = [e for e in self.reader.segments[0].edges if e.kind == "scale" and e.node not in adds and not self._skip_only(e, read)]
        scales = [e for e in edges if not self.is_affine(e) and (e.factor != 1.0 or e.scale is not None)]
        return [e for e in scales if self.reader.flow.classes[e.node] not in ("product", "weighted")]  # a matrix of lanes multiplies none that enters

    def _sum_of_paths(self, edges: list[Edge], paths: list[tuple[Edge, ...]]) -> Scale:
        """Several identity paths from one state to the next: their coefficients add up."""
        scales = [self._scale(edges), *(self._scale(list(p)) for p in paths)]
        if all(s.value is not None for s in scales):
            return Scale("constant", math.fsum(s.value for s in scales if s.value is not None))
        kind = "data" if any(s.kind == "data" for s in scales) else "learned" if any(s.kind == "learned" for s in scales) else "constant"
        starts = [s.init if s.value is None else s.value for s in scales]
        start = None if None in starts or kind == "data" else math.fsum(x for x in starts if x is not None)
        return Scale(kind, None, tuple(n for s in scales for n in s.parameters), start)  # type: ignore[arg-type]

    def _twin_scales(self, position: int) -> bool:
        """Multipliers after the last add, and skips around it, count when an earlier add of the same line has them after it."""
        twins = [other for other in range(position) if self.norms.is_twin(other, position)]
        skips = {s.add for s in self.reader.skips}
        return any(e.kind == "scale" or e.node in skips for other in twins for e in self.reader.segments[other + 1].edges)

    def _skip_only(self, edge: Edge, read: frozenset[int]) -> bool:
        return edge.kind in ("scale", "gate") and any(r < edge.node for r in read)

    def _is_read_after(self, node: int, read: frozenset[int]) -> bool:
        """Whether the branch reads the stream at or after a node."""
        return any(r >= node for r in read)

    def is_affine(self, edge: Edge) -> bool:
        """The gain of a norm that has none of its own: a trained factor right after it; and the √n that makes an L2 norm an RMSNorm."""
        flow, norms = self.reader.flow, self.reader.chains.edges.norms.by_node
        if edge.kind not in ("scale", "same"):
            return False
        learned = edge.scale is not None and flow.trained[edge.scale]
        norm = norms.get(self._behind_factors(edge.source, 0 if learned else 1))
        if norm is None:
            return False
        if edge.scale is None or not learned:
            return norm.to_rms and edge.factor is not None
        call = flow.graph.nodes[norm.node]
        call = flow.graph.nodes[call.inputs[0]] if call.op == "getitem" else call
        fused = call.op.endswith("_norm") and any(flow.trained[i] for i in call.inputs if not flow.data[i])
        return self._is_gain(edge.scale) and not fused

    def _behind_factors(self, node: int, gains: int) -> int:
        """The value behind copies and, of an RMSNorm in two steps, behind its factor √n and at most so many gains."""
        flow, norms = self.reader.flow, self.reader.chains.edges.norms.by_node
        node = start = strip(flow, node)
        while node not in norms and len(edges := self.reader.chains.into[node]) == 1 and edges[0].kind in ("scale", "same"):
            gains -= edges[0].scale is not None and flow.trained[edges[0].scale]
            if gains < 0:
                return start
            node = strip(flow, edges[0].source)
        return node if node in norms and norms[node].to_rms else start

    def _is_gain(self, node: int) -> bool:
        """A parameter in any type, perhaps plus or times a number or with more axes: `w`, `1 + w`, `w[:, None]`; a sigmoid of one is a scale."""
        flow = self.reader.flow
        while flow.graph.nodes[node := flow.root(node)].op != "parameter":
            here, read = flow.graph.nodes[node], flow.counting[node]
            if len(read) != 1 or not (flow.classes[node] in ("view", "alias") or here.op in ("add", "sub", "mul", "div", "neg")):
                return False
            node = read[0]
        return True

    def of_branch(self, position: int, branch: Branch) -> Scale:
        """Multipliers at the end of a branch, that of the add itself (`alpha=`, `lerp`, a minus) and those of the sum included."""
        own = [e for e in self.reader.chains.into[branch.add] if e.source == branch.output and e.kind == "add" and self._weighs(e)]
        beside = [e for q, _ in self._later(position) for e in self._between(q)]
        inside = [e for e in (*own, *branch.exit.scales, *branch.behind) if not self.is_affine(e)]
        return self._scale([*inside, *self._before_norm(position), *beside])

    def _before_norm(self, position: int) -> list[Edge]:
        """Those of the sum that no norm on it follows up on: behind a C a factor is the norm's."""
        norms = self.reader.segments[position + 1].norms
        return [e for e in self._on_sum(position) if not norms or e.node < norms[0].node]

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
            return Scale("learned", None, names, self._start(scaled))
        if any(e.factor is None for e in scaled):
            return Scale("constant", None)
        return Scale("constant", math.prod(e.factor for e in scaled if e.factor is not None))

    def _start(self, scaled: list[Edge]) -> float | None:
        """The product of all factors at the start, where each is one number throughout."""
        product = 1.0
        for edge in scaled:
            value = edge.factor if edge.scale is None else start_of(self.reader.flow.graph, edge.scale)
            value = self.reader.started.get(edge.node, value)
            if value is None:
                return None
            here = self.reader.flow.graph.nodes[edge.node]
            first = here.op == "lerp" and here.inputs[0] == edge.source
            product *= 1.0 - value if first and edge.scale is not None else value
        return product
