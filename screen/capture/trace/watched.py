"""Integers that differ between members of a container: is their value used while one runs?

Three nets, one behind the other. An attribute is read through its class (`Reads`), so that a read is noted whatever is done with the value: C
code takes the value of an integer without asking it (`table[self.i]`, `operator.index`, `math.gcd`). What gets past that (`vars(self)["i"]`) is a
`Watched` integer, which notes what Python does with it. An argument counts as unused only where no instruction of forward loads it.
"""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.utils._pytree import tree_flatten


class Watched(int):
    """An integer that remembers whether its value was used."""

    used: list[str]

    def __new__(cls, value: int, used: list[str]) -> Watched:
        """A stand-in for `value` that notes its uses in `used`."""
        made = super().__new__(cls, value)
        made.used = used
        return made


_USES = [
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__hash__",
    "__index__",
    "__bool__",
    "__add__",
    "__radd__",
    "__sub__",
    "__rsub__",
    "__mul__",
    "__rmul__",
    "__mod__",
    "__rmod__",
    "__floordiv__",
    "__rfloordiv__",
    "__truediv__",
    "__rtruediv__",
    "__pow__",
    "__rpow__",
    "__and__",
    "__or__",
    "__xor__",
    "__neg__",
    "__int__",
    "__float__",
    "__divmod__",
    "__lshift__",
    "__rshift__",
    "__abs__",
    "__invert__",
    "__str__",
    "__repr__",
    "__format__",
    "__pos__",
    "__round__",
    "__trunc__",
    "__floor__",
    "__ceil__",
    "__rdivmod__",
    "__rlshift__",
    "__rrshift__",
    "__rand__",
    "__ror__",
    "__rxor__",
    "bit_length",
    "bit_count",
    "to_bytes",
    "as_integer_ratio",
    "conjugate",
]
"""Every way to learn an integer's value."""


def _noting(name: str) -> Callable[..., Any]:
    original = getattr(int, name)

    def method(self: Watched, *args: Any) -> Any:
        self.used.append(name)
        return original(self, *args)

    return method


for _name in _USES:
    setattr(Watched, _name, _noting(_name))


class Reads:
    """In place of an attribute on a class: notes that one of some instances was asked for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: dict[int, list[str]] = {}
        """id of an instance -> its uses."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None or self.name not in vars(instance):
            raise AttributeError(self.name)
        if id(instance) in self.notes:
            self.notes[id(instance)].append("read")
        return vars(instance)[self.name]

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value

    def __delete__(self, instance: Any) -> None:
        del vars(instance)[self.name]


@contextmanager
def reading(watched: dict[tuple[nn.Module, str], list[str]]) -> Iterator[None]:
    """For the time of one run, note every read of these attributes of these modules."""
    put: list[tuple[type, str]] = []
    try:
        for (module, name), uses in watched.items():
            kind = type(module)
            found = vars(kind).get(name)
            if not isinstance(found, Reads):
                if hasattr(kind, name):  # the class has a value or a property of its own: nothing is known of its reads
                    uses.append("on the class")
                    continue
                found = Reads(name)
                setattr(kind, name, found)
                put.append((kind, name))
            found.notes[id(module)] = uses
        yield
    finally:
        for kind, name in put:
            delattr(kind, name)


_LOOKS = frozenset({"locals", "vars", "eval", "exec", "_getframe", "currentframe"})
"""Names by which a function may read a local variable unseen."""


def unread(forward: Callable[..., Any], args: Any, kwargs: Any) -> set[int]:
    """Which leaves of the arguments (in the order of `tree_flatten`) are integers that no instruction of forward loads."""
    code = getattr(getattr(forward, "__func__", forward), "__code__", None)
    if not isinstance(code, types.CodeType) or (code.co_names and _LOOKS & set(code.co_names)):
        return set()
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    places = names[1:] if inspect.ismethod(forward) else names
    loaded = {n for i in dis.get_instructions(code) if "LOAD" in i.opname for n in (i.argval if isinstance(i.argval, tuple) else (i.argval,))}
    free = {n for n in names if n not in loaded and n not in code.co_cellvars}
    given = [*zip([*places[: code.co_argcount], *[""] * len(args)], args, strict=False), *kwargs.items()]
    found: set[int] = set()
    place = 0
    for name, value in given:
        if type(value) is int and name in free:
            found.add(place)
        place += len(tree_flatten(value)[0])
    return found


__all__ = ["Reads", "Watched", "reading", "unread"]
