"""Where blocks begin and end on a stream: at the states that their first branches read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from screen.calculi.meanfield.lower.other_streams import Foreign
from screen.calculi.meanfield.stop import Stop
from screen.calculi.meanfield.walk import Walk
from screen.calculi.meanfield.weights import Weights
from screen.graph import Graph, Node
from screen.structure.types import Norm, Stream


@dataclass
class Cuts:
    """Entries and exits of the traced blocks of one stream."""

    stream: Stream
    graph: Graph
    weights: Weights
    norms: Mapping[int, Norm]
    walk: Walk
    foreign: Foreign
    memory: dict[int, frozenset[int]] = field(default_factory=dict)
    loop: bool = False
    """Whether the whole graph is a block (or some) that reads what it returned: it begins at its argument and ends at its first output."""

    def reads(self, output: int) -> frozenset[int]:
        """The states of the stream that a branch reads: where a walk up from its output first meets the stream."""
        if output not in self.memory:
            self.memory[output] = self._met(output)
        return self.memory[output]

    def _met(self, output: int) -> frozenset[int]:
        states, found, seen = set(self.stream.states), set[int](), set[int]()
        stack = [output]
        while stack:
            node = stack.pop()
            if node in seen or self.weights.is_trained(node) or self.foreign.holds(node):
                continue
            seen.add(node)
            if node in states and node != output:
                found.add(node)
                continue
            here, norm = self.graph.nodes[node], self.norms.get(node)
            if here.op == "mul" and node != output and self._is_nothing(here):
                continue
            stack.extend((norm.source,) if norm is not None else here.inputs)
        return frozenset(found)

    def _is_nothing(self, node: Node) -> bool:
        """A product with something that starts at zero."""
        known = any(self.weights.is_trained(i) for i in node.inputs) or len(node.inputs) < 2
        return known and self.weights.constant(node.index) == 0.0

    def entry(self, number: int) -> int:
        """The state that the first branch of a traced block reads; of several the latest."""
        if self.loop and number == 0:
            return self.stream.states[0]
        add, output = self.stream.traced[number].branches[0]
        found = max((n for n in self.reads(output) if n < add), default=None)
        if found is None:
            raise Stop("the state that the first branch of a block reads is not known", add)
        return found

    def exit(self, number: int) -> int | None:
        """The state behind a traced block that another follows (the first one again, in a loop). Raises where that one reads none behind this one."""
        if number + 1 < len(self.stream.traced):
            following, (add, _) = self.entry(number + 1), self.stream.traced[number].branches[-1]
            if following < add:
                raise Stop("a block reads no state of the stream that the block before it has made", add)
            return following
        return self.graph.outputs[0] if self.loop else None

    def spans(self, kind: str) -> list[tuple[int, int, int]]:
        """(number, entry, exit) of the traced blocks of a kind that another follows; of none, its last one up to `last_end`."""
        numbers = [n for n, block in enumerate(self.stream.traced) if block.kind == kind]
        if not numbers:
            raise Stop("no block of a kind was traced")
        found = [(n, self.entry(n), end) for n in numbers if (end := self.exit(n)) is not None]
        last = numbers[-1]
        return found or [(last, self.entry(last), self.last_end()[0])]

    def last_end(self) -> tuple[int, bool]:
        """The state behind the last block: behind its last add whatever stands there behind the last add of another block like it as well; and
        whether that is all of what stands there."""
        last = len(self.stream.traced) - 1
        here = self.stream.traced[last].branches[-1][0]
        twin = self._twin(last)
        if twin is None:
            return here, True
        add, entry = self.stream.traced[twin].branches[-1][0], self.entry(twin + 1)
        alike = self.stream.traced[twin].kind == self.stream.traced[last].kind  # else factors differ from block to block
        for state in self.stream.states:
            if add < state <= entry and self.walk.plain(state) == state:
                following = self._after(here, state, alike)
                if following is None:
                    return here, False
                here = following
        return here, True

    def _twin(self, last: int) -> int | None:
        """An earlier block of the last one's kind; else the one before it, where it has as many branches."""
        traced = self.stream.traced
        same = next((n for n in range(last) if traced[n].kind == traced[last].kind), None)
        return last - 1 if same is None and last and len(traced[last - 1].branches) == len(traced[last].branches) else same

    def _after(self, here: int, state: int, alike: bool) -> int | None:
        """What follows a value as a state follows the one before it; `alike`: with the same numbers."""
        if state in self.norms:
            return next((n.node for n in self.norms.values() if self.walk.plain(n.source) == self.walk.plain(here)), None)
        return next((n for n in self._plain_users(here) if self._looks(n, alike) == self._looks(state, alike)), None)

    def _plain_users(self, node: int) -> list[int]:
        """What reads a value, or a view of it."""
        found: list[int] = []
        for user in self.graph.users[node]:
            found += self._plain_users(user) if self.walk.plain(user) != user else [user]
        return found

    def _looks(self, node: int, numbers: bool) -> tuple[object, ...]:
        here = self.graph.nodes[node]
        return here.op, tuple(a if numbers else None for a in here.args if isinstance(a, int | float)), len(set(here.inputs))


__all__ = ["Cuts"]
