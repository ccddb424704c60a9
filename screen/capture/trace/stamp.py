"""Stamping: one trace per distinct block, where a container has more than 32 members of one class, or more than 4 that record many calls each.

Members are equal when class, plain attributes, parameter and buffer shapes, how parameters start, hooks and callables are equal. Integers that
differ between members, or between their arguments (usually the index), may be left out only if nothing read them while two members ran (`watched`).
A member is passed over only when two before it left equal logs and it is fed just as they were: its tensors are the outputs of the member before
it, or the very tensors that they were given too. It then hands on what it got, so the graph is that of a shallower model, and `Graph.repeats` says
how often each member stands for others. The first, the second and the last member of each class always run, and of a long container one in each
half by chance: what differs for a reason that no attribute shows (a counter of the caller) makes the whole model run, and so do members that are
called again: a table of members says nothing of which call stands for which.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from screen.capture.trace.equality import signature
from screen.capture.trace.loop import own_name
from screen.capture.trace.watched import Watched, reading, unread
from screen.graph import Initialiser, Repeat
from screen.graph.starts import Starts

SHORT = 32
"""Containers with no more members than this run in full, if these are small."""
FEW = 4
"""Containers with no more members than this run in full."""
LARGE = 256
"""Calls of a member above which containers of more than `FEW` are stamped: a recurrence that is written out step by step, many experts."""

SPOTS = 2
"""Members in the middle that run besides and are compared, where a container is long."""


def _entry(call: torch.fx.Node) -> tuple[Any, ...]:
    """What a recorded call did: its numbers tell of an integer that an op took without asking Python for its value, as in `x * self.index`."""
    given = torch.fx.node.map_aggregate((call.args, call.kwargs), lambda a: None if isinstance(a, torch.fx.Node) else a)
    return str(call.target), call.meta.get("val"), repr(given)


@dataclass
class _Run:
    """How a member was fed, what it returned, and what it did."""

    member: int
    spec: Any
    plain: tuple[Any, ...]
    origins: tuple[Any, ...]
    out_spec: Any
    outputs: tuple[Any, ...]
    log: tuple[Any, ...]

    def is_as(self, other: _Run) -> bool:
        """The same calls, and the same integers among the arguments unused."""
        return self.log == other.log and [p is _UNUSED for p in self.plain] == [p is _UNUSED for p in other.plain]


@dataclass
class _Container:
    """A long container while its model runs."""

    module: nn.Module
    members: list[nn.Module]
    session: Any
    starts: Mapping[int, int]
    """Parameters by identity -> how they start."""
    bases: list[Any] = field(default_factory=list)
    integers: list[dict[str, int]] = field(default_factory=list)
    used: dict[Any, list[str]] = field(default_factory=dict)
    runs: dict[Any, list[_Run]] = field(default_factory=dict)
    few: set[Any] = field(default_factory=set)
    """Classes with no more than `SHORT` members."""
    sizes: dict[Any, int] = field(default_factory=dict)
    """Of these: how many calls the first one recorded."""
    last: tuple[Any, ...] = ()
    order: list[tuple[int, int]] = field(default_factory=list)
    unequal: bool = False
    spots: frozenset[int] = frozenset()
    """Members in the middle that run whatever is known of them: one in each half, by chance with a seed."""

    def prepare(self) -> bool:
        """Compute signatures; False when no class is long enough."""
        seen: dict[Any, Any] = {}
        for member in self.members:
            base, integers = signature(member, self.starts)
            try:
                base = seen.setdefault(base, len(seen))
            except TypeError:  # an attribute without a hash: this member equals only itself
                base = ("unhashable", id(member))
            self.bases.append(base)
            self.integers.append(dict(integers))
        counts = Counter(self.bases)
        middle, chance = range(2, len(self.members) - 1), random.Random(len(self.members))
        halves = (middle[: len(middle) // 2], middle[len(middle) // 2 :]) if len(self.members) > SHORT else ()
        self.spots = frozenset(chance.choice(half) for half in halves[:SPOTS])
        self.few = {b for b, n in counts.items() if n <= SHORT}
        self.sizes.update((b, 0) for b, n in counts.items() if n <= FEW)
        return max(counts.values()) > FEW

    def varying(self, position: int) -> list[str]:
        """Paths of integers that differ between this member and others of its class."""
        mine = self.integers[position]
        others = [v for b, v in zip(self.bases, self.integers, strict=True) if b == self.bases[position]]
        return [p for p, value in mine.items() if any(o.get(p) != value for o in others)]

    def group(self, position: int) -> Any:
        """Members of one group are equal as far as is known now."""
        base = self.bases[position]
        used = sorted(set(self.used.get(base, ())))
        return (base, tuple((p, self.integers[position].get(p)) for p in used))

    def is_last(self, position: int) -> bool:
        """Whether no member of the group comes later."""
        group = self.group(position)
        return all(self.group(p) != group for p in range(position + 1, len(self.members)))

    def call(self, position: int, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A member is called: run it, or hand on what it got."""
        if any(member == position for member, _ in self.order):
            self.unequal |= any(member != run for member, run in self.order)  # a member stands for others in each round, not in all of them
            return self._whole(position, forward, args, kwargs)
        leaves, spec = tree_flatten((args, kwargs))
        base = self.bases[position]
        if base in self.few and base not in self.sizes:
            return self._measured(position, forward, args, kwargs)
        if self.sizes.get(base, math.inf) <= LARGE:
            return self._whole(position, forward, args, kwargs)
        before = self.runs.get(self.group(position), [])
        if len(before) >= 2 and before[-1].is_as(before[-2]) and position not in self.spots and not self.is_last(position):
            result = self._handed_on(before[-1], leaves, spec)
            if result is not None:
                self.order.append((position, before[-1].member))
                return result
        return self._run(position, forward, args, kwargs, leaves, spec)

    def _measured(self, position: int, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The first of a few members: how many calls it records decides whether others are passed over."""
        start = len(self.session.recorder.graph.nodes)
        result = self._whole(position, forward, args, kwargs)
        self.sizes[self.bases[position]] = len(self.session.recorder.graph.nodes) - start
        return result

    def _whole(self, position: int, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        self.last = tuple(v for v in tree_flatten(result)[0] if isinstance(v, Tensor))
        self.order.append((position, position))
        return result

    def _origins(self, leaves: list[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                continue
            place = next((n for n, t in enumerate(self.last) if t is leaf), None)
            found.append(("before", place) if place is not None else ("same", id(leaf)))
        return tuple(found)

    def _plain(self, leaves: list[Any]) -> tuple[Any, ...]:
        return tuple(
            (tuple(v.shape), v.dtype) if isinstance(v, Tensor) else v if isinstance(v, int | float | str | bool | None) else id(v) for v in leaves
        )

    def _handed_on(self, like: _Run, leaves: list[Any], spec: Any) -> Any:
        """The outputs of a member that is passed over: for each, the input that came from the same output of the member before; where there is none
        (a state that nobody reads), a tensor that must not be read."""
        if spec != like.spec or not _fits(self._plain(leaves), like.plain) or self._origins(leaves) != like.origins:
            return None
        tensors = [v for v in leaves if isinstance(v, Tensor)]
        outputs: list[Any] = []
        place = 0
        for value in like.outputs:
            if isinstance(value, Watched):  # an index that is handed on tells members apart
                return None
            if not isinstance(value, Tensor):
                outputs.append(value)
                continue
            source = next((t for t, o in zip(tensors, like.origins, strict=True) if o == ("before", place)), None)
            if source is not None and (source.shape != value.shape or source.dtype != value.dtype):
                return None
            outputs.append(self.session.recorder.forbidden(value) if source is None else source)
            place += 1
        if all(o[0] != "before" for o in like.origins):
            return None
        self.last = tuple(v for v in outputs if isinstance(v, Tensor))
        return tree_unflatten(outputs, like.out_spec)

    def _run(self, position: int, forward: Callable[..., Any], args: Any, kwargs: Any, leaves: list[Any], spec: Any) -> Any:
        origins, plain = self._origins(leaves), self._plain(leaves)
        graph = self.session.recorder.graph
        base = self.bases[position]
        start = len(graph.nodes)
        with self._watching(position, base):
            uses: list[list[str]] = [[] for _ in leaves]
            for place in {n for n, v in enumerate(leaves) if type(v) is int} - self._unread(position, forward, args, kwargs):
                uses[place].append("loaded")
            watched = [Watched(v, u) if type(v) is int else v for v, u in zip(leaves, uses, strict=True)]
            args, kwargs = tree_unflatten(watched, spec)
            result = forward(*args, **kwargs)
        plain = tuple(_UNUSED if type(v) is int and not u else p for v, u, p in zip(leaves, uses, plain, strict=True))
        made = itertools.islice(reversed(graph.nodes), len(graph.nodes) - start)
        log = tuple(_entry(n) for n in made if n.op == "call_function")
        outputs, out_spec = tree_flatten(result)
        runs = self.runs.setdefault(self.group(position), [])
        skipped = any(m != r for m, r in self.order)
        if skipped and runs and log != runs[-1].log:
            self.unequal = True  # and so may those be that were passed over
        runs.append(_Run(position, spec, plain, origins, out_spec, tuple(outputs), log))
        self.last = tuple(v for v in outputs if isinstance(v, Tensor))
        self.order.append((position, position))
        return result

    def _unread(self, position: int, forward: Callable[..., Any], args: Any, kwargs: Any) -> set[int]:
        """Places of integers among the arguments that nothing reads: no hook sees the arguments, and forward never loads them."""
        return set() if self.members[position]._forward_pre_hooks or self.members[position]._forward_hooks else unread(forward, args, kwargs)

    @contextlib.contextmanager
    def _watching(self, position: int, base: Any) -> Iterator[None]:
        """Put watched values in place of the integers that differ."""
        put: list[tuple[nn.Module, str, int]] = []
        notes: dict[str, list[str]] = {}
        for path in self.varying(position):
            holder, _, name = path.rpartition(".")
            module = self.members[position].get_submodule(holder)
            value = vars(module)[name]
            notes[path] = []
            vars(module)[name] = Watched(value, notes[path])
            put.append((module, name, value))
        try:
            with reading({(module, name): notes[path] for (module, name, _), path in zip(put, notes, strict=True)}):
                yield
        finally:
            for module, name, value in put:
                vars(module)[name] = value
            self.used.setdefault(base, []).extend(p for p, uses in notes.items() if uses)


class Repeats:
    """The long containers of one run."""

    def __init__(self, containers: list[_Container]) -> None:
        self.containers = containers

    @property
    def failed(self) -> bool:
        """A last member did something else than those that it ends, or what a member that was passed over would have made was read: the model
        must run in full."""
        return any(c.unequal or c.session.recorder.was_read for c in self.containers)

    def table(self, scopes: Any) -> tuple[Repeat, ...]:
        """What was stamped, as plain data."""
        found = []
        for container in self.containers:
            if all(m == r for m, r in container.order):
                continue
            index = [scopes.index[id(m)] for m in container.members]
            found.append(Repeat(scopes.index[id(container.module)], tuple((index[m], index[r]) for m, r in container.order)))
        return tuple(found)


@contextlib.contextmanager
def stamping(
    model: nn.Module, session: Any, initialisers: Iterable[tuple[str, Sequence[Initialiser]]] = (), *, enabled: bool = True
) -> Iterator[Repeats]:
    """For the time of one run, let equal members of long containers be passed over. `initialisers`: the calls on each parameter, by its name."""
    containers: list[_Container] = []
    starts = _starts(model, dict(initialisers)) if enabled else {}
    for module in model.modules() if enabled else ():
        if not isinstance(module, nn.ModuleList | nn.Sequential | nn.ModuleDict) or len(module) <= FEW:
            continue
        container = _Container(module, list(module.children()), session, starts)
        if len(container.members) > FEW and container.prepare():
            containers.append(container)
    wrapped: list[nn.Module] = []
    try:
        for container in containers:
            for position, member in enumerate(container.members):
                if "forward" not in vars(member):
                    vars(member)["forward"] = _wrapper(container, position, member.forward)
                    wrapped.append(member)
        yield Repeats(containers)
    finally:
        for member in wrapped:
            vars(member).pop("forward", None)


def _starts(model: nn.Module, histories: Mapping[str, Sequence[Initialiser]]) -> dict[int, int]:
    numbers = Starts()
    named = model.named_parameters(remove_duplicate=False) if histories else ()
    return {id(p): numbers.number(histories.get(own_name(name), ())) for name, p in named}


_UNUSED = object()
"""In place of an integer among the arguments that a member never used."""


def _fits(plain: tuple[Any, ...], like: tuple[Any, ...]) -> bool:
    """Whether arguments are those of an earlier member, but for integers that it did not use."""
    return len(plain) == len(like) and all(b is _UNUSED or a == b for a, b in zip(plain, like, strict=True))


def _wrapper(container: _Container, position: int, forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        return container.call(position, forward, args, kwargs)

    return call
