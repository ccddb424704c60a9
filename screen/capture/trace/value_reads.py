"""Reads of values: what each call that asks for one is answered, from the oracle or by a recorded guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from screen.capture.trace.oracle import Oracle
from screen.capture.trace.source_lines import no_modes, user_line


class Session(Protocol):
    """What a read needs of the run that it happens in."""

    oracle: Oracle
    sizes_are_guessed: bool
    assumptions: set[tuple[str, int]]

    def guess(self, default: Any, what: str) -> Any:
        """A guessed answer, recorded with the user's line."""


def _read_scalar(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    if tensor.device.type != "meta":
        return NotImplemented
    known, value = session.oracle.scalar(tensor)
    if known:
        if id(tensor) in session.oracle.assumed:
            file, line = user_line()
            session.assumptions.add((file, line))
        return value
    if tensor.dtype == torch.bool:
        return session.guess(False, "a truth value")
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return session.guess(1.0, "a number")
    return session.guess(int(session.oracle.taken_for(tensor)), "an integer")


def _selected(session: Session, mask: Tensor, call: str) -> Tensor:
    """A mask that is not known: it selects everything, unless it was made of others, as what they leave out. [as the mask] bool"""
    session.guess(True, f"a mask selects everything, so `{call}`")
    return session.oracle.taken_for(mask) != 0


def _read_nonzero(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    if tensor.device.type != "meta":
        return NotImplemented
    real = session.oracle.value(tensor)
    if real is None:
        real = _selected(session, tensor, "nonzero")
    with no_modes():
        indices = real.nonzero()
        result = indices.to("meta")
    session.oracle.learn(result, indices)
    return result


def _read_masked_select(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    if args[0].device.type != "meta":
        return NotImplemented
    mask = session.oracle.value(args[1])
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    if mask is None:
        mask = _selected(session, args[1], "masked_select")
    return args[0].new_empty((int(mask.expand(shape).sum()),))


def _read_index(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`x[mask]`: masks become indices, everything selected where they are not known."""
    indices = list(args[1])
    masks = [i for i in indices if isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8)]
    if not masks or args[0].device.type != "meta":
        return NotImplemented
    replaced: list[Any] = []
    for index in indices:
        if index in masks if index is None else any(index is m for m in masks):
            real = session.oracle.value(index)
            if real is None:
                real = _selected(session, index, "x[mask]")
            replaced.extend(part.to("meta") for part in real.nonzero(as_tuple=True))
        else:
            replaced.append(index)
    if func.__name__.startswith("index_put"):
        return NotImplemented
    return torch.ops.aten.index.Tensor(args[0], replaced)


def _read_repeat(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    if tensor.device.type != "meta" or kwargs.get("output_size") is not None:
        return NotImplemented
    real = session.oracle.value(tensor)
    if real is None:
        session.guess(1, "repeats of `repeat_interleave`")
        real = session.oracle.taken_for(tensor)
    with no_modes():
        indices = torch.repeat_interleave(real)
        result = indices.to("meta")
    session.oracle.learn(result, indices)
    return result


def _read_unique(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    if tensor.device.type != "meta":
        return NotImplemented
    real = session.oracle.value(tensor)
    with no_modes():
        if real is None:
            session.guess(True, "all entries differ, so `unique`")
            real = torch.arange(tensor.numel(), device="cpu").reshape(tensor.shape)
        value = func(real, *args[1:], **kwargs)
        result = tuple(v.to("meta", tensor.dtype if n == 0 else v.dtype) for n, v in enumerate(value))
    for meta, known in zip(result, value, strict=True):
        session.oracle.learn(meta, known)
    return result


def _read_equal(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    values = [session.oracle.value(t) for t in args[:2]]
    if args[0].device.type != "meta" and args[1].device.type != "meta":
        return NotImplemented
    if args[0].shape != args[1].shape:
        return False
    if values[0] is not None and values[1] is not None:
        return bool((values[0] == values[1]).all())
    return session.guess(False, "`torch.equal`")


def _format(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`f"{tensor}"` of a tensor with one element formats its value."""
    tensor, spec = args
    if tensor.device.type != "meta" or tensor.dim() != 0:
        return func(*args, **kwargs)
    return format(_read_scalar(session, None, (tensor,), {}), spec)


def _tolist(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    if tensor.device.type != "meta":
        return func(*args, **kwargs)
    real = session.oracle.value(tensor)
    if real is None:
        answer = session.guess(1, "every entry of `tolist()`")
        real = torch.full(tensor.shape, answer, device="cpu").to(tensor.dtype)
        session.sizes_are_guessed = True
    return real.tolist()


def _numpy(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    real = session.oracle.value(args[0])
    if args[0].device.type != "meta":
        return func(*args, **kwargs)
    if real is None:
        session.guess(1, "every entry of `numpy()`")  # as where they are read one by one
        real = torch.ones(args[0].shape, dtype=args[0].dtype, device="cpu")
        session.sizes_are_guessed = True
    return real.detach().numpy()


PLAIN_READS: dict[str, Callable[[Session, Any, Any, Any], Any]] = {"__format__": _format, "tolist": _tolist, "numpy": _numpy}
"""Reads that leave torch, at the function level."""


def _read_split(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """Sizes that were guessed cannot add up: the same number for all, and the rest to the last."""
    if not session.sizes_are_guessed or args[0].device.type != "meta" or not isinstance(args[1], list | tuple):
        return NotImplemented
    axis = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    total, count = args[0].shape[axis], len(args[1])
    if sum(args[1]) == total or not count:
        return NotImplemented
    sizes = [total // count] * (count - 1) + [total - total // count * (count - 1)]
    return func(args[0], sizes, axis)


ATEN_READS: dict[str, Callable[[Session, Any, Any, Any], Any]] = {
    "_local_scalar_dense": _read_scalar,
    "is_nonzero": _read_scalar,
    "nonzero": _read_nonzero,
    "masked_select": _read_masked_select,
    "index": _read_index,
    "repeat_interleave": _read_repeat,
    "_unique2": _read_unique,
    "unique_dim": _read_unique,
    "unique_consecutive": _read_unique,
    "_unique": _read_unique,
    "equal": _read_equal,
    "split_with_sizes": _read_split,
}
