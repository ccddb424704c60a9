"""Attention cores of a branch: what plays q, k and v, where they come from, and which norms stand before them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from screen.graph import numel
from screen.structure.branches.branch import Branch
from screen.structure.branches.compared import compared_axes, multiplied, runs_over
from screen.structure.dataflow import strip
from screen.structure.types import Norm, QKNorm, Unknown

_SKIM = frozenset({"view", "part", "join", "linear", "alias", "write", "factory"})
"""Op classes between a product of q and k and its softmax, or between the softmax and the product with v."""

@dataclass(frozen=True)
class Core:
    """One attention: the nodes of its operands."""

    node: int
    q: int
    k: int
    v: int | None
    softmax: bool
    axes: tuple[int, int] | None = None
    """Of q and of k the axis (negative) that their product sums over; None where that is not read."""

@dataclass(frozen=True)
class Attention:
    """Reads the attention of one branch; there may be none."""

    branch: Branch

    @cached_property
    def cores(self) -> tuple[Core, ...]:
        """Attention cores, in order."""
        return tuple(self._find_cores())

    @cached_property
    def _barren(self) -> set[int]:
        """Nodes from which no product was found under an earlier softmax."""
        return set()

    def _find_cores(self) -> Iterator[Core]:
        flow = self.branch.flow
        for index in self.branch.region:
            node = flow.graph.nodes[index]
            if node.op in ("scaled_dot_product_attention", "flex_attention"):
                q, k, v = (flow.ref(node, p, name) for p, name in enumerate(("query", "key", "value")))
                if q is not None and k is not None:
                    yield Core(index, q, k, v, True, compared_axes(flow, node, k))
            elif flow.classes[index] == "softmax" or node.op in ("sigmoid", "relu", "exp"):
                out = self.weighs(index)
                if out is not None and self._are_states(out):
                    continue
                pair = self._logits_of(index)
                if pair is None and flow.classes[index] == "softmax" and out is not None:
                    pair = self._compared(index)
                if pair is None:
                    continue
                if out is not None or node.op == "softmax":
                    product, q, k = pair
                    yield Core(index, q, k, out, flow.classes[index] == "softmax", compared_axes(flow, flow.graph.nodes[product], k))

    def _are_states(self, value: int) -> bool:
        """Whether what is weighed are values side by side, of each token alone: states of a stream (attention over depth)."""
        flow = self.branch.flow
        mixed = (flow.copies_mixed(flow.graph.nodes[u]) == value for u in flow.graph.users[value])
        return flow.graph.nodes[flow.root(value)].op == "stack" and any(mixed)

    @cached_property
    def over_states(self) -> frozenset[int]:
        """Softmaxes that weigh states of a stream, and no tokens, and the products in front of them and behind."""
        flow, found = self.branch.flow, set[int]()
        for index in (i for i in self.branch.region if flow.classes[i] == "softmax"):
            out, pair = self.weighs(index), self._logits_of(index)
            if out is not None and self._are_states(out):
                found.update((index,), flow.graph.users[out], pair[:1] if pair is not None else ())
        return frozenset(found)

    def _logits_of(self, softmax: int) -> tuple[int, int, int] | None:
        """The product under a softmax and its two data operands; of several that are summed, one whose keys are no argument (relative places)."""
        flow = self.branch.flow
        seen: set[int] = set()
        second: tuple[int, int, int] | None = None
        stack = list(flow.graph.nodes[softmax].inputs[:1])
        while stack:
            node = stack.pop()
            if node in seen or node in self._barren or node not in self.branch.members:
                continue
            seen.add(node)
            here = flow.graph.nodes[node]
            if node in flow.products:
                data = [i for i in here.inputs if flow.data[i]]
                if len(data) == 3:
                    data = data[1:]
                if stack and self.from_memory(data[1]) and not self.from_memory(data[0]):
                    second = second or (node, data[0], data[1])
                    continue
                return node, data[0], data[1]
            if flow.classes[node] in _SKIM or here.op in ("tanh", "clamp", "maximum", "minimum") or self._picks(node):
                stack.extend(i for i in here.inputs if flow.data[i])
            elif flow.classes[node] == "product" and len(data := [i for i in here.inputs if flow.data[i]]) == 1 and self._keeps_places(data[0], node):
                stack.extend(data)  # logits are mixed over heads
            elif here.op in ("sum", "mean"):
                pair = self._manual_product(node)
                if pair is not None:
                    return node, *pair
                stack.extend(i for i in here.inputs if flow.data[i])
        if second is None:
            self._barren.update(seen)
        return second

    def _compared(self, softmax: int) -> tuple[int, int, int] | None:
        """Where the logits compare two values, and these, whatever is done between: a product that is mixed by weights, normed or convolved
        afterwards, distances, a sum in which both are spread over an axis of the other. One of its axes is as long as that of the softmax."""
        flow = self.branch.flow
        length = (flow.graph.nodes[softmax].shape or (0,))[-1]
        seen: set[int] = set()
        stack = list(flow.graph.nodes[softmax].inputs[:1])
        while stack:
            index = stack.pop(0)
            if index in seen or index not in self.branch.members:
                continue
            seen.add(index)
            node = flow.graph.nodes[index]
            data = [i for i in node.inputs if flow.data[i]]
            shapes = [flow.graph.nodes[i].shape for i in data]
            spread = node.op in ("add", "sub") and len(data) == 2 and node.shape not in shapes
            if len(data) == 2 and length in (node.shape or ()) and (spread or node.op == "cdist" or index in flow.products):
                return index, data[0], data[1]
            stack.extend(data)
        return None

    def _picks(self, node: int) -> bool:
        """`torch.max(logits, lowest)`: the larger of two, entry by entry."""
        here = self.branch.flow.graph.nodes[node]
        return here.op in ("max", "min") and len(here.inputs) == 2 and here.shape is not None

    def _manual_product(self, node: int) -> tuple[int, int] | None:
        """`(q * k).sum(-1)`."""
        flow = self.branch.flow
        below = flow.graph.nodes[strip(flow, flow.graph.nodes[node].inputs[0])]
        data = [i for i in below.inputs if flow.data[i]]
        if below.op == "mul" and len(data) == 2 and data[0] != data[1]:
            return data[0], data[1]
        return None

    def weighs(self, softmax: int) -> int | None:
        """The value that a softmax weighs: the other operand of the product that its output reaches."""
        flow = self.branch.flow
        reach = {softmax}
        waiting = list(flow.graph.users[softmax])  # ascending, so that it is a heap
        while waiting:
            index = heapq.heappop(waiting)
            if index not in self.branch.members or index in reach:
                continue
            node = flow.graph.nodes[index]
            carried = [i for i in node.inputs if i in reach]
            if not carried:
                continue
            if flow.classes[index] == "product":
                others = [i for i in node.inputs if i not in reach and flow.data[i]]
                if others:
                    return others[-1]
                passed = self._keeps_places(carried[0], index)  # weights are mixed over heads
            else:
                passed = False
            if passed or flow.classes[index] in _SKIM or flow.classes[index] == "statistic" or self._mixes_heads(softmax, index):
                reach.add(index)
                for user in flow.graph.users[index]:
                    heapq.heappush(waiting, user)
        return None

    def _keeps_places(self, source: int, node: int) -> bool:
        """A map by weights that leaves queries and keys where they are: over heads, not over what experts make of the features."""
        before, after = (self.branch.flow.graph.nodes[i].shape or () for i in (source, node))
        return sorted(before) == sorted(after) or before[-2:] == after[-2:]

    def _mixes_heads(self, softmax: int, node: int) -> bool:
        """A map of weights [samples, heads, queries, keys], arranged in any way, over one of its axes: its result has as many entries."""
        nodes, flow = self.branch.flow.graph.nodes, self.branch.flow
        shape = nodes[softmax].shape or ()
        below = next((i for i in nodes[node].inputs if flow.data[i]), node)
        return flow.weighted[node] and len(shape) >= 4 and sorted(nodes[below].shape or ()) == sorted(shape) == sorted(nodes[node].shape or ())

    # -- norms on q and k -------------------------------------------------------------------------------------------------------------

    def norms_before(self, node: int, axis: int | None = None) -> tuple[tuple[Norm, ...], bool]:
        """Norms between a value and the weighted op that it comes from, and whether some path passes none. `axis`: they run over it, else over the
        features of tokens.

        A norm that reads the stream itself (no weighted op before it) is an A, not a QK-norm. Learned keys have norms as others have."""
        found, _, bare = self._norms_before(node, axis)
        return found, bare

    @cached_property
    def norms_across(self) -> tuple[Norm, ...]:
        """Norms of queries or keys that run over another axis than the one that their product sums over: they bound entries, not lengths."""
        found = {n.node: n for value, axis in self.sides if axis is not None for n in self._norms_before(value, axis)[1]}
        return tuple(found[n] for n in sorted(found))

    @cached_property
    def sides(self) -> tuple[tuple[int, int | None], ...]:
        """Queries and keys of every core, each with the axis that their product sums over."""
        return tuple((v, a) for c in self.cores for v, a in zip((c.q, c.k), c.axes or (None, None), strict=True))

    def _norms_before(self, node: int, axis: int | None) -> tuple[tuple[Norm, ...], tuple[Norm, ...], bool]:
        """As `norms_before`; second, those that are passed, since they run over another axis."""
        flow = self.branch.flow
        learned = not flow.data[node]
        found, passed = dict[int, Norm](), dict[int, Norm]()
        bare = False
        seen: set[int] = set()
        stack = [node]
        while stack:
            here = stack.pop()
            if here in seen or flow.data[here] is learned:
                continue
            seen.add(here)
            norm = self.branch.norms.by_node.get(here)
            inside = learned or here in self.branch.members
            if norm is not None and not norm.put_back and (self._is_own(norm.source) if inside else self._is_mapped(norm.source)):
                over = None if axis is None else runs_over(flow, norm, node, axis)
                if over or (over is None and norm.of_tokens):
                    found[here] = norm
                    continue
                if over is False:
                    passed[here] = norm
            if flow.key[here] or not (inside or self._is_kept(here)) or not flow.graph.nodes[here].inputs:
                bare = True
                continue
            inputs = [i for i in flow.graph.nodes[here].inputs if flow.data[i] is not learned]
            carried = inputs if learned else [i for i in inputs if self._same_rank(i, here)] or inputs  # pairs of features times a matrix each
            made = [i for i in carried if flow.keys[i]]  # beside tables of angles that are arguments
            if not made and not learned and not any(map(self.branch.is_fed, carried)):
                made = [i for i in inputs if flow.keys[i]]  # one entry of a pair, times two of a table
            stack.extend(made or carried)
        return tuple(found[n] for n in sorted(found)), tuple(passed[n] for n in sorted(passed)), bare

    def _is_own(self, node: int) -> bool:
        """Whether no state of a stream reaches a value of the branch without a weighted op."""
        return not self.branch.way(node) - {"earlier"}

    def _is_kept(self, node: int) -> bool:
        """Whether a value is what another branch made, and no state of a stream: keys that a cache hands on."""
        return self.branch.flow.data[node] and node not in self.branch.chains.on_streams

    def _is_mapped(self, node: int) -> bool:
        """Whether weighted ops, and no state of a stream, stand in front of a value that another branch made."""
        flow, seen, stack = self.branch.flow, {node}, [node]
        while stack:
            here = stack.pop()
            if flow.key[here]:
                continue
            fresh = [i for i in flow.graph.nodes[here].inputs if flow.data[i] and i not in seen]
            if not self._is_kept(here) or not flow.graph.nodes[here].inputs:
                return False
            seen.update(fresh)
            stack.extend(fresh)
        return True

    def _same_rank(self, source: int, node: int) -> bool:
        """Leave out per-token scalars (temperatures, statistics), not a view that puts an axis of one behind the features."""
        flow = self.branch.flow
        shape = flow.graph.nodes[source].shape
        if flow.classes[node] == "view" and numel(shape or ()) == numel(flow.graph.nodes[node].shape or ()):
            return True
        return shape is None or len(shape) == 0 or shape[-1] != 1 or (self.branch.flow.graph.nodes[node].shape or (0,))[-1] == 1

    def norm_kind(self, node: int, axis: int | None, head: int) -> QKNorm | Unknown:
        """Kind of norm on q or k. `axis`: what their product sums over; `head`: how many entries it has."""
        norms, bare = self.norms_before(node, axis)
        if not norms or bare:
            unread = self._unread_before(node)
            return Unknown("an op without a row stands between a projection and the logits", unread) if unread else "none"
        norm = norms[-1]
        if norm.name == "l2":
            return "cosine" if (norm.axes == (-1,) if axis is None else norm.size == head) else "l2"
        return "per_head" if norm.size <= head else "full"

    def _head(self, core: Core) -> int:
        """Features of one head: the axis that is summed over; where that is not read, the one that queries and keys, perhaps transposed, share."""
        q, k = (self.branch.flow.graph.nodes[i].shape or (0,) for i in (core.q, core.k))
        if core.axes is not None and len(q) >= -core.axes[0]:
            return q[core.axes[0]]
        return q[-1] if q[-1] in k[-2:] or len(q) < 2 else q[-2]

    def _unread_before(self, node: int) -> tuple[int, ...]:
        """Ops without a row between a value and the weighted op that it comes from: each may be a norm."""
        flow, seen, stack = self.branch.flow, {node}, [node]
        while stack:
            here = stack.pop()
            if flow.key[here] or here not in self.branch.members:
                continue
            fresh = [i for i in flow.graph.nodes[here].inputs if flow.data[i] and i not in seen]
            seen.update(fresh)
            stack.extend(fresh)
        return tuple(i for i in sorted(seen) if i in self.branch.members and flow.classes[i] == "unmodelled")

    @cached_property
    def qk(self) -> tuple[QKNorm | Unknown, QKNorm | Unknown, QKNorm | Unknown, bool | Unknown]:
        """(qk, q, k, v normed) over all cores: what every core has, and every product that is added to the one under its softmax."""
        every = (*self.cores, *(other for core in self.cores for other in self.added(core))) or tuple(self._pairwise())
        kinds = [(self.norm_kind(c.q, a, self._head(c)), self.norm_kind(c.k, b, self._head(c))) for c in every for a, b in [c.axes or (None, None)]]
        if not kinds:
            return "none", "none", "none", False
        q, k = (kinds[0][i] if all(p[i] == kinds[0][i] for p in kinds) else "none" for i in (0, 1))
        both: QKNorm | Unknown = q if q == k else ("full" if "none" not in (q, k) else "none")
        if "none" not in (q, k):
            both = next((side for side in (q, k) if isinstance(side, Unknown)), both)
        values = [self.norms_before(c.v) for c in self.cores if c.v is not None]
        return both, q, k, bool(values) and all(n and not bare for n, bare in values)

    def _pairwise(self) -> Iterator[Core]:
        """Products of queries with keys, each with each, that weigh values without a softmax: linear attention with its comparisons written out."""
        flow, features = self.branch.flow, self.branch.norms.features
        for index in sorted(flow.products.intersection(self.branch.region))[:-1]:  # another one weighs by it
            if (pair := multiplied(flow, flow.graph.nodes[index])) is None or pair[1][1] < -2:
                continue
            (q, k), axes = pair
            keys = -3 - axes[1]  # the other of the last two axes
            over_features = features.holds(q, axes[:1]) and features.holds(k, axes[1:])
            if over_features and features.spans_others(k, (keys,)) and (weighed := self._weighed_by(index)) is not None:
                yield Core(index, q, k, weighed, False, axes)

    def _weighed_by(self, product: int) -> int | None:
        """What the first product behind one multiplies the result by, if that is changed entry by entry at most."""
        flow, nodes = self.branch.flow, self.branch.flow.graph.nodes
        reach = {product}
        for index in (i for i in self.branch.region if i > product and reach.intersection(nodes[i].inputs)):
            if index in flow.products:
                others = [i for i in nodes[index].inputs if flow.data[i] and not flow.depends(i, product)]
                return others[-1] if others else None
            if nodes[index].shape == nodes[product].shape or flow.classes[index] == "view":
                reach.add(index)
        return None

    def added(self, core: Core) -> Iterator[Core]:
        """Products of other values of the stream that are summed into the logits of a softmax: of parts of a head that turn, say."""
        flow = self.branch.flow
        seen, stack = {core.node}, list(flow.graph.nodes[core.node].inputs[:1]) if flow.classes[core.node] == "softmax" else []
        while stack:
            node = stack.pop()
            if node in seen or node not in self.branch.members:
                continue
            seen.add(node)
            here = flow.graph.nodes[node]
            data = [i for i in here.inputs if flow.data[i]]
            if node in flow.products:
                alike = len(data) == 2 and not flow.weighted[node] and here.shape == flow.graph.nodes[core.node].shape
                if alike and {*data} != {core.q, core.k} and not any(map(self.from_memory, data)):
                    yield Core(node, data[0], data[1], None, core.softmax, compared_axes(flow, here, data[1]))
            elif flow.classes[node] in _SKIM:
                stack.extend(data)

    def reads_memory(self) -> bool:
        """Whether keys, or the values that are weighed, come from another stream, and queries do not: in a reversible net all of them do."""
        return any(
            (self.from_memory(c.k) or (c.v is not None and self.from_memory(c.v))) and not self.from_memory(c.q) for c in self.cores
        )

    @cached_property
    def _beside(self) -> frozenset[int]:
        """States of streams that begin without this one, also where they later read it: two streams that look at each other in turn."""
        branch = self.branch
        others = (c for c in branch.chains.streams if c is not branch.chain and branch.flow.data[c.nodes[0]] and not branch.is_fed(c.nodes[0]))
        return frozenset(n for c in others for n in c.nodes)

    def from_memory(self, node: int) -> bool:
        """Whether a value depends on another stream, or on what this one was made from alone, and not on this one. What an earlier block made of
        another stream counts as that."""
        branch, flow = self.branch, self.branch.flow
        own = set(branch.chain.nodes)
        seen: set[int] = set()
        stack = [node]
        memory = False
        while stack:
            here = stack.pop()
            if here in seen:
                continue
            seen.add(here)
            border = branch.border(here)
            if border == "raw" or here in own:
                return False
            apart = border == "memory" or (border == "earlier" and here in branch.chains.main_nodes) or here in self._beside
            if apart or (flow.data[here] and (not branch.is_fed(here) or branch.is_beside(here))):
                memory = True
            elif border in (None, "earlier"):
                stack.extend(flow.graph.nodes[here].inputs)
        return memory
