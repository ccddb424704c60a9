"""What integers and truth values are that nobody knows, where several reads have to agree on them.

An unknown number is taken as 1 and an unknown comparison as true; what is put together, counted and turned round of those follows from them. So
`x[mask]` keeps all entries and `x[~mask]` none, `cat(mask, ~mask)` keeps half, and a sum of n unknown durations is n wherever it is read. Which of
several things a number chooses does not follow from it: of experts that tokens are handed to by `chosen == n`, each is given all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from screen import ops
from screen.capture.trace.recorder import tensors
from screen.capture.trace.source_lines import no_modes

DEPTH = 64
"""Calls that are followed back from a read; what lies behind is taken as 1, or true."""
LARGEST = 1 << 16
"""Entries of a tensor that is worked out."""
FOLLOWS = {"logical_not", "logical_and", "logical_or", "logical_xor", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "sum", "cumsum",
           "add", "sub", "mul", "max", "min", "amax", "amin", "maximum", "minimum", "clamp"}  # fmt: skip
"""Calls that count, compare in size, or turn round, beside those that move entries."""
CHOOSES = {"gather", "index_select", "take_along_dim", "take", "repeat_interleave"}
"""Calls that move entries to places, or as often, as other entries say."""

Value = Callable[[Tensor], Tensor | None]
"""The value of a tensor where it is known."""


@dataclass(frozen=True)
class _Made:
    """The aten call that an unknown tensor came from; `place`: which of its results it is."""

    func: Any
    args: Any
    kwargs: Any
    place: int
    result: Tensor


@dataclass
class Supposed:
    """The calls of one run that gave integers and truth values which nobody knows."""

    calls: dict[int, _Made] = field(default_factory=dict)
    written: dict[int, Tensor] = field(default_factory=dict)
    """Memory that was written into since it was made, with a tensor that keeps it from being given away."""

    def note(self, func: Any, args: Any, kwargs: Any, result: Any, known: Value) -> None:
        """Remember a call. What is written into has no value that follows from how it was made."""
        if func._schema.is_mutable:
            self.written.update({_memory(t): t for t in tensors(args[:1]) if not t.dtype.is_floating_point})
            return
        for place, made in enumerate(tensors(result)):
            counted = not made.dtype.is_floating_point and not made.dtype.is_complex
            if counted and made.device.type == "meta" and made.numel() <= LARGEST and known(made) is None:
                self.calls[id(made)] = _Made(func, args, kwargs, place, made)

    def value(self, tensor: Tensor, known: Value) -> Tensor:
        """What a tensor of integers or truth values is taken for."""
        with no_modes():
            return self._value(tensor, known, {}, DEPTH)

    def _value(self, tensor: Tensor, known: Value, done: dict[int, Tensor], depth: int) -> Tensor:
        if (real := known(tensor)) is not None:
            return real
        if id(tensor) not in done:
            done[id(tensor)] = self._worked_out(tensor, known, done, depth)
        return done[id(tensor)]

    def _worked_out(self, tensor: Tensor, known: Value, done: dict[int, Tensor], depth: int) -> Tensor:
        """From the call that made it, where that read neither floats without a value nor chance."""
        ones = torch.ones(tensor.shape, dtype=tensor.dtype, device="cpu")
        made = self.calls.get(id(tensor))
        if made is None or not depth or _memory(tensor) in self.written or not _follows(made):
            return ones
        sources = list(tensors((made.args, made.kwargs)))
        if any(s.dtype.is_floating_point and known(s) is None for s in sources):
            return ones

        def real(value: Any) -> Any:
            if isinstance(value, torch.device):
                return torch.device("cpu")
            return self._value(value, known, done, depth - 1) if isinstance(value, Tensor) else value

        try:
            found = list(tensors(made.func(*tree_map(real, made.args), **tree_map(real, made.kwargs))))
        except Exception:  # what cannot be computed is taken as it is where nothing is known
            return ones
        return found[made.place] if found[made.place].shape == tensor.shape else ones


def _follows(made: _Made) -> bool:
    """Whether what a call gives is told by what its operands are taken for."""
    op, _ = ops.canonical(made.func.__name__.split(".")[0])
    if op == "index":
        return all(place.dtype == torch.bool for place in tensors(made.args[1]))
    return op in FOLLOWS or (op not in CHOOSES and ops.CLASSES.get(op) in ("view", "part", "join"))


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


__all__ = ["Supposed"]
