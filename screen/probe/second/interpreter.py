"""The plain graph run on real tensors, call by call, as the vocabulary reads it: no line of the user's, and nothing of the trace but its data.

A call is what torch calls by its name. One that a graph cannot tell for certain (a read after a write by another name, random numbers, memory that
nothing was written to, a result of another shape or type than was recorded) ends the run without an opinion.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from screen.graph import SOURCES, Graph, Node, Ref
from screen.ops import CLASSES

RANDOM = frozenset({
    "rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "randperm", "normal", "uniform", "exponential", "log_normal", "cauchy",
    "geometric", "random", "bernoulli", "bernoulli_p", "multinomial", "rrelu", "gumbel_softmax", "empty", "empty_like", "new_empty", "empty_strided",
    "empty_permuted", "new_empty_strided", "alias", "from_numpy", "as_strided", "item", "set", "put",
})  # fmt: skip
"""Calls whose result does not follow from the graph."""
SAMPLED = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout"})
"""Calls that hand on their operand in evaluation."""
SPACES = {torch: "", F: "", Tensor: "", torch.linalg: "linalg_", torch.fft: "fft_", torch.special: "special_"}
"""Where a name is looked for, in order, and how it begins there."""
BETWEEN: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": operator.pow, "matmul": operator.matmul,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
}  # fmt: skip
"""Calls that Python writes between two operands, of which either may be a number."""
_DEVICE = re.compile(r"(meta|cpu|cuda)(:\d+)?")
_DTYPES = {str(d).removeprefix("torch."): d for d in vars(torch).values() if isinstance(d, torch.dtype)}
_LAYOUTS = {str(value): value for value in (torch.strided, torch.contiguous_format, torch.preserve_format, torch.channels_last)}


class Unread(Exception):
    """The graph does not say what this call gives."""


class Absent(Exception):
    """The module has no value for a leaf of the graph."""


def run(graph: Graph, output: int, leaves: Mapping[int, Tensor]) -> Tensor:
    """The value of one node from those of the leaves. Raises `Unread`, `Absent`."""
    env: dict[int, Any] = dict(leaves)
    for index in _needed(graph, output):
        node = graph.nodes[index]
        if node.op in SOURCES:
            if index not in env or tuple(env[index].shape) != node.shape:
                raise Absent(node.name)
            continue
        env[index] = _called(node, _values(node.args, env), {key: _values(value, env) for key, value in node.kwargs})
    found = env[output]
    if not isinstance(found, Tensor):
        raise Unread("the output is no tensor")
    return found


def _needed(graph: Graph, output: int) -> list[int]:
    """What a node depends on, ascending."""
    seen, stack = {output}, [output]
    while stack:
        fresh = set(graph.nodes[stack.pop()].inputs) - seen
        seen |= fresh
        stack.extend(fresh)
    return sorted(seen)


def _called(node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One call. Raises `Unread`."""
    if node.op not in CLASSES or node.op in RANDOM:
        raise Unread(f"`{node.op}` does not follow from its operands")
    for call in _ways(node.op, args, kwargs):
        try:
            found = call()
        except Exception:  # another signature than that of this namespace
            continue
        if _is_as(found, node):
            return found
    raise Unread(f"`{node.op}` at {node.file.rpartition('/')[2]}:{node.line} gives no value of its shape and type")


def _is_as(found: Any, node: Node) -> bool:
    """Whether a result has the shape and the type that were recorded."""
    if isinstance(found, Tensor):
        return node.shape == tuple(found.shape) and node.dtype == str(found.dtype).removeprefix("torch.")
    return node.shape is None


def _ways(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Callable[[], Any]]:
    """What a call of this name can be."""
    head: Any = args[0] if args else None
    rest = args[1:]
    if op in SAMPLED:
        if False in (*rest[1:2], kwargs.get("training"), kwargs.get("train")):
            yield lambda: head
    elif op == "getitem":
        yield lambda: _part(head, *rest)
    elif op == "setitem":
        yield lambda: _written(head, *rest)
    elif op in ("copy", "fill"):
        yield lambda: torch.as_tensor(rest[0]).to(head.dtype).expand(head.shape)
    elif op == "zero":
        yield lambda: torch.zeros_like(head)
    elif op in ("cpu", "cuda", "requires_grad", "contiguous", "lift_fresh"):
        yield lambda: head
    elif op in ("view", "reshape"):  # strides are not those of the trace where a write in place was one
        yield lambda: head.reshape(*rest) if not kwargs else head.view(*rest, **kwargs)
        yield lambda: head.view(*rest)
    elif op in ("T", "mT", "H", "mH", "data", "real", "imag") and len(args) == 1:
        yield lambda: getattr(head, op)
    else:
        if op in BETWEEN and len(args) == 2 and not kwargs:
            yield lambda: BETWEEN[op](*args)
        if op == "tensor":
            yield lambda: torch.tensor(*args, **kwargs)
        for space, begins in SPACES.items():
            if callable(call := getattr(space, op.removeprefix(begins), None)):
                yield partial(call, *args, **kwargs)


def _part(whole: Any, place: Any) -> Any:
    """`whole[place]`"""
    return whole[place]


def _written(whole: Tensor, place: Any, value: Any) -> Tensor:
    """`whole` with `value` at a place."""
    made = whole.clone()
    made[place] = value
    return made


def _values(argument: Any, env: Mapping[int, Any]) -> Any:
    """An argument as torch takes it."""
    if isinstance(argument, Ref):
        return env[argument.node]
    if isinstance(argument, tuple):
        if len(argument) == 4 and argument[0] == "slice":
            return slice(*(_values(end, env) for end in argument[1:]))
        return tuple(_values(part, env) for part in argument)
    if isinstance(argument, str):
        if argument == "...":
            return Ellipsis
        if _DEVICE.fullmatch(argument):
            return "cpu"
        return _DTYPES.get(argument, _LAYOUTS.get(argument, argument))
    return argument


__all__ = ["Absent", "Unread", "run"]
