"""The program of a model where nobody looked: at its next call and at one far ahead, at other sizes of its inputs, in training, behind a `train` of
its own, in bfloat16, and where torch says that there is a graphics card.

Everything is traced on meta once more, where a larger input costs nothing."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from screen.capture.build.built import Built
from screen.capture.build.deep import deep
from screen.capture.trace.dropouts import DropoutsOff
from screen.capture.trace.tracer import trace
from screen.child.draw import INSTALLED
from screen.graph import Graph

TOKENS = (16, 17, 19, 23)
"""Lengths of sequences that inputs are given (`screen.capture.inputs`)."""
SEQUENCES = 2
"""How many of them."""
MORE, NEAR = 3, 8
"""Sequences of another input, and tokens that a first one has more, which says whether the program is one for all lengths."""
FAR = (1040, 272, 80)
"""Tokens of another input, the longest first: a table of positions may end before."""
FARTHEST = 8192
"""Tokens up to which a length that the code compares with is passed by one: numbers for all pairs of them, which code may make in numpy, take half a
gigabyte."""
AHEAD = 10**9
"""Calls that a number which counts them is set ahead by."""
LARGEST = 10_000
"""Nodes of a graph beyond which nothing is traced once more."""


def variants(built: Built, graph: Graph) -> Iterator[tuple[str, Graph]]:
    """(where, the program there) for each that runs to its end; `graph`: the one that is judged, of the call before."""
    if graph.failure is not None or len(graph.nodes) > LARGEST:
        return
    before = _numbers(built.model)
    yield from _told("call", _traced(built, built.args, built.kwargs))
    yield from _told("late", _far_ahead(built, before))
    yield from _sizes(built, graph)
    with mock.patch.multiple(torch.cuda, is_available=lambda: True, device_count=lambda: 1):
        yield from _told("card", _traced(built, built.args, built.kwargs))
    yield from _told("numbers", _in_bfloat16(built))
    yield from _told("training", _in_training(built))
    if any(type(module).train is not nn.Module.train for module in built.model.modules()):  # what lines ask for is judged already
        yield from _told("train", _traced(built, built.args, built.kwargs))


def _told(where: str, program: Graph | None) -> Iterator[tuple[str, Graph]]:
    if program is not None:
        yield where, program


def _sizes(built: Built, graph: Graph) -> Iterator[tuple[str, Graph]]:
    """At other sizes: where its program is one for all lengths the largest that it takes, and beyond a length that the code compares with."""
    near = _at_length(built, None)
    if near is not None and len(near.nodes) != len(graph.nodes):
        yield "size", near
        return
    for where, lengths in (("size", FAR), ("length", [length + 1 for length in sorted(_compared(graph), reverse=True)])):
        found = (program for length in lengths if (program := _at_length(built, length)) is not None)
        yield from _told(where, next(found, None))


def _at_length(built: Built, length: int | None) -> Graph | None:
    given = _resized(built, length)
    return None if given is None else _traced(built, *given)


def _in_training(built: Built) -> Graph | None:
    """With everything in training, and nothing left out."""
    states = [(module, module.training) for module in built.model.modules()]
    built.model.train()
    shares: list[tuple[Any, str, float]] = []
    for module in built.model.modules():
        name = "dropout" if isinstance(module, nn.MultiheadAttention) else "p" if isinstance(module, nn.modules.dropout._DropoutNd) else ""
        if name:
            shares.append((module, name, getattr(module, name)))
            setattr(module, name, 0.0)
    try:
        with DropoutsOff():
            return _traced(built, built.args, built.kwargs)
    finally:
        for module, state in states:
            module.training = state
        for module, name, share in shares:
            setattr(module, name, share)


def _traced(built: Built, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Graph | None:
    try:
        found = trace(built.model, args, dict(kwargs), initialisers=built.initialisers)
    except Exception:  # of the user's code: it was not asked for
        return None
    return found if found.failure is None else None


def _numbers(model: nn.Module) -> dict[tuple[nn.Module, str], float]:
    """The plain numbers that modules hold, which a call may change."""
    return {(m, name): value for m in model.modules() for name, value in vars(m).items() if type(value) in (int, float)}


def _far_ahead(built: Built, before: Mapping[tuple[nn.Module, str], float]) -> Graph | None:
    """The program at a call far ahead, of a model that counts its calls; `before`: its numbers before the last one."""
    now = _numbers(built.model)
    counts = {place: value - before[place] for place, value in now.items() if place in before and value != before[place]}
    if not counts:
        return None
    for (module, name), step in counts.items():
        vars(module)[name] += AHEAD * step
    try:
        return _traced(built, built.args, built.kwargs)
    finally:
        for module, name in counts:
            vars(module)[name] = now[module, name]


def _compared(graph: Graph) -> set[int]:
    """Whole numbers beyond the lengths that are tried which the user's files compare something with."""
    files = {node.file for node in graph.nodes} | {module.file for module in graph.modules}
    trees: list[ast.AST] = []
    for file in sorted(f for f in files if f and not INSTALLED.search(f)):
        with contextlib.suppress(OSError, ValueError, SyntaxError, RecursionError):
            trees.append(ast.parse(Path(file).read_bytes()))
    sides = (side for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Compare) for side in (node.left, *node.comparators))
    return {n for n in _whole(sides) if FAR[0] <= n <= FARTHEST}


def _whole(sides: Iterable[ast.expr]) -> Iterator[int]:
    """The whole numbers in some expressions, sums and products of numbers worked out by Python's own compiler."""
    for side in sides:
        for value in compile(ast.Expression(side), "", "eval").co_consts:
            if type(value) is int:
                yield value


def _in_bfloat16(built: Built) -> Graph | None:
    """The program of a copy with weights and inputs in bfloat16."""
    try:
        model = deep(built.model).to(torch.bfloat16)
        args, kwargs = tree_map_only(Tensor, lambda t: t.to(torch.bfloat16) if t.is_floating_point() else t, (built.args, built.kwargs))
        found = trace(model, args, kwargs, initialisers=built.initialisers)
    except Exception:  # of the user's code, or of a model that cannot be copied: it was not asked for
        return None
    return found if found.failure is None else None


def _resized(built: Built, length: int | None) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments at another number of sequences and tokens; None where these cannot be told. `length`: None for a few tokens more."""
    shapes: list[tuple[int, ...]] = []
    tree_map_only(Tensor, lambda t: shapes.append(tuple(t.shape)), (built.args, built.kwargs))
    tokens = next((n for shape in shapes for n in shape[1:2] if n in TOKENS), None)
    if tokens is None:
        return None

    def other(t: Tensor) -> Tensor:
        for place, n in enumerate(t.shape):
            size = (length or tokens + NEAR) if n == tokens else MORE if place == 0 and n == SEQUENCES else n
            t = t.index_select(place, torch.arange(size, device=t.device) % n) if size != n else t
        return t

    args, kwargs = tree_map_only(Tensor, other, (built.args, built.kwargs))
    return args, kwargs


__all__ = ["variants"]
