"""Does a model of a default config run at all? Some do not, whatever they are called with: a field that is needed has no default, or two do not fit.

Measured, with no list of names: a call fails in a statement that no argument stands in, and fails there again with another batch, other lengths
and other sides. Where it is a call of torch that refuses, that call is made once more with every size that inputs change set to 1, which meets any
other: it has to refuse that as well. What a model that does not run fails at is part of every call of it: one with token ids alone is enough.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from screen.capture.build.meta_copy import on_meta
from screen.capture.inputs.context import BATCH, Lookup
from screen.capture.inputs.missing import condition, frames, parts_of, statement
from screen.capture.inputs.transformers import combinations, plans
from screen.capture.inputs.trial import outcome, short_twin
from screen.capture.trace.source_lines import HERE, TORCH
from screen.capture.trace.tracer import run

TRIED = 12
"""Forms of the arguments of one plan."""
LENGTH = 21
"""Tokens of the call with another length, which no other size of ours equals."""


@dataclass(frozen=True)
class Refusal:
    """Where and how a call failed."""

    file: str
    line: int
    kind: str
    said: str
    call: tuple[Any, Any, Any] | None
    """The call of torch that refused, with its arguments; None where the model itself did."""
    nodes: int
    """Values that were made before."""
    of_argument: bool
    """Whether the statement that failed speaks of an argument, or of something that is `None`."""


def does_not_run(model: nn.Module, given: dict[str, Any]) -> str:
    """What the model of a default config fails at with inputs of any size; empty where a call runs, or where inputs may be what fails."""
    look = Lookup(model)
    fixed = {"use_cache": False} if "use_cache" in look.parameters else {}
    twin = short_twin(model) or on_meta(model)
    for call in (given, *(furthest(twin, fixed, combinations(plan)) for plan in plans(look, fixed))):
        if not all(isinstance(v, Tensor) and v.dim() > 1 and v.shape[-1] > 3 for n, v in call.items() if n not in fixed):
            continue  # grids and places, whose entries belong to another argument
        first = refusal(model, call)
        if first is None:
            return ""
        others = [refusal(model, other) for other in varied(call, look.tokens)]
        others = [o for o in others if o is None or o.nodes >= first.nodes]  # one that comes less far is of a size that the model fixes
        if others and not first.of_argument and all(o is not None and same(first, o) for o in others) and not meets(first, others):
            return f"{first.kind}: {first.said.removeprefix(f'{first.kind}: ')} ({os.path.basename(first.file)}:{first.line})"
    return ""


def furthest(twin: nn.Module, fixed: dict[str, Any], choices: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Of the first choices of a plan the one that comes furthest."""
    calls = [{**fixed, **choice} for choice in itertools.islice(choices, TRIED)]
    return max(calls, key=lambda call: outcome(twin, (), call, tracing=False).reached, default={}) if len(calls) > 1 else (calls or [{}])[0]


def refusal(model: nn.Module, kwargs: dict[str, Any]) -> Refusal | None:
    """How a call fails; None where it runs."""
    with _Watch() as watch:
        found = run(on_meta(model), (), kwargs)
    if found.error is None or found.graph.failure is None:
        return None
    text = found.graph.failure.message.partition("\n")[0]
    own = [f for f in frames(found.error) if not f[0].f_code.co_filename.startswith((TORCH, HERE, __file__))]
    file, place = (own[-1][0].f_code.co_filename, own[-1][1]) if own else ("", 0)
    of_argument = True
    if own:
        frame, line = own[-1]
        said = statement(frame.f_code.co_filename, line)
        if isinstance(said, ast.Raise):
            said = condition(frame.f_code.co_filename, line) or said
        values = [frame.f_locals[n.id] for n in parts_of(said) if isinstance(n, ast.Name) and n.id in frame.f_locals] if said is not None else [None]
        arguments = {id(v) for n, v in outer(found.error, model).items() if n in kwargs and isinstance(v, Tensor)}
        code = frame.f_code
        handed = {n for n in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if frame.f_locals.get(n, 0) is None}
        nothing = {n.id for n in parts_of(said) if isinstance(n, ast.Name)} & handed if said is not None else handed
        of_argument = bool(nothing) or any(id(v) in arguments for v in values) or bool(set(re.findall(r"\w+", text)) & set(kwargs))
        of_argument = of_argument or any(re.search(rf"\b{re.escape(n)}\b", text) for n in Lookup(model).parameters)
    call = watch.call if watch.error is found.error else None
    return Refusal(file, place, type(found.error).__name__, text, call, len(found.graph.nodes), of_argument)


class _Watch(TorchFunctionMode):
    """Remembers the last call of torch that raised."""

    error: BaseException | None = None
    call: tuple[Any, Any, Any] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            if self.error is not error:
                self.error, self.call = error, (func, args, kwargs or {})
            raise


def outer(error: BaseException, model: nn.Module) -> dict[str, Any]:
    """What the names of the model's own forward stood for when it failed."""
    own = getattr(model.forward, "__func__", model.forward)
    while hasattr(own, "__wrapped__"):
        own = own.__wrapped__
    found = next((f for f, _ in frames(error) if f.f_code is getattr(own, "__code__", None)), None)
    names = found.f_code.co_varnames[: found.f_code.co_argcount + found.f_code.co_kwonlyargcount] if found is not None else ()
    return {n: found.f_locals[n] for n in names if n in found.f_locals and n != "self"} if found is not None else {}


def tensors(values: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors among some values."""
    yield from (v for v in values.values() if isinstance(v, Tensor))


def varied(kwargs: dict[str, Any], tokens: int) -> Iterator[dict[str, Any]]:
    """The same call with a batch of three, and, where it has tokens or maps, with other lengths, and with sides twice as long."""
    if any(t.shape[0] == BATCH for t in tensors(kwargs)):
        yield {n: _resized(v, {0: BATCH + 1}) if isinstance(v, Tensor) and v.shape[0] == BATCH else v for n, v in kwargs.items()}
    if any(tokens in t.shape[1:] for t in tensors(kwargs)):
        lengths = {n: {a: LENGTH for a in range(1, v.dim()) if v.shape[a] == tokens} for n, v in kwargs.items() if isinstance(v, Tensor)}
        yield {n: _resized(v, lengths[n]) if isinstance(v, Tensor) else v for n, v in kwargs.items()}
    if any(t.dim() > 3 for t in tensors(kwargs)):
        yield {n: _resized(v, {a: 2 * v.shape[a] for a in (v.dim() - 1, v.dim() - 2)}) if isinstance(v, Tensor) and v.dim() > 3 else v
               for n, v in kwargs.items()}  # fmt: skip


def _resized(value: Tensor, sizes: dict[int, int]) -> Tensor:
    shape = [sizes.get(axis, size) for axis, size in enumerate(value.shape)]
    if value.dtype.is_floating_point:
        return torch.empty(shape, dtype=value.dtype, device="meta")
    for axis, size in sizes.items():
        value = torch.cat([value] * -(-size // value.shape[axis]), axis).narrow(axis, 0, size)
    return value


def same(one: Refusal, other: Refusal) -> bool:
    """Whether two calls fail at one place in one way; where no call of torch refuses, in the same words."""
    alike = (one.file, one.line, one.kind, one.call is None) == (other.file, other.line, other.kind, other.call is None)
    return alike and (one.call is not None or one.said == other.said)


def meets(first: Refusal, others: list[Refusal | None]) -> bool:
    """Whether the call that refuses goes through where every size that the inputs change is 1, or where inputs change more of it than sizes."""
    if first.call is None:
        return False
    flat = [tree_flatten((r.call[1], r.call[2])) for r in (first, *others) if r is not None and r.call is not None]
    if any(str(spec) != str(flat[0][1]) for _, spec in flat):
        return True
    made: list[Any] = []
    for values in zip(*(leaves for leaves, _ in flat), strict=True):
        if not isinstance(values[0], Tensor):
            if any(str(v) != str(values[0]) for v in values):
                return True
            made.append(values[0])
            continue
        if any(v.dim() != values[0].dim() for v in values):
            return True
        shape = [sizes[0] if len(set(sizes)) == 1 else 1 for sizes in zip(*(v.shape for v in values), strict=True)]
        made.append(torch.zeros(shape, dtype=values[0].dtype, device="meta"))
    args, kwargs = tree_unflatten(made, flat[0][1])
    try:
        first.call[0](*args, **kwargs)
    except Exception:
        return False
    return True


__all__ = ["does_not_run"]
