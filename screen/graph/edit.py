"""A graph that is changed as its author could change the program: calls put in between, other operands, weights that start otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from screen.graph import Graph, Initialiser, Node, Ref

NAMED = "(change)"
"""How the names of weights that a change adds begin."""


@dataclass
class Edit:
    """Changes of one graph, collected; `graph()` makes them. Nodes that are not there yet have numbers behind all others."""

    before: Graph
    _new: list[Node] = field(default_factory=list)
    _behind: dict[int, list[int]] = field(default_factory=dict)
    _operands: dict[tuple[int, int], int] = field(default_factory=dict)
    _outputs: dict[int, int] = field(default_factory=dict)
    _histories: dict[str, tuple[Initialiser, ...]] = field(default_factory=dict)
    _calls: dict[int, int] = field(default_factory=dict)

    def call(self, op: str, source: int, *args: object, at: int, **kwargs: object) -> int:
        """A call on the value of `source`, of its shape, right behind it; it stands in the module call and the line of the node `at`."""
        here, place = self._node(source), self.before.nodes[at]
        made = Node(self._next, op, (Ref(source), *args), tuple(kwargs.items()), here.shape, here.dtype, place.call, place.file, place.line)
        return self._add(made, source)

    def swap(self, source: int, at: int) -> int:
        """The last two axes of a value in the other order."""
        *rest, a, b = self.shape(source)
        made = self.call("transpose", source, -2, -1, at=at)
        self._new[-1] = replace(self._new[-1], shape=(*rest, b, a))
        return made

    def vector(self, size: int, value: float, source: int, at: int) -> Ref:
        """A new weight of `size` entries that start at `value`, ready where the value of `source` is."""
        place, name = self.before.nodes[at], f"{NAMED}.{self._next}"
        self._histories[name] = (Initialiser("fill_", (value,)),)
        made = Node(self._next, "parameter", (), (), (size,), self._node(source).dtype, place.call, place.file, place.line, name)
        return Ref(self._add(made, source))

    def read(self, reader: int, old: int, new: int) -> None:
        """`reader` takes `new` in place of `old`."""
        self._operands[reader, old] = new

    def leave(self, old: int, new: int) -> None:
        """The program gives back `new` in place of `old`."""
        self._outputs[old] = new

    def move(self, node: int, call: int) -> None:
        """A node that runs in another module call."""
        self._calls[node] = call

    def scale(self, parameter: str, factor: float) -> None:
        """A weight that starts multiplied by a number, where it is known how it started."""
        if parameter in self.before.histories:
            self._histories[parameter] = (*self.before.histories[parameter], Initialiser("mul_", (factor,)))

    def start(self, parameter: str, deviation: float) -> None:
        """A weight that starts at N(0, σ²), whatever was done to it before."""
        self._histories[parameter] = (Initialiser("normal_", (0.0, deviation)),)

    def graph(self) -> Graph:
        """The changed graph, its nodes numbered anew."""
        old, order = self.before, list[Node]()
        for node in old.nodes:
            order += [node, *(self._new[i - len(old.nodes)] for i in self._behind.get(node.index, ()))]
        places = {node.index: place for place, node in enumerate(order)}
        histories = dict(old.initialisers) | self._histories
        return replace(
            old,
            nodes=tuple(self._moved(node, places) for node in order),
            outputs=tuple(places[self._outputs.get(i, i)] for i in old.outputs),
            guesses=tuple(g if g.node is None else replace(g, node=places[g.node]) for g in old.guesses),
            failure=old.failure if old.failure is None or old.failure.node is None else replace(old.failure, node=places[old.failure.node]),
            initialisers=tuple(histories.items()),
            ranges=tuple((places[i], low, high) for i, low, high in old.ranges),
        )

    @property
    def _next(self) -> int:
        return len(self.before.nodes) + len(self._new)

    def shape(self, node: int) -> tuple[int, ...]:
        """Of a value, there already or new."""
        return self._node(node).shape or ()

    def _node(self, index: int) -> Node:
        count = len(self.before.nodes)
        return self.before.nodes[index] if index < count else self._new[index - count]

    def _add(self, node: Node, source: int) -> int:
        self._new.append(node)
        root = source if source < len(self.before.nodes) else next(r for r, behind in self._behind.items() if source in behind)
        self._behind.setdefault(root, []).append(node.index)
        return node.index

    def _moved(self, node: Node, places: dict[int, int]) -> Node:
        def moved(value: object) -> object:
            if isinstance(value, Ref):
                return Ref(places[self._operands.get((node.index, value.node), value.node)])
            return tuple(map(moved, value)) if isinstance(value, tuple) else value

        args, kwargs = tuple(map(moved, node.args)), tuple((key, moved(value)) for key, value in node.kwargs)
        return replace(node, index=places[node.index], args=args, kwargs=kwargs, call=self._calls.get(node.index, node.call))


__all__ = ["NAMED", "Edit"]
