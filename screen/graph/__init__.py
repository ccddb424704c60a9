"""The captured program as plain data.

A `Graph` is what one forward pass did, written down without torch: a list of nodes in the order in which they ran,
the tree of module calls that they ran in, and what was guessed or left out. Capture makes it, facts read it.

Names (`Module.path`, `Module.class_name`, `Node.name`) are labels for people. No fact may depend on them: two graphs that
differ only in names must give the same facts.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to the value of another node."""

    node: int


SOURCES = frozenset({"input", "parameter", "buffer", "constant"})
"""Ops of nodes that have no inputs: arguments of forward, weights, buffers, tensors made outside the trace."""


SUMS = frozenset({"add", "lerp", "index_add", "stack"})
"""Ops that a residual branch may end in."""


@dataclass(frozen=True)
class Node:
    """One call under its canonical name (`torch.add`, `__radd__`, `add_` are all `add`)."""

    index: int
    """Position in `Graph.nodes`; an input always has a smaller one."""
    op: str
    """Canonical op name, or one of `SOURCES`, or `getitem` (of a call with several results), or `alias` (a tensor read
    after a write: first the old value, then the writes)."""
    args: tuple[object, ...]
    """Each a `Ref`, a number, a truth, a text (dtypes and devices), None, or a nested tuple of them; `slice(a, b, c)` is `("slice", a, b, c)`."""
    kwargs: tuple[tuple[str, object], ...]
    shape: tuple[int, ...] | None
    """Shape of the value; None when the value is not one tensor."""
    dtype: str | None
    """`float32`, `bfloat16`, `int64`, …; None when the value is not one tensor."""
    call: int
    """Index into `Graph.calls`: the module call in which the node ran."""
    file: str
    line: int
    name: str = ""
    """Argument name of an input, qualified name of a parameter or buffer, else empty."""
    inputs: tuple[int, ...] = field(init=False, compare=False, repr=False)
    """The nodes that this one reads, in argument order, with repetitions."""

    def __post_init__(self) -> None:
        found: list[int] = []
        _collect(self.args, found)
        if self.kwargs:
            _collect(tuple([v for _, v in self.kwargs]), found)
        object.__setattr__(self, "inputs", tuple(found))

    def kwarg(self, key: str, default: object = None) -> object:
        """The keyword argument `key`, or `default`."""
        return next((v for k, v in self.kwargs if k == key), default)


def _collect(values: tuple[object, ...], found: list[int]) -> None:
    for value in values:
        if type(value) is Ref:
            found.append(value.node)
        elif type(value) is tuple:
            _collect(value, found)


@dataclass(frozen=True, slots=True)
class Module:
    """One module object. `path` and `class_name` are labels."""

    index: int
    parent: int | None
    path: str
    class_name: str
    container: str
    """`list` when it is a ModuleList, ModuleDict or Sequential, else empty."""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a module's forward. Call 0 is the root."""

    index: int
    parent: int | None
    module: int
    ordinal: int
    """How often this module had been called before."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A container whose members are equal up to weights: not all of them ran.

    `members[i] = (module, representative)` in call order; a member that ran represents itself."""

    container: int
    members: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """The target is one block, and its end was wired to its start: `count` equal copies of it one behind the other.

    Few of them ran; one in the middle stands for those that did not. Labels of modules are those of the block itself, in every copy."""

    copies: tuple[int, ...]
    """The module calls of those that ran, in order."""
    count: int


COPIES = "(copies)"
"""How the names of weights of all copies but the first begin."""
BLOCK_DEPTH = 24
"""How many times a block target is stacked when nobody says."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A read of a value that was not known (`if x.sum() > 0`), with what was assumed."""

    file: str
    line: int
    assumed: str
    node: int | None = None
    """The first node recorded after the guess."""
    decides: bool = True
    """False when the other answer was traced too and gave the same program."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The exception that ended the forward before its end."""

    message: str
    file: str
    line: int
    node: int | None = None


@dataclass(frozen=True, slots=True)
class Initialiser:
    """One recorded in-place call on a parameter while the model was built: `normal_(0, 0.02)`."""

    op: str
    args: tuple[object, ...]
    file: str = ""
    line: int = 0
    whole: bool = True
    """It set every entry of the parameter; False for a part (`weight[padding_idx].zero_()`)."""
    draw: int = field(default=0, compare=False)
    """Which random numbers they are, where that was looked at: parameters of one number are equal, entry by entry; 0 where it was not."""


@dataclass(frozen=True)
class Graph:
    """One forward pass as data."""

    nodes: tuple[Node, ...]
    calls: tuple[Call, ...]
    modules: tuple[Module, ...]
    outputs: tuple[int, ...]
    """Nodes of the tensors that forward returned, in order."""
    repeats: tuple[Repeat, ...] = ()
    guesses: tuple[Guess, ...] = ()
    failure: Failure | None = None
    uncalled: tuple[int, ...] = ()
    """Modules with parameters of their own that never ran (only the outermost ones)."""
    initialisers: tuple[tuple[str, tuple[Initialiser, ...]], ...] = ()
    """Parameter name to the in-place calls on it, in order; parameters without any are absent."""
    ranges: tuple[tuple[int, float, float], ...] = ()
    """(node, smallest entry, largest entry) of float values that the program makes of numbers alone, ascending."""
    loop: Loop | None = None
    """Of a block target; None for a whole model."""
    frozen: tuple[str, ...] = ()
    """Names of parameters that ask for no gradient where others do: constants."""
    training: tuple[tuple[str, int], ...] = ()
    """Lines of code, file and number, that were told that the model is in training, dropouts off; none: it was traced in evaluation."""

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """For each node the nodes that read it, each once, ascending."""
        table: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            inputs = node.inputs
            for source in inputs if len(inputs) < 2 else dict.fromkeys(inputs):
                table[source].append(node.index)
        return tuple(map(tuple, table))

    @cached_property
    def parameters(self) -> dict[str, Node]:
        """The node of each parameter, by name; the last one where there are several."""
        return {n.name: n for n in self.nodes if n.op == "parameter"}

    @cached_property
    def range_of(self) -> dict[int, tuple[float, float]]:
        """`ranges` by node."""
        return {node: (low, high) for node, low, high in self.ranges}

    @cached_property
    def histories(self) -> dict[str, tuple[Initialiser, ...]]:
        """`initialisers` by name, of parameters that something was written to."""
        return {name: history for name, history in self.initialisers if name not in self.unfilled}

    @cached_property
    def unfilled(self) -> frozenset[str]:
        """Parameters of memory that nothing was ever written to (`torch.empty`)."""
        return frozenset(name for name, history in self.initialisers if [call.op for call in history] == ["empty"])

    @cached_property
    def times(self) -> dict[int, int]:
        """Module that stands for others that did not run -> for how many members of its list, itself included."""
        found = Counter(representative for repeat in self.repeats for _, representative in repeat.members)
        if self.loop is not None and self.loop.copies:
            ran = [self.calls[c].module for c in self.loop.copies]
            found[ran[len(ran) // 2]] = self.loop.count - len(ran) + 1
        return dict(found)

    @cached_property
    def is_whole(self) -> bool:
        """Whether all that its module runs left nodes; else some members of a list stand for others. A loop of a few copies is a module of a few."""
        return all(member == representative for repeat in self.repeats for member, representative in repeat.members)

    def is_listed(self, call: int) -> bool:
        """Whether a call is one of a member of a list, perhaps its only one."""
        return self.is_member(self.calls[call].module)

    def is_member(self, module: int) -> bool:
        """Whether a module is a member of a list, perhaps its only one."""
        parent = self.modules[module].parent
        return parent is not None and self.modules[parent].container == "list"

    def above(self, module: int) -> list[int]:
        """A module and those that hold it, from the inside to the root."""
        found = [module]
        while (parent := self.modules[found[-1]].parent) is not None:
            found.append(parent)
        return found

    def times_of(self, call: int) -> int:
        """How many calls a call stands for."""
        return math.prod(self.times.get(self.calls[c].module, 1) for c in self.call_path(call)) if self.times else 1

    @cached_property
    def trees(self) -> tuple[tuple[object, ...], ...]:
        """For each module whether it is a container, and those of the modules that it holds, in order."""
        held: list[list[tuple[object, ...]]] = [[] for _ in self.modules]
        found: list[tuple[object, ...]] = [()] * len(self.modules)
        for module in reversed(self.modules):
            found[module.index] = (module.container, *reversed(held[module.index]))
            if module.parent is not None:
                held[module.parent].append(found[module.index])
        return tuple(found)

    @cached_property
    def members(self) -> frozenset[int]:
        """Calls that one of several blocks may be: of a member of a list; or, where no list is above, one of several beside each other that have as
        many nodes with a sum among them and begin and end with the same line."""
        above = [self.modules[c.module].parent for c in self.calls]
        children = Counter(m.parent for m in self.modules)
        lists = {i for i, parent in enumerate(above) if parent is not None and self.modules[parent].container == "list"}
        listed = {i for i in lists if children[above[i]] > 1}
        within = [False] * len(self.calls)
        for call in self.calls:
            within[call.index] = call.index in listed or (call.parent is not None and within[call.parent])
        alike: dict[object, list[int]] = {}
        for place, (first, last, count, sums) in self._spans(within).items():
            ends = [(self.nodes[i].op, self.nodes[i].file, self.nodes[i].line) for i in (first, last)]
            if sums:
                alike.setdefault((self.calls[place].parent, *ends, count), []).append(place)
        found = listed.union(*(calls for calls in alike.values() if len(calls) > 1))
        # a list of one counts, unless it is a part of a block
        return frozenset(found | {i for i in lists - listed if not found.intersection(self.call_path(i))})

    def _spans(self, without: list[bool]) -> dict[int, tuple[int, int, int, bool]]:
        """Call -> its first and last node, how many there are, and whether one is a sum; sources, and some calls, left out."""
        found: dict[int, tuple[int, int, int, bool]] = {}
        for node in self.nodes:
            here: int | None = node.call
            while here and node.op not in SOURCES and not without[node.call]:
                first, _, count, sums = found.get(here, (node.index, 0, 0, False))
                found[here] = first, node.index, count + 1, sums or (node.op in SUMS and len(node.inputs) > 1)
                here = self.calls[here].parent
        return found

    def scope(self, node: int) -> Module:
        """The innermost module that a node ran in."""
        return self.modules[self.calls[self.nodes[node].call].module]

    def call_path(self, call: int) -> tuple[int, ...]:
        """Calls from the root down to `call`, both included."""
        path = [call]
        while (parent := self.calls[path[-1]].parent) is not None:
            path.append(parent)
        return tuple(reversed(path))


def ops_digest(graph: Graph) -> str:
    """Of the ops in order: two traces of one program agree in it."""
    return blake2b(" ".join(n.op for n in graph.nodes).encode(), digest_size=8).hexdigest()


def numel(shape: tuple[int, ...] | None) -> int:
    """Number of elements; 0 when the value is not one tensor."""
    return math.prod(shape) if shape is not None else 0


def lint(graph: Graph) -> list[str]:
    """What is wrong with a graph, in words; empty when nothing is."""
    faults = []
    for position, node in enumerate(graph.nodes):
        if node.index != position:
            faults.append(f"node {position} says that it is node {node.index}")
        faults += [f"node {position} ({node.op}) reads node {i}, which does not come before it" for i in node.inputs if i >= position]
        if node.op in SOURCES and node.inputs:
            faults.append(f"node {position} ({node.op}) is a source and has inputs")
        if not 0 <= node.call < len(graph.calls):
            faults.append(f"node {position} ({node.op}) stands in call {node.call}, which does not exist")
    faults += [f"output {i} does not exist" for i in graph.outputs if not 0 <= i < len(graph.nodes)]
    for index, call in enumerate(graph.calls):
        if call.index != index or (call.parent is not None and call.parent >= index):
            faults.append(f"call {index} is out of order")
    return faults


__all__ = [
    "BLOCK_DEPTH", "COPIES", "SOURCES", "Call", "Failure", "Graph", "Guess", "Initialiser", "Loop", "Module", "Node", "Ref", "Repeat", "field",
    "lint", "numel", "ops_digest",
]
