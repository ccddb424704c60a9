"""State that a forward takes as an argument and that a method of its model makes: a carry, a hidden state, a cache.

    def initial_carry(self, batch) -> Carry: …                def init_hidden(self, bsz): return torch.zeros(…)
    def forward(self, carry: Carry, batch): …                 def forward(self, ids, hidden): …

Where an argument is annotated with a class of the author's, a method that returns an object of this class makes it; elsewhere one that takes nothing
but a size and returns tensors is tried. What such a method takes are other arguments of the forward, by their names, and the size of a batch.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import typing
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from screen.capture.build.construct import Values, workshop
from screen.capture.build.meta_copy import on_meta
from screen.capture.build.reads import tree_of
from screen.capture.inputs.context import BATCH, forward_parameters
from screen.capture.trace.nested import mapped
from screen.capture.trace.source_lines import TORCH

METHODS = 6
"""Of a class without annotations: how many are tried."""


def is_state(model: nn.Module, parameter: inspect.Parameter) -> bool:
    """Is an argument of the forward said to be of a class that a method of the model returns?"""
    kind = class_of(model, parameter.annotation)
    return kind is not None and any(_returned(model, method) is kind for method in _methods(model))


def states(model: nn.Module, name: str, given: Mapping[str, Any]) -> Iterator[Any]:
    """Values for an argument of the forward that methods of the model make; `given`: other arguments."""
    parameter = forward_parameters(model).get(name)
    if parameter is None:
        return
    kind = class_of(model, parameter.annotation)
    fitting = [m for m in _methods(model) if (_returned(model, m) is kind if kind is not None else _makes_of_a_size(m))]
    twin = on_meta(model) if fitting else model  # what such a method does besides is not done to the model
    for method in itertools.islice(fitting, METHODS):
        needed = [p for p in list(inspect.signature(method).parameters.values())[1:] if p.default is p.empty]
        if any(p.name not in given and not _is_size(p) for p in needed):
            continue
        try:
            with workshop(values=Values.FEW):
                made = method(twin, **{p.name: given.get(p.name, BATCH) for p in needed})
        except Exception:  # a method for something else
            continue
        found: list[Tensor] = []

        def keep(_: str, tensor: Tensor, found: list[Tensor] = found) -> Tensor:
            found.append(tensor)
            return tensor

        mapped(made, keep)
        if found and (kind is None or isinstance(made, kind)):
            yield made


def _methods(model: nn.Module) -> list[Any]:
    """The methods of a model that its author wrote, but for its forward."""
    own = [cls for cls in type(model).__mro__ if not (getattr(sys.modules.get(cls.__module__), "__file__", None) or TORCH).startswith(TORCH)]
    found = {name: value for cls in reversed(own) for name, value in vars(cls).items() if inspect.isfunction(value)}
    return [m for name, m in found.items() if not name.startswith("__") and name != "forward"]


def class_of(place: nn.Module | ModuleType, note: Any) -> type[Any] | None:
    """The class of the author's that an annotation of a model, or of a module of code, means; None for tensors, containers and numbers."""
    code = place if isinstance(place, ModuleType) else sys.modules[type(place).__module__]
    note = None if note is inspect.Parameter.empty else _read(note, code)
    known = isinstance(note, type) and note.__module__ not in ("builtins", "typing", "collections.abc") and not note.__module__.startswith("torch")
    return note if known and not issubclass(note, nn.Module | Tensor) else None


def _returned(model: nn.Module, method: Any) -> type[Any] | None:
    """The class of the author's that a method returns, by its annotation or by what it calls there."""
    note = inspect.signature(method).return_annotation
    if note is not inspect.Signature.empty:
        return class_of(model, note)
    returned = [n.value for n in ast.walk(tree_of(method) or ast.Module([], [])) if isinstance(n, ast.Return)]
    called = {ast.unparse(value.func) for value in returned if isinstance(value, ast.Call)}
    return class_of(model, next(iter(called))) if len(called) == 1 else None


def _read(note: Any, code: ModuleType) -> Any:
    """An annotation that is written as text."""
    if isinstance(note, str):
        try:
            note = eval(note, dict(vars(code)))  # Python's own way to read it
        except Exception:  # a name that is there for type checkers only
            return None
    parts = [a for a in typing.get_args(note) if a is not type(None)]
    return parts[0] if len(parts) == 1 and type(None) in typing.get_args(note) else note


def _makes_of_a_size(method: Any) -> bool:
    """Does a method take a size alone and return something, with nothing else done to its object?"""
    taken = list(inspect.signature(method).parameters.values())
    needed = [p for p in taken[1:] if p.default is p.empty]
    if len(needed) != 1 or not _is_size(needed[0]):
        return False
    nodes = list(ast.walk(tree_of(method) or ast.Module([], [])))
    stored = [n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and ast.unparse(n.value) == taken[0].name]
    return not stored and any(isinstance(n, ast.Return) and n.value is not None for n in nodes)


def _is_size(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.annotation in (parameter.empty, int, "int")


__all__ = ["class_of", "is_state", "states"]
