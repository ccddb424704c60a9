"""Values of tensors that a constructor computes from numbers alone: tables of positions, scales and masks that are kept in buffers.

On meta nothing has a value, so every op on such tensors runs once more on the CPU beside it (`screen.capture.trace.oracle`). What touches a weight, a
random number or a tensor that is too large is not known. Of a known buffer the graph keeps a few numbers, in the form of a recorded call:

    fill_(v)                  all entries are v, of integers too
    values_(v, …)             the entries of a short row, of parameters
    rows_(n, q, r, m)         of n rows in a row, n = 8, 16, … 256: E x_ia² and E x_ia x_ja (i ≠ j), wherever they begin; the rms of the rows'
                              means, of the first n. Rows of zeros (padding) are left out
"""

from __future__ import annotations

import contextlib
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from screen.capture.trace.oracle import Oracle
from screen.capture.trace.source_lines import no_modes
from screen.graph import Initialiser

LARGEST = 1 << 23
"""Entries of a tensor that is computed."""
SHORT = 64
"""Entries of a list, of a row or of a tensor off meta that are looked at."""
MOST = 1 << 28
"""Bytes that values take at one time."""
COUNTS = (8, 16, 32, 64, 128, 256)
"""Numbers of rows whose moments are kept."""
EVEN = 0.02
"""Largest difference of the first and the last rows' moments, in units of q, at which it does not matter where rows begin."""

INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
STEPS = 20_000
"""Calls of torch in a constructor whose values are followed: one that writes a table entry by entry makes more."""
FACTORIES: dict[Callable[..., Any], float | None] = {torch.empty: None, torch.zeros: 0.0, torch.ones: 1.0}
"""Makers of tensors whose entries are one number, or not known: nothing is to be followed in them."""

Record = tuple[tuple[str, tuple[Initialiser, ...]], ...]
_PLAIN = frozenset({bool, int, float, str, dict, OrderedDict, set, type(None), torch.dtype})
Form = tuple[object, ...]
"""Type, shape and place in the storage."""


class Known(Oracle):
    """Values by storage: a view, or a parameter made of a tensor, has those of its tensor. They go when their tensor goes."""

    def __init__(self) -> None:
        super().__init__(largest=LARGEST)
        self.places: dict[int, dict[int, Form]] = {}
        """Storage -> known tensors that use it."""
        self.constants: dict[int, float] = {}
        """Known tensors whose value has not been asked for."""
        self.held = 0

    def learn(self, meta: Tensor, real: Tensor) -> None:
        """From now on `meta` has the value `real`."""
        place = _storage(meta)
        size = 0 if place in self.places else real.untyped_storage().nbytes()
        if self.held + size > MOST:
            return
        self.held += size
        self.known[id(meta)] = real
        self._place(meta, place)

    def constant(self, meta: Tensor, number: float) -> None:
        """From now on all entries of `meta`, a new tensor, are `number`. Its value is made when somebody asks."""
        if meta.device.type == "meta" and meta.numel() <= self.largest:
            self.constants[id(meta)] = number
            self._place(meta, _storage(meta))

    def _place(self, meta: Tensor, place: int) -> None:
        self.places.setdefault(place, {})[id(meta)] = _form(meta)
        weakref.finalize(meta, self._gone, place, id(meta)).atexit = False

    def value(self, tensor: Tensor) -> Tensor | None:
        """The value of a tensor, or None."""
        if tensor.device.type != "meta":
            return tensor
        form = _form(tensor)
        found = next((other for other, known in self.places.get(_storage(tensor), {}).items() if known == form), None)
        if found in self.constants:
            self._make(found, tensor)
        return None if found is None else self.known.get(found)

    def _make(self, index: int, like: Tensor) -> None:
        number = self.constants.pop(index)
        if self.held + like.numel() * like.element_size() <= MOST:
            with no_modes():
                self.known[index] = torch.full(like.shape, number, dtype=like.dtype, device="cpu")
            self.held += like.numel() * like.element_size()

    def _gone(self, place: int, tensor: int) -> None:
        real = self.known.pop(tensor, None)
        self.constants.pop(tensor, None)
        self.assumed.discard(tensor)
        self.places.get(place, {}).pop(tensor, None)
        if not self.places.get(place):
            self.places.pop(place, None)
            self.held -= real.untyped_storage().nbytes() if real is not None else 0

    def _drop_storage(self, tensor: Tensor) -> None:
        place = _storage(tensor)
        for other in list(self.places.get(place, ())):
            self._gone(place, other)


class Values(TorchDispatchMode):
    """Active while a model is built."""

    def __init__(self) -> None:
        super().__init__()
        self.known = Known()
        self.left = STEPS

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is ever compiled (see `screen.capture.trace.session`)."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self._over():
            return result
        try:
            self.known.follow(func, args, kwargs or {}, result)
        except Exception:  # a kind of tensor that cannot be followed: what it wrote to is not known either
            self.known = Known()
        return result

    def _over(self) -> bool:
        """Whether more was computed than is followed: from then on nothing is known of any tensor."""
        self.left -= 1
        if self.left == 0:
            self.known = Known()
        return self.left <= 0

    def made(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        """A tensor of one of the FACTORIES, past this mode unless another one looks on."""
        if torch._C._len_torch_dispatch_stack() > 1:
            seen: Tensor = func(*args, **kwargs)
            return seen
        with torch._C._DisableTorchDispatch():
            made: Tensor = func(*args, **kwargs)
        number = FACTORIES[func]
        if number is not None and self.left > 0:
            with torch._C.DisableTorchFunction():
                self.known.constant(made, number)
        return made

    def literal(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """A tensor that was made of numbers of the program."""
        if self.left > 0:
            self.known.literal(func, args, kwargs, result)

    def holds(self, tensor: Tensor) -> bool:
        """Whether anything is known of the storage of a tensor."""
        return bool(self.known.places) and _storage(tensor) in self.known.places

    def forget(self, tensor: Tensor) -> None:
        """Its entries are no longer what they were."""
        self.known._drop_storage(tensor)

    def of(self, model: nn.Module) -> Record:
        """Buffer -> what is kept of its values."""
        return _record((name, self.known.value(tensor)) for name, tensor in _fixed(model))


def buffers(model: nn.Module) -> Record:
    """What is kept of the buffers of a live model."""
    return _record((name, tensor if tensor.device.type != "meta" and tensor.numel() <= LARGEST else None) for name, tensor in _fixed(model))


def _fixed(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Buffers, and tensors in attributes, of numbers that have entries in memory; of one number alone where they are integers."""
    found = [*model.named_buffers()]
    for path, module in model.named_modules():
        plain = (item for item in vars(module).items() if type(item[1]) not in _PLAIN)
        found += [(f"{path}.{n}".removeprefix("."), v) for n, v in plain if isinstance(v, Tensor)]
    for name, tensor in found:
        if not nn.parameter.is_lazy(tensor) and tensor.layout == torch.strided and (tensor.is_floating_point() or _counts(tensor)):
            yield name, tensor


def _counts(tensor: Tensor) -> bool:
    """Whether it holds integers, and more than one: indices, as a rule."""
    return tensor.dtype in INTEGERS and tensor.numel() > 1


def _record(values: Iterator[tuple[str, Tensor | None]]) -> Record:
    found = list[tuple[str, tuple[Initialiser, ...]]]()
    for name, value in values:
        with contextlib.suppress(RuntimeError, NotImplementedError, TypeError):  # a kind of tensor that cannot be read is not known
            if value is not None and (calls := summary(value.detach())):
                found.append((name, calls))
    return tuple(found)


def as_row(value: Tensor | None) -> tuple[Initialiser, ...]:
    """The entries of a short row of numbers."""
    if value is None or value.dim() != 1 or not 1 < value.numel() <= SHORT or not value.is_floating_point() or not bool(torch.isfinite(value).all()):
        return ()
    return (Initialiser("values_", tuple(float(v) for v in value.detach().tolist())),)


def _storage(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return -1


def _form(tensor: Tensor) -> Form:
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def summary(value: Tensor) -> tuple[Initialiser, ...]:
    """What is kept of one tensor; nothing where its rows are not alike."""
    if not (value.is_floating_point() or _counts(value)) or value.numel() == 0 or not bool(torch.isfinite(value).all()):
        return ()
    low, high = (float(v) for v in torch.aminmax(value))
    if low == high:
        return (Initialiser("fill_", (low,)),)
    if not value.is_floating_point():
        return ()
    rows = value.reshape(value.shape[-2:]) if value.dim() > 1 and value.shape[:-2].numel() == 1 else value.new_empty(0, 0)
    rows = rows[rows.any(1)]  # a padding row is zero
    calls = []
    for count in (c for c in COUNTS if c <= len(rows)):
        one, two = _moments(rows[:count]), _moments(rows[-count:])
        if one[0] <= 0 or max(abs(a - b) for a, b in zip(one[:2], two[:2], strict=True)) > EVEN * one[0]:
            return ()
        calls.append(Initialiser("rows_", (count, *one)))
    return tuple(calls)


def _moments(rows: Tensor) -> tuple[float, float, float]:
    """(q, r, m) of some rows."""
    count, width = rows.shape
    x = rows.double()
    power = float(x.square().mean())
    both = float(x.sum(0).square().sum()) / (count * (count - 1) * width) - power / (count - 1)
    return power, both, float(x.mean(1).square().mean().sqrt())


__all__ = ["Record", "SHORT", "Values", "as_row", "buffers", "summary"]
