"""An argument with every tensor of it changed: lists, tuples with and without names, dictionaries and dataclasses keep their class."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

from torch import Tensor

from screen.capture.trace import flex


def mapped(value: Any, change: Callable[[str, Tensor], Any], name: str = "") -> Any:
    """The argument `name` with `change(name, tensor)` in the place of each tensor; an entry of it is called `name.key`."""
    if isinstance(value, Tensor):
        return change(name, value)
    if isinstance(value, tuple | list):
        parts = [mapped(v, change, f"{name}.{i}") for i, v in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if type(value) is dict:
        return {k: mapped(v, change, f"{name}.{k}") for k, v in value.items()}
    if isinstance(value, dict):
        entries = copy.copy(value)
        for key in value:
            entries[key] = mapped(value[key], change, f"{name}.{key}")
        return entries
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = copy.copy(value)
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):
                object.__setattr__(fields, field.name, mapped(getattr(value, field.name), change, f"{name}.{field.name}"))
        return fields
    return flex.own(value)


__all__ = ["mapped"]
