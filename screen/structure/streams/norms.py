"""Which norms on a stream are a C: the sum before them is normalised, and the normed value carries the stream on.

A norm behind the last add is a C when the adds at the same place of other blocks have one, else the final norm; a norm before an add that stands in
the block of that add makes a normed skip, y = N(x); x' = y + F(y).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

from screen.structure.streams.chain_reader import ChainReader, Segment
from screen.structure.types import Unknown


@dataclass(frozen=True)
class StreamNorms:
    """Reads the norms between the adds of one chain."""

    reader: ChainReader

    def end_of_group(self, position: int) -> int:
        """The last add of parallel branches, where no norm stands between theirs: x + F(x) + G(x) is one sum."""
        group = self._groups.get(position)
        if group is None:
            return position
        last = self._lasts[group]
        return position if any(self.reader.segments[p + 1].norms for p in range(position, last)) else last

    @cached_property
    def _groups(self) -> dict[int, int]:
        """Add -> the group of the first branch that it adds."""
        return {p: group for (p, _), group in reversed(list(zip(self.reader.branches, self.reader.groups, strict=True)))}

    @cached_property
    def _lasts(self) -> dict[int, int]:
        """Group -> its last add."""
        table: dict[int, int] = {}
        for (position, _), group in zip(self.reader.branches, self.reader.groups, strict=True):
            table[group] = max(position, table.get(group, position))
        return table

    def start_of_group(self, position: int) -> int:
        """The first add of parallel branches, where no norm stands between theirs."""
        return next((p for p in range(position) if self.end_of_group(p) >= position), position)

    def is_on_sum(self, position: int) -> bool | Unknown:
        """Position C of the add: the normed sum carries the stream on. A norm after the last add is C when others have one."""
        segment = self.reader.segments[position + 1]
        if segment.opaque and not segment.norms:
            return Unknown("an op without a row stands on the stream", segment.opaque)
        last = position + 1 == len(self.reader.chain.adds)
        if last and self.reader.flow.graph.failure is not None:
            return Unknown("the forward failed after this add", (self.reader.chain.adds[-1],))
        if not segment.norms or self.is_on_skip(position + 1):
            return False
        if not last and self._belongs_to_next(position) and self._is_bare_elsewhere(position):
            return False
        part = self._partly_normed(segment)
        across = [n.node for n in segment.norms if n.across]
        if across:
            return Unknown("a norm over tokens or samples stands on the stream", tuple(across))
        if part is not None:
            return Unknown("a norm acts on some entries of the stream, and others go on without one", (part,))
        bare = self._read_behind(range(position + 1, len(self.reader.chain.adds)), self.reader.chain.adds[position], segment.norms[0].node)
        if bare is not None:
            return Unknown("a later branch reads the sum without the norm that stands on it", (bare,))
        return self.is_last_on_sum if last else True

    def _is_bare_elsewhere(self, position: int) -> bool:
        """Whether the same line adds the same branch in another block, and no norm follows there."""
        others = (i for i in range(len(self.reader.chain.adds) - 1) if i != position and self.is_twin(i, position))
        return any(not self.reader.segments[i + 1].norms for i in others)

    def _partly_normed(self, segment: Segment) -> int | None:
        """The join behind the norms of a segment that also takes in entries of the stream that no norm reached."""
        first = segment.norms[0].node
        for edge in segment.edges:
            if edge.kind == "join" and edge.node > first:
                for other in self.reader.flow.graph.nodes[edge.node].inputs:
                    if other != edge.source and self._reaches_bare(other, segment.edges[0].source):
                        return edge.node
        return None

    def _read_behind(self, positions: range, start: int, norm: int) -> int | None:
        """The first of some adds whose branch carries a state of the stream from `start` on past a norm on it."""
        for later in positions:
            bare = [b for b in self.reader.at.get(later, ()) if b.has_input_norm is not True and b.exit.normed is not True]
            if bare and any(start <= state < norm for state in self.reader.reads(later)):
                return self.reader.chain.adds[later]
        return None

    def _reaches_bare(self, node: int, start: int) -> bool:
        """Whether identity edges lead back from a node to the start of a segment without a norm."""
        todo, seen = [node], {node}
        while todo:
            here = todo.pop()
            if here == start:
                return True
            for edge in self.reader.chains.into[here]:
                if edge.kind != "norm" and edge.source >= start and edge.source not in seen:
                    seen.add(edge.source)
                    todo.append(edge.source)
        return False

    @cached_property
    def is_last_on_sum(self) -> bool:
        """Whether the norm after the last add is a C: others at the same place have one; with no other to compare, it runs in the call of the add."""
        segment = self.reader.segments[-1]
        if not segment.norms or self.goes_on_bare:
            return False
        total = len(self.reader.chain.adds)
        others = [bool(self.reader.segments[i + 1].norms) and not self.is_on_skip(i + 1) for i in range(total - 1)]
        twins = [i for i in range(total - 1) if self.is_twin(i, total - 1) and self._left_in_block(i) == self._left_in_block(total - 1)]
        if twins:
            twin = twins[-1]
            if others[twin] and self._runs_with(twin) and not self._runs_with(total - 1):
                return False  # the twin's norm stands in its own block, this one behind all blocks
            return others[twin] and not self._belongs_to_next(twin)
        alike = [i for i in range(total - 1) if self._ending(i) == self._ending(total - 1)]
        if alike and not others[alike[-1]]:
            return False
        if any(others):  # norms that stand in their own blocks say nothing of a last add outside of all blocks
            return self._runs_with(total - 1) or not all(self._runs_with(i) for i in range(total - 1) if others[i])
        return self._inside_block(segment.norms[0].node, self.reader.chain.adds[-1]) or self._is_between_parts(segment.norms[0].node)

    @cached_property
    def of_end(self) -> list[int]:
        """The norms that read the last sum and that outputs depend on."""
        flow, chains, end = self.reader.flow, self.reader.chains, self.reader.flow.root(self.reader.chain.adds[-1])
        return [n.node for n in chains.edges.norms.by_node.values() if flow.root(n.source) == end and chains.live >> n.node & 1]

    @cached_property
    def goes_on_bare(self) -> bool:
        """Whether something else than norms behind it reads the last sum, and outputs depend on that: a mean of its tokens that a branch is added to.
        A branch of a stream that runs beside it may, and carries it nowhere."""
        flow, live, norms = self.reader.flow, self.reader.chains.live, {self.reader.segments[-1].norms[0].node, *self.of_end}
        beside = [c for c in self.reader.chains.streams if c is not self.reader.chain and c.adds[0] < self.reader.chain.adds[-1] < c.adds[-1]]
        stack, seen = [self.reader.chain.adds[-1]], set[int]()
        while stack:
            here = stack.pop()
            for user in flow.graph.users[here]:
                if user in seen or here not in flow.counting[user] or not live >> user & 1:
                    continue
                seen.add(user)
                of_others = any(user not in c.nodes and flow.depends(c.adds[-1], user) for c in beside)
                if not of_others and not any(user == n or flow.depends(n, user) for n in norms):
                    return True
                stack += [user] if flow.classes[user] == "view" else []
        return False

    def _is_between_parts(self, norm: int) -> bool:
        """Whether the stream goes on behind the norm and a matrix, `Linear(cat(skip, norm(x)))`, or went on so behind a norm of the same line."""
        chains, mine = self.reader.chains, self.reader.chain
        if any(chains.continued(c, chains.streams) is mine for c in chains.streams):
            return True
        before, nodes = chains.continued(mine, chains.streams), self.reader.flow.graph.nodes
        line = (nodes[norm].file, nodes[norm].line)
        twins = (i for i, n in chains.edges.norms.by_node.items() if before is not None and self.reader.flow.root(n.source) == before.nodes[-1])
        return any((nodes[i].file, nodes[i].line) == line for i in twins)

    def _left_in_block(self, position: int) -> int:
        """How many adds follow at once in the same member of a list of blocks."""
        graph, adds = self.reader.flow.graph, self.reader.chain.adds
        members = [c for c in graph.call_path(graph.nodes[adds[position]].call) if self._is_member(c)]
        same = (bool(members) and members[-1] in graph.call_path(graph.nodes[a].call) for a in adds[position + 1 :])
        return sum(1 for _ in itertools.takewhile(bool, same))

    def _runs_with(self, position: int) -> bool:
        """Whether the norm after an add runs in the same member of a list of blocks."""
        graph = self.reader.flow.graph
        members = [c for c in graph.call_path(graph.nodes[self.reader.chain.adds[position]].call) if self._is_member(c)]
        norm = self.reader.segments[position + 1].norms[0].node
        return bool(members) and members[-1] in graph.call_path(graph.nodes[norm].call)

    def is_twin(self, one: int, other: int) -> bool:
        """Whether two adds end the same kind of call at the same distance from the end of their blocks: the same line of code."""
        a, b = (self.reader.flow.graph.nodes[self.reader.chain.adds[i]] for i in (one, other))
        return (a.file, a.line) == (b.file, b.line) and self._ending(one) == self._ending(other)

    def _ending(self, position: int) -> object:
        return tuple(self.reader.mixer(b).role for b in self.reader.at.get(position, ()))

    def _inside_block(self, norm: int, add: int) -> bool:
        """For a single block: the norm runs inside a call that also holds the add and is not the root, or there is no other call."""
        graph = self.reader.flow.graph
        mine, its = graph.call_path(graph.nodes[norm].call), graph.call_path(graph.nodes[add].call)
        shared = [c for c, d in zip(mine, its, strict=False) if c == d]
        deepest = shared[-1]
        whole = graph.nodes[self.reader.chain.nodes[0]].op == "input"
        return whole or (deepest != 0 and self._is_member(deepest))

    def _is_member(self, call: int) -> bool:
        return call in self.reader.flow.graph.members

    def _belongs_to_next(self, position: int) -> bool:
        """Whether the norm after an add stands in the block of the add after it, and not in its own."""
        graph = self.reader.flow.graph
        norms = self.reader.segments[position + 1].norms
        if not norms or position + 1 >= len(self.reader.chain.adds):
            return False
        here = set(graph.call_path(graph.nodes[norms[-1].node].call))
        own = here & set(graph.call_path(graph.nodes[self.reader.chain.adds[position]].call))
        following = here & set(graph.call_path(graph.nodes[self.reader.chain.adds[position + 1]].call))
        return len(following) > len(own)

    def is_normed_skip(self, position: int) -> bool:
        """y = N(x); x' = y + F(y): the norm before an add belongs to the block of that add."""
        norms = self.reader.segments[position].norms
        if not norms or not self._reads_normed(position, norms[-1].node):
            return False
        if self._read_behind(range(position, position + 1), 0, norms[-1].node) is not None:
            return False
        if position:
            if self._belongs_to_next(position - 1):
                return True
            return self._in_one_block(position - 1, position) and self.is_normed_skip(position - 1)
        graph = self.reader.flow.graph
        norm, add = graph.nodes[norms[-1].node], graph.nodes[self.reader.chain.adds[0]]
        if any(b.has_input_norm is True for b in self.reader.at.get(position, ())):
            return False  # an embedding norm that stands in the first block (RWKV): the branch has a norm of its own
        if not any("raw" in e.ways for b in self.reader.at.get(position, ()) for e in b.entries):
            return False  # no branch reads what the norm gives
        block = [c for c in graph.call_path(add.call) if self._is_member(c)]
        if block:
            source = graph.call_path(graph.nodes[self.reader.chain.nodes[0]].call)
            return block[-1] in graph.call_path(norm.call) and block[-1] not in source
        return graph.nodes[self.reader.chain.nodes[0]].op == "input" and not self.reader.segments[-1].norms

    def is_on_skip(self, position: int) -> bool:
        """N(x) + B(F(x)): branches that end in norms read what is in front of the norm before their add, or before the first of parallel ones."""
        if position == len(self.reader.chain.adds):
            return False
        first = self.start_of_group(position)
        segment, beside = self.reader.segments[first], range(first, self.end_of_group(first) + 1)
        if not segment.norms or any(self._reads_normed(p, segment.norms[-1].node) for p in beside):
            return False
        if not all(b.exit.normed is True for p in beside for b in self.reader.at.get(p, ())):
            return False
        return all(e.kind not in ("scale", "gate", "free", "opaque", "join") for e in segment.edges if e.node < segment.norms[-1].node)

    def _reads_normed(self, position: int, norm: int) -> bool:
        """Whether a branch of an add reads what a norm before it gives, or what comes of that; one that reads no state may."""
        read = self.reader.reads(position)
        return not read or max(read) >= norm

    def _in_one_block(self, one: int, other: int) -> bool:
        graph = self.reader.flow.graph
        paths = [graph.call_path(graph.nodes[self.reader.chain.adds[i]].call) for i in (one, other)]
        shared = set(paths[0]) & set(paths[1])
        return any(self._is_member(c) for c in shared) or max(map(len, paths)) == 1
