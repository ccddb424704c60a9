"""What the leaves of a graph are on real tensors: weights, buffers, arguments, and the stream where a block is cut out.

Only what one branch or block reads is made, when it is read. A weight is the model's own where the model is live, else it is drawn by the recorded
initialisers; every leaf has a generator of its own, seeded by its place, so that a number never depends on what else was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from screen.capture.build.built import Built
from screen.capture.trace.oracle import Oracle
from screen.capture.trace.recorder import region_of
from screen.graph import Initialiser
from screen.probe.measure.replay import Env, Missing, Tape, attribute
from screen.probe.measure.weights import drawn
from screen.structure.initial.laws import numbers_of

LEAVES = 1_000_003
"""Seeds of leaves lie this far apart for different seeds of the command."""


class _Literals(TorchFunctionMode):
    def __init__(self, oracle: Oracle) -> None:
        super().__init__()
        self.oracle = oracle

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.oracle.literal(func, args, kwargs or {}, result)
        return result


class _Values(TorchDispatchMode):
    def __init__(self, oracle: Oracle) -> None:
        super().__init__()
        self.oracle = oracle
        self.copied: set[int] = set()
        """Tensors that known values were copied to."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is ever compiled."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.oracle.follow(func, args, kwargs or {}, result)
        if func.__name__.startswith("copy_.") and (real := self.oracle.known.get(id(args[1]))) is not None and args[0].device.type == "meta":
            self.oracle.learn(args[0], real.to(args[0].dtype).expand(args[0].shape).clone())
            self.copied.add(id(args[0]))
        return result


class Watch:
    """While a model is built on meta, keeps the values of what depends on numbers of the program alone: positions, frequencies, masks."""

    def __init__(self) -> None:
        self.oracle = Oracle()
        self._modes = (_Values(self.oracle), _Literals(self.oracle))

    def __enter__(self) -> Watch:
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)

    def is_copy(self, tensor: Tensor) -> bool:
        """Whether all of it was set from known values, whatever a record of initialisers says."""
        return id(tensor) in self._modes[0].copied

    def value(self, tensor: Tensor) -> Tensor | None:
        """The value of a tensor, where it is known: of the object itself, or of one that shows the same memory (`nn.Parameter(t)` shares t's)."""
        found = self.oracle.value(tensor)
        if found is None:
            mine = (int(tensor.untyped_storage()._cdata), region_of(tensor))
            twins = (t for t in self.oracle.keep if (int(t.untyped_storage()._cdata), region_of(t)) == mine)
            found = next((v for t in twins if (v := self.oracle.value(t)) is not None), None)
        return found


@dataclass
class Material:
    """Leaves of one traced model, made on demand."""

    tape: Tape
    built: Built
    watch: Watch
    seed: int
    notes: dict[str, str] = field(default_factory=dict)
    """Parameter -> what its record could not say."""

    def __post_init__(self) -> None:
        self._histories: dict[str, tuple[Initialiser, ...]] = dict(self.built.initialisers)
        self._alike: dict[tuple[object, ...], int] | None = None
        given = [t for t in tree_leaves((self.built.args, self.built.kwargs)) if isinstance(t, Tensor)]
        places = [i for i, n in enumerate(self.tape.nodes) if n.op == "placeholder"]
        self._inputs = dict(zip(places, given, strict=False))

    def generator(self, place: int, copy: int = 0) -> torch.Generator:
        """The random numbers of one leaf; `copy` counts fresh draws of it."""
        return torch.Generator().manual_seed((self.seed * LEAVES + place) * 1009 + copy)

    def leaves(self, indices: list[int], copy: int = 0) -> Env:
        """Values of leaves. Raises `Missing`."""
        parameters = {i for i in indices if self.tape.graph.nodes[i].op == "parameter"}
        return {i: self.tape.cast(self._leaf(i, copy if i in parameters else 0)) for i in indices}

    @property
    def is_live(self) -> bool:
        """Whether weights are a live model's own, so that there are no fresh ones."""
        return self.built.original is not None

    def normal(self, index: int, copy: int = 0, size: float = 1.0) -> Tensor:
        """N(0, size²) in place of a node's value."""
        shape = self.tape.graph.nodes[index].shape
        if shape is None:
            raise Missing(f"node {index} is not one tensor")
        made = torch.randn(shape, generator=self.generator(index, copy), dtype=torch.float64)
        return made.to(self.tape.device, self.tape.dtype).mul_(size)

    def _leaf(self, index: int, copy: int) -> Any:
        node = self.tape.graph.nodes[index]
        if node.op == "input":
            return self._argument(index, copy)
        if node.op == "parameter":
            return self.parameter(index, copy)
        name = self.tape.nodes[index].meta["label"]
        held = self.tape.recorder.constants.get(name)
        return self._known(held if held is not None else self._attribute(name), node.op, name)

    def _attribute(self, name: str) -> Any:
        return attribute(self.built.original if self.built.original is not None else self.built.model, name)

    def _known(self, held: Any, kind: str, name: str) -> Any:
        if isinstance(held, Tensor) and (found := self.watch.value(held)) is not None:
            return found
        if isinstance(held, Tensor):
            raise Missing(f"the {kind} `{name}` has no value that is known without the model's weights")
        return held

    def _argument(self, index: int, copy: int) -> Tensor:
        given = self._inputs.get(index)
        if given is None or given.device.type == "meta":
            return self.normal(index, copy)
        if (rows := self._rows(index)) and not given.is_floating_point() and is_one_number(given):
            return torch.randint(rows, given.shape, generator=self.generator(index, copy), dtype=given.dtype)
        return given

    def _rows(self, index: int) -> int:
        """How many rows the tables have that an argument picks from, where nothing else is asked of it; 0 where something is."""
        nodes, tables = self.tape.graph.nodes, list[int]()
        for user in (nodes[u] for u in self.tape.graph.users[index]):
            shapes = [nodes[i].shape or () for i in user.inputs if i != index]
            if user.op != "embedding" or len(shapes) != 1 or len(shapes[0]) != 2:
                return 0
            tables.append(shapes[0][0])
        return min(tables, default=0)

    def parameter(self, index: int, copy: int = 0) -> Tensor:
        """A weight: the live model's own, or drawn anew."""
        node = self.tape.graph.nodes[index]
        name = self.tape.nodes[index].meta["label"]
        held = self._attribute(name)
        if isinstance(held, Tensor) and held.device.type != "meta":
            return held.detach()
        history = self._histories.get(name, ())
        known = self.watch.value(held) if isinstance(held, Tensor) and (not history or self.watch.is_copy(held)) else None
        if known is not None:
            return known
        value, note = drawn(node.shape or (), history, self.generator(self._first_alike(index, name), copy))
        if note:
            self.notes[name] = note
        return value

    def _first_alike(self, index: int, name: str) -> int:
        """The first parameter that starts with the same random numbers: a copy of it is drawn alike."""
        if self._alike is None:
            self._alike = {}
            for place, node in enumerate(self.tape.graph.nodes):
                if node.op == "parameter" and (numbers := numbers_of(self._histories.get(self.tape.nodes[place].meta["label"], ()))):
                    self._alike.setdefault((node.shape, numbers), place)
        numbers = numbers_of(self._histories.get(name, ()))
        return self._alike.get((self.tape.graph.nodes[index].shape, numbers), index) if numbers else index


def is_shape_alone(value: Tensor) -> bool:
    """Whether an argument is zeros or ones that somebody gave for a shape: floats that are all one number."""
    return value.is_floating_point() and is_one_number(value)


def is_one_number(value: Tensor) -> bool:
    """Whether all entries, of several, are one number."""
    return value.numel() > 1 and bool((value == value.flatten()[0]).all())


__all__ = ["Material", "Missing", "Watch", "is_shape_alone"]
