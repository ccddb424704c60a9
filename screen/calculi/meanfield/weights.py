"""Mean squares of parameters at their recorded initialisation, and the parameter behind a node."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from screen import ops
from screen.graph import Graph, Initialiser, Node
from screen.structure.initial.laws import CARRIES, deviation, effective, fans, numbers_of, partly, starting_value_of, without_zeroed_rows
from screen.structure.initial.values import start_of
from screen.structure.types import Unknown

Read = tuple[int, int]
"""A parameter, and the entry of its first axis that is read; -1: all of it."""


@dataclass(frozen=True)
class Weights:
    """The parameters of one graph."""

    graph: Graph

    @cached_property
    def _constants(self) -> dict[int, float | None]:
        return {}

    @cached_property
    def histories(self) -> dict[str, tuple[Initialiser, ...]]:
        """Parameter name -> recorded calls."""
        return {name: effective(history) for name, history in self.graph.initialisers}

    def parameter(self, node: int) -> int | None:
        """The parameter whose entries a node holds, moved or sliced; None when it holds anything else."""
        while True:
            here = self.graph.nodes[node]
            if here.op == "parameter":
                return node
            if ops.CLASSES.get(here.op) not in CARRIES and here.op != "alias":
                return None
            if len(set(here.inputs)) != 1:
                return None
            node = here.inputs[0]

    def slice_of(self, node: int) -> tuple[int, int | None]:
        """The parameter behind a node and the last cut of it, None for the whole."""
        cut: int | None = None
        while self.graph.nodes[node].inputs:
            if ops.CLASSES.get(self.graph.nodes[node].op) == "part":
                cut = node if cut is None else cut
            node = self.graph.nodes[node].inputs[0]
        return node, cut

    def mean_square(self, node: int, *, row: bool = False) -> float | Unknown:
        """E W² of the entries behind a node: of constants their square, of random ones σ² (mean zero).

        `row`: one row (the padding of a table) was set to zero after the rest, which is left out; of a head that is such a table too."""
        found = self.parameter(self._normed(node))
        if found is None:
            constant = self.constant(node)
            return constant**2 if constant is not None else Unknown("a weight is computed from others", (node,))
        here = self.graph.nodes[found]
        history, shape = self.histories.get(here.name, ()), here.shape or ()
        history = without_zeroed_rows(history) if row or self._has_padding(found) else history
        if not history:
            return Unknown(f"no initialiser of `{here.name}` was recorded", (found,))
        if (call := partly(history)) is not None:
            return Unknown(f"`{call}` changed some entries of `{here.name}` and not others", (found,))
        value = starting_value_of(history)
        if value is not None:
            return value**2
        law = deviation(history, *fans(shape))
        return Unknown(f"{law.reason} (`{here.name}`)", (found,)) if isinstance(law, Unknown) else law**2

    def _has_padding(self, parameter: int) -> bool:
        """Whether a parameter is a table with a padding row."""
        users = (self.graph.nodes[i] for i in self.graph.users[parameter])
        return any(user.op == "embedding" and isinstance(user.kwarg("padding_idx"), int) for user in users)

    def _normed(self, node: int) -> int:
        """w = g·v/‖v‖ with g = ‖v‖ at the start is v."""
        here = self.graph.nodes[node]
        if here.op != "_weight_norm" or len(here.args) < 3 or len(here.inputs) != 2:
            return node
        weight, length = (self.graph.nodes[i] for i in here.inputs)
        history = self.histories.get(length.name, ())
        return weight.index if [(c.op, c.args) for c in history] == [("norm_of", (weight.name, here.args[2]))] else node

    def constant(self, node: int) -> float | None:
        """The one number that sums, products and functions of constants come to: `1 + w`, `exp(clamp(t))`, `0 * x`."""
        if node not in self._constants:
            self._constants[node] = start_of(self.graph, node)
        return self._constants[node]

    def is_trained(self, node: int) -> bool:
        """Whether a node depends on parameters alone."""
        return self._trained[node]

    @cached_property
    def _trained(self) -> list[bool]:
        table: list[bool] = []
        for node in self.graph.nodes:
            fixed = node.op in ("constant", "buffer")
            table.append(node.op == "parameter" or (bool(node.inputs) and not fixed and all(map(table.__getitem__, node.inputs))))
        return table

    def matrices(self, first: int, last: int) -> frozenset[Read]:
        """Parameters of more than one axis that are read between two nodes: all of one, or, of one that is never read but row by row
        (`scale[layer]`), which row."""
        nodes = self.graph.nodes
        read = {(i, n.index) for n in nodes[first + 1 : last + 1] for i in n.inputs if nodes[i].op == "parameter" and len(nodes[i].shape or ()) > 1}
        return frozenset([(i, self._row(i, n)) for i, n in read])

    def _row(self, parameter: int, reader: int) -> int:
        """Which entry of a parameter's first axis a node picks; -1 where some node reads more than one of it."""
        size, users = (self.graph.nodes[parameter].shape or (0,))[0], self.graph.users[parameter]
        if len(users) == 1 or any(_picked(self.graph.nodes[n]) is None for n in users):
            return -1
        return (_picked(self.graph.nodes[reader]) or 0) % size

    def alike(self, parameters: frozenset[Read]) -> frozenset[Read]:
        """The same parameters, each by the first of those that start with the same random numbers."""
        return frozenset((self._first_of_draw.get(self._draws[i], i) if i in self._draws else i, row) for i, row in parameters)

    @cached_property
    def _draws(self) -> dict[int, tuple[object, ...]]:
        """Parameter -> its shape and which random numbers it holds, of those that were looked at."""
        named = [(n, numbers_of(self.histories.get(n.name, ()))) for n in self.graph.nodes if n.op == "parameter"]
        return {n.index: (n.shape, numbers) for n, numbers in named if numbers}

    @cached_property
    def _first_of_draw(self) -> dict[tuple[object, ...], int]:
        return {draws: index for index, draws in reversed(self._draws.items())}

    def signature(self, first: int, last: int) -> tuple[object, ...]:
        """Shapes and recorded laws of the parameters that are first read between two nodes, in order."""
        found = [n for n in self.graph.nodes[first + 1 : last + 1] if n.op == "parameter"]
        return tuple((n.shape, tuple((c.op, _numbers(c)) for c in self.histories.get(n.name, ()))) for n in found)


def _picked(node: Node) -> int | None:
    """The entry of the first axis that `x[3]` or `x[3, :]` picks."""
    pick = node.args[1] if node.op == "getitem" and len(node.args) > 1 else None
    first = pick[0] if isinstance(pick, tuple | list) and pick else pick
    return first if isinstance(first, int) and not isinstance(first, bool) else None


def _numbers(call: Initialiser) -> tuple[object, ...]:
    return tuple(a for a in call.args if not isinstance(a, str))


def same_shapes(one: tuple[object, ...], two: tuple[object, ...]) -> bool:
    """Whether two signatures are of blocks of one shape."""
    return Counter(s[0] for s in one) == Counter(s[0] for s in two)  # type: ignore[index]


__all__ = ["Weights", "same_shapes"]
