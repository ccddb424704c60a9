"""From a chain to branches: what the stream passes between adds, which branches each add has, what they read, and which of them are parallel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from screen.structure.branches.branch import Branch
from screen.structure.branches.role import Mixer
from screen.structure.branches.weights import slices_of
from screen.structure.chains.chain import Chain
from screen.structure.chains.find import Chains
from screen.structure.chains.identity_edges import Edge
from screen.structure.chains.mixing import reads_branch
from screen.structure.chains.pieces import is_piece
from screen.structure.dataflow import Flow, axes_of, mask_of, nodes_of, strip
from screen.structure.initial.values import start_of
from screen.structure.types import Norm


@dataclass(frozen=True)
class Segment:
    """What the stream passes between two residual adds."""

    edges: tuple[Edge, ...]
    norms: tuple[Norm, ...]
    opaque: tuple[int, ...]


@dataclass(frozen=True)
class Skip:
    """An earlier state of the stream that is added to it once more."""

    add: int
    state: int
    path: tuple[Edge, ...]
    """From the state to the sum."""
    passed: tuple[int, ...]
    """The residual adds around which it leads."""


@dataclass(frozen=True)
class ChainReader:
    """Reads the branches of one chain, and what stands between its adds."""

    chains: Chains
    chain: Chain

    @cached_property
    def flow(self) -> Flow:
        """The graph's data flow."""
        return self.chains.flow

    @cached_property
    def states(self) -> frozenset[int]:
        """The chain's nodes."""
        return frozenset(self.chain.nodes)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Before the first add, between adds, and after the last: one more than there are adds."""
        groups: list[list[Edge]] = [[]]
        for edge in self.chain.edges:
            if edge.node in self.chain.adds:
                if edge.kind == "add" and (edge.factor != 1.0):
                    groups[-1].append(edge)
                groups.append([])
            else:
                groups[-1].append(edge)
        groups[-1] = self._tail()
        return tuple(self._segment(g) for g in groups)

    def _segment(self, edges: list[Edge]) -> Segment:
        edges = self._joined(edges)
        norms = tuple(self.chains.edges.norms.by_node[e.node] for e in edges if e.kind == "norm")
        return Segment(tuple(edges), norms, tuple(e.node for e in edges if e.kind == "opaque"))

    def _joined(self, edges: list[Edge]) -> list[Edge]:
        """The edges, where a sum of two multiples of one state with no add between them (`0.9 * x + 0.1 * x.detach()`) is one multiple of it."""
        found: list[Edge] = []
        for edge in edges:
            found.append(edge)
            if edge.kind != "add" or edge.node in self.chain.adds or len(others := self.chains.others(edge)) != 1:
                continue
            starts = [e.source for e in found]
            beside = self._multiple_of(others[0], frozenset(starts))
            into = next((e for e in self.chains.into[edge.node] if e.source == others[0]), None)
            if beside is None or into is None:
                continue
            paths = found[starts.index(beside[0]) :], [*beside[1], into]
            if all(e.kind in ("same", "scale", "add") for p in paths for e in p) and all(e is p[-1] or e.kind != "add" for p in paths for e in p):
                found = [*found[: starts.index(beside[0])], self._one_multiple(beside[0], edge.node, *paths)]
        return found

    def _multiple_of(self, node: int, states: frozenset[int]) -> tuple[int, list[Edge]] | None:
        """Of some states the one that a value is a multiple of, and the edges from it, in order."""
        path: list[Edge] = []
        while node not in states:
            edges = self.chains.into[node]
            if len(edges) != 1 or edges[0].kind not in ("same", "scale"):
                return None
            path.insert(0, edges[0])
            node = edges[0].source
        return node, path

    def _one_multiple(self, state: int, node: int, one: list[Edge], other: list[Edge]) -> Edge:
        """An edge for both paths. Its factor is the number that it starts at where a trained scale stands on one of them, which it names."""
        trained = next((e.scale for e in (*one, *other) if e.scale is not None and self.flow.trained[e.scale]), None)
        factors = [[e.factor if e.scale is None else start_of(self.flow.graph, e.scale) for e in path] for path in (one, other)]
        signs = [math.prod(e.factor for e in p if e.kind == "add" and e.scale is not None and e.factor is not None) for p in (one, other)]
        sums = [sign * math.prod(f for f in path if f is not None) for sign, path in zip(signs, factors, strict=True)]
        known = None if any(f is None for path in factors for f in path) else math.fsum(sums)
        if trained is None and known == 1.0:
            return Edge(state, node, "same")
        self.started.update({} if trained is None else {node: known})
        return Edge(state, node, "scale", known if trained is None else None, trained)

    @cached_property
    def started(self) -> dict[int, float | None]:
        """What sums of multiples of one state with a trained one among them start as, by the node of the sum; None where that is not known."""
        return {}

    def _tail(self) -> list[Edge]:
        """Identity edges that lead on from the last add, as long as everything read goes one way."""
        edges: list[Edge] = []
        node = self.chain.nodes[-1]
        for _ in range(64):
            steps = [e for e in self.chains.out_of.get(node, ()) if self.chains.live >> e.node & 1]
            ways = [e for e in steps if e.kind in _TAIL or self._is_beside(e)]
            ways = ways or self._collapsed(node) or [e for e in steps if e.kind == "activation"]
            ways.sort(key=lambda e: self.flow.graph.nodes[e.node].shape != self.flow.graph.nodes[node].shape)
            norms = list(self._norms_of(node))
            chosen = norms[0] if norms else (ways[0] if ways else None)
            if chosen is None:
                break
            edges.append(chosen)
            node = chosen.node
        normed = max((i for i, e in enumerate(edges) if e.kind == "norm"), default=-1)
        cut = next((i for i, e in enumerate(edges) if i > normed and e.kind == "activation"), len(edges))
        return edges[:cut]  # behind the last norm an activation is the beginning of a head

    def _is_beside(self, edge: Edge) -> bool:
        """Whether a sum behind the last one adds no branch to the stream; one behind an inner stream is another stream's."""
        if edge.kind != "add" or self.chain.inner:
            return False
        return not self.chains.is_residual(edge, self.chain.nodes[0]) or is_piece(self.flow, self.chains.best, edge, self.chains.others)

    def _collapsed(self, node: int) -> list[Edge]:
        """A sum or mean of at most eight copies that ends a stream of several: what is left has the shape of the stream before they were made."""
        graph = self.flow.graph
        shape = graph.nodes[node].shape or ()
        before = {graph.nodes[n].shape for n in self.chain.nodes[: self.chain.nodes.index(self.chain.adds[0])]}
        found = []
        for user in graph.users[node]:
            here = graph.nodes[user]
            axes = axes_of(self.flow.operand(here, 1, "dim", "axis"), len(shape)) if here.op in ("sum", "mean") else ()
            if len(axes) == 1 and len(shape) >= 4 and shape[axes[0]] <= 8 and here.shape in before:
                found.append(Edge(node, user, "same"))
        return found

    def _norms_of(self, node: int) -> Iterator[Edge]:
        """Norms that read a node, behind their statistics."""
        for norm in self.chains.edges.norms.by_node.values():
            if strip(self.flow, norm.source) == strip(self.flow, node) and norm.node > node:
                yield Edge(norm.source, norm.node, "norm")

    @cached_property
    def branches(self) -> tuple[tuple[int, Branch], ...]:
        """(position of the add on the chain, branch) in order; several for one add in a parallel block."""
        found: list[tuple[int, Branch]] = []
        by_node = {e.node: e for e in self.chain.edges}
        for position, add in enumerate(self.chain.adds):
            edge = by_node[add]
            others = self.chains.others(edge)
            passed, source = self.chains.passed(edge.source), self.chain.nodes[0]
            carried = self.chains.into[edge.source]
            outputs = [
                o for o in others
                if self.flow.keys[o] & ~passed or add in self.chains.cells or self.chains.is_of_table(o, edge.source)
                or reads_branch(self.flow, carried, o, source)
            ]  # fmt: skip
            for output in outputs:
                found.extend((position, b) for b in self._split(self._without_state(position, self._branch(add, edge.source, output))))
        return tuple(found)

    def _without_state(self, position: int, branch: Branch) -> Branch:
        """F(x) alone of the w·(F(x) − x) that is added to x, with w behind it: a mean of both, as `lerp` makes it; and of the x + F(x) that is added
        to x + G(x)."""
        into, state, path = self.chains.into, strip(self.flow, branch.state), [e for e in self.chains.into[branch.add] if e.source == branch.output]
        node = branch.output
        while len(edges := into[node]) == 1 and edges[0].kind in ("same", "scale") and node not in self.chains.edges.norms.by_node:
            path.append(edges[0])
            node = edges[0].source
        of_state = [e for e in edges if e.kind == "add" and strip(self.flow, e.source) == state]
        older = self._older(position, edges) if not of_state else None
        rest = [e for e in edges if e.kind == "add" and e not in of_state and (older is None or e != older[1])]
        if len(edges) != 2 or len(rest) != 1 or not self.flow.keys[rest[0].source] & ~self.flow.keys[branch.state]:
            return branch
        apart = replace(branch, output=rest[0].source, behind=(*branch.behind, *path, *rest))
        return replace(apart, older=(older[0], (*path, older[1]))) if older is not None else replace(apart, taken=((*path, *of_state),))

    def _older(self, position: int, edges: tuple[Edge, ...]) -> tuple[int, Edge] | None:
        """Of two summands the one that is the state before an earlier add, and the position of that, where no norm and no other op stands between."""
        before = {strip(self.flow, e.source): p for p, e in enumerate(self._into) if p < position}
        found = [(before[s], e) for e in edges if e.kind == "add" and (s := strip(self.flow, e.source)) in before]
        if len(found) != 1:
            return None
        first, _ = found[0]
        between = [e for segment in self.segments[first + 1 : position + 1] for e in segment.edges]
        return found[0] if all(e.kind in ("same", "scale", "add") for e in between) else None

    @cached_property
    def _mapped(self) -> frozenset[int]:
        """What the source of the stream is a map of."""
        source = self.flow.graph.nodes[self.chain.nodes[0]]
        read = [i for i in source.inputs if self.flow.data[i]] if self.flow.weighted[source.index] else []
        return frozenset({*read, *(strip(self.flow, i) for i in read)})

    @cached_property
    def _into(self) -> list[Edge]:
        """The edge by which the stream enters each residual add."""
        by_node = {e.node: e for e in self.chain.edges}
        return [by_node[add] for add in self.chain.adds]

    def _branch(self, add: int, state: int, output: int) -> Branch:
        """The branch of an add. One that reads nothing but an op of the branch before (two parallel branches share a map) reads what that reads; the
        first one, what the stream begins as a map of (a block that changes the width has a map on its skip)."""
        branch = Branch(self.chains, self.chain, self.states - {add}, add, state, output)
        before = max((a for a in self.chain.adds if a < add), default=None)
        if before is None:
            first = replace(branch, begun=self._mapped)
            own, mapped = ({w for e in b.entries for w in e.ways} for b in (branch, first))
            return first if mapped & {"memory", "memory normed"} and not own - {"earlier"} else branch
        if {w for e in branch.entries for w in e.ways} != {"earlier"}:
            return branch
        source = next(e.source for e in self.chain.edges if e.node == before)
        sooner = Branch(self.chains, self.chain, self.states - {add}, add, source, output)
        ways = {w for e in sooner.entries for w in e.ways}
        return sooner if ways and ways <= {"raw", "normed"} else branch

    def _split(self, branch: Branch) -> list[Branch]:
        """A sum of branches that do different things (attention + feed-forward) is one branch each. What no part of the stream makes is none: a
        condition that is added to what a branch says shifts it."""
        node, behind = self._behind_scales(branch)
        here = self.flow.graph.nodes[node]
        data = [i for i in dict.fromkeys(here.inputs) if self.flow.data[i]]
        if here.op != "add" or len(data) != 2 or node in self.chains.edges.norms.by_node:
            return [branch]
        passed = self.flow.keys[branch.state]
        fresh = [self.flow.keys[i] & ~passed for i in data]
        if not all(own & self._of_stream for own in fresh) or (fresh[0] & fresh[1] & self._of_stream and not self._share_a_map(branch, data, fresh)):
            return [branch]
        parts = [p for i in data for p in self._split(replace(self._branch(branch.add, branch.state, i), behind=behind))]
        roles = {self.mixer(p).role for p in parts}
        return parts if len(roles) > 1 and roles & MIXERS else [branch]

    @cached_property
    def _of_stream(self) -> int:
        """What depends on the stream; what other arguments are mapped to (a condition) may serve several branches."""
        return mask_of(n for n in range(len(self.flow.graph.nodes)) if self.flow.depends(n, self.chain.nodes[0]))

    def _behind_scales(self, branch: Branch) -> tuple[int, tuple[Edge, ...]]:
        """The value behind copies and multipliers at the end of a branch, learned, constant or made of a condition, and these."""
        node, found = strip(self.flow, branch.output), list(branch.behind)
        while node not in self.chains.edges.norms.by_node and (edge := self._multiplies(node)) is not None:
            found.append(edge)
            node = strip(self.flow, edge.source)
        return node, tuple(found)

    def _multiplies(self, node: int) -> Edge | None:
        """The edge of a product with a number, a weight, or a gate that no part of the stream makes."""
        edges = [e for e in self.chains.into[node] if e.kind != "gate" or self._of_stream >> e.source & 1]
        if len(edges) != 1 or edges[0].kind not in ("scale", "gate"):
            return None
        by = [i for i in self.flow.graph.nodes[node].inputs if i != edges[0].source]
        return edges[0] if edges[0].kind == "scale" or not any(self._of_stream >> i & 1 for i in by) else None

    def _share_a_map(self, branch: Branch, data: list[int], fresh: list[int]) -> bool:
        """Whether two parts of a branch share no more than a map of the stream of which each takes other slices (PaLM's fused projection)."""
        shared, keys = fresh[0] & fresh[1] & self._of_stream, self.flow.keys
        if not all(own & ~shared for own in fresh) or not all(self.flow.weighted[n] and keys[n] & shared == 1 << n for n in nodes_of(shared)):
            return False
        cut = [self.flow.ancestors[i] & slices_of(branch) & self._of_stream for i in data]
        return all(cut) and not cut[0] & cut[1]

    @cached_property
    def _mixers(self) -> dict[tuple[int, int], Mixer]:
        return {}

    def mixer(self, branch: Branch) -> Mixer:
        """What a branch computes, read once."""
        return self._mixers.setdefault((branch.add, branch.output), Mixer(branch))

    @cached_property
    def at(self) -> dict[int, list[Branch]]:
        """The branches of each add."""
        table: dict[int, list[Branch]] = {}
        for position, branch in self.branches:
            table.setdefault(position, []).append(branch)
        return table

    def reads(self, position: int) -> frozenset[int]:
        """States that the branches of an add read."""
        return self._reads[position]

    @cached_property
    def skips(self) -> tuple[Skip, ...]:
        """Sums on the stream, besides those of branches, that add one of its own earlier states; behind the last branch those around it alone."""
        found, tail, last = [], self.segments[-1].edges, self.chain.adds[-1:]
        for edge in (*self.chain.edges, *tail):
            if edge.kind != "add" or edge.node in self.chain.adds:
                continue
            for other in self.chains.others(edge):
                into = next((e for e in self.chains.into[edge.node] if e.source == other), None)
                state, path = self._carried_from(other)
                passed = () if state is None else tuple(sorted(a for a in self.chain.adds if state < a <= edge.source))
                if state is not None and passed and (edge not in tail or passed == last):
                    found.append(Skip(edge.node, state, (*path, *([into] if into is not None else [])), passed))
        return tuple(found)

    def _carried_from(self, node: int) -> tuple[int | None, tuple[Edge, ...]]:
        """The state of the stream that a value carries by identity edges, if any, and these."""
        path: list[Edge] = []
        for _ in range(256):
            if node in self.states:
                return node, tuple(reversed(path))
            edges = [e for e in self.chains.into[node] if e.kind not in ("activation", "opaque")]
            if not edges:
                break
            path.append(edges[0])
            node = edges[0].source
        return None, ()

    @cached_property
    def _reads(self) -> tuple[frozenset[int], ...]:
        nodes = self.flow.graph.nodes
        found: list[frozenset[int]] = []
        for position in range(len(self.chain.adds)):
            read = [b.states & {i for n in b.region for i in nodes[n].inputs} for b in self.at.get(position, ())]
            found.append(frozenset().union(*read))
        return tuple(found)

    @cached_property
    def groups(self) -> list[int]:
        """For each branch the number of its parallel group."""
        groups: list[int] = []
        for number, (position, _) in enumerate(self.branches):
            if number == 0:
                groups.append(0)
                continue
            before = self.branches[number - 1][0]
            joined = position == before or not self._reads_past(position, self.chain.adds[before])
            groups.append(groups[-1] if joined else groups[-1] + 1)
        return groups

    def _reads_past(self, position: int, add: int) -> bool:
        """Whether the branches of an add read the stream at or after an earlier add."""
        return any(r >= add for r in self.reads(position)) or not self.reads(position)


_TAIL = frozenset({"same", "scale", "norm", "part", "opaque", "gate", "free", "join"})
MIXERS = frozenset({"attention", "cross_attention", "linear_attention", "ssm", "rnn", "conv", "fourier", "pooling"})
