"""What happens to the stream between the state that one block reads and the state that the next one reads: all of it, or a reason.

A block is a path from its entry to its exit on which nothing stands but residual adds of its own branches, factors that are numbers, norms, and
views; each branch reads one state of that path, and of that state alone. Then

    x' = s₂·N(s₁·(α·x + Σ_b c_b·F_b(x)))       (one `Joint`; a block is one or several, without N where no norm stands there)

Anything else on the path (a clamp, the stream added to itself, a mean over tokens, an in-place activation, a state from before) ends the walk with
its reason; `stack_of_stream` then reads the block as one program with what its values have in common (`forms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from screen.calculi.meanfield.lower.axes import REGROUPS, SAME
from screen.calculi.meanfield.values import Stop
from screen.calculi.meanfield.weights import Weights
from screen.graph import Graph, Node, Ref
from screen.structure.dataflow import number
from screen.structure.types import Norm

MOVED = frozenset({"flip", "roll"})
CUT = frozenset({"detach", "data"})
"""Views that no gradient comes back through."""
MASKED = "a mask on the stream hides no token"
PASSED = (SAME | REGROUPS) - MOVED - CUT


@dataclass
class Joint:
    """One residual add, or several of branches that read one state, with what is done to the sum."""

    read: int
    """The state that its branches read."""
    identity: float = 1.0
    """α."""
    branches: list[tuple[int, float]] = field(default_factory=list)
    """(output, c) of each branch."""
    norm: Norm | None = None
    """On the sum."""
    after: float = 1.0
    """A factor behind the norm."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What it does to the stream, whatever its branches are."""
        norm = None if self.norm is None else (self.norm.type, self.norm.axes, self.norm.eps)
        return self.identity, tuple(c for _, c in self.branches), norm, self.after

    def scale(self, factor: float) -> None:
        """The sum times a number."""
        if self.norm is not None:
            self.after *= factor
            return
        self.identity *= factor
        self.branches = [(output, c * factor) for output, c in self.branches]


@dataclass(frozen=True)
class Item:
    """One op on the way."""

    node: int
    """The state behind it."""
    factor: float | None = None
    norm: Norm | None = None
    branch: tuple[int, float] | None = None
    """(output, c) of an add, whose identity operand has the coefficient `factor`."""


@dataclass(frozen=True)
class Walk:
    """Walks on the stream of one graph."""

    graph: Graph
    weights: Weights
    norms: Mapping[int, Norm]
    assumptions: set[str]
    learned: set[int] = field(default_factory=set)
    """Ops on the way that multiply the stream by a learned number."""

    def joints(self, entry: int, exit_: int, branches: Mapping[int, frozenset[int]], reads: Mapping[int, frozenset[int]]) -> tuple[Joint, ...]:
        """The path from `entry` to `exit_`; raises `Stop` where something else stands on it.

        `branches`: add -> outputs of branches that it adds; `reads`: output -> the states that the branch reads."""
        items, levels = self._path(entry, exit_, branches), {self.plain(entry): 0}
        for level, item in enumerate(items, 1):
            levels[item.node] = level
        found: list[Joint] = []
        last = 0
        for level, item in enumerate(items, 1):
            if item.branch is None:
                self._between(item, level, found, self._next_read(items, level, reads, levels))
                continue
            read = self._read(item, reads, levels)
            if found and levels[found[-1].read] == read and found[-1].norm is None:
                for between in [*items[last : level - 1], item]:
                    found[-1].scale(self._number(between))
            elif read >= last:
                state = next(n for n, known in levels.items() if known == read)
                found.append(Joint(state, self._number(item)))
                for before in items[read : level - 1]:  # of the skip alone
                    found[-1].identity *= self._number(before)
            else:
                raise Stop("a branch reads an earlier state than the one that it is added to", item.node)
            found[-1].branches.append(item.branch)
            last = level
        if sum(len(j.branches) for j in found) != sum(map(len, branches.values())):
            raise Stop("a branch of the block is not added on the way of the stream", exit_)
        return tuple(found)

    def _between(self, item: Item, level: int, found: list[Joint], ahead: int | None) -> None:
        """A factor or a norm: of the sum before it, unless the next branch reads the stream before it."""
        if ahead is not None and ahead < level:
            return
        if not found:
            raise Stop("something is done to the stream before the first branch of a block reads it", item.node)
        if item.factor is not None:
            found[-1].scale(item.factor)
        elif found[-1].norm is not None:
            raise Stop("two norms stand on the stream in a row", item.node)
        else:
            found[-1].norm = item.norm

    def _number(self, item: Item) -> float:
        if item.factor is None:
            raise Stop("a branch reads the stream before a norm that its sum crosses", item.node)
        return item.factor

    def _next_read(self, items: list[Item], level: int, reads: Mapping[int, frozenset[int]], levels: Mapping[int, int]) -> int | None:
        """The level that the next add's branch reads."""
        following = next((i for i in items[level:] if i.branch is not None), None)
        return None if following is None else self._read(following, reads, levels)

    def _read(self, item: Item, reads: Mapping[int, frozenset[int]], levels: Mapping[int, int]) -> int:
        assert item.branch is not None
        found = {levels.get(self.plain(n)) for n in reads[item.branch[0]]}
        level = next(iter(found), None)
        if len(found) != 1 or level is None:
            raise Stop("a branch reads another state of the stream than the one that it is added to", item.branch[0])
        return level

    def plain(self, node: int) -> int:
        """The state behind views."""
        here = self.graph.nodes[node]
        while here.index not in self.norms and here.op in PASSED and len(set(here.inputs)) == 1:
            here = self.graph.nodes[here.inputs[0]]
        return here.index

    def _path(self, entry: int, exit_: int, branches: Mapping[int, frozenset[int]]) -> list[Item]:
        end, node, found = self.plain(entry), self.plain(exit_), list[Item]()
        while node != end:
            if node < end:
                raise Stop("the stream does not pass the state that its blocks read", node)
            item, source = self._step(self.graph.nodes[node], branches)
            found.append(item)
            node = self.plain(source)
        return found[::-1]

    def _step(self, node: Node, branches: Mapping[int, frozenset[int]]) -> tuple[Item, int]:
        """One op, and the state before it."""
        norm = self.norms.get(node.index)
        if norm is not None:
            return Item(node.index, norm=norm), norm.source
        if node.index in branches:
            return self._add(node, branches[node.index])
        factor = self._unmoved(node) or self._masked(node) or self._factor(node)
        if factor is None:
            raise Stop(f"`{node.op}` stands on the stream", node.index)
        return Item(node.index, factor=factor[0]), factor[1]

    def _add(self, node: Node, outputs: frozenset[int]) -> tuple[Item, int]:
        if node.op not in ("add", "sub") or len(node.args) < 2 or not all(isinstance(a, Ref) for a in node.args[:2]) or len(outputs) != 1:
            raise Stop(f"a residual add by `{node.op}` has no row in the recursion", node.index)
        times = node.kwarg("alpha", 1)
        if not isinstance(times, int | float):
            raise Stop("the factor of a residual add is no number", node.index)
        signs = (1.0, float(times) * (-1.0 if node.op == "sub" else 1.0))
        [output] = outputs
        places = [p for p in (0, 1) if node.inputs[p] == output]
        if len(places) != 1 or signs[1 - places[0]] < 0:
            raise Stop("the stream is added to itself, or with a minus", node.index)
        [place] = places
        return Item(node.index, factor=signs[1 - place], branch=(output, signs[place])), node.inputs[1 - place]

    def _unmoved(self, node: Node) -> tuple[float, int] | None:
        """A weight that starts at zero, added."""
        if node.op not in ("add", "sub") or len(node.inputs) != 2:
            return None
        zero = [p for p, i in enumerate(node.inputs) if self.weights.is_trained(i) and self.weights.constant(i) == 0.0]
        return (1.0, node.inputs[1 - zero[0]]) if len(zero) == 1 and (zero == [1] or node.op == "add") else None

    def _masked(self, node: Node) -> tuple[float, int] | None:
        """The stream times a mask: a value of bools, one for each token."""
        if node.op != "mul" or len(node.inputs) != 2:
            return None
        for carried, other in (node.inputs, node.inputs[::-1]):
            if (self.graph.nodes[other].shape or (0,))[-1] == 1 and self.graph.nodes[self._cast(other)].dtype == "bool":
                self.assumptions.add(MASKED)
                return 1.0, carried
        return None

    def _cast(self, node: int) -> int:
        """What stands behind views and casts."""
        here = self.graph.nodes[node]
        while here.op in PASSED and here.dtype != "bool" and here.inputs:
            here = self.graph.nodes[here.inputs[0]]
        return here.index

    def _factor(self, node: Node) -> tuple[float, int] | None:
        """The positive number that an op multiplies the stream by, and the operand that it multiplies."""
        if node.op not in ("mul", "div") or len(node.args) < 2:
            return None
        for place in (0, 1) if node.op == "mul" else (0,):
            other, carried = node.args[1 - place], node.args[place]
            if not isinstance(carried, Ref):
                continue
            factor = self.weights.constant(other.node) if isinstance(other, Ref) else number(other)
            if factor is not None and factor > 0 and self.weights.constant(carried.node) is None:
                if isinstance(other, Ref) and self.weights.is_trained(other.node):
                    self.learned.add(node.index)
                return (factor if node.op == "mul" else 1 / factor), carried.node
        return None


__all__ = ["CUT", "MOVED", "PASSED", "Joint", "Walk"]
