"""Inputs that the user states: `--input 'x=float32[1,16,512]'`, and `example_inputs` of the file."""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build.python_file import INPUTS
from screen.capture.build.random_state import seeded
from screen.capture.inputs.context import Lookup, forward_parameters, forward_signature
from screen.capture.trace.nested import mapped
from screen.errors import UsageError
from screen.graph.target import did_you_mean

MOST = 2**28
"""Entries of an input that has values: two gigabytes of integers."""
_TENSOR = re.compile(r"(?P<dtype>[a-z]+\d*(?:_e\dm\d\w*)?)\[(?P<shape>\s*(\d+\s*(,\s*\d+\s*)*,?\s*)?)\](=(?P<fill>-?[\w.+-]+))?")
_NAMED = re.compile(r"(?P<name>[^\W\d]\w*)(?P<inside>(\.\w+)*)=(?P<value>.*)", re.DOTALL)
_FORM = (
    "Write `--input 'x=float32[1,16,512]'`: a name of `forward`, a dtype of torch, a shape; with one value for all entries, `'lengths=int64[2]=17'`; "
    "an entry of a dictionary, a field of a record, `'batch.input_ids=int64[2,16]'`; or a JSON value, `'scale=2.0'`"
)

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments of forward."""


def stated(texts: tuple[str, ...], model: nn.Module, look: Lookup) -> Inputs:
    """The arguments that `--input` gives. Raises `UsageError`."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
        if not (found := _NAMED.fullmatch(text.strip())):
            args.append(_value(text.strip(), text, look))
            continue
        name = found["name"]
        check_names("`--input`", [name], model)
        _put(kwargs, [name, *found["inside"].split(".")[1:]], _value(found["value"].strip(), text, look), text)
    return tuple(args), kwargs


def check_names(what: str, names: Iterable[str], model: nn.Module) -> None:
    """Raises `UsageError` for a name that `forward` does not take, with the nearest that it does. `what` gives the names."""
    known = forward_parameters(model)
    if not known or any(p.kind is p.VAR_KEYWORD for p in forward_signature(model)):
        return
    for name in names:
        if name not in known:
            listed = f"It takes {', '.join(f'`{k}`' for k in known)}"
            required = f"{what} must name an argument of `forward` of `{type(model).__name__}`"
            raise UsageError(required, f"there is no `{name}`", did_you_mean(str(name), known) or listed)


def _put(level: dict[str, Any], path: list[str], value: Any, text: str) -> None:
    """An argument, or an entry of the dictionary that it is. Raises `UsageError` where it is said to be both."""
    for part in path[:-1]:
        level = level.setdefault(part, {})
        if not isinstance(level, dict):
            raise UsageError("`--input` must give each name one value", f"`{part}` has one of its own, and `{text}` reaches into it")
    level[path[-1]] = value


def _value(value: str, text: str, look: Lookup) -> Any:
    if found := _TENSOR.fullmatch(value):
        dtype = getattr(torch, found["dtype"], None)
        if not isinstance(dtype, torch.dtype):
            known = [n for n, v in vars(torch).items() if isinstance(v, torch.dtype)]
            raise UsageError("`--input` must name a dtype of torch", f"`{found['dtype']}` is none", did_you_mean(found["dtype"], known) or _FORM)
        shape = tuple(int(s) for s in found["shape"].split(",") if s.strip())
        on_meta = found["fill"] is None and (dtype.is_floating_point or dtype.is_complex)
        if not on_meta and math.prod(shape) > MOST:
            raise UsageError("`--input` must have a shape that fits into memory", f"`{text}` was given", "Give a smaller one")
        if found["fill"] is not None:
            return _filled(found["fill"], dtype, shape, text)
        try:
            return tensor(dtype, shape, look)
        except (RuntimeError, OverflowError, MemoryError):
            raise UsageError("`--input` must have a shape that fits into memory", f"`{text}` was given", "Give a smaller one") from None
    try:
        return json.loads(value)
    except ValueError:
        raise UsageError("`--input` must be `NAME=DTYPE[SHAPE]`", f"`{text}` was given", _FORM) from None


def _filled(fill: str, dtype: torch.dtype, shape: tuple[int, ...], text: str) -> Tensor:
    """A tensor of one number, or of one truth value."""
    try:
        return torch.full(shape, json.loads(fill.lower()), dtype=dtype)
    except (ValueError, RuntimeError, TypeError):
        raise UsageError("what follows the shape must be one value for all entries", f"`{text}` was given", _FORM) from None


def tensor(dtype: torch.dtype, shape: tuple[int, ...], look: Lookup) -> Tensor:
    """A tensor of this kind: floats on meta, integers as token ids, truth values all true."""
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.empty(shape, dtype=dtype, device="meta")
    count = 1
    for size in shape:
        count *= size
    return look.ids(count, batch=1).reshape(shape).to(dtype)


def of_file(module: ModuleType, model: nn.Module, names: tuple[str, ...]) -> Inputs | None:
    """`example_inputs` of the user's file for one model: a tensor, a tuple of arguments, a dictionary of named ones, a function that
    returns one of these (called with the model if it takes an argument), or a dictionary from the names of models to these, which a
    function may return as well."""
    if not hasattr(module, INPUTS):
        return None
    with _evaluated(module):
        found = getattr(module, INPUTS)
        if found is None:
            return None
        if callable(found):
            found = _called(found, model)
        if isinstance(found, dict) and any(n in found for n in names):
            found = next(found[n] for n in names if n in found)
        elif isinstance(found, dict) and found and all(isinstance(vars(module).get(str(k)), type | nn.Module) for k in found):
            return None  # inputs of other models of the file
        if callable(found):
            found = _called(found, model)
    return normal(with_values(found))


def _called(function: Any, model: nn.Module) -> Any:
    with torch.device("cpu"), seeded(0):
        return function(model) if _wants_model(function) else function()


def normal(found: Any) -> Inputs:
    """Example inputs of any form as positional and named arguments. Raises `UsageError`."""
    if isinstance(found, dict):
        return (), dict(found)
    if isinstance(found, tuple | list):
        return tuple(found), {}
    if isinstance(found, Tensor):
        return (found,), {}
    raise UsageError(
        f"`{INPUTS}` must be a tensor, a tuple of arguments, a dictionary of named ones, or a function that returns one",
        f"it is a `{type(found).__name__}`",
    )


def _wants_model(function: Any) -> bool:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in found)


@contextmanager
def _evaluated(module: ModuleType) -> Iterator[None]:
    """The file ran on meta, where integers have no values: for as long as this lasts, `example_inputs` and the tensors that it reads by
    their names have those of the CPU. What cannot be evaluated once more, since what it was made from is gone, keeps its shape."""
    try:
        with open(module.__file__ or "", encoding="utf-8") as file:
            statements = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        statements = []
    known = dict(vars(module))
    wanted = _read_by(statements, INPUTS)
    with torch.device("cpu"), seeded(0):
        for statement in statements:
            names = set() if isinstance(statement, ast.FunctionDef) else wanted & _assigned(statement)
            if any(name == INPUTS or _made_of_draws(known.get(name)) for name in names):
                with suppress(Exception):
                    exec(compile(ast.Module([statement], []), module.__file__ or INPUTS, "exec"), vars(module))
    try:
        yield
    finally:
        vars(module).clear()
        vars(module).update(known)


def _read_by(statements: list[ast.stmt], name: str) -> set[str]:
    """The name, and each name of the file that its statements read, through assignments and functions."""
    seen: set[str] = set()
    new = {name}
    while new:
        seen |= new
        read = [s for s in statements if new & _assigned(s)]
        new = {n.id for s in read for n in ast.walk(s) if isinstance(n, ast.Name)} - seen
    return seen


def _assigned(statement: ast.stmt) -> set[str]:
    """The names that it gives a value, or whose value it changes (`inputs["x"] = …`, `inputs.update(…)`); of a loop or a condition that fills
    `example_inputs` those that stand in it."""
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    if isinstance(statement, ast.For | ast.If | ast.With):
        inside = set[str]().union(*map(_assigned, (*statement.body, *getattr(statement, "orelse", ()))))
        return inside if INPUTS in inside else set()
    one: list[ast.expr] = [statement.target] if isinstance(statement, ast.AnnAssign | ast.AugAssign) else []
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and isinstance(statement.value.func, ast.Attribute):
        one = [statement.value.func.value]
    targets = statement.targets if isinstance(statement, ast.Assign) else one
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def _made_of_draws(value: Any) -> bool:
    """Holds tensors without values, or is a generator, which stands where the file left it."""
    found = [isinstance(value, torch.Generator)]
    mapped(value, lambda _, given: found.append(given.is_meta))
    return any(found)


def with_values(value: Any) -> Any:
    """Integers and truth values without values get some: 0 and 1 in turn, which every table of embeddings has; true."""

    def valued(_: str, given: Tensor) -> Tensor:
        if given.device.type != "meta" or given.dtype.is_floating_point or given.dtype.is_complex:
            return given
        if given.dtype == torch.bool:
            return torch.ones(given.shape, dtype=given.dtype, device="cpu")
        return (torch.arange(given.numel(), device="cpu") % 2).reshape(given.shape).to(given.dtype)

    return mapped(value, valued)


__all__ = ["Inputs", "check_names", "of_file", "stated", "tensor", "with_values"]
