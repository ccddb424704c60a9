"""Logical weight maps of a branch: what the contract calls `m.maps`, before any cancellation."""

from __future__ import annotations

import functools
import heapq
import operator
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cached_property

from screen.structure.branches.attention import Attention
from screen.structure.branches.branch import Branch
from screen.structure.branches.weights import is_slice, slices_of, weights_of
from screen.structure.dataflow import mask_of
from screen.structure.types import MapCount, Role


@dataclass(frozen=True)
class Maps:
    """Counts the weights of one branch."""

    branch: Branch
    attention: Attention
    role: Role

    @cached_property
    def weights(self) -> list[int]:
        """Weighted ops; a convolution over several tokens beside an attention pools keys and is no projection, but where it makes them itself."""
        every = weights_of(self.branch)
        if not self.attention.cores:
            return every
        maps = set(weights_of(self.branch, filters=False))
        maps |= self._nearest(set(every), [i for c in self.attention.cores for i in (c.q, c.k, c.v) if i is not None])
        return [i for i in every if i in maps]

    def _nearest(self, weights: set[int], values: list[int]) -> set[int]:
        """The weighted ops that values are made of with no other one between."""
        found, seen, stack = set[int](), set[int](), values
        while stack:
            node = stack.pop()
            if node in weights:
                found.add(node)
            elif node not in seen and node in self.branch.members:
                seen.add(node)
                stack = [*stack, *self.branch.flow.counting[node]]
        return found

    def _weight_name(self, index: int) -> str:
        flow = self.branch.flow
        trained = [i for i in flow.graph.nodes[index].inputs if flow.trained[i]]
        trained.sort(key=lambda i: -len(flow.graph.nodes[i].shape or ()))
        for source in trained:
            if flow.trained[source]:
                node = source
                while flow.graph.nodes[node].op != "parameter":
                    node = next(i for i in flow.graph.nodes[node].inputs if flow.trained[i])
                return flow.graph.nodes[node].name
        return ""

    @cached_property
    def count(self) -> MapCount:
        """Logical weight maps: one per weight, and one per port for a weight that reads the stream and whose parts go to different ports."""
        counted = self._without_logit_bias()
        maps: dict[tuple[object, ...], int] = {}
        names: list[str] = []
        for index in self.weights:
            if index in counted:
                weight = self.expert_of(index) if self.role == "moe" else self._weight(index)
                maps[weight] = max(maps.get(weight, 0), self._parts(index))
                names.append(self._weight_name(index))
        return MapCount(sum(maps.values()), tuple(dict.fromkeys(names)))

    def _weight(self, index: int) -> tuple[object, ...]:
        """What tells one weight of a weighted op from another: the parameter and the slice of it."""
        flow = self.branch.flow
        here = flow.graph.nodes[index]
        held = flow.ref(here, 1, "weight") if here.op == "linear" else None  # what it reads may be a table that is trained as well
        node = held if held is not None else max(
            (i for i in here.inputs if flow.trained[i] or flow.is_chosen_weight(i)), key=lambda i: len(flow.graph.nodes[i].shape or ()), default=index
        )
        cut: list[object] = []
        while (above := self._behind(node)) is not None and node != index:
            here = flow.graph.nodes[node]
            if flow.classes[node] == "part" and not flow.is_chosen_weight(node) and not self._is_pick(node):
                cut.append((here.op, here.args[1:]))
            node = above
        return (node, *cut)

    def _behind(self, node: int) -> int | None:
        """What a view or a part is of; of a table that is mapped (positions), the weight of the map."""
        flow, here = self.branch.flow, self.branch.flow.graph.nodes[node]
        if here.op == "linear":
            return flow.ref(here, 1, "weight")
        return here.inputs[0] if here.inputs and flow.classes[node] in ("view", "part") else None

    def _without_logit_bias(self) -> set[int]:
        """Nodes that reach the output otherwise than as a bias of the logits: a mask or a position bias is no multiplicative map."""
        flow = self.branch.flow
        seen: set[int] = set()
        stack = [self.branch.output]
        softmaxes = {c.node for c in self.attention.cores}
        while stack:
            node = stack.pop()
            if node in seen or node not in self.branch.members:
                continue
            seen.add(node)
            here = flow.graph.nodes[node]
            if here.op == "scaled_dot_product_attention":
                stack.extend(i for p, name in enumerate(("query", "key", "value")) if (i := flow.ref(here, p, name)) is not None)
                bias = flow.ref(here, 3, "attn_mask")
                stack.extend(self._logit_products([bias]) if bias is not None else [])
            elif node in softmaxes:
                stack.extend(self._logit_products(list(here.inputs[:1])))
            else:
                stack.extend(here.inputs)
        return seen

    def _logit_products(self, stack: list[int]) -> list[int]:
        """The products (of data, or of data and weights) that logits are made of, through sums, scales and masks; what a sigmoid makes is a gate."""
        flow = self.branch.flow
        found: list[int] = []
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if node in seen or node not in self.branch.members:
                continue
            seen.add(node)
            if flow.classes[node] == "product":
                biased = flow.graph.nodes[node].op in ("addmm", "baddbmm")
                found.extend(flow.graph.nodes[node].inputs[1:] if biased else (node,))
            elif flow.classes[node] == "statistic":
                found.extend(flow.graph.nodes[node].inputs)
            elif not flow.key[node] and flow.graph.nodes[node].op != "sigmoid":
                stack.extend(flow.graph.nodes[node].inputs)
        return found

    def _is_pick(self, node: int) -> bool:
        """One entry along an axis (the weights of one expert): every expert plays the same part."""
        here = self.branch.flow.graph.nodes[node]
        if here.op == "select":
            return True
        above = self.branch.flow.graph.nodes[here.inputs[0]]
        return here.op == "getitem" and above.shape is not None and here.shape is not None and len(here.shape) < len(above.shape)

    def expert_of(self, index: int) -> tuple[object, ...]:
        """Experts side by side count as one: equal shape, equal distance from the input, read by equal ops."""
        flow = self.branch.flow
        weights = [flow.graph.nodes[i].shape for i in flow.graph.nodes[index].inputs if flow.trained[i] or flow.is_chosen_weight(i)]
        shape = max(weights, key=lambda s: len(s or ()), default=None)
        users = tuple(sorted({flow.graph.nodes[u].op for u in flow.graph.users[index]}))
        return (shape[-2:] if shape else None, self._levels[index], users)

    @cached_property
    def _levels(self) -> dict[int, int]:
        """How many key ops a node has before it in the branch, on the longest path."""
        flow, table = self.branch.flow, dict[int, int]()
        for node in self.branch.region:
            before = max((table.get(i, 0) for i in flow.graph.nodes[node].inputs), default=0)
            table[node] = before + flow.key[node]
        return table

    def _parts(self, index: int) -> int:
        """How many logical maps one weight holds: groups of slices of its output that arrive at different operands.

        Only a weight that reads the stream, or what filters alone make of it, is split, and any whose parts gate one another; an SSM's input map
        counts once, its parts gate and discretise one recurrence."""
        if self.role == "ssm":
            return 1
        behind = self.branch.flow.ancestors[index] & mask_of(i for i in self.weights if i != index)
        if behind and index not in {e.node for e in self.branch.entries}:
            gates = {cuts for node, cuts in self._arrivals(index) if self.branch.flow.graph.nodes[node].op in ("mul", "glu")}
            return 2 if len(gates) == 2 else 1
        cuts = self.cuts(index)
        return len(cuts) if len(cuts) > 1 and self._meet(index, cuts) else 1

    def _meet(self, index: int, cuts: list[set[object]]) -> bool:
        """Whether parts of a weighted op's output are ever computed with one another: heads that are cut into groups, each with an attention of its
        own, are only laid side by side again."""
        flow, own = self.branch.flow, dict[int, int]()
        named = {cut: 1 << n for n, group in enumerate(cuts) for cut in group}
        if "gate" in named:
            return True
        for node in self._reached(index, self.branch.members):
            masks = {own[i] for i in flow.graph.nodes[node].inputs if own.get(i)}
            made = functools.reduce(operator.or_, masks, 0)
            cuts_here = is_slice(self.branch, node)
            if (len(masks) > 1 and flow.classes[node] != "join") or (made.bit_count() > 1 and cuts_here):
                return True
            made = made or (named.get(self.cut_of(node), 0) if cuts_here else 0)
            own[node] = 0 if flow.weighted[node] and made.bit_count() > 1 else made
        return False

    def cuts(self, index: int) -> list[set[object]]:
        """Slices of a weighted op's output (as `cut_of` names them), those that arrive at one operand together."""
        groups: list[set[object]] = []
        for cuts in [*self._arrivals_at_one_depth(index), *self._at_one_operand(index)]:
            merged = set(cuts)
            for group in [g for g in groups if g & merged]:
                merged |= group
                groups.remove(group)
            groups.append(merged)
        return groups

    @cached_property
    def _calls(self) -> frozenset[int]:
        """Ops of which several may be one map's work."""
        nodes = self.branch.flow.graph.nodes
        return frozenset(i for i in self.branch.region if nodes[i].op in ("grid_sample", "scaled_dot_product_attention"))

    def _at_one_operand(self, index: int) -> list[frozenset[object]]:
        """Slices of a weighted op's output that calls of one op take at one operand: levels of a deformable attention, groups of heads with an
        attention each play one part."""
        nodes = self.branch.flow.graph.nodes
        found: dict[tuple[str, int], frozenset[object]] = {}
        for node, cuts, operand in self._ports(index) if self._calls else ():
            if node in self._calls:
                part = nodes[node].op, nodes[node].inputs.index(operand)
                found[part] = found.get(part, frozenset()) | cuts
        return list(found.values())

    def cut_of(self, node: int) -> object:
        """What names a slice: the call that it belongs to and which entries it takes."""
        return (self._root_cut(node), self.branch.flow.graph.nodes[node].args[1:])

    def _arrivals_at_one_depth(self, index: int) -> list[frozenset[object]]:
        """Arrivals without those at a weighted op that leads to where another slice arrives: the latent part of a low-rank map (MLA)."""
        arrivals = list(self._arrivals(index))
        flow = self.branch.flow
        ends = {node for node, _ in arrivals if flow.mixing[node]}
        return [cuts for node, cuts in arrivals if not (flow.weighted[node] and any(e != node and flow.depends(e, node) for e in ends))]

    def _arrivals(self, index: int) -> Iterator[tuple[int, frozenset[object]]]:
        """For each operand of a key op (or of a product entry by entry) that slices of a weighted op's output reach: which slices."""
        yield from ((node, cuts) for node, cuts, _ in self._ports(index))

    def _ports(self, index: int) -> Iterator[tuple[int, frozenset[object], int]]:
        """Arrivals, with the operand each."""
        flow = self.branch.flow
        first: dict[int, frozenset[object]] = {index: frozenset()}
        for node in self._reached(index, first):
            here = flow.graph.nodes[node]
            arrived = [i for i in dict.fromkeys(here.inputs) if i in first]
            split = here.op in ("mul", "glu") and len([i for i in here.inputs if first.get(i)]) > 1
            if flow.key[node] or (split and len({first[i] for i in arrived}) > 1):
                yield from ((node, first[i], i) for i in arrived if first[i])
            elif here.op == "mul" and len(arrived) == 2 and first[arrived[0]] and (halves := self._halves(*arrived)):
                yield from ((node, frozenset({self.cut_of(half)}), half) for half in halves)
            elif here.op == "glu" and self._is_over_features(index, node):
                yield node, frozenset({"gate"}), arrived[0]
                yield node, frozenset({"up"}), arrived[0]
            else:
                before = first[arrived[0]] if len(arrived) == 1 else frozenset[object]().union(*(first[i] for i in arrived))
                first[node] = frozenset({self.cut_of(node)}) if not before and is_slice(self.branch, node) else before

    def _is_over_features(self, index: int, node: int) -> bool:
        """Whether a `glu` halves the features of a weighted op, and not its tokens or samples."""
        flow = self.branch.flow
        here, above = flow.graph.nodes[node], flow.graph.nodes[index]
        rank, dim = len(here.shape or ()), flow.operand(here, 1, "dim")
        axis = (dim if isinstance(dim, int) else -1) % max(rank, 1)
        return axis == rank - 1 or (axis == 1 and above.op.startswith("conv"))

    def _halves(self, one: int, other: int) -> tuple[int, ...]:
        """The two halves of one slice that two values are made of: gate and up of a map that holds more than them. Empty where they are none."""
        flow = self.branch.flow
        both = flow.ancestors[one] & self._slices, flow.ancestors[other] & self._slices
        cuts = [found & ~rest for found, rest in (both, both[::-1])]
        if any(cut.bit_count() != 1 for cut in cuts):
            return ()
        nodes = [flow.graph.nodes[cut.bit_length() - 1] for cut in cuts]
        wholes = {self._whole(n.index) for n in nodes}
        shapes = [n.shape or (0,) for n in (*nodes, *(flow.graph.nodes[w] for w in wholes))]
        alike = len(wholes) == 1 and shapes[0] == shapes[1] and shapes[-1][-1] > shapes[0][-1]
        return tuple(n.index for n in nodes) if alike else ()

    def _whole(self, part: int) -> int:
        """The value that a slice was cut from."""
        flow = self.branch.flow
        above = flow.graph.nodes[flow.graph.nodes[part].inputs[0]]
        return above.inputs[0] if above.shape is None and above.inputs else above.index

    @cached_property
    def _slices(self) -> int:
        return slices_of(self.branch)

    def _reached(self, index: int, passed: Container[int]) -> Iterator[int]:
        """Nodes of the branch after a node, ascending, that read it or one of those before them that are in `passed` by then."""
        users, members = self.branch.flow.graph.users, self.branch.members
        waiting, seen = list(users[index]), set(users[index])  # ascending, so that it is a heap
        while waiting:
            node = heapq.heappop(waiting)
            if node not in members:
                continue
            yield node
            for user in users[node] if node in passed else ():
                if user not in seen:
                    seen.add(user)
                    heapq.heappush(waiting, user)

    def _root_cut(self, node: int) -> object:
        """The call that a slice belongs to, so that equal slices of one value are one."""
        flow = self.branch.flow
        above = flow.graph.nodes[flow.graph.nodes[node].inputs[0]]
        return (above.op, above.args[1:], flow.root(above.inputs[0])) if above.shape is None and above.inputs else above.index
