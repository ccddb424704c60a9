"""The part of the graph that belongs to one branch: its nodes, what borders on them, and how the stream reaches them (theory, section 1)."""

from __future__ import annotations

import heapq
import operator
from dataclasses import dataclass, replace
from functools import cached_property

from screen.graph import Ref
from screen.structure.chains.chain import Chain
from screen.structure.chains.find import Chains
from screen.structure.chains.identity_edges import Edge
from screen.structure.dataflow import Flow, axes_of, mask_of
from screen.structure.norms.find import Norms
from screen.structure.types import Norm

Way = frozenset[str]
"""How paths arrive: `raw` or `normed` from the stream, `memory` or `memory normed` from another one, `earlier` from an earlier branch."""

NOTHING: Way = frozenset()
_NORMED = {"raw": "normed", "memory": "memory normed"}
_ARRANGES = frozenset({"view", "part", "join", "choice", "write"})


@dataclass(frozen=True)
class Entry:
    """One key op of a branch that reads the stream without another key op between."""

    node: int
    ways: Way
    operands: tuple[int, ...]


@dataclass(frozen=True)
class Region:
    """The nodes between a stream and the value `output`, added to `chain` at `add`, whose state there is `state`."""

    chains: Chains
    chain: Chain
    states: frozenset[int]
    add: int
    state: int
    output: int
    behind: tuple[Edge, ...] = ()
    """Multipliers between the output and the add, which it shares with another branch: x + γ ⊙ (F(x) + G(x)); or with the state, as `taken`."""
    taken: tuple[tuple[Edge, ...], ...] = ()
    """Identity paths from the state that what is added takes off again, each with its multipliers: −w·x of x + w·(F(x) − x)."""
    older: tuple[int, tuple[Edge, ...]] | None = None
    """Position of an add before, and the identity path from the state before that which is added with the branch: x of (x + F(x)) + (x + G(x))."""

    begun: frozenset[int] = frozenset()
    """What the stream begins as a map of, where its first branch reads that: it counts as another stream."""

    @cached_property
    def flow(self) -> Flow:
        """The graph's data flow."""
        return self.chains.flow

    @cached_property
    def norms(self) -> Norms:
        """The graph's norms. One that begins in front of what the branch reads is a norm of what is read: where blocks end with a centring, a layer
        norm by hand behind it is one of the centred stream."""
        whole = self.chains.edges.norms
        inside = {n: norm for n in self.region if (norm := whole.by_node.get(n)) is not None and self._border(norm.source) is not None}
        changed = {n: found for n, norm in inside.items() if (found := self._from_state(norm)) is not norm}
        return whole.changed(changed) if changed else whole

    def _from_state(self, norm: Norm) -> Norm | None:
        """A norm, as one of the state that it passes on its way; None where it is no norm of that."""
        met, seen, stack = set[int](), set[int](), [norm.node]
        while stack:
            node = stack.pop()
            if node in self.states:
                met.add(node)
            elif node not in seen and node != norm.source and self._border(node) is None:
                seen.add(node)
                stack.extend(self.flow.counting[node])
        if not met or met == {norm.source}:
            return norm
        return replace(norm, source=min(met)) if norm.centred and len(met) == 1 else None  # centred twice is centred

    @cached_property
    def region(self) -> tuple[int, ...]:
        """Nodes of the branch, ascending: back from the output to the stream, to other streams and to earlier branches.

        By hand: `networkx.ancestors` in a view that ends at borders takes 12 to 90 times as long, `generic_bfs_edges` 0.7 to 1.9 times, for which
        `networkx` would be loaded (87 ms) by every check (docs/architecture.md)."""
        seen: set[int] = set()
        stack = [self.output]
        while stack:
            node = stack.pop()
            if node in seen or self._border(node) is not None:
                continue
            seen.add(node)
            stack.extend(self.flow.counting[node])
        return tuple(sorted(seen | self._projections(seen)))

    def _projections(self, inside: set[int]) -> set[int]:
        """Maps of another stream's value that only this branch uses (keys and values of cross-attention).

        These are nodes that the branch dominates from behind; `networkx.immediate_dominators` takes 17 to 36 times as long as all branches here."""
        graph, found = self.flow.graph, set[int]()
        queue = [-i for n in inside for i in self.flow.counting[n] if i not in inside]
        heapq.heapify(queue)  # the latest first: all users of a node are settled before it
        seen: set[int] = set()
        while queue:
            node = -heapq.heappop(queue)
            if node in seen or node in self.chains.on_streams or self._border(node) != self._elsewhere:
                continue
            if not graph.nodes[node].inputs:
                continue  # an argument of forward is no map of one
            seen.add(node)
            if all(u in inside or u in found or not self.chains.live >> u & 1 for u in graph.users[node]):
                found.add(node)
                for source in graph.nodes[node].inputs:
                    heapq.heappush(queue, -source)
        return found

    @cached_property
    def members(self) -> frozenset[int]:
        """The region as a set."""
        return frozenset(self.region)

    def border(self, node: int) -> str | None:
        """What a node outside of the branch is; None inside."""
        return None if node in self.members else (self._border(node) or "other")

    def _border(self, node: int) -> str | None:
        if node in self.states or node in self.begun:
            return "raw" if node in self.states else "memory"
        if not self.flow.data[node]:
            return "other"
        if node in self.chains.main_nodes and node != self.output:
            return self._elsewhere
        if not self.is_fed(node):
            return self._elsewhere
        if self.flow.key[node] and node != self.output and self.flow.depends(self._ungated[0], node):
            return "earlier"
        return None

    @cached_property
    def key(self) -> tuple[bool, ...]:
        """The graph's key ops; in a branch that holds none, its products with matrices that nobody trains as well."""
        return self.flow.key if any(self.flow.key[i] for i in self.region) else tuple(map(operator.or_, self.flow.key, self.flow.fixed))

    @cached_property
    def _origin(self) -> int:
        return self.chains.origin(self.chain)

    def is_fed(self, node: int) -> bool:
        """Whether a value is made from the stream, or from what the stream begins with."""
        return self.chains.is_fed_by(node, self._origin)

    def is_beside(self, node: int) -> bool:
        """Whether a value is made of data, and nothing of it of the stream or of its source (the queries of a detector are chosen of the same image
        that they then look at)."""
        return not self.chain.inner and self.flow.data[node] and node != self._origin and not self.flow.depends(node, self._origin)

    @cached_property
    def _ungated(self) -> tuple[int, tuple[int, ...]]:
        """The stream's state in front of the gates on its way to the add, whose making is the branch's, and these gates."""
        nodes, edges = self.chain.nodes, self.chain.edges
        position = found = nodes.index(self.state) if self.state in self.states else 0
        gates: list[int] = []
        while position > 0 and edges[position - 1].kind in ("gate", "free", "scale", "same") and nodes[position] not in self.chain.adds:
            position -= 1
            if edges[position].kind in ("gate", "free"):
                found, gates = position, [*gates, *(i for i in (edges[position].scale,) if i is not None)]
        return (nodes[found] if gates else self.state), tuple(gates)

    @property
    def stream_gates(self) -> tuple[int, ...]:
        """Values that multiply the stream itself on its way to the add."""
        return self._ungated[1]

    @property
    def _elsewhere(self) -> str:
        """What stands outside of an inner stream is an earlier state of the outer one, not another stream."""
        return "earlier" if self.chain.inner else "memory"

    @cached_property
    def home(self) -> int:
        """The innermost call that holds the add and some key op of the branch: `Residual.forward(x, y)` holds the add alone."""
        graph = self.flow.graph
        held = {c for i in self.region if self.key[i] for c in graph.call_path(graph.nodes[i].call)}
        path = graph.call_path(graph.nodes[self.add].call)
        return next((c for c in reversed(path) if c in held), path[-1])

    @cached_property
    def member(self) -> tuple[int, int, int] | None:
        """(list, member, how often it had been called before) around its last key op, of the outermost list of modules; None where there is none."""
        graph = self.flow.graph
        last = max((i for i in self.region if self.key[i]), default=None)
        found: tuple[int, int, int] | None = None
        for call in reversed(graph.call_path(graph.nodes[last].call)) if last is not None else ():
            here: int | None = graph.calls[call].module
            while here is not None:
                above = graph.modules[here].parent
                if above is not None and graph.modules[above].container == "list":
                    found = above, here, graph.calls[call].ordinal
                here = above
        return found

    @cached_property
    def maps_in(self) -> int | None:
        """The module that its last key op ran in; None where there is none."""
        last = max((i for i in self.region if self.key[i]), default=None)
        return None if last is None else self.flow.graph.scope(last).index

    @cached_property
    def constants(self) -> tuple[object, ...]:
        """The numbers that its values are multiplied by, its ops with theirs (ε, powers, axes of a transform), but for those that only arrange, the
        ranges of constant tensors that it reads, and where its parameters are frozen: layers that differ in them are of different kinds."""
        frozen = frozenset(self.flow.graph.frozen)
        nodes, found = self.flow.graph.nodes, list[object]()
        data, classes = self.flow.data, self.flow.classes
        for index in self.region:
            node, kind = nodes[index], classes[index]
            found += [e.factor for e in self.chains.into[index] if e.kind == "scale" and e.factor is not None and abs(e.factor) != 1.0]
            if data[index] and kind not in _ARRANGES:
                found.append((node.op, *[a for a in (*node.args, *node.kwargs) if not _reads(a)]))
            ranges = self.flow.graph.range_of
            found += [("range", place, ranges[i]) for place, i in enumerate(node.inputs) if i in ranges and not data[i]]
            found += [("frozen", place) for place, i in enumerate(node.inputs) if nodes[i].op == "parameter" and nodes[i].name in frozen]
        return tuple(found)

    @cached_property
    def ways(self) -> dict[int, Way]:
        """For each node of the region how the stream reaches it without passing a key op."""
        table: dict[int, Way] = {}
        key, norms, members = self.key, self.norms.by_node, self.members
        for node in self.region:
            if key[node]:
                table[node] = NOTHING
                continue
            norm = norms.get(node)
            ways = NOTHING
            for source in (norm.source,) if norm is not None else self.flow.counting[node]:
                ways |= table.get(source, NOTHING) if source in members else self.way(source, table)
            if norm is not None and ways and norm.of_tokens:
                ways = NOTHING if self.is_of_mapped_parts(norm) else frozenset(_NORMED.get(w, w) for w in ways)
            table[node] = ways
        return table

    @cached_property
    def is_memory_normed(self) -> bool:
        """Whether a norm made all that the branch reads of another stream, where it was read from: the last norm of an encoder."""
        stack, seen = [i for e in self.entries if "memory" in e.ways for i in e.operands], set[int]()
        while stack:
            node = stack.pop()
            if node in seen or self.key[node] or not self.way(node) & {"memory"}:
                continue
            seen.add(node)
            if self.border(node) is None:
                stack.extend(self.flow.counting[node])
                continue
            while self.flow.classes[node] in ("view", "part", "alias") and self.flow.graph.nodes[node].inputs:
                node = self.flow.graph.nodes[node].inputs[0]
            norm = self.chains.edges.norms.by_node.get(node)
            if norm is None or not norm.of_tokens:
                return False
        return bool(seen)

    def is_of_mapped_parts(self, norm: Norm) -> bool:
        """Whether a norm stands on features that are laid beside one another, some of which this branch has mapped: it is none of what is read."""
        flow, node = self.flow, norm.source
        while node in self.members and flow.classes[node] in ("view", "alias") and flow.graph.nodes[node].inputs:
            node = flow.graph.nodes[node].inputs[0]
        here = flow.graph.nodes[node]
        if node not in self.members or here.op not in ("cat", "concat"):
            return False
        (axis,) = axes_of(flow.operand(here, 1, "dim") or 0, len(here.shape or ()))
        if (axis in norm.axes) == (norm.type == "batchnorm"):
            return False
        own = mask_of(i for i in self.region if self.key[i])
        mapped = [bool(flow.keys[i] & own) for i in here.inputs]
        return any(mapped) and not all(mapped)

    def way(self, node: int, table: dict[int, Way] | None = None) -> Way:
        """How the stream reaches a node of the region or of its border."""
        border = self.border(node)
        if border is None:
            return (self.ways if table is None else table).get(node, NOTHING)
        return NOTHING if border == "other" else frozenset({border})

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Key ops (and the output itself) that read the stream."""
        found = []
        key = self.key
        for node in self.region:
            if not key[node] and node != self.output:
                continue
            inputs = self.flow.counting[node] if key[node] else (node,)
            ways = NOTHING.union(*(self.way(i) for i in inputs))
            if ways:
                found.append(Entry(node, ways, tuple(i for i in inputs if self.way(i))))
        keyed = [e for e in found if self.key[e.node]]
        return tuple(keyed or found)

    @cached_property
    def input_norms(self) -> tuple[Norm, ...]:
        """Norms between the stream and the entries."""
        found: dict[int, Norm] = {}
        stack = [i for e in self.entries for i in e.operands]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if node in seen or self.border(node) is not None or self.key[node] or not self.way(node):
                continue
            seen.add(node)
            norm = self.norms.by_node.get(node)
            if norm is not None and norm.of_tokens:
                found[node] = norm
            stack.extend((norm.source,) if norm is not None else self.flow.counting[node])
        return tuple(found[n] for n in sorted(found))

    def opaque_entries(self) -> tuple[int, ...]:
        """Ops without a row that read the stream raw: they may be norms."""
        return tuple(e.node for e in self.entries if self.flow.classes[e.node] == "unmodelled" and "raw" in e.ways)


def _reads(argument: object) -> bool:
    """Whether an argument is a value of the graph."""
    return isinstance(argument, Ref) or (isinstance(argument, tuple) and any(map(_reads, argument)))
