"""Lengths of axes: of an argument that gets another one, and those that a condition or a written product wants."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.inputs.context import BATCH, Lookup
from screen.capture.inputs.missing import condition, frames
from screen.capture.trace.source_lines import TORCH

LONGEST = 2**22
"""Entries of an argument of integers, which has values."""


PATCHES = (4, 16, 64, 256, 8, 2, 1)
"""Pixels of a patch."""
_NAMES = re.compile(r"len|ctx|block_size")


def named(look: Lookup) -> list[int]:
    """Lengths that a model keeps under such a name."""
    return sorted({v for m in look.model.modules() for k, v in vars(m).items() if type(v) is int and 1 < v <= 4096 and _NAMES.search(k)})


def likely(look: Lookup) -> list[int]:
    """A length of our own first, then the sizes of the model: some layers fix the length."""
    sizes = sorted({s for p in look.model.parameters() if not isinstance(p, nn.parameter.UninitializedParameter) for s in p.shape if 1 < s <= 4096})
    return [look.tokens, *[s for s in dict.fromkeys([*named(look), *sizes]) if s != look.tokens][:12]]


def resized(value: Tensor, axis: int, size: int) -> Tensor:
    """An argument whose axis has another length: floats on meta, integers of the values that it has, repeated."""
    shape = list(value.shape)
    shape[axis] = size
    if value.dtype.is_floating_point:
        return torch.empty(shape, dtype=value.dtype, device="meta")
    count = math.prod(shape)
    if value.dtype == torch.bool or not value.numel() or count > LONGEST:
        return torch.ones(shape, dtype=value.dtype, device="meta" if count > LONGEST else "cpu")
    return value.reshape(-1).repeat(-(-count // value.numel()))[:count].reshape(shape)


def lengthened(value: Tensor, have: int, wanted: int) -> Iterator[Tensor]:
    """An argument one length of which becomes another: an axis of that length, a part of a sum, or sides whose squares they are."""
    free = [axis for axis, size in enumerate(value.shape) if axis or size != BATCH]
    for axis in free:
        if value.shape[axis] == have:
            yield resized(value, axis, wanted)
    for axis in free:  # of two axes the last one as well: each number of a table becomes a token
        if (axis < value.dim() - 1 < 3 or value.dim() == 2) and value.shape[axis] < have and value.shape[axis] + wanted - have > 0:
            yield resized(value, axis, value.shape[axis] + wanted - have)
    if value.dim() > 3 and value.dtype.is_floating_point:
        for extra in (0, 1):
            ratio = math.sqrt(max(wanted - extra, 1) / max(have - extra, 1))
            sides = [s * ratio for s in value.shape[-2:]]
            if all(abs(s - round(s)) < 1e-6 and s >= 1 for s in sides):
                yield torch.empty([*value.shape[:-2], *map(round, sides)], dtype=value.dtype, device="meta")
        yield from (resized(value, axis, value.shape[axis] * wanted // have) for axis in (-1, -2) if value.shape[axis] * wanted % have == 0)
    elif value.dtype.is_floating_point:  # pieces of a length that is padded to whole ones: 96 steps in eight pieces of twelve
        for axis in (a for a in free if a < value.dim() - 1 and value.shape[a] != have):
            yield resized(value, axis, max(1, round(value.shape[axis] * wanted / have)))
    else:  # rows of a table that are laid beside one another, those of all places
        yield from (resized(value, a, value.shape[a] * wanted // have) for a in free if have > value.shape[a] and value.shape[a] * wanted % have == 0)


def fewer(value: Tensor, extra: int) -> Iterator[Tensor]:
    """An argument with so many axes less: of those behind the batch, the first or the last ones."""
    if value.dim() > extra:
        yield value.flatten(1, extra)[:, 0]
    if value.dim() > extra + 1:
        yield value.flatten(-extra)[..., 0]


def written(values: dict[str, Any], sources: list[str], entries: int, sizes: list[Any]) -> Iterator[tuple[str, Any]]:
    """An axis of another argument than the `sources`, whose size is written where as many `entries` as there are do not fill it."""
    whole = math.prod(sizes) if all(type(n) is int and n > 0 for n in sizes) else 0
    for size in [n for n in dict.fromkeys(sizes) if whole and n * entries % whole == 0 and n * entries != whole * n]:
        for name, value in values.items():
            axes = range(1, value.dim()) if isinstance(value, Tensor) and name not in sources else ()
            yield from ((name, resized(value, axis, size * entries // whole)) for axis in axes if value.shape[axis] == size)


def beside(value: Tensor, excess: int) -> Iterator[Tensor]:
    """An argument with fewer channels, of which patches of some size hold so many numbers less than they do."""
    if value.dim() > 3 and excess > 0:
        for patch in (n for n in PATCHES if excess % n == 0):
            yield from (resized(value, axis, value.shape[axis] - excess // patch) for axis in (1, -3) if value.shape[axis] > excess // patch)


def equal(values: dict[str, Any], test: ast.expr, names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """A length that a condition wants to be a number: `assert length == 1`, `if labels.shape[1] != x.shape[1]: raise …`."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            sides = [evaluated(side, names) for side in (node.left, node.comparators[0])]
            if any(type(side) is not int or side < 1 for side in sides):
                continue
            for length, wanted in (sides, sides[::-1]):
                for name, value in values.items():
                    axes = range(1, value.dim()) if isinstance(value, Tensor) else ()
                    yield from ((name, resized(value, axis, wanted)) for axis in axes if value.shape[axis] == length)


def asked_by_torch(values: dict[str, Any], error: BaseException) -> Iterator[tuple[str, Any]]:
    """A length that a module of torch wants to be another one (`nn.Transformer`, of its two sequences)."""
    frame, line = list(frames(error))[-1]
    if frame.f_code.co_filename.startswith(TORCH) and isinstance(asked := condition(frame.f_code.co_filename, line), ast.If):
        yield from equal(values, asked.test, {**frame.f_globals, **frame.f_locals})


def divisible(values: dict[str, Any], said: ast.stmt, names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """A length that a condition wants to be a multiple: `assert n % block == 0`, `if len(x) % k: raise …`."""
    for node in ast.walk(getattr(said, "test", said)):
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)):
            continue
        length, multiple = (evaluated(side, names) for side in (node.left, node.right))
        if type(length) is not int or type(multiple) is not int or not 1 < multiple <= 2**16:
            continue
        for name, value in values.items():
            for axis, size in enumerate(value.shape if isinstance(value, Tensor) else ()):
                if size != length:
                    continue
                if axis or value.dim() == 1:
                    yield name, resized(value, axis, multiple * max(1, -(-size // multiple)))
                elif not value.dtype.is_floating_point:  # ids without a batch
                    flat = value.reshape(-1)
                    yield name, resized(flat, 0, multiple * max(1, -(-len(flat) // multiple)))


def evaluated(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value that an expression of names, attributes and sizes stands for in the frame that failed; None where it calls anything else."""
    called = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    if not all((isinstance(f, ast.Name) and f.id == "len") or (isinstance(f, ast.Attribute) and f.attr == "size") for f in called):
        return None
    try:
        return eval(compile(ast.Expression(node), "<condition>", "eval"), names)
    except Exception:  # not told
        return None


def last_axis(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """How long the last axis of its first operand has to be for a call of torch: a map, a norm, pieces of written sizes."""
    x = args[0] if args else None
    if not isinstance(x, Tensor) or not x.dim():
        return None
    if name == "linear":
        return int(args[1].shape[-1]) if len(args) > 1 else None
    if name in ("layer_norm", "rms_norm"):
        return int(tuple(args[1])[-1]) if len(args) > 1 else None
    sizes = kwargs.get("split_size_or_sections", kwargs.get("split_size", args[1] if len(args) > 1 else None))
    dim = kwargs.get("dim", args[2] if len(args) > 2 else 0)
    whole = name in ("split", "split_with_sizes") and isinstance(sizes, tuple | list) and dim in (-1, x.dim() - 1)
    return sum(map(int, sizes)) if whole and isinstance(sizes, tuple | list) else None


def summed(equation: Any, operands: list[Tensor]) -> Iterator[tuple[Tensor, int, int]]:
    """The operands of `einsum` in which an axis has another length than the axis of the same letter in another one: the length, and that one."""
    written = equation.replace(" ", "").partition("->")[0].split(",") if isinstance(equation, str) and "." not in equation else []
    known: dict[str, list[tuple[Tensor, int]]] = {}
    for letters, operand in zip(written, operands, strict=False):
        for letter, size in zip(letters, operand.shape, strict=False):
            known.setdefault(letter, []).append((operand, size))
    for places in known.values():
        yield from ((one, have, wanted) for one, have in places for _, wanted in places if have != wanted)


__all__ = [
    "LONGEST", "asked_by_torch", "beside", "divisible", "equal", "evaluated", "fewer", "last_axis", "lengthened", "likely", "named", "resized",
    "summed", "written",
]  # fmt: skip
