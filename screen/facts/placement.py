"""From a chain to sublayers: positions A, A², S, B, C, multipliers, and one `Sublayer` per branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from screen.facts.branches import Branch
from screen.facts.edges import FUSED_ADDS, Edge
from screen.facts.flow import Flow, axes_of, strip
from screen.facts.mixers import Mixer
from screen.facts.norms import place_of
from screen.facts.nouns import Norm, Port, Sublayer, Unknown
from screen.facts.scales import Scales
from screen.facts.streams import Chain, Chains

PLACEMENTS = {"": "none", "A": "pre", "C": "post", "AB": "peri", "B": "output_only", "AC": "pre_post"}
"""Letters of the norms around a branch to the field's name; other combinations stand as letters."""


@dataclass(frozen=True)
class Segment:
    """What the stream passes between two residual adds."""

    edges: tuple[Edge, ...]
    norms: tuple[Norm, ...]
    opaque: tuple[int, ...]


@dataclass(frozen=True)
class Reader:
    """Reads the sublayers of one chain."""

    chains: Chains
    chain: Chain

    @property
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
        norms = tuple(self.chains.edges.norms.by_node[e.node] for e in edges if e.kind == "norm")
        return Segment(tuple(edges), norms, tuple(e.node for e in edges if e.kind == "opaque"))

    def _tail(self) -> list[Edge]:
        """Identity edges that lead on from the last add, as long as everything read goes one way."""
        edges: list[Edge] = []
        node = self.chain.nodes[-1]
        for _ in range(64):
            steps = [e for u in self.flow.graph.users[node] for e in self.chains.into[u] if e.source == node]
            ways = [e for e in steps if e.kind in _TAIL or (e.kind == "add" and not self.chains.is_residual(e, self.chain.nodes[0]))]
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

    def _collapsed(self, node: int) -> list[Edge]:
        """A sum of at most eight copies [tokens, copies, features] that ends a stream of several."""
        graph = self.flow.graph
        shape = graph.nodes[node].shape or ()
        sums = [u for u in graph.users[node] if graph.nodes[u].op == "sum" and len(shape) >= 4 and shape[-2] <= 8]
        sums = [u for u in sums if axes_of(self.flow.operand(graph.nodes[u], 1, "dim", "axis"), len(shape)) == (-2,)]
        return [Edge(node, u, "same") for u in sums]

    def _norms_of(self, node: int) -> Iterator[Edge]:
        """Norms that read a node, behind their statistics."""
        for norm in self.chains.edges.norms.by_node.values():
            if strip(self.flow, norm.source) == strip(self.flow, node) and norm.node > node:
                yield Edge(norm.source, norm.node, "norm")

    # -- branches ---------------------------------------------------------------------------------------------------------------------

    @cached_property
    def branches(self) -> tuple[tuple[int, Branch], ...]:
        """(position of the add on the chain, branch) in order; several for one add in a parallel block."""
        found: list[tuple[int, Branch]] = []
        by_node = {e.node: e for e in self.chain.edges}
        for position, add in enumerate(self.chain.adds):
            edge = by_node[add]
            outputs = [o for o in self.chains.others(edge) if self.flow.keys[o] & ~self.flow.keys[edge.source]]
            if self.flow.graph.nodes[add].op in FUSED_ADDS:
                outputs = [add]
            for output in outputs:
                found.extend((position, b) for b in self._split(self._branch(add, edge.source, output)))
        return tuple(found)

    def _branch(self, add: int, state: int, output: int) -> Branch:
        return Branch(self.chains, self.chain, self.states - {add}, add, state, output)

    def _split(self, branch: Branch) -> list[Branch]:
        """A sum of branches that do different things (attention + feed-forward) is one branch each."""
        node = strip(self.flow, branch.output)
        here = self.flow.graph.nodes[node]
        data = [i for i in dict.fromkeys(here.inputs) if self.flow.data[i]]
        if here.op != "add" or len(data) != 2 or node in self.chains.edges.norms.by_node:
            return [branch]
        passed = self.flow.keys[branch.state]
        fresh = [self.flow.keys[i] & ~passed for i in data]
        if not all(fresh) or fresh[0] & fresh[1]:
            return [branch]
        parts = [p for i in data for p in self._split(self._branch(branch.add, branch.state, i))]
        roles = {Mixer(p).role for p in parts}
        return parts if len(roles) > 1 and roles & _MIXERS else [branch]

    # -- sublayers --------------------------------------------------------------------------------------------------------------------

    @cached_property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """All sublayers of the chain; `parallel_group` and names are those of the whole chain."""
        found = []
        for number, (position, branch) in enumerate(self.branches):
            found.append(self._sublayer(number, position, branch))
        return tuple(found)

    def _sublayer(self, number: int, position: int, branch: Branch) -> Sublayer:
        mixer = Mixer(branch)
        norms, letters, unknown = self._positions(position, branch, mixer)
        qk, q, k, v = mixer.attention.qk
        around = "".join(p for p in letters if p in "ABC")
        first = next((n for p, n in norms if p in "ABC"), None)
        return Sublayer(
            name=mixer.role,
            role=mixer.role,
            placement="unknown" if unknown else PLACEMENTS.get(around, around),
            positions=letters,
            unknown=unknown,
            norms=norms,
            norm_type=first.type if first else None,
            ports=self._ports(branch),
            qk_norm=qk,
            q_norm=q,
            k_norm=k,
            v_norm=v,
            parallel_group=self._parallel(number),
            alpha=Scales(self).of_stream(position),
            branch=Scales(self).of_branch(position, branch),
            gated_output=branch.exit.gated,
            m=mixer.maps,
            depends_on_stream=bool(branch.entries),
            normed_skip=self._is_normed_skip(position),
            add=branch.add,
            output=branch.output,
            place=place_of(self.flow.graph, branch.add),
        )

    def _positions(
        self, position: int, branch: Branch, mixer: Mixer
    ) -> tuple[tuple[tuple[str, Norm], ...], tuple[str, ...], tuple[Unknown, ...]]:
        found: list[tuple[str, Norm]] = []
        unknown: list[Unknown] = []
        at_input, at_output = branch.has_input_norm(), branch.exit.normed
        shared = self._end_of_group(position)
        after = self.has_stream_norm(shared)
        skipped = self._is_normed_skip(position)
        after = True if skipped and after is False else after
        for answer in (at_input, at_output, after):
            if isinstance(answer, Unknown):
                unknown.append(answer)
        if at_input is True or at_input == "partly":
            found += [("A", n) for n in branch.input_norms]
        between = [n for c in mixer.attention.cores for i in (c.q, c.k) for n in mixer.attention.norms_before(i)[0]]
        if mixer.attention.qk[0] != "none" and not isinstance(mixer.attention.qk[0], Unknown):
            found += [("A2", n) for n in dict.fromkeys(between)]
        last = branch.exit.norm if at_output is True else None
        taken = {n.node for _, n in found} | ({last.node} if last else set())
        found += [("S", n) for i in branch.region if (n := self.chains.edges.norms.by_node.get(i)) is not None and i not in taken]
        if last is not None:
            found.append(("B", last))
        if after is True:
            found += [("C", n) for n in (self.segments[position].norms[-1:] if skipped else self.segments[shared + 1].norms[:1])]
        letters = {p for p, _ in found}
        if at_input is not True:
            letters.discard("A")
        order = tuple(p for p in ("A", "A2", "S", "B", "C") if p in letters)
        return tuple(found), order, tuple(unknown)

    def _end_of_group(self, position: int) -> int:
        """The last add of parallel branches, where no norm stands between theirs: x + F(x) + G(x) is one sum."""
        number = next((n for n, (p, _) in enumerate(self.branches) if p == position), None)
        if number is None:
            return position
        last = max(p for n, (p, _) in enumerate(self.branches) if self._groups[n] == self._groups[number])
        return position if any(self.segments[p + 1].norms for p in range(position, last)) else last

    def has_stream_norm(self, position: int) -> bool | Unknown:
        """Position C of the add: the normed sum carries the stream on. A norm after the last add is C when others have one."""
        segment = self.segments[position + 1]
        if segment.opaque and not segment.norms:
            return Unknown("an op without a row stands on the stream", segment.opaque)
        last = position + 1 == len(self.chain.adds)
        if last and self.flow.graph.failure is not None:
            return Unknown("the forward failed after this add", (self.chain.adds[-1],))
        if not segment.norms:
            return False
        part = self._partly_normed(segment)
        across = [n.node for n in segment.norms if n.across]
        if across:
            return Unknown("a norm over tokens or samples stands on the stream", tuple(across))
        if part is not None:
            return Unknown("a norm acts on some entries of the stream, and others go on without one", (part,))
        return self.last_is_stream_norm if last else True

    def _partly_normed(self, segment: Segment) -> int | None:
        """The join behind the norms of a segment that also takes in entries of the stream that no norm reached."""
        first = segment.norms[0].node
        for edge in segment.edges:
            if edge.kind == "join" and edge.node > first:
                for other in self.flow.graph.nodes[edge.node].inputs:
                    if other != edge.source and self._reaches_bare(other, segment.edges[0].source):
                        return edge.node
        return None

    def _reaches_bare(self, node: int, start: int) -> bool:
        """Whether identity edges lead back from a node to the start of a segment without a norm."""
        todo, seen = [node], {node}
        while todo:
            here = todo.pop()
            if here == start:
                return True
            for edge in self.chains.into[here]:
                if edge.kind != "norm" and edge.source >= start and edge.source not in seen:
                    seen.add(edge.source)
                    todo.append(edge.source)
        return False

    @cached_property
    def last_is_stream_norm(self) -> bool:
        """Whether the norm after the last add is a C: others at the same place have one; with no other to compare, it runs in the call of the add."""
        segment = self.segments[-1]
        if not segment.norms:
            return False
        total = len(self.chain.adds)
        others = [bool(self.segments[i + 1].norms) for i in range(total - 1)]
        twins = [i for i in range(total - 1) if self.is_twin(i, total - 1) and self._left_in_block(i) == self._left_in_block(total - 1)]
        if twins:
            twin = twins[-1]
            if others[twin] and self._runs_with(twin) and not self._runs_with(total - 1):
                return False  # the twin's norm stands in its own block, this one behind all blocks
            return others[twin] and not self._belongs_to_next(twin)
        alike = [i for i in range(total - 1) if self._ending(i) == self._ending(total - 1)]
        if alike and not others[alike[-1]]:
            return False
        if any(others):
            return True
        return self._inside_block(segment.norms[0].node, self.chain.adds[-1])

    def _left_in_block(self, position: int) -> int:
        """How many adds follow in the same member of a list of blocks."""
        graph, adds = self.flow.graph, self.chain.adds
        members = [c for c in graph.call_path(graph.nodes[adds[position]].call) if self._is_member(c)]
        return sum(bool(members) and members[-1] in graph.call_path(graph.nodes[a].call) for a in adds[position + 1 :])

    def _runs_with(self, position: int) -> bool:
        """Whether the norm after an add runs in the same member of a list of blocks."""
        graph = self.flow.graph
        members = [c for c in graph.call_path(graph.nodes[self.chain.adds[position]].call) if self._is_member(c)]
        norm = self.segments[position + 1].norms[0].node
        return bool(members) and members[-1] in graph.call_path(graph.nodes[norm].call)

    def is_twin(self, one: int, other: int) -> bool:
        """Whether two adds end the same kind of call at the same distance from the end of their blocks: the same line of code."""
        a, b = (self.flow.graph.nodes[self.chain.adds[i]] for i in (one, other))
        return (a.file, a.line) == (b.file, b.line) and self._ending(one) == self._ending(other)

    def _ending(self, position: int) -> object:
        roles = [Mixer(b).role for p, b in self.branches if p == position]
        return tuple(roles)

    def _inside_block(self, norm: int, add: int) -> bool:
        """For a single block: the norm runs inside a call that also holds the add and is not the root, or there is no other call."""
        graph = self.flow.graph
        mine, its = graph.call_path(graph.nodes[norm].call), graph.call_path(graph.nodes[add].call)
        shared = [c for c, d in zip(mine, its, strict=False) if c == d]
        deepest = shared[-1]
        whole = graph.nodes[self.chain.nodes[0]].op == "input"
        return whole or (deepest != 0 and graph.modules[graph.calls[deepest].module].parent is not None and self._is_member(deepest))

    def _is_member(self, call: int) -> bool:
        parent = self.flow.graph.modules[self.flow.graph.calls[call].module].parent
        return parent is not None and self.flow.graph.modules[parent].container == "list"

    def _belongs_to_next(self, position: int) -> bool:
        """Whether the norm after an add stands in the block of the add after it, and not in its own."""
        graph = self.flow.graph
        norms = self.segments[position + 1].norms
        if not norms or position + 1 >= len(self.chain.adds):
            return False
        here = set(graph.call_path(graph.nodes[norms[-1].node].call))
        own = here & set(graph.call_path(graph.nodes[self.chain.adds[position]].call))
        following = here & set(graph.call_path(graph.nodes[self.chain.adds[position + 1]].call))
        return len(following) > len(own)

    def _is_normed_skip(self, position: int) -> bool:
        """y = N(x); x' = y + F(y): the norm before an add belongs to the block of that add."""
        norms = self.segments[position].norms
        if not norms:
            return False
        if position:
            if self._belongs_to_next(position - 1):
                return True
            return self._in_one_block(position - 1, position) and self._is_normed_skip(position - 1)
        graph = self.flow.graph
        norm, add = graph.nodes[norms[-1].node], graph.nodes[self.chain.adds[0]]
        if any(b.has_input_norm() is True for place, b in self.branches if place == position):
            return False  # an embedding norm that stands in the first block (RWKV): the branch has a norm of its own
        block = [c for c in graph.call_path(add.call) if self._is_member(c)]
        if block:
            source = graph.call_path(graph.nodes[self.chain.nodes[0]].call)
            return block[-1] in graph.call_path(norm.call) and block[-1] not in source
        return graph.nodes[self.chain.nodes[0]].op == "input" and not self.segments[-1].norms

    def _in_one_block(self, one: int, other: int) -> bool:
        graph = self.flow.graph
        paths = [graph.call_path(graph.nodes[self.chain.adds[i]].call) for i in (one, other)]
        shared = set(paths[0]) & set(paths[1])
        return any(self._is_member(c) for c in shared) or max(map(len, paths)) == 1

    # -- the rest ---------------------------------------------------------------------------------------------------------------------

    def reads(self, position: int) -> frozenset[int]:
        """States that the branches of an add read."""
        found: set[int] = set()
        for place, branch in self.branches:
            if place == position:
                for node in branch.region:
                    found.update(i for i in self.flow.graph.nodes[node].inputs if i in branch.states)
        return frozenset(found)

    def _ports(self, branch: Branch) -> tuple[Port, ...]:
        ports = []
        for name, ways in (("x", {"raw", "normed"}), ("memory", {"memory", "memory normed"}), ("earlier", {"earlier"})):
            seen = frozenset().union(*(e.ways for e in branch.entries)) & ways if branch.entries else frozenset()
            if seen and name == "x":
                answer = branch.has_input_norm()
                ports.append(Port(name, answer if not isinstance(answer, str) else "partly", "stream"))
                if answer is True and any("raw" in e.ways for e in branch.entries):
                    ports.append(Port("gate", False, "stream"))
            elif name == "memory" and seen:
                ports.append(Port(name, "partly" if len(seen) == 2 else "memory normed" in seen, name))
            elif seen:
                ports.append(Port(name, Unknown("fed by an earlier block"), name))
        return tuple(ports)

    def _parallel(self, number: int) -> int | None:
        """Branches that read the same state of the stream and are added to it one after the other."""
        groups = self._groups
        group = groups[number]
        return group if groups.count(group) > 1 else None

    @cached_property
    def _groups(self) -> list[int]:
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


_TAIL = frozenset({"same", "scale", "norm", "part", "opaque", "gate", "join"})
_MIXERS = frozenset({"attention", "cross_attention", "linear_attention", "ssm", "rnn", "conv", "fourier", "pooling"})
