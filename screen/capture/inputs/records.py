"""Arguments of a forward that are records: annotated with a dataclass or a named tuple of the author's, or taken apart at once by it or by the
first part that it hands them to. Their fields are sought like arguments.

    @dataclass
    class Batch:                                    def forward(self, batch: Batch): …   is sought as
        ids: Tensor                                 def forward(self, ids: Tensor, window: int): …
        window: int = 4
                                                    def forward(self, batch):            is sought as
                                                        ids, (words, places) = batch     def forward(self, ids, words, places): …
                                                    def forward(self, x, more):          is sought as
                                                        size = more.get("size")          def forward(self, x, size): …

While inputs are sought the model has a class of its own whose forward takes the fields, and makes the records.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from screen.capture.build.reads import asked_for, tree_of
from screen.capture.inputs.context import forward_parameters, forward_signature
from screen.capture.inputs.explicit import Inputs
from screen.capture.inputs.states import class_of, is_state, states
from screen.errors import UsageError
from screen.graph.target import did_you_mean

DEPTH = 3
"""Records in records."""
_MISSING = inspect.Parameter.empty


@dataclasses.dataclass(frozen=True)
class Record:
    """An argument, or a field, that is a record: its class (`tuple` for one that is taken apart, `dict` for one that is read by keys), and the names
    under which its fields are sought."""

    cls: type[Any]
    fields: dict[str, str | Record]

    def made(self, given: dict[str, Any]) -> Any:
        """The record of those of its fields that are given; its class has defaults for the others."""
        values = {n: f.made(given) if isinstance(f, Record) else given[f] for n, f in self.fields.items() if isinstance(f, Record) or f in given}
        return tuple(values.values()) if self.cls is tuple else self.cls(**values)

    def spread(self, given: dict[str, Any]) -> dict[str, Any]:
        """Entries that the user states, `batch.ids=…`, by the names under which they are sought. Raises `UsageError` for another."""
        found: dict[str, Any] = {}
        for name, value in given.items():
            if name not in self.fields:
                listed = f"It has {', '.join(f'`{k}`' for k in self.fields)}"
                required = f"`--input` must name a field of `{self.cls.__name__}`"
                raise UsageError(required, f"there is no `{name}`", did_you_mean(name, self.fields) or listed)
            field = self.fields[name]
            found.update(field.spread(value) if isinstance(field, Record) and isinstance(value, dict) else {str(field): value})
        return found


@contextlib.contextmanager
def unfolded(model: nn.Module, fixed: Inputs) -> Iterator[tuple[Inputs, Callable[[Inputs], Inputs]]]:
    """For as long as this lasts the forward takes the fields of its records: what is fixed by these names, and what makes records of inputs again."""
    own, records, parameters = type(model), dict[str, Record](), list[inspect.Parameter]()
    written = inspect.isfunction(getattr(own, "forward", None)) and "forward" not in vars(model)  # no scripted one
    stated = forward_signature(model) if written else []
    names = {p.name for p in stated}
    for parameter in stated[len(fixed[0]) :]:
        given = fixed[1].get(parameter.name, _MISSING)
        open_ = type(given) is dict or (given is _MISSING and parameter.default is _MISSING)
        known = open_ and parameter.kind is not parameter.POSITIONAL_ONLY
        kind = _record(model, parameter) if known else None
        apart = _taken_apart(model, parameter.name) if known and kind is None and given is _MISSING else None
        keys = _keys(model, parameter) if known and kind is None and given is _MISSING and parameter is not stated[0] else []
        if kind is not None:
            records[parameter.name] = _fields(kind, parameter.name, names, parameters)
        elif apart is not None and next(states(model, parameter.name, {}), None) is None:  # no method of the model makes it
            records[parameter.name] = _parts(apart, parameter.name, names, parameters)
        elif keys:
            records[parameter.name] = Record(dict, {key: _sought(key, parameter.name, names, parameters) for key in keys})
        else:
            parameters.append(parameter)
    if not records:
        yield fixed, lambda found: found
        return

    def folded(kwargs: dict[str, Any]) -> dict[str, Any]:
        inside = {p.name for p in parameters} - {p.name for p in stated}
        return {n: v for n, v in kwargs.items() if n not in inside} | {n: r.made(kwargs) for n, r in records.items() if n not in kwargs}

    @functools.wraps(own.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return own.forward(self, *args, **folded(kwargs))

    first = stated[: len(fixed[0])]
    kinds = [p.replace(kind=p.KEYWORD_ONLY) if p.kind is p.POSITIONAL_OR_KEYWORD else p for p in parameters]
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    taken = [itself, *(p.replace(kind=p.POSITIONAL_ONLY) for p in first), *sorted(kinds, key=lambda p: p.kind)]
    forward.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    kwargs = {n: v for n, v in fixed[1].items() if n not in records}
    for name in records.keys() & fixed[1].keys():
        kwargs.update(records[name].spread(fixed[1][name]))
    model.__class__ = type(own.__name__, (own,), {"forward": forward, "__module__": own.__module__, "__qualname__": own.__qualname__})
    try:
        yield (fixed[0], kwargs), lambda found: (found[0], folded(found[1]))
    finally:
        model.__class__ = own


def is_record(model: nn.Module, name: str) -> bool:
    """Is an argument of the forward annotated with a record?"""
    return any(p.name == name and _record(model, p) is not None for p in forward_signature(model))


def _record(model: nn.Module, parameter: inspect.Parameter) -> type[Any] | None:
    kind = class_of(model, parameter.annotation)
    if kind is None or is_state(model, parameter):
        return None
    named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return kind if named or (dataclasses.is_dataclass(kind) and "__init__" in vars(kind)) else None


def _fields(kind: type[Any], above: str, names: set[str], parameters: list[inspect.Parameter], depth: int = 1) -> Record:
    """A record whose fields are put behind `parameters`, under names that are not taken."""
    found: dict[str, str | Record] = {}
    for parameter in inspect.signature(kind).parameters.values():
        inner = class_of(sys.modules[kind.__module__], parameter.annotation)
        if inner is not None and dataclasses.is_dataclass(inner) and parameter.default is _MISSING and depth < DEPTH:
            found[parameter.name] = _fields(inner, parameter.name, names, parameters, depth + 1)
            continue
        name = parameter.name if parameter.name not in names else f"{above}_{parameter.name}"
        names.add(name)
        default = parameter.default if parameter.default is _MISSING or isinstance(parameter.default, int | float | str | bool) else None
        parameters.append(parameter.replace(name=name, kind=inspect.Parameter.KEYWORD_ONLY, default=default))
        found[parameter.name] = name
    return Record(kind, found)


def _taken_apart(model: nn.Module, name: str) -> ast.Tuple | None:
    """The names that a forward gives the parts of its argument, `ids, words = batch`; or, where the argument is all that it hands to a part of the
    model, that one's forward."""
    tree = tree_of(type(model).forward) or ast.Module([], [])
    if (found := _split(tree, name)) is not None:
        return found
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and not n.keywords and _is_part(n.func)]
    handed = any([ast.unparse(a) for a in call.args] == [name] for call in calls)
    for module in model.modules() if handed else ():
        other = getattr(type(module), "forward", None)
        own = next(iter(forward_parameters(module)), "") if inspect.isfunction(other) and other is not type(model).forward else ""
        if own and not type(module).__module__.startswith("torch."):
            return _split(tree_of(type(module).forward) or ast.Module([], []), own)
    return None


def _is_part(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self"


def _split(tree: ast.AST, name: str) -> ast.Tuple | None:
    """The first statement that gives all parts of a name names of their own, where nothing else is done with it."""
    used = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    for node in ast.walk(tree):
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Tuple) and isinstance(node.value, ast.Name) and used == [node.value]:
            return target if all(isinstance(n, ast.Name | ast.Tuple | ast.expr_context) for n in ast.walk(target)) else None
    return None


def _parts(target: ast.Tuple, above: str, names: set[str], parameters: list[inspect.Parameter]) -> Record:
    """A tuple whose parts are put behind `parameters`, under the names that the code gives them where these are free."""
    found: dict[str, str | Record] = {}
    for place, part in enumerate(target.elts):
        if isinstance(part, ast.Tuple):
            found[str(place)] = _parts(part, f"{above}_{place}", names, parameters)
        elif isinstance(part, ast.Name):
            found[str(place)] = _sought(part.id if part.id.strip("_") else f"{above}_{place}", f"{above}_{place}", names, parameters)
    return Record(tuple, found)


def _sought(name: str, otherwise: str, names: set[str], parameters: list[inspect.Parameter]) -> str:
    """The name under which a part is sought, behind `parameters`: its own where that is free and one."""
    own = name if name.isidentifier() and name not in names else f"{otherwise}_{name}" if name.isidentifier() else f"{otherwise}_{len(names)}"
    names.add(own)
    parameters.append(inspect.Parameter(own, inspect.Parameter.KEYWORD_ONLY))
    return own


def _keys(model: nn.Module, parameter: inspect.Parameter) -> list[str]:
    """The keys by which a forward reads an argument of which nothing else is said, where it does nothing else with it: `more["size"]`,
    `more.get("size")`."""
    name, tree = parameter.name, tree_of(type(model).forward) or ast.Module([], [])
    if parameter.annotation is not _MISSING:
        return []
    found: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            found[node.value] = node.slice.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1 and (key := asked_for(node, name)):
            found[node.func.value] = key
    used = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name]
    return list(dict.fromkeys(found[n] for n in used)) if all(n in found for n in used) else []


__all__ = ["is_record", "unfolded"]
