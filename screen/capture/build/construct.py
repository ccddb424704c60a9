"""From a class, an instance or a function to a model on the meta device.

A constructor that reads a value (`torch.linspace(0, 0.1, n)[i].item()`) cannot run on meta: it runs again with small tensors on the CPU. A
device other than CPU and meta that the code asks for is read as meta.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import random
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.overrides import TorchFunctionMode

from screen.capture.build.meta_copy import has_values, on_meta, values_of
from screen.capture.initial.recorder import Recorder
from screen.capture.build.overrides import changes, nest, unknown
from screen.capture.initial.buffers import buffers
from screen.errors import LoadError, UsageError
from screen.graph import Initialiser

SMALL = 4096
"""Entries: tensors up to this size may be made on the CPU when a constructor reads values."""
READS = (
    "meta tensor",
    "meta tensors",
    "device='meta'",
    "on meta",
    "meta device",
    "Meta device",
    "expected device meta",
    "is not available for meta",
    "from meta",
    "torch.nonzero()",
    "on a meta",
)
"""What torch says, in its several ways, when a value is read that meta does not have."""

_Record = tuple[tuple[str, tuple[Initialiser, ...]], ...]


class _Devices(TorchFunctionMode):
    """Factories: CUDA and the like become meta; with `values`, small tensors are made on the CPU."""

    def __init__(self, values: bool) -> None:
        super().__init__()
        from torch.utils._device import _device_constructors

        self.values = values
        self.factories = _device_constructors()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        device = kwargs.get("device")
        if device is not None and torch.device(device).type not in ("cpu", "meta"):
            kwargs["device"] = "meta"
        elif name == "cuda":
            func, args, kwargs = torch.Tensor.to, (args[0], "meta"), {}
        elif name == "to" and len(args) > 1 and _elsewhere(args[1]):
            args = (args[0], "meta", *args[2:])
        elif device is None and self.values and func in self.factories and _entries(func, args, kwargs) <= SMALL:
            kwargs["device"] = "cpu"
        elif func is torch.allclose and args[0].is_meta and sys._getframe(1).f_code.co_filename == parametrizations.__file__:
            return False  # "is it orthogonal already?": where that cannot be told, torch leaves a parametrisation half made and says nothing
        elif func is torch.geqrf and args[0].is_meta:  # torch has no kernel for its shapes
            rows, columns = args[0].shape[-2:]
            return torch.empty_like(args[0]), args[0].new_empty(*args[0].shape[:-2], min(rows, columns))
        return func(*args, **kwargs)


def _elsewhere(value: Any) -> bool:
    """Is this a device that is neither CPU nor meta?"""
    if isinstance(value, torch.dtype | torch.Tensor | bool):
        return False
    with contextlib.suppress(RuntimeError, TypeError):
        return torch.device(value).type not in ("cpu", "meta")
    return False


def _entries(func: Any, args: Any, kwargs: Any) -> int:
    """How many entries a factory call makes; 0 where that is not in its arguments (`tensor`, `arange`)."""
    if getattr(func, "__name__", "") not in ("empty", "zeros", "ones", "full", "rand", "randn", "randint", "eye", "normal"):
        return 0
    sizes = kwargs.get("size", args)
    total = 1
    for size in sizes if isinstance(sizes, list | tuple) else [sizes]:
        for entry in size if isinstance(size, list | tuple) else [size]:
            total *= entry if isinstance(entry, int) else 1
    return total


@contextlib.contextmanager
def workshop(recorder: Recorder | None = None, *, values: bool = False) -> Iterator[None]:
    """Meta is the default device, random numbers are seeded, and what is done to parameters is recorded."""
    state, theirs = torch.random.get_rng_state(), random.getstate()
    numpy = sys.modules.get("numpy.random")
    numbers = numpy.get_state() if numpy else None
    torch.default_generator.manual_seed(0)
    random.seed(0)
    if numpy:
        numpy.seed(0)
    try:
        with torch.device("meta"), _Devices(values), recorder or contextlib.nullcontext():
            yield
    finally:
        torch.random.set_rng_state(state)
        random.setstate(theirs)
        if numpy:
            numpy.set_state(numbers)


def reads_a_value(error: BaseException) -> bool:
    """Did it fail because a tensor on meta has no values?"""
    return isinstance(error, RuntimeError | NotImplementedError | TypeError | ValueError) and any(r in str(error) for r in READS)


def construct(name: str, entry: Any, settings: dict[str, Any], module: ModuleType | None) -> tuple[nn.Module, _Record, dict[str, list[Any]]]:
    """The model that a candidate stands for, on meta and in eval, with its initialisers and what `settings` changed.

    Raises `UsageError` for settings that do not fit, `LoadError` when no model comes out; exceptions of the user's code pass through."""
    if isinstance(entry, nn.Module):
        if settings:
            raise UsageError(f"`--set` needs a class or a function, because it changes how `{name}` is built", f"`{name}` is an instance")
        return on_meta(entry).eval(), values_of(entry) + buffers(entry), {}
    args, kwargs, changed = arguments(name, entry, nest(settings), module)
    for values in (False, True):
        recorder = Recorder()
        try:
            with workshop(recorder, values=values):
                model = entry(*args, **kwargs)
        except Exception as error:
            if values or not reads_a_value(error):
                raise
            continue
        break
    if not isinstance(model, nn.Module):
        raise LoadError(f"`{name}` must return a `torch.nn.Module`", f"it returned a `{type(model).__name__}`")
    record = recorder.of(model)
    stray = any(t.device.type != "meta" and not has_values(t) for t in [*model.parameters(), *model.buffers()])
    return (on_meta(model) if stray else model).eval(), record, changed


def arguments(name: str, entry: Any, settings: dict[str, Any], module: ModuleType | None) -> tuple[list[Any], dict[str, Any], dict[str, list[Any]]]:
    """Arguments for a class or a function: settings by name, those that it does not know into its one config argument.

    An argument without default is filled only when it is a config that builds without arguments itself: its annotation, or the one
    dataclass of the file that is no part of another."""
    try:
        found = list(inspect.signature(entry).parameters.values())
    except (TypeError, ValueError):
        return [], dict(settings), {k: [None, v] for k, v in settings.items()}
    known = {p.name: p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    configs = {
        p.name: c for p in found if p.name not in settings or isinstance(settings[p.name], dict) if (c := config_of(p, module)) is not None
    }
    given: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {key: dict(settings.get(key, {})) for key in configs}
    for key, value in settings.items():
        owner = next((c for c, cls in configs.items() if key in _config_fields(cls)), None)
        if key in configs:
            continue
        if key in known or (owner is None and any(p.kind is p.VAR_KEYWORD for p in found)):
            given[key] = value
        elif owner is not None:
            inner[owner][key] = value
        else:
            raise unknown(key, name, [*known, *(f for c in configs.values() for f in _config_fields(c))])
    changed = {k: [_default(known.get(k)), v] for k, v in given.items()}
    for key, cls in configs.items():
        if known[key].default is inspect.Parameter.empty or inner[key]:
            given[key], more = _config(cls, inner[key], key)
            changed.update(more)
    missing = [p.name for p in known.values() if p.default is p.empty and p.name not in given]
    if missing:
        raise UsageError(
            f"`{name}` must build without arguments, or with those of `--set`",
            f"it needs {', '.join(f'`{m}`' for m in missing)}",
            f"Add {' '.join(f'`--set {m}=…`' for m in missing)}, or a function `build_model()` to the file",
        )
    return [], given, changed


def _default(parameter: inspect.Parameter | None) -> Any:
    return None if parameter is None or parameter.default is parameter.empty else parameter.default


def config_of(parameter: inspect.Parameter, module: ModuleType | None) -> type[Any] | None:
    """The config class of an argument: its annotation, the class of its default, or (no default, or None) the one outer dataclass of the file."""
    kinds = (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    if parameter.kind not in kinds:
        return None
    note: Any = parameter.annotation
    names = vars(module) if module is not None else {}
    if isinstance(note, str):
        note = names.get(note.strip("'\""))
    if isinstance(note, type) and _builds_alone(note):
        return note
    if parameter.default is not parameter.empty and parameter.default is not None:
        return type(parameter.default) if dataclasses.is_dataclass(parameter.default) else None
    if parameter.annotation is not parameter.empty:
        return None
    own = [
        v
        for v in names.values()
        if isinstance(v, type) and dataclasses.is_dataclass(v) and v.__module__ == names.get("__name__") and _builds_alone(v)
    ]
    outer = [c for c in own if not any(_names(o, c) for o in own if o is not c)]
    return outer[0] if len(outer) == 1 else None


def _names(outer: type[Any], inner: type[Any]) -> bool:
    """Has dataclass `outer` a field of the type `inner`?"""
    return any(f.type is inner or inner.__name__ in re.findall(r"\w+", str(f.type)) for f in dataclasses.fields(outer))


def _builds_alone(cls: type[Any]) -> bool:
    """A plain class of settings: a dataclass, pydantic model or the like whose fields all have defaults."""
    if cls.__module__ == "builtins" or issubclass(cls, nn.Module | torch.Tensor) or not _config_fields(cls):
        return False
    try:
        signature = inspect.signature(cls)
    except (TypeError, ValueError):
        return False
    return all(p.default is not p.empty or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in signature.parameters.values())


def _config_fields(cls: type[Any]) -> list[str]:
    """Names of the settings of a config class."""
    if dataclasses.is_dataclass(cls):
        return [f.name for f in dataclasses.fields(cls)]
    try:
        found = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _config(cls: type[Any], settings: dict[str, Any], name: str) -> tuple[Any, dict[str, list[Any]]]:
    """A config with settings; a nested dataclass takes nested settings."""
    base = cls()
    given = {}
    for key, value in settings.items():
        if key not in _config_fields(cls):
            raise unknown(key, cls.__name__, _config_fields(cls))
        old = getattr(base, key, None)
        nested = isinstance(value, dict) and dataclasses.is_dataclass(old) and not isinstance(old, type)
        given[key] = dataclasses.replace(old, **value) if nested else value  # type: ignore[type-var]
    config = cls(**given)
    return config, changes({k: getattr(base, k, None) for k in given}, {k: getattr(config, k, None) for k in given}, name)


__all__ = ["READS", "SMALL", "arguments", "config_of", "construct", "reads_a_value", "workshop"]
