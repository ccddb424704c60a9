"""What makes a model of a file, as plain data: so that it can be made and run where nothing of ours is (`screen.probe.second.outside`)."""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build import python_file
from screen.capture.build.built import Built
from screen.capture.build.configs import Given
from screen.capture.trace.loop import Loop, own_name
from screen.child.protocol import Request
from screen.child.real import call_of, entry_of
from screen.graph import COPIES
from screen.graph.target import parse
from screen.probe.second.outside import packed
from screen.probe.second.plain import inputs_of

LARGEST = 20_000_000
"""Weights of all models together that are made for one part of each."""
LIGHT = 2_000_000
"""Weights up to which the run in training keeps what gradients need."""


class Unsaid(Exception):
    """It cannot be described."""


def order_of(request: Request, built: Built, weights: Sequence[str], seed: int) -> dict[str, Any]:
    """The description of a model with what it is run on. Raises `Unsaid` with the reason, and what the code of the target raises."""
    spec = parse(request.target)
    if spec.kind not in ("file", "module") or built.original is not None:
        raise Unsaid("it is no model of a file")
    module = python_file.load(spec)
    if vars(module).get(python_file.READING) is not None:
        raise Unsaid("its file does not run to its end")
    name, entry = entry_of(spec, built, module)
    try:
        same = python_file.attribute(module, name, spec.text) is entry
    except Exception:
        same = False
    if not same or "[" in name:
        raise Unsaid(f"`{name}` is no name of its file")
    kwargs = None
    if not isinstance(entry, nn.Module):
        args, given = call_of(name, entry, request, built.supplied, module)
        if args:
            raise Unsaid("it is called by position")
        kwargs = [(key, _said(value, module)) for key, value in given.items()]
    loop = built.model if isinstance(built.model, Loop) else None
    if built.around * (len(loop.members) if loop is not None else 1) > LARGEST:
        raise Unsaid(f"`{name}`, which makes it, has {built.around:,} weights")
    one = loop.members[0] if loop is not None else built.model
    inputs, named = inputs_of(built, seed)
    return {
        "file": os.path.abspath(spec.path) if spec.path else None,
        "module": spec.module or module.__name__,
        "entry": name,
        "part": built.part,
        "kwargs": kwargs,
        "count": len(loop.members) if loop is not None else 1,
        "fed": list(loop.fed) if loop is not None else [],
        "copies": COPIES,
        "weights": list(weights),
        "buffers": [own_name(name) for name, _ in built.model.named_buffers(remove_duplicate=False)],
        "args": [_said(value, module) for value in inputs],
        "kwargs_of_forward": [(key, _said(value, module)) for key, value in named.items()],
        "seed": seed,
        "light": sum(p.numel() for p in one.parameters()) <= LIGHT,
    }


def _said(value: Any, module: ModuleType) -> Any:
    """A value as `screen.probe.second.outside.meant` reads it. Raises `Unsaid`."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Tensor):
        return ["tensor", *packed(value)]
    if isinstance(value, torch.dtype):
        return ["torch", str(value).removeprefix("torch.")]
    if type(value) in (list, tuple, torch.Size):
        return ["list" if type(value) is list else "tuple", *(_said(part, module) for part in value)]
    if type(value) in (dict, Given):
        return ["given" if type(value) is Given else "dict", *([_said(key, module), _said(part, module)] for key, part in value.items())]
    if isinstance(value, type) or inspect.isfunction(value) or inspect.isbuiltin(value):
        return _named(value, module)
    if dataclasses.is_dataclass(value):
        stated = [field.name for field in dataclasses.fields(value) if _is_set(value, field)]
        return ["called", _named(type(value), module), [(name, _said(getattr(value, name), module)) for name in stated]]
    raise Unsaid(f"it is given a `{type(value).__name__}`")


def _is_set(value: Any, field: dataclasses.Field[Any]) -> bool:
    """Whether a field is stated when its object is made, and is not what it would be."""
    if not field.init:
        return False
    usual = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    try:
        return bool(usual is dataclasses.MISSING or getattr(value, field.name) != usual)
    except Exception:
        return True


def _named(value: Any, module: ModuleType) -> Any:
    """A class or a function by the place where it is found again."""
    home = "" if value.__module__ == module.__name__ else value.__module__ or ""
    for name in (value.__qualname__, value.__name__):
        found: Any = sys.modules.get(home) if home else module
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is value:
            return ["named", home, name]
    raise Unsaid(f"it is given `{value.__qualname__}`")


__all__ = ["Unsaid", "order_of"]
