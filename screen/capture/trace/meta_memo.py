"""Aten calls on meta whose results are known from an equal call before: their kernels are written in Python, and take up to a millisecond each.

What a call gives on meta follows from its operands' sizes, strides and types, from its other arguments and from the default type of floats. So equal
blocks ask the kernel once. Never remembered: calls that write, results that are views of an operand or share their memory, tensors of other classes,
arguments that are not plain, and everything while a mode of somebody else looks on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

Sizes = tuple[torch.Size, tuple[int, ...], torch.dtype]
_PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
_TENSORS = (Tensor, nn.Parameter, nn.Buffer)
MOST = 100_000
"""Calls that are remembered over several runs; then all are forgotten."""


class _Not(Exception):
    """Something that is not remembered."""


@dataclass
class Memo:
    """The calls of one run."""

    made: dict[Any, tuple[bool, tuple[Sizes | None, ...]] | None] = field(default_factory=dict)
    """Call -> whether it gives several, and each; None where the kernel must be asked again."""

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What `func` gives. Raises as it does."""
        try:
            key = None if _is_watched(func) else (func, torch.get_default_dtype(), _key(args), _key(tuple(kwargs.items())))
        except _Not:
            key = None
        if key is None:
            return func(*args, **kwargs)
        known = self.made.get(key)
        if known is not None:
            several, sizes = known
            with torch._C.DisableTorchFunction():
                found = tuple(s and torch.empty_strided(*s[:2], dtype=s[2], device="meta") for s in sizes)
            return found if several else found[0]
        result = func(*args, **kwargs)
        if key not in self.made:
            self.made[key] = _form(result, args, kwargs)
        return result


class Remembered(TorchDispatchMode):
    """Active while a forward runs that nothing watches, one of many of one model: what earlier ones asked is known."""

    memo = Memo()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is ever compiled (see `screen.capture.trace.session`)."""
        return False

    def __enter__(self) -> Remembered:
        if len(self.memo.made) > MOST:
            self.memo.made.clear()
        super().__enter__()
        return self

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.memo.run(func, args, kwargs or {})


def _is_watched(func: Any) -> bool:
    """Whether more than a new tensor may come of a call: it is of another library, it writes, it gives views, or another mode looks on."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace not in ("aten", "prims") or torch._C._len_torch_dispatch_stack() > 0:
        return True
    return func._schema.is_mutable or any(r.alias_info is not None for r in func._schema.returns)


def _key(value: Any) -> Any:
    """An argument, as far as a kernel on meta reads it. Numbers with their types: 1 is not 1.0 where types are found."""
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind in _TENSORS:
        if value.device.type != "meta" or value.layout != torch.strided or value.is_conj() or value.is_neg():
            raise _Not
        return value.shape, value.stride(), value.dtype
    if kind in (tuple, list):
        return kind, tuple(map(_key, value))
    raise _Not


def _form(result: Any, args: Any, kwargs: Any) -> tuple[bool, tuple[Sizes | None, ...]] | None:
    """What is kept of a result; None where it is not made of new tensors alone."""
    found = result if type(result) is tuple else (result,)
    if not all(v is None or (type(v) is Tensor and _is_plain(v)) for v in found):
        return None
    places = [_storage(v) for v in found if v is not None]
    operands = {_storage(t) for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
    if len({*places} - operands) < len(places):
        return None
    return type(result) is tuple, tuple(None if v is None else (v.shape, v.stride(), v.dtype) for v in found)


def _is_plain(value: Tensor) -> bool:
    strided = value.device.type == "meta" and value.layout == torch.strided
    return strided and not (value.storage_offset() or value.is_conj() or value.is_neg() or value.requires_grad)


def _storage(value: Tensor) -> int:
    return int(value.untyped_storage()._cdata)


__all__ = ["Memo", "Remembered"]
