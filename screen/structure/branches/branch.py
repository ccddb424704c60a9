"""Branches: what is added to a stream, where it reads the stream, and which norms stand on the way (theory, section 1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from screen.ops.scalars import BOUNDED
from screen.structure.branches.output import Exit, is_bounded_gate, walk_out
from screen.structure.branches.region import NOTHING, Region
from screen.structure.dataflow import number
from screen.structure.types import Tri, Unknown


@dataclass(frozen=True)
class Branch(Region):
    """The value `output`, added to `chain` at `add`, whose state there is `state`."""

    @cached_property
    def has_input_norm(self) -> Tri | str:
        """Position A: every entry from this stream is normed, but for bounded gates; `partly` when some are."""
        counted = [e for e in self.entries if e.node not in self.gates] or list(self.entries)
        own = NOTHING.union(*(e.ways for e in counted)) if counted else NOTHING
        blockers = self.opaque_entries()
        if blockers and "raw" in own:
            return Unknown("an op without a row stands between the stream and the branch", blockers)
        ways = own & {"raw", "normed"} | ({"raw"} if self.is_factor_raw else set())
        if not ways and own & {"memory", "memory normed"}:  # reversible: the branch reads the other stream alone
            ways = frozenset({"memory": "raw", "memory normed": "normed"}[w] for w in own & {"memory", "memory normed"})
        if ways == {"normed"}:
            return True
        return "partly" if len(ways) == 2 else False

    @cached_property
    def is_factor_raw(self) -> bool:
        """Whether the branch multiplies the stream itself, no norm or bounded function between, by what it makes from it, as x ⊙ F(A(x))."""
        return self._is_factor("raw")

    @cached_property
    def is_factor_normed(self) -> bool:
        """Whether it so multiplies a norm of the stream, no map between, as A(x) ⊙ F(A(x))."""
        return self._is_factor("normed")

    def _is_factor(self, way: str) -> bool:
        flow, stack, seen = self.flow, [self.output], set[int]()
        while stack:
            node = stack.pop()
            if node in seen or node not in self.members or self.key[node] or is_bounded_gate(flow, node):
                continue
            seen.add(node)
            norm = self.norms.by_node.get(node)
            sources = [i for i in flow.counting[node] if flow.data[i]] if norm is None else [norm.source]
            if norm is None and flow.graph.nodes[node].op == "mul" and len(sources) == 2:
                fresh = [bool(flow.keys[i] & ~flow.keys[self.state]) and not is_bounded_gate(flow, i) for i in sources]
                if any(fresh[1 - k] and way in self.way(i) and not is_bounded_gate(flow, i) for k, i in enumerate(sources)):
                    return True
            stack.extend(sources)
        return False

    @cached_property
    def gates(self) -> frozenset[int]:
        """Entries that read the stream and do no more than gate: with a bounded factor what the branch gives, or with any factor what a norm at its
        input then normalises. Both are multipliers with a place of their own (s of the branch, copies of a stream). So do the maps of the stream that
        make the gate of an update, z ⊙ x + (1 − z) ⊙ n, or of the state in its cell, n = tanh(F + r ⊙ x) (GRU), those that make no more than a bias
        of logits, and those that make what later branches read as well (queries of a whole stage): an earlier value."""
        closed = {e.node: e.scale for e in self.exit.scales if e.kind == "gate" and e.scale is not None and is_bounded_gate(self.flow, e.scale)}
        closed |= self._gated_states
        norms = self.norms.by_node
        normed = {
            i for i in self.region
            if (norm := norms.get(i)) is not None and norm.of_tokens and "raw" in self.way(norm.source) and not self.is_of_mapped_parts(norm)
        }
        leads, biases = set[int](), self._logit_biases  # to the output, past neither
        for node in reversed(self.region):
            ways = [u for u in self.flow.graph.users[node] if u in leads and u not in normed and closed.get(u) != node and (u, node) not in biases]
            if ways or node == self.output:
                leads.add(node)
        updates = {e.node for e in self.entries if e.ways == {"raw"} and any(self.flow.depends(gate, e.node) for gate in self.update_gates)}
        raw = [e for e in self.entries if "raw" in e.ways and "normed" not in e.ways]
        own = not all(self._is_shared(e.node) for e in self.entries) if raw else False  # else what is read elsewhere is what the branch itself gives
        shared = {
            e.node for e in raw
            if (own and self._is_shared(e.node)) or all(map(self._is_context, (i for i in e.operands if "raw" in self.way(i))))
        }
        return frozenset({e.node for e in self.entries} - leads - self._carried_into(normed) | updates | shared)

    def _is_shared(self, entry: int) -> bool:
        """Whether other branches read what this entry makes, in front of the output."""
        seen, stack = set[int](), [entry] if entry != self.output else []
        while stack:
            for user in self._readers(stack.pop()):
                if user in self.members:
                    stack += [user] if user not in seen and user != self.output else []
                    seen.add(user)
                elif self._is_elsewhere(user):
                    return True
        return False

    def _readers(self, node: int) -> list[int]:
        """What reads a value, and not its shape or type alone (`mask.expand_as(logits)`)."""
        return [user for user in self.flow.graph.users[node] if node in self.flow.counting[user]]

    def _is_elsewhere(self, user: int) -> bool:
        """Whether later states of the stream depend on what is no part of this branch and no state itself."""
        return user not in self.members and user not in self.states and user != self.add and self.flow.depends(self.chain.nodes[-1], user)

    @cached_property
    def _logit_biases(self) -> frozenset[tuple[int, int]]:
        """(op, operand): what is added to a product of two values on its way to a softmax, and masks that fused attentions add."""
        flow, found = self.flow, set[tuple[int, int]]()
        for node in self.region:
            here = flow.graph.nodes[node]
            if here.op == "scaled_dot_product_attention" and (mask := flow.ref(here, 3, "attn_mask")) is not None:
                found.add((node, mask))
            if flow.classes[node] == "softmax" and here.inputs:
                self._compares(here.inputs[0], found)
        return frozenset(found)

    def _compares(self, node: int, found: set[tuple[int, int]]) -> bool:
        """Whether logits are a product of two values, through masks, multiples and sums; what is summed with one is added to `found`."""
        flow = self.flow
        while node in self.members:
            here = flow.graph.nodes[node]
            data = [i for i in dict.fromkeys(here.inputs) if flow.data[i]]
            if node in flow.products:
                return len(data) == 2
            if here.op == "add" and len(data) == 2:
                products = [self._compares(i, found) for i in data]
                found.update((node, i) for i, product in zip(data, products, strict=True) if not product and any(products))
                return any(products)
            if len(data) != 1 or self.key[node]:
                return False
            node = data[0]
        return False

    def _is_context(self, node: int) -> bool:
        """Whether a value, no state of the stream, is read by other branches of it as well, as it is or behind views."""
        flow = self.flow
        while node not in self.states:
            if any(map(self._is_elsewhere, self._readers(node))):
                return True
            data = [i for i in flow.counting[node] if flow.data[i]]
            if len(data) != 1 or self.key[node]:
                return False
            node = data[0]
        return False

    def _carried_into(self, norms: set[int]) -> set[int]:
        """Values that some norms read as they are, put beside others or added to them: no factors."""
        stack, seen = [self.norms.by_node[i].source for i in norms], set[int]()
        while stack:
            node = stack.pop()
            if node not in seen and node in self.members:
                seen.add(node)
                stack.extend(e.source for e in self.chains.into[node] if e.kind not in ("norm", "gate", "free"))
        return seen

    @cached_property
    def update_gates(self) -> tuple[int, ...]:
        """Bounded values that multiply the difference of stream and branch: z of n + z ⊙ (x − n), and of such a mean that is one op."""
        graph, found = self.flow.graph, list[int]()
        add = graph.nodes[self.add]
        if add.op == "lerp" and len(add.inputs) == 3:
            found = [i for i in add.inputs[2:] if is_bounded_gate(self.flow, i)]
        if add.op == "sub":
            edges = [e for user in graph.users[self.add] for e in self.chains.into[user] if e.source == self.add and e.kind in ("gate", "free")]
            found = [e.scale for e in edges if e.scale is not None and is_bounded_gate(self.flow, e.scale)]
        kept = [g for g in self.stream_gates if is_bounded_gate(self.flow, g)]
        taken = graph.nodes[self.flow.root(self.output)].inputs if graph.nodes[self.flow.root(self.output)].op == "mul" else ()
        return (*found, *(g for g in kept if any(self.is_rest(i, g) or self.is_rest(g, i) for i in taken)))

    def is_rest(self, node: int, gate: int) -> bool:
        """Whether a value is 1 − g."""
        here = self.flow.graph.nodes[self.flow.root(node)]
        return here.op in ("sub", "rsub") and here.inputs == (gate,) and 1.0 in map(number, here.args)

    @cached_property
    def _gated_states(self) -> dict[int, int]:
        """Product -> bounded factor, where the other one is a state of the stream itself, as it is or behind views, and the sum with a map of the
        branch goes into a bounded function: a cell forgets some of the state. Of an update whose cell has a map of the state, before that product or
        behind it: sum -> what comes of it."""
        flow, found = self.flow, dict[int, int]()
        for node in (n for n in self.region if flow.graph.nodes[n].op == "mul"):
            inputs = flow.graph.nodes[node].inputs
            for gate, state in (inputs, inputs[::-1]) if len(inputs) == 2 else ():
                if is_bounded_gate(flow, gate) and (flow.root(state) in self.states or self.update_gates):
                    if flow.root(state) in self.states and self._is_summed(node):
                        found[node] = gate
                    elif self.update_gates and (end := self._mapped(node, state)) is not None and self._is_summed(end):
                        found[flow.graph.users[end][0]] = end
        return found

    def _mapped(self, product: int, state: int) -> int | None:
        """The map of a state of the stream, where one stands right before a product or right behind it: U(r ⊙ x), r ⊙ U(x)."""
        flow = self.flow
        users = flow.graph.users[product]
        if flow.root(state) in self.states and len(users) == 1 and flow.weighted[users[0]]:
            return users[0]
        data = [i for i in flow.graph.nodes[state].inputs if flow.data[i]] if flow.weighted[state] else []
        return product if len(data) == 1 and flow.root(data[0]) in self.states else None

    def _is_summed(self, node: int) -> bool:
        """Whether the one thing that is made of a value is its sum with a map, in a bounded function."""
        flow, users = self.flow, self.flow.graph.users
        (add, *more) = users[node] or [node]
        return not more and flow.graph.nodes[add].op == "add" and all(flow.graph.nodes[u].op in BOUNDED for u in users[add])

    @cached_property
    def exit(self) -> Exit:
        """What stands between the last key op and the add."""
        return walk_out(self)
