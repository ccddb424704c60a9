"""What makes two members of a container equal: all that they hold, but for the values of their integers, which are told apart from the rest."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

_INTERNAL = frozenset(vars(nn.Module())) | {"forward"}


_THEMSELVES = (str, float, complex, bytes, torch.dtype, torch.device, torch.Size)


def _key(value: Any, own: dict[int, int]) -> Any:
    """A comparable stand-in for a plain attribute; things that cannot be compared are equal to themselves alone."""
    if type(value) is bool:
        return ("int", int(value), True)
    if value is None or isinstance(value, _THEMSELVES):
        return value
    if isinstance(value, Tensor):
        return ("tensor", tuple(value.shape), value.dtype)
    if isinstance(value, nn.Module):
        return ("module", own.get(id(value), id(value)))
    if isinstance(value, list | tuple):
        return (type(value), *(_key(v, own) for v in value))
    if isinstance(value, dict):
        return ("dict", *((str(k), _key(v, own)) for k, v in value.items()))
    if isinstance(value, int):
        return ("int", int(value), False)
    return _callable_key(value, own)


def _callable_key(value: Any, own: dict[int, int]) -> Any:
    if isinstance(value, functools.partial):
        return ("partial", _key(value.func, own), _key(value.args, own), _key(value.keywords, own))
    if isinstance(value, types.MethodType):
        return ("method", value.__func__, own.get(id(value.__self__), id(value.__self__)))
    if isinstance(value, types.FunctionType):
        cells = tuple(_key(c.cell_contents, own) for c in value.__closure__ or ())
        return ("function", value.__code__, _key(value.__defaults__, own), cells)
    return ("object", id(value))


def signature(member: nn.Module, starts: Mapping[int, int]) -> tuple[Any, tuple[tuple[str, int], ...]]:
    """(everything but plain integers, the integers with their paths). `starts`: parameters by identity -> how they start."""
    modules = list(member.named_modules())
    own = {id(m): n for n, (_, m) in enumerate(modules)}
    parts: list[Any] = []
    integers: list[tuple[str, int]] = []
    for path, module in modules:
        parts.append((path, type(module), module.training))
        for kind in ("_parameters", "_buffers"):
            held = getattr(module, kind).items()
            parts.extend((n, None if t is None else (tuple(t.shape), t.dtype, t.requires_grad, starts.get(id(t)))) for n, t in held)
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            parts.extend(_key(h, own) for h in hooks.values())
        for name, value in vars(module).items():
            if name in _INTERNAL:
                continue
            if type(value) is int:
                integers.append((f"{path}.{name}" if path else name, value))
                parts.append((name, "int"))
            else:
                parts.append((name, _key(value, own)))
    return tuple(parts), tuple(integers)


__all__ = ["signature"]
