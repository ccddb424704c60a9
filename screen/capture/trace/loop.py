"""A block target as the loop that it stands for: distinct copies of the block, the end of each wired to the start of the next.

Of a small block at a modest depth all copies run, as in a list of so many. Else three do: the first, the last, and one in the middle, which has a
neighbour on both sides and stands for all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build.built import Built
from screen.capture.build.meta_copy import again
from screen.capture.initial.buffers import Record
from screen.graph import BLOCK_DEPTH, COPIES

FEW = 3
"""Copies that run of a large block, or a deep loop."""
MOST, SMALL, MODULES = 32, 10_000_000, 64
"""Up to so many copies, with so many weights in all, every one runs: of a block with no more than so many modules, which may else be a whole
model."""
DEEPEST = 100_000
"""The largest `--depth`."""
_COPY = re.compile(rf"^{re.escape(COPIES)}(?:\.(?P<number>\d+)(?:\.|$))?")

Key = int | str
"""An argument of forward: by position, or by name."""
Call = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Any]
"""Runs a module on arguments."""


class Loop(nn.Module):
    """`count` copies of a block one behind the other, of which a few are there."""

    def __init__(self, block: nn.Module, fed: tuple[Key, ...], count: int | None) -> None:
        """`fed`: the arguments that the leading tensors of the block's output are given to; all others go to each copy as they came."""
        super().__init__()
        self.fed, self.count = fed, count or BLOCK_DEPTH
        self.add_module(COPIES, nn.ModuleList([block, *(again(block) for _ in range(_ran(block, self.count) - 1))]))
        self.training = block.training

    @property
    def members(self) -> nn.ModuleList:
        """The copies."""
        found = self._modules[COPIES]
        assert isinstance(found, nn.ModuleList)
        return found

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the last copy."""
        return self.through(lambda block, args, kwargs: block(*args, **kwargs), args, kwargs)

    def through(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of the last copy, each run by `call`."""
        output = None
        for place, block in enumerate(self.members):
            if place:
                args, kwargs = self._next(output, args, kwargs)
            output = call(block, args, kwargs)
        return output

    def _next(self, output: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        new = dict(zip(self.fed, returned(output, self.state(args, kwargs)), strict=False))
        return tuple(new.get(i, value) for i, value in enumerate(args)), {**kwargs, **{key: v for key, v in new.items() if isinstance(key, str)}}

    def state(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What its first output is given to, among these arguments."""
        key = self.fed[0]
        return kwargs.get(key) if isinstance(key, str) else args[key] if key < len(args) else None

    def __getattr__(self, name: str) -> Any:
        """What it does not have itself is the first copy's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if COPIES not in self.__dict__.get("_modules", {}):
                raise
            return getattr(self.members[0], name)

    @classmethod
    def of(cls, blocks: list[nn.Module], like: Loop) -> Loop:
        """The same loop over blocks that are made already."""
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made.fed, made.count, made.training = like.fed, like.count, like.training
        made.add_module(COPIES, nn.ModuleList(blocks))
        return made


def _ran(block: nn.Module, count: int) -> int:
    """How many copies run."""
    size = sum(p.numel() for p in block.parameters() if not nn.parameter.is_lazy(p))
    whole = FEW < count <= MOST and size * count <= SMALL and sum(1 for _ in block.modules()) <= MODULES
    return count if whole else min(FEW, max(count, 1))


def leading(output: Any) -> list[Any]:
    """What a block returns, in order, whatever holds it."""
    if isinstance(output, Tensor):
        return [output]
    items = list((held(output) or {}).values())
    return items if not items or isinstance(items[0], Tensor) else leading(items[0])


def returned(output: Any, state: Any) -> list[Any]:
    """What a block returns, in order. `state`: what it was given; where that is no tensor and holds some (a dictionary, a named tuple, a dataclass),
    what comes back in that form is one thing."""
    if not isinstance(state, Tensor) and held(state):
        if is_alike(state, output):
            return [output]
        if isinstance(output, tuple | list) and output and is_alike(state, output[0]):
            return list(output)
    return leading(output)


def held(value: Any) -> dict[Any, Any] | None:
    """What stands in a dictionary, a sequence or a dataclass, by its name or place; None where a value is none of these."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in fields(value)}
    return None


def is_alike(one: Any, other: Any) -> bool:
    """Whether a value can be given in the place of another one: a tensor of its shape, or a container of its form that holds such tensors."""
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        both = isinstance(one, Tensor) and isinstance(other, Tensor)
        return both and one.shape == other.shape and one.is_floating_point() == other.is_floating_point()
    mine, theirs = held(one), held(other)
    if mine is None or theirs is None:
        return mine is theirs
    named = isinstance(one, Mapping) == isinstance(other, Mapping) and is_dataclass(one) == is_dataclass(other)
    return named and mine.keys() == theirs.keys() and all(is_alike(part, theirs[key]) for key, part in mine.items())


def first_tensor(value: Any, like: Any) -> Any:
    """Of a value of the form of `like` the tensor in the place of the first one there: the state that is looked at."""
    parts = held(like)
    for key, part in (parts or {}).items():
        if isinstance(part, Tensor) or first_tensor(part, part) is not None:
            return first_tensor((held(value) or {}).get(key), part)
    return value if isinstance(like, Tensor) else None


def own_name(path: str) -> str:
    """The user's name of a tensor of the first copy; one of another copy keeps its place in front, so that names stay different."""
    found = _COPY.match(path)
    return path[found.end() :] if found is not None and found["number"] == "0" else path


def module_name(path: str) -> str:
    """The user's name of a module, in whatever copy it stands."""
    found = _COPY.match(path)
    return path[found.end() :] if found is not None else path


def recorded(record: Record, loop: Loop) -> Record:
    """What was recorded while the block was built, for every copy, each with random numbers of its own."""
    draws = max((call.draw for _, history in record for call in history), default=0)
    others = [
        (f"{COPIES}.{number}.{name}", tuple(replace(c, draw=c.draw + number * draws if c.draw else 0) for c in history))
        for number in range(1, len(loop.members))
        for name, history in record
    ]
    return (*record, *others)


def as_loop(block: nn.Module, fed: tuple[Key, ...], depth: int | None) -> Loop:
    """The loop of a block. `depth`: `--depth`."""
    with torch.no_grad():
        return Loop(block, fed, depth)


def alone(built: Built) -> Built:
    """The model of a target that is no block after all, as it would have been built then."""
    if not isinstance(built.model, Loop):
        return built
    record = tuple((name, history) for name, history in built.initialisers if not name.startswith(COPIES))
    again = built.again
    deeper = (lambda more, known: [alone(b) for b in again(more, known)]) if again is not None else None
    return replace(built, model=built.model.members[0], initialisers=record, info=replace(built.info, block=False, depth=None), again=deeper)


__all__ = [
    "DEEPEST", "FEW", "Key", "Loop", "alone", "as_loop", "first_tensor", "held", "is_alike", "leading", "module_name", "own_name", "recorded",
    "returned",
]  # fmt: skip
