"""Chains that are the states of a recurrent layer: what is added is made by the same weights at each of them, and each reads a token of its own."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise

from screen.structure.chains.chain import Chain
from screen.structure.chains.identity_edges import Edge
from screen.structure.dataflow import Flow, nodes_of

TAKEN = ("select", "getitem")
"""Ops that take one of the values along an axis."""


class Steps:
    """What is asked of the chains of one graph."""

    def __init__(self, flow: Flow, others: Callable[[Edge], tuple[int, ...]]) -> None:
        self.flow, self.others = flow, others

    def is_recurrent(self, chain: Chain) -> bool:
        """Whether it is the hidden state of a recurrent layer: the same weights make what is added at each step, and something of each of its states
        is put beside those of the others again (a token each), in their order or the other way round."""
        if not self.stacks or not self._is_of_one_net(chain):
            return False
        behind = [self.flow.graph.nodes[n].inputs for n in self.stacks if n > chain.adds[-1]]
        met = ({sum(self.flow.depends(i, a) for a in chain.adds) for i in parts} for parts in behind)
        return any({*range(1, len(chain.adds) + 1)} <= counts for counts in met)

    def are_tokens(self, chain: Chain) -> bool:
        """Whether its states are those of one token after the other, and as many as the example has: the same weights make what is added at each
        step, and each step takes another token of one value, which has an axis more than the state. (Of one block for all depths each step reads the
        whole input, or something of the step alone, of fewer axes.)"""
        if len(chain.adds) < 3 or not self._is_of_one_net(chain):
            return False
        rank = len(self.flow.graph.nodes[chain.nodes[-1]].shape or ())
        taken = [set(self._taken(before, add, rank)) for before, add in pairwise(chain.adds)]
        return bool(set.intersection(*taken))

    def _taken(self, before: int, add: int, rank: int) -> Iterator[int]:
        """Values of the data of which one step takes a part with as many axes as the state has."""
        nodes, ancestors = self.flow.graph.nodes, self.flow.ancestors
        for index in nodes_of(ancestors[add] & ~ancestors[before]):
            node = nodes[index]
            if node.op not in TAKEN or len(node.shape or ()) != rank:
                continue
            source = node.inputs[0]
            source = nodes[source].inputs[0] if nodes[source].op == "unbind" else source
            if len(nodes[source].shape or ()) == rank + 1 and self.flow.from_input[source]:
                yield source

    def _is_of_one_net(self, chain: Chain) -> bool:
        """Whether the same weights make what is added at each step but the first."""
        first, count = frozenset[int](), 0
        for edge in (e for e in chain.edges if e.node in chain.adds[1:]):
            fresh = functools.reduce(operator.or_, (self.flow.keys[i] for i in self.others(edge)), 0) & ~self.flow.keys[edge.source]
            used = self._weights_of(fresh)
            first, count = first or used, count + 1
            if not used or used != first:
                return False
        return count > 1

    def _weights_of(self, keys: int) -> frozenset[int]:
        """The weights that some key ops read."""
        return frozenset(self.flow.root(i) for n in nodes_of(keys) for i in self.flow.graph.nodes[n].inputs if self.flow.trained[i])

    @cached_property
    def stacks(self) -> tuple[int, ...]:
        """Values that are the states of one recurrence put beside each other."""
        return tuple(n.index for n in self.flow.graph.nodes if n.op == "stack" and self._is_of_steps(n.index))

    def _is_of_steps(self, stack: int) -> bool:
        """Whether values that are put beside each other are the states of one recurrence, in order or the other way round: each is made of the one
        before it by the same weights."""
        parts, keys = list(self.flow.graph.nodes[stack].inputs), self.flow.keys
        if len(parts) < 3 or len(set(parts)) < len(parts):
            return False
        parts = sorted(parts) if parts in (sorted(parts), sorted(parts, reverse=True)) else []
        made = [self._weights_of(keys[b] & ~keys[a]) for a, b in pairwise(parts) if self.flow.depends(b, a)]
        return len(made) > 1 and len(made) == len(parts) - 1 and bool(made[0]) and len(set(made)) == 1


__all__ = ["Steps"]
