"""Streams: chains of identity edges with the largest number of residual adds (theory, section 1; review, item 1).

A **residual add** on a chain is an add whose other operand depends on the chain and carries a weighted or mixing op that the chain has not passed. A
chain is **nested** (part of a branch: SSM skip, LoRA, value residual) when an identity path from its source or an ancestor of it reaches
a descendant of its sink around the sink.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from screen.structure.chains.chain import Chain, behind_embedding
from screen.structure.chains.identity_edges import Edge, Edges
from screen.structure.chains.longest import Best, leads_through, leads_to, own_adds
from screen.structure.chains.mixing import is_of_mixing, reads_branch
from screen.structure.chains.pieces import is_piece
from screen.structure.chains.skips import around_activations, around_norms
from screen.structure.chains.steps import Steps
from screen.structure.dataflow import Flow, nodes_of, strip
from screen.structure.logits import feeds_softmax
from screen.structure.norms.find import Norms


LANES = 8
"""Parts of the features of a block's input that streams of its own may have (convention)."""


def chains_of(flow: Flow, norms: Norms) -> Chains:
    """The streams of a graph. Where there is none, or where the copies of a block have one each, one that some linear op spreads on its way from an
    argument to what is returned."""
    found = Chains(flow, Edges(flow, norms))
    adds = [c.adds for c in found.streams if not c.inner]
    if found.streams and (flow.graph.loop is None or len(adds) < 2):
        return found
    loose = Chains(flow, Edges(flow, norms, loosely=True))
    whole = [c for c in loose.streams if len(c.adds) >= 2 and flow.graph.nodes[c.nodes[0]].op == "input" and c.nodes[-1] in flow.graph.outputs]
    return loose if any(set().union(*adds) <= set(c.adds) for c in whole) else found


@dataclass(frozen=True)
class Chains:
    """Finds the streams of a graph."""

    flow: Flow
    edges: Edges

    @cached_property
    def into(self) -> tuple[tuple[Edge, ...], ...]:
        """Identity edges into each node."""
        return self.edges.all()

    @cached_property
    def out_of(self) -> dict[int, list[Edge]]:
        """Identity edges out of each node; those out of the parts of a stack that is summed lead to the sum."""
        table: dict[int, list[Edge]] = {}
        for edges in self.into:
            for edge in edges:
                table.setdefault(edge.source, []).append(edge)
        return table

    @cached_property
    def best(self) -> tuple[Best, ...]:
        """The longest chain to each node. Skips around norms, one after the other, carry a stream, and what they lead around is a branch each."""
        around = {n: edge for n, (edge, _) in self._skips.items()}
        return self._longest(around, frozenset(self.cells)) if around else self._any

    @cached_property
    def _any(self) -> tuple[Best, ...]:
        return self._longest({})

    @cached_property
    def _skips(self) -> dict[int, tuple[Edge, frozenset[int]]]:
        """Sum -> the edge around a norm or a function of the longest chain to it, and the nodes in between."""
        return self.cells | around_norms(self._any, self.into)

    @cached_property
    def cells(self) -> dict[int, tuple[Edge, frozenset[int]]]:
        """Those around a function, of a sum with the same state: each adds a branch, whatever the gates on the state have read."""
        return around_activations(self._any, self.into)

    def _longest(self, around: Mapping[int, Edge], cells: Container[int] = ()) -> tuple[Best, ...]:
        """Dynamic programme over nodes in data-flow order; `around`: the edges that are chosen into some sums; `cells`: those that add a branch."""
        table: list[Best] = []
        for index, edges in enumerate(self.into):
            chosen: tuple[int, Edge, bool] | None = None
            edges = () if index in self._recurrence.stacks else (around[index],) if index in around else edges
            for edge in edges:
                adds = edge.kind == "add" and (index in cells or self.is_residual(edge, table[edge.source].source, table[edge.source].passed))
                adds = adds and not self._merges(table, edge) and not self._is_behind(table, edge)
                adds = adds and not is_piece(self.flow, table, edge, self.others)
                length = table[edge.source].length + adds
                if chosen is None or length > chosen[0] or (length == chosen[0] and self._is_before(table, edge, chosen[1])):
                    chosen = length, edge, adds
            if chosen is None:
                table.append(Best(0, index, None, passed=self.flow.keys[index]))
            else:
                length, edge, adds = chosen
                before = table[edge.source]
                passed = self.flow.keys[index]
                if self.edges.loosely:
                    passed = before.passed | (self._own_key(index) if passed != self.flow.keys[edge.source] else 0)
                if edge.kind == "add" and self.edges.loosely:
                    passed = functools.reduce(operator.or_, (self.flow.keys[i] for i in self.others(edge)), passed)
                table.append(Best(length, before.source, edge, adds, before.norms + (edge.kind == "norm"), passed))
        return tuple(table)

    def _merges(self, table: Sequence[Best], edge: Edge) -> bool:
        """Whether an add joins two chains from one source that went their own ways for two adds each (a reversible net's end): no branch is added."""
        mine = table[edge.source]
        rivals = [o for o in self.others(edge) if mine.length >= 2 <= table[o].length and table[o].source == mine.source]
        return any(own_adds(table, edge.source, o) >= 2 and own_adds(table, o, edge.source) >= 2 for o in rivals)

    def _is_behind(self, table: Sequence[Best], edge: Edge) -> bool:
        """Whether what is added is a later state of the same stream (2x − x₋ of a leapfrog), reached from the carried one past no norm: the
        carried one is a long skip, and no branch is added. So is it in a mix of the states, `sum(w[i] * h[i])`."""
        mine = table[edge.source]
        later = [o for o in self.others(edge) if table[o].source == mine.source and table[o].length > mine.length]
        return any((leads_to(table, o, edge.source) and not self._takes_off(table, edge, o)) or self._mixes(table, edge, o) for o in later)

    def _mixes(self, table: Sequence[Best], edge: Edge, other: int) -> bool:
        """Whether a state, or a sum of states, gets a later one that also goes on without this sum: each state of a stream is read by its next
        branch as well, what a block makes on the way to its end is not."""
        state, sums = edge.source, 0
        while (step := table[state].edge) is not None and not table[state].adds and step.kind in ("same", "scale", "gate", "norm", "add"):
            state, sums = step.source, sums + (step.kind == "add" and any(self.flow.depends(o, table[state].source) for o in self.others(step)))
        if not leads_through(table, other, state):
            return False
        kept = [other]
        while (step := table[kept[-1]].edge) is not None and step.kind in ("same", "scale", "gate", "norm"):
            kept.append(step.source)
        return sums > 0 or any(not self.flow.depends(edge.node, user) for node in kept for user in self.flow.graph.users[node])

    def _takes_off(self, table: Sequence[Best], edge: Edge, other: int) -> bool:
        """Whether what is added is w·(F − x), x the carried one: x + w·(F − x) is a mean of both."""
        step = next((e for e in self.into[edge.node] if e.source == other), None)
        factor = 1.0
        while step is not None and (step.kind in ("same", "scale", "gate") or step.node == edge.node):
            factor *= -1.0 if step.factor is not None and step.factor < 0 else 1.0
            step = table[step.source].edge
        return step is not None and step.kind == "add" and step.source == edge.source and step.factor is not None and factor * step.factor < 0

    def _is_before(self, table: Sequence[Best], new: Edge, old: Edge) -> bool:
        """Of two chains of one length: at a sum of both that one source feeds, the one that has passed fewer norms (a side path begins with one); of
        two inputs the one that has its adds behind it (the other is given to each block again); what comes in, and not a learned table that is
        repeated for each sample, and perhaps added in each block; else the one that has passed fewer weighted ops."""
        mine, other = table[new.source], table[old.source]
        comes_in = [self.flow.from_input[b.source] for b in (mine, other)]
        if new.kind == old.kind == "add" and comes_in[0] != comes_in[1] and (other if comes_in[0] else mine).length == 0:
            return comes_in[0]
        given = all(self.flow.graph.nodes[b.source].op == "input" for b in (mine, other))
        if new.kind == old.kind == "add" and mine.source != other.source and mine.length != other.length and given:
            return mine.length > other.length
        if new.kind == old.kind == "add" and mine.source == other.source and mine.norms != other.norms and mine.length and other.length:
            return mine.norms < other.norms
        one, two = self.flow.keys[new.source], self.flow.keys[old.source]
        return one != two and one.bit_count() < two.bit_count()

    def others(self, edge: Edge) -> tuple[int, ...]:
        """The operands that an add adds to the carried one."""
        inputs = self.flow.graph.nodes[edge.node].inputs
        if len(inputs) == 2:
            return tuple([i for i in inputs if i != edge.source and self.flow.data[i]])
        return tuple(e.source for e in self.into_all(edge.node) if e.source != edge.source)

    def into_all(self, node: int) -> tuple[Edge, ...]:
        """Edges into an add, with operands that carry no chain (weighted products) included."""
        if self.flow.graph.nodes[node].op in ("sum", "mean"):
            return self.into[node]
        listed = {e.source for e in self.into[node]}
        if self.flow.graph.nodes[node].op == "lerp":  # its weight is added to nothing
            listed |= {e.scale for e in self.into[node] if e.scale is not None}
        rest = tuple(
            Edge(i, node, "add") for i in dict.fromkeys(self.flow.graph.nodes[node].inputs) if i not in listed and self.flow.data[i]
        )
        return self.into[node] + rest

    def _own_key(self, node: int) -> int:
        """The key op that a node is; none where it is no such op."""
        return self.flow.keys[node] & ~functools.reduce(operator.or_, (self.flow.keys[i] for i in self.flow.graph.nodes[node].inputs), 0)

    def passed(self, node: int) -> int:
        """The key ops that what a chain carries to a node is made of."""
        return self.best[node].passed

    def is_residual(self, edge: Edge, source: int, passed: int | None = None) -> bool:
        """Whether an edge into an add counts: what is added depends on the chain and brings a key op that it has not passed."""
        if edge.kind != "add" or source in self._given_again:
            return False
        keys = self.flow.keys
        passed = self.passed(edge.source) if passed is None else passed
        if self._filters(edge, passed):
            return False
        others = self.others(edge)
        if any(self.flow.depends(i, source) and (keys[i] | passed != passed or self.is_of_table(i, edge.source)) for i in others):
            return True
        return any(reads_branch(self.flow, self.into[edge.source], i, source) for i in others)  # of a gate on what is carried

    @cached_property
    def _given_again(self) -> frozenset[int]:
        """Arguments of a block that its last copy is given, too: they are no state, and what is added to one goes on by the next one's branch."""
        graph = self.flow.graph
        if graph.loop is None or len(graph.loop.copies) < 2:
            return frozenset()
        last = graph.loop.copies[-1]
        inputs = (n.index for n in graph.nodes if n.op == "input")
        return frozenset(i for i in inputs if any(last in graph.call_path(graph.nodes[user].call) for user in graph.users[i]))

    def is_of_table(self, node: int, state: int) -> bool:
        """Whether a value brings a product with a matrix that nobody trains, and no share of the state: a norm or another function stands between."""
        if not self.flow.fixed_above[node] & ~self.flow.fixed_above[state]:
            return False
        stack, seen = [node], set[int]()
        while stack:
            here = stack.pop()
            if here in seen:
                continue
            seen.add(here)
            if self.flow.depends(state, here):
                return False
            stack.extend(e.source for e in self.into[here] if e.kind not in ("norm", "activation"))
        return True

    def _filters(self, edge: Edge, passed: int) -> bool:
        """x − pool(x): the stream loses its moving average (Autoformer); no branch is added."""
        node = self.flow.graph.nodes[edge.node]
        if node.op != "sub" or edge.source != node.inputs[0]:
            return False
        fresh = [self.flow.keys[o] & ~passed for o in self.others(edge)]
        pooled = any(fresh) and all(self.flow.graph.nodes[i].op.startswith("avg_pool") for mask in fresh for i in nodes_of(mask))
        return pooled and all(self._linear_from(o, edge.source) for o in self.others(edge))

    def _linear_from(self, node: int, source: int) -> bool:
        """Whether only views, joins and pooling stand between a value and another."""
        stack, seen = [node], set[int]()
        while stack:
            here = stack.pop()
            if here == source or here in seen or not self.flow.data[here]:
                continue
            seen.add(here)
            if self.flow.classes[here] not in ("view", "part", "join", "mixing"):
                return False
            stack.extend(self.flow.graph.nodes[here].inputs)
        return True

    def is_fed_by(self, node: int, source: int) -> bool:
        """Whether a value depends on a chain's source, or on a weighted op that the source depends on as well (a bottleneck beside it)."""
        return self.flow.depends(node, source) or bool(self.flow.keys[node] & self.flow.keys[source])

    def _with_first(self, chain: Chain) -> Chain:
        """An inner chain whose first branches read a bottleneck beside its own source: they count too."""
        first, source = chain.adds[0], chain.nodes[0]
        more = [
            e.node for e in chain.edges
            if e.kind == "add" and e.node < first
            and any(self.flow.keys[o] & ~self.flow.keys[e.source] and self.is_fed_by(o, source) for o in self.others(e))
        ]
        return Chain(chain.nodes, chain.edges, (*more, *chain.adds), inner=True)

    def chain(self, end: int) -> Chain:
        """Walk the best chain back from a node."""
        nodes, edges, adds = [end], list[Edge](), list[int]()
        while (edge := self.best[nodes[-1]].edge) is not None:
            around = self._around(edge, len(adds))
            if self.best[edge.node].adds or around is not None:
                adds.append(edge.node)
            edge = around or edge
            edges.append(edge)
            nodes.append(edge.source)
        return Chain(tuple(reversed(nodes)), tuple(reversed(edges)), tuple(reversed(adds)))

    def _around(self, edge: Edge, behind: int) -> Edge | None:
        """The state that a sum carries past a shorter chain of its own branch, which has no more adds than follow it, `behind`: the slopes of one
        step of a Runge–Kutta method, each made of the one before it, are summed before they are added."""
        inner = self.best[edge.source]
        if edge.kind != "add" or self.best[edge.node].adds or not inner.length:
            return None
        for other in self.into[edge.node]:
            if other.source in (edge.source, inner.source) or not self.flow.depends(inner.source, other.source):
                continue
            if behind >= inner.length - self.best[other.source].length and self.is_residual(other, self.best[other.source].source):
                return other
        return None

    @cached_property
    def streams(self) -> tuple[Chain, ...]:
        """Streams in data-flow order of their first add; inner ones included and marked."""
        found = self._candidates()
        found = [c for c in found if not self._is_logits(c)] or found
        outer = [c for c in found if not self.is_within(c, found)] or found[:1]
        before = {c: self.continued(c, found) for c in found}
        chosen: list[Chain] = []
        for chain in found:
            beside = bool(chosen) and self._is_beside(chain, chosen[0])
            if before[chain] or chain in before.values() or (chain in outer and (not chosen or beside or not self.is_nested(chain, outer))):
                chosen.append(chain)
            elif len(chain.adds) < 2 or not self._is_network(chain) or self._is_carried_over_tokens(chain, outer):
                continue
            elif not self._recurrence.is_recurrent(chain):
                chosen.append(self._with_first(chain))
        chosen = [c for c in chosen if not (self._goes_around(c, chosen) or self._is_of_mixing(c, chosen) or self._recurrence.are_tokens(c))]
        chosen = [behind_embedding(self.flow.graph, c) for c in chosen if c.inner or self._is_of_block(c)]
        return tuple(sorted(chosen, key=lambda c: (c.inner, c.adds[0])))

    def _is_of_block(self, chain: Chain) -> bool:
        """Whether a chain of a block target has a width that the block is given, or a part of it (lanes of a reversible one), so that the next block
        can go on with it: sums of gates, which are mixed into the tokens, have another."""
        nodes = self.flow.graph.nodes
        shape = nodes[chain.nodes[-1]].shape or (1,)
        given = [n.shape for n in nodes if n.op == "input" and n.shape]
        parts = any(g[-1] % max(shape[-1], 1) == 0 and g[-1] <= LANES * shape[-1] for g in given)
        turned = any(len(shape) > 2 and (g[-1] == shape[1] or (len(g) > 3 < len(shape) and g[1] == shape[1])) for g in given)
        return self.flow.graph.loop is None or parts or turned

    def _is_beside(self, chain: Chain, other: Chain) -> bool:
        """Whether two chains from one source are as long, or take turns: between every second sum of the one stand sums of the other that are made of
        it and that it is made of (towers that read each other). What stands inside of a branch is not made of what that branch is added to."""
        if chain.nodes[0] != other.nodes[0] or len(chain.adds) == len(other.adds):
            return chain.nodes[0] == other.nodes[0]
        depends, own = self.flow.depends, [a for a in other.adds if a not in chain.adds]
        apart = list(zip(chain.adds, chain.adds[2:], strict=False))
        return bool(apart) and all(any(depends(a, one) and depends(two, a) for a in own) for one, two in apart)

    def _goes_around(self, chain: Chain, others: Sequence[Chain]) -> bool:
        """Whether it is one sum, behind a whole stream, with data that no weight has touched: the mean of the input that is given back."""
        source, sink = chain.nodes[0], chain.nodes[-1]
        held = (c for c in others if c is not chain and len(c.adds) > 1)
        return len(chain.adds) == 1 and not self.flow.learned[source] and any(self.flow.depends(sink, c.nodes[-1]) for c in held)

    def _is_of_mixing(self, chain: Chain, others: Sequence[Chain]) -> bool:
        """Whether it is one sum of a value with what it is mixed into, no weight between, beside whole streams: attention that adds its queries."""
        if len(chain.adds) != 1 or chain.inner or not any(len(c.adds) > 1 for c in others if c is not chain):
            return False
        return is_of_mixing(self.flow, next(e for e in chain.edges if e.node == chain.adds[0]))

    def continued(self, chain: Chain, others: Sequence[Chain]) -> Chain | None:
        """The stream that a chain goes on with behind a matrix, `Linear(cat(skip, x))`: x is its end, or the norm of that, and the skip an earlier
        state of a stream, or what no stream has a part in (the input, given to each step of a loop)."""
        nodes = self.flow.graph.nodes
        source = nodes[chain.nodes[0]]
        joined = nodes[self._behind_norm(source.inputs[0])] if source.op == "linear" else source
        states = frozenset(n for c in others for n in c.nodes)
        parts = [strip(self.flow, i) for i in joined.inputs] if joined.op == "cat" else []
        parts = [p if p in states else self._behind_norm(p) for p in parts]
        given = [p for p in parts if p not in states]
        if len(parts) != 2 or len(given) > 1 or any(self.flow.depends(p, c.adds[0]) for p in given for c in others):
            return None
        return max((c for c in others if c is not chain and c.nodes[-1] in parts), key=lambda c: c.nodes[-1], default=None)

    def origin(self, chain: Chain) -> int:
        """The source of a chain, or of the first of those that it goes on with."""
        seen = [chain]
        while (before := self.continued(seen[-1], self.streams)) is not None and before not in seen:
            seen.append(before)
        return seen[-1].nodes[0]

    def _behind_norm(self, node: int) -> int:
        """The value behind views, and behind a norm of it with its gain and bias."""
        while node not in self.edges.norms.by_node:
            edges = self.into[node]
            if len(edges) != 1 or edges[0].kind not in ("same", "scale", "add"):
                return self.flow.root(node)
            node = edges[0].source
        return self.flow.root(self.edges.norms.by_node[node].source)

    def _is_logits(self, chain: Chain) -> bool:
        """Whether every sum on a chain goes into a softmax, scaled, masked and capped at most: logits that each attention adds to those before it."""
        return all(feeds_softmax(self.flow.graph, add, capped=True) for add in chain.adds)

    @cached_property
    def live(self) -> int:
        """The nodes that some output depends on, as a mask; everything, when the forward did not come to its outputs."""
        graph = self.flow.graph
        if not graph.outputs or graph.failure is not None:
            return -1
        return functools.reduce(operator.or_, (self.flow.ancestors[o] for o in graph.outputs))

    def _candidates(self) -> list[Chain]:
        """Chains with residual adds that reach an output, the longest first, each with adds of its own."""
        walked, known = set[int](), set[int]()
        found: list[Chain] = []
        groups: list[Chain] = []
        for end in sorted(self._ends, key=lambda i: (-self.best[i].length, -i)):
            if end in walked:
                continue
            chain = self._closed(self.chain(end))
            if (fork := self._dives(chain)) is not None:
                groups.append(chain.behind(fork))
                walked.update(groups[-1].nodes[1:])
                continue
            length, fresh = len(chain.adds), self._fresh_adds(chain, walked)
            if fresh < length and not self._leaves(length, fresh):
                continue
            if not found or self._brings_key(chain, known):
                found.append(chain)
                known.update(() if self._recurrence.is_recurrent(chain) else chain.nodes)
        return found + groups

    def _closed(self, chain: Chain) -> Chain:
        """With the sum behind its last add that gives an earlier state back which was taken off before: `x + g·(block(x) − x)`."""
        nodes, edges, closed, taken = list(chain.nodes), list(chain.edges), 0, False
        while len(on := [e for u in self.flow.graph.users[nodes[-1]] for e in self.into[u] if e.source == nodes[-1] and e.kind != "norm"]) == 1:
            edges.append(on[0])
            nodes.append(on[0].node)
            if on[0].kind == "add" and any(o in chain.nodes for o in self.others(on[0])):
                closed, taken = len(edges) if taken else closed, self.flow.graph.nodes[nodes[-1]].op == "sub"
        return replace(chain, nodes=tuple(nodes[: closed + 1]), edges=tuple(edges[:closed])) if closed else chain

    @cached_property
    def _ends(self) -> list[int]:
        """Residual adds that reach an output, but those that a skip around a norm leads around."""
        inside = frozenset[int]().union(*(nodes for _, nodes in self._skips.values()))
        return [i for i, b in enumerate(self.best) if b.adds and self.live >> i & 1 and i not in inside]

    def _dives(self, chain: Chain) -> int | None:
        """Where a chain leaves a stream for the inside of that stream's next branch, so that it counts blocks of another level: groups of blocks
        with a skip around each, `x + conv(group(x))`. The branch before it or the one after it holds a group as well; one skip around all blocks is
        another thing."""
        nodes, sink = set(chain.nodes), chain.nodes[-1]
        around = [e for e in self._ends if e > sink and self.flow.depends(e, sink)]
        forks = {self._carried(e, nodes): e for e in reversed(around)}
        for fork in sorted((f for f in forks if f in nodes and sum(a > f for a in chain.adds) >= 2), reverse=True):
            before = [a for a in chain.adds if a <= fork][-1:]
            after = [e for e in around if e > forks[fork] and self._carried(e, {forks[fork]}) == forks[fork]]
            if any(self._holds_group(a) for a in (*before, *after)):
                return fork
        return None

    def _carried(self, add: int, nodes: set[int]) -> int:
        """The state that an add is carried from: the nearest of `nodes`, or the add or the source before it."""
        node = add
        while (edge := self.best[node].edge) is not None and (node == add or not (node in nodes or self.best[node].adds)):
            node = edge.source
        return node

    def _holds_group(self, add: int) -> bool:
        """Whether the branch that is added has a chain of two adds or more inside."""
        edge = self.best[add].edge
        assert edge is not None
        inside = [v for v in self._ends if edge.source < v < add and any(self.flow.depends(o, v) for o in self.others(edge))]
        return any(leads_through(self.best, v, edge.source) and own_adds(self.best, v, edge.source) >= 2 for v in inside)

    def _fresh_adds(self, chain: Chain, walked: set[int]) -> int:
        """How many adds stand on a chain before it meets one that was walked earlier (from there on they are one); walks it."""
        fresh = 0
        for node in reversed(chain.nodes):
            if node in walked:
                break
            walked.add(node)
            fresh += node in chain.adds
        return fresh

    @cached_property
    def on_streams(self) -> frozenset[int]:
        """Nodes of all streams."""
        return frozenset(n for c in self.streams for n in c.nodes)

    @cached_property
    def main_nodes(self) -> frozenset[int]:
        """Nodes of the streams that are not inside a branch of another."""
        return frozenset(n for c in self.streams if not c.inner for n in c.nodes)

    def _brings_key(self, chain: Chain, known: set[int]) -> bool:
        """Whether some branch passes a key op after it left the streams found so far, `known`: a shift by another stream's state is no branch."""
        own = set(chain.nodes)
        edges = {e.node: e for e in chain.edges}
        for add in chain.adds:
            stack, seen = list(self.others(edges[add])), set[int]()
            while stack:
                node = stack.pop()
                if node in seen or node in known or node in own or not self.flow.data[node]:
                    continue
                seen.add(node)
                if self.flow.key[node] or self.flow.fixed[node]:
                    return True
                stack.extend(self.flow.graph.nodes[node].inputs)
        return False

    def _leaves(self, length: int, fresh: int) -> bool:
        """A chain that shares its beginning with a stream and goes its own way for at least two adds of its own."""
        return fresh >= 2 and fresh * 2 > length

    def _is_network(self, chain: Chain) -> bool:
        """Whether an inner chain holds real branches: two of them read the state that they are added to and pass two key ops one after the other. The
        slopes of a step of a Runge–Kutta method read those before them, and not their sum."""
        deep = 0
        for position, edge in enumerate(chain.edges):
            if chain.nodes[position + 1] not in chain.adds:
                continue
            for other in self.others(edge):
                fresh = self.flow.keys[other] & ~self.flow.keys[edge.source]
                deep += fresh.bit_count() >= 2 and self.flow.depends(other, edge.source)
        return deep >= 2

    def is_within(self, chain: Chain, chosen: Sequence[Chain]) -> bool:
        """Whether a stream feeds the chain's source and is fed by its sink: the recurrence of a linear attention, a residual in a branch."""
        source, sink = chain.nodes[0], chain.nodes[-1]
        over = [c for c in chosen if self.flow.depends(c.nodes[-1], sink)] if self._recurrence.is_recurrent(chain) else []
        if not all(map(self._recurrence.is_recurrent, over)):
            return True
        return self._is_carried_over_tokens(chain, chosen) or any(
            c is not chain and source not in c.nodes and self.flow.depends(c.nodes[-1], sink)
            and (self.flow.depends(source, c.nodes[c.begin]) or self._is_fed_logits(chain, c))
            for c in chosen
            if self._adds_in_full(c) >= len(chain.adds)  # what only collects another stream's outputs (a trend) does not hold it
        )

    def _is_carried_over_tokens(self, chain: Chain, chosen: Sequence[Chain]) -> bool:
        """Whether no weight is read on the way from the chain's source to its sink, and all of it lies in one branch of a stream: a state that is
        written token by token has as many adds as the trace has tokens, which may be more than the stream has blocks. It starts from the stream, or
        from a weight or a number that what the branch reads is added to."""
        source, sink = chain.nodes[0], chain.nodes[-1]
        read = source if self.flow.from_input[source] else chain.adds[0]
        holds = [
            c for c in chosen
            if c is not chain and len(c.adds) >= 2 and source not in c.nodes and any(
                e.node in c.adds and self.flow.depends(read, e.source) and any(self.flow.depends(o, sink) for o in self.others(e)) for e in c.edges
            )
        ]  # fmt: skip
        nodes, own = self.flow.graph.nodes, set(chain.nodes)  # a weight that the chain itself is multiplied by is none of a branch
        return bool(holds) and not any(
            any((nodes[i].op == "parameter" or self.flow.trained[i]) and i != source and not self.flow.depends(i, source) for i in nodes[n].inputs)
            for n in range(source + 1, sink + 1) if n not in own and self.flow.depends(n, source) and self.flow.depends(sink, n)
        )  # fmt: skip

    @cached_property
    def _recurrence(self) -> Steps:
        """Chains that are states over tokens."""
        return Steps(self.flow, self.others)

    def _adds_in_full(self, chain: Chain) -> int:
        """Its adds, counted as often as the members of a container that hold some of them stand for others that did not run."""
        graph = self.flow.graph
        times = graph.times
        paths = [[graph.calls[c].module for c in graph.call_path(graph.nodes[a].call)] for a in chain.adds] if times else []
        common = set(paths[0]).intersection(*paths) if paths else set()
        return sum(math.prod(times.get(m, 1) for m in path if m not in common) for path in paths) if paths else len(chain.adds)

    def _is_fed_logits(self, chain: Chain, stream: Chain) -> bool:
        """A position bias that begins beside a stream, and to which branches of that stream add their logits: it is few adds beside many."""
        edges = {e.node: e for e in chain.edges}
        few = len(chain.adds) <= 2 and len(stream.adds) >= 4 * len(chain.adds)
        return few and all(any(self.flow.depends(o, stream.nodes[0]) for o in self.others(edges[a])) for a in chain.adds)

    def is_nested(self, chain: Chain, chosen: Sequence[Chain] = ()) -> bool:
        """The test of the module's first paragraph; an ancestor counts when weights came before it, or when it is on a stream. States of all
        blocks that are stacked lead around the last one, and are outputs where no other stream is made of them.

        By hand: `networkx.descendants` without the sink takes 4 to 8 times as long (docs/architecture.md)."""
        source, sink = chain.nodes[0], chain.nodes[-1]
        alone = len(chain.adds) > 1 and not any(c is not chain and self.flow.depends(c.nodes[-1], chain.adds[0]) for c in chosen)
        streams = sum(1 << n for c in chosen for n in c.nodes[c.begin :])
        weighted = sum(1 << i for i in range(source + 1) if self.flow.keys[i])
        above = self.flow.ancestors[source] & (streams | weighted | 1 << source)
        reach: set[int] = set()
        around: set[int] = set()
        for node in range(source, len(self.into)):
            if node == sink:
                continue
            below = self.flow.depends(node, sink)
            carried = any(e.source in reach or above >> e.source & 1 for e in self.into[node])
            if alone and self.flow.graph.nodes[node].op == "stack":
                continue
            if below and carried:
                around.add(node)
                return True
            if carried:
                reach.add(node)
        return bool(around)
