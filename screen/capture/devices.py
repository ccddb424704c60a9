"""Meta in place of the device that the user's code runs on.

A forward that asks for the device of a tensor (`torch.autocast(x.device.type)`, `if x.device.type == "cuda"`, `x.type()`) is told `cpu`, a device on
which every program of PyTorch has a meaning; what it makes there is made on meta, and a move from one device to another is none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
NESTED = os.path.join(os.path.dirname(torch.__file__), "nested")
"""Where torch puts tensors of unequal lengths together: what it is told there is the device that they get."""
CPU = torch.device("cpu")
_MOVES = frozenset({"cpu", "cuda", "xpu", "hpu", "ipu", "pin_memory"})
"""Methods that only move a tensor."""
_TYPES = {f"torch.{name}": kind.dtype for name, kind in vars(torch).items() if isinstance(kind, type(torch.FloatTensor))}
"""`torch.FloatTensor` and its like, by name."""
_NAMES = {dtype: name for name, dtype in _TYPES.items()}

Move = Callable[[Tensor], Tensor]
"""Takes a tensor that is not on meta there."""


def told(func: Callable[..., Any], name: str, args: Any) -> Any:
    """The answer to a question for the device of a tensor on meta; `NotImplemented` where this is none."""
    if name == "__get__":
        asked = getattr(func.__self__, "__name__", "")  # type: ignore[attr-defined]
        if asked == "device" and args[0].is_meta:
            return NotImplemented if asks().startswith(NESTED) else CPU
        return True if asked == "is_cpu" and args[0].is_meta else NotImplemented
    if name == "get_device" and args[0].is_meta:
        return -1
    if name == "type" and len(args) == 1 and args[0].is_meta and args[0].dtype in _NAMES:
        return _NAMES[args[0].dtype]
    return NotImplemented


def asks() -> str:
    """The file that asks."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return frame.f_code.co_filename


def kept(func: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any], move: Move) -> tuple[Callable[..., Any], Any, dict[str, Any]]:
    """A call that names a device as one that stays on meta."""
    if name in _MOVES and args and isinstance(args[0], Tensor):
        return Tensor.to, (move(args[0]), args[0].dtype), {}
    if name == "to" and (found := _to(args, kwargs)) is not None:
        return Tensor.to, (move(args[0]), *found[0]), found[1]
    if name == "type" and len(args) > 1 and args[0].is_meta and (dtype := _dtype(args[1])) is not None:
        return Tensor.to, (args[0], dtype), {}
    if kwargs.get("generator") is not None:  # it belongs to a device
        kwargs = {key: value for key, value in kwargs.items() if key != "generator"}
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": "meta", **({"pin_memory": False} if "pin_memory" in kwargs else {})}
    return func, args, kwargs


def _to(args: Any, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of `tensor.to` but for the device; None where they name none."""
    named = {key: value for key, value in kwargs.items() if key not in ("device", "non_blocking")}
    rest = list(args[1:])
    moved = kwargs.get("device") is not None
    if rest and isinstance(rest[0], torch.device | str | int) and not isinstance(rest[0], bool):
        moved, rest = True, [a for a in rest[1:2] if a is not None]  # `to(device, dtype, non_blocking, copy)`
    elif rest and isinstance(rest[0], Tensor):
        moved, rest = True, [rest[0].dtype]
    if not moved:
        return None
    return tuple(rest) or (() if "dtype" in named else (args[0].dtype,)), named


def _dtype(kind: Any) -> torch.dtype | None:
    """What `tensor.type(kind)` asks for, wherever that is: a dtype, `torch.FloatTensor`, or the name of one."""
    if isinstance(kind, torch.dtype):
        return kind
    name = kind if isinstance(kind, str) else f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', '')}"
    return _TYPES.get(name.replace("torch.cuda.", "torch."))


def to_meta(tensor: Tensor) -> Tensor:
    """The tensor on meta, without its values."""
    return tensor if tensor.is_meta else tensor.to("meta")


class OnMeta(TorchFunctionMode):
    """Both of it, for a forward that nothing watches."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        answer = told(func, name, args)
        if answer is not NotImplemented:
            return answer
        func, args, kwargs = kept(func, name, args, kwargs or {}, to_meta)
        return func(*args, **kwargs)


__all__ = ["OnMeta", "asks", "kept", "to_meta", "told"]
