"""Sizes that nobody states and that a model may be judged without: how many rows a table of tokens or positions has, or a last map.

A name only proposes it (`usual`); that a number is one is measured: the model is built with two values of each, and every parameter that is not the
same has more rows and no more columns. A number of layers, heads, experts or channels is none (a stack of weights in one tensor has three axes and
more).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn


def others(sizes: Mapping[str, Any], indices: Mapping[str, bool]) -> Iterator[tuple[dict[str, Any], bool]]:
    """The sizes with another value for each of these numbers in turn, twice as many rows or the next place in a table (`indices`), and whether it
    is such a place."""
    for key, value in sizes.items():
        if type(value) is int:
            yield {**sizes, key: value + 1 if indices[key] else 2 * value}, indices[key]


def _only(first: nn.Module, second: nn.Module) -> list[str] | None:
    """The parameters that have other numbers of rows in `second`; None where anything else is not the same."""
    mine, theirs = _shapes(first), _shapes(second)
    if mine.keys() != theirs.keys() or [type(m) for m in first.modules()] != [type(m) for m in second.modules()]:
        return None
    found = [name for name in mine if mine[name] != theirs[name]]
    if any(len(mine[name]) not in (1, 2) or len(mine[name]) != len(theirs[name]) or mine[name][1:] != theirs[name][1:] for name in found):
        return None
    return found


def depending(first: nn.Module, seconds: Iterable[tuple[nn.Module, bool]]) -> list[str] | None:
    """The parameters that have more rows in one of the others, each of which has some, with a table or a map among them, or has constants of another
    size alone, or changes nothing; a place in a table (true) changes none. None where one is not so."""
    found: dict[str, None] = {}
    for second, index in seconds:
        grown = _only(first, second)
        if grown is None or (index and grown):
            return None
        tables = any(p.dim() > 1 for n, p in first.named_parameters() if n in grown)
        if not (index or tables or (not grown and (_of_constants(first, second) or _alike(first, second)))):
            return None
        found |= dict.fromkeys(grown)
    return list(found)


def _of_constants(first: nn.Module, second: nn.Module) -> bool:
    """Has any constant another size in `second`: a table of positions that is computed, a mask?"""
    mine, theirs = dict(first.named_buffers()), dict(second.named_buffers())
    return any(name in theirs and theirs[name].shape != table.shape for name, table in mine.items())


def _alike(first: nn.Module, second: nn.Module) -> bool:
    """Has no module another number, word or list of such: a size that is not used, or that of a table in whose place another one is put?"""
    return all(_plain(one) == _plain(other) for one, other in zip(first.modules(), second.modules(), strict=True))


def _plain(module: nn.Module) -> dict[str, Any]:
    own = {key: repr(value) for key, value in vars(module).items() if isinstance(value, int | float | str | list | tuple | dict) and key[0] != "_"}
    return {key: value for key, value in own.items() if not (isinstance(module, nn.Embedding) and key == "num_embeddings")}


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """The shapes of parameters, without leading ones."""
    return {name: _without_ones(p) for name, p in model.named_parameters() if not isinstance(p, nn.parameter.UninitializedParameter)}


def _without_ones(parameter: Tensor) -> tuple[int, ...]:
    shape = tuple(parameter.shape)
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


def said(sizes: Mapping[str, Any], grown: list[str]) -> str:
    """What a report says of it."""
    given = ", ".join(f"`{key}={value}`" for key, value in sizes.items())
    rest = f" and {len(grown) - 3} more" if len(grown) > 3 else ""
    rows = f": of the weights only the rows of {', '.join(f'`{name}`' for name in grown[:3])}{rest} depend on it" if grown else ""
    return f"nobody states {given}, taken here{rows}"


__all__ = ["depending", "others", "said"]
