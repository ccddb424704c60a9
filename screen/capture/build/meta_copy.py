"""A copy of a live model on the meta device. The user's model is never altered, and its weights are never copied."""

from __future__ import annotations

import copy
import hashlib
import math
import types
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build.deep import deep
from screen.capture.initial.buffers import as_row
from screen.capture.trace.source_lines import no_modes
from screen.graph import Initialiser

_REGISTRIES = ("_parameters", "_buffers", "_modules")
_HOLDERS = (dict, OrderedDict, list, tuple, set)
KEPT = 4096
"""Entries of an integer tensor whose values are kept."""
CONSTANT_LIMIT = 1 << 20
"""Parameters up to this many entries are looked at: are all entries equal?"""
DECIMALS = 3
"""Of numbers that a program has (convention)."""
SAMPLE, FEWEST = 1 << 16, 64
"""Entries that a standard deviation is taken of, at most and at least."""
BANDS = 12
"""Bands of rows and of columns: parts of a fused weight may start differently."""
MEAN_LIMIT = 6.0
"""Standard errors within which a mean counts as zero, and two deviations as one."""


def on_meta(model: nn.Module) -> nn.Module:
    """A deep copy with every parameter, buffer and tensor attribute replaced by its twin on meta; shared ones stay shared, and small integer
    tensors keep their values.

    What cannot be copied (a lock, a process group, an open file) is shared with the original."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for tensor in _tensors(module):
            if id(tensor) not in memo and (twin := _twin(tensor)) is not None:
                memo[id(tensor)] = twin
    _share(model, memo)
    return deep(model, memo)


def _share(model: nn.Module, memo: dict[int, Any]) -> None:
    """What cannot be copied is its own copy. Each object is asked once: all modules of a model may hold its one config."""
    asked: set[int] = set()
    for module in model.modules():
        for name, value in vars(module).items():
            if name not in _REGISTRIES and not isinstance(value, nn.Module) and id(value) not in memo and id(value) not in asked:
                asked.add(id(value))
                _try_copy(value, memo)


def _try_copy(value: Any, memo: dict[int, Any]) -> None:
    """Copy an attribute on its own first, so that one that cannot be copied does not take the model with it."""
    if isinstance(value, bool | int | float | str | type | None) or (type(value) in _HOLDERS and not value):
        return
    attempt = dict(memo)
    try:
        copy.deepcopy(value, attempt)
    except Exception:  # whatever a foreign object raises when it is copied
        memo[id(value)] = value


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    """Parameters, buffers and tensors in attributes, also in lists and dictionaries."""
    waiting: list[Any] = [v for k, v in vars(module).items() if k != "_modules"]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()


def has_values(tensor: Tensor) -> bool:
    """A few integers or truth values on the CPU: part of the program rather than weights. They are kept."""
    return tensor.device.type == "cpu" and not tensor.dtype.is_floating_point and not tensor.dtype.is_complex and tensor.numel() <= KEPT


def _twin(tensor: Tensor) -> Tensor | None:
    """The same kind of tensor on meta; None when `copy` has to do it (a lazy parameter)."""
    if nn.parameter.is_lazy(tensor):
        return None
    if has_values(tensor):
        return None
    try:
        with torch.no_grad(), torch._C.DisableTorchFunction():
            twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    except (NotImplementedError, RuntimeError, TypeError):
        twin = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(twin, requires_grad=tensor.requires_grad)
    if isinstance(tensor, nn.Buffer):
        return nn.Buffer(twin, persistent=getattr(tensor, "persistent", True))
    return twin


def again(block: nn.Module) -> nn.Module:
    """Another one of a block on meta: parameters of its own, buffers and other tensors with the values that theirs are known to have.

    Functions in its attributes and hooks that hold on to parts of the block hold on to those of the new one."""
    memo: dict[int, Any] = {}
    for module in block.modules():
        for tensor in _tensors(module):
            if id(tensor) not in memo and not nn.parameter.is_lazy(tensor):
                memo[id(tensor)] = _fresh(tensor)
    _share(block, memo)
    made = deep(block, memo)
    for module in made.modules():
        for name, value in list(vars(module).items()):
            if (bound := _rebound(value, memo)) is not value:
                vars(module)[name] = bound
    return made


def _fresh(tensor: Tensor) -> Tensor:
    """A copy by calls, so that who watches the values of one knows those of the other."""
    twin = torch.empty_like(tensor).copy_(tensor.detach())
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(twin, requires_grad=tensor.requires_grad)
    return nn.Buffer(twin, persistent=getattr(tensor, "persistent", True)) if isinstance(tensor, nn.Buffer) else twin


def _rebound(value: Any, memo: dict[int, Any]) -> Any:
    """An attribute of a copy in which functions hold on to the copy's parts; the value itself where none did to the block's."""
    if isinstance(value, types.FunctionType) and value.__closure__:
        return _closed(value, value.__closure__, memo)
    if id(value) in memo:  # it could not be copied, and is the block's own
        return value
    if type(value) in (dict, OrderedDict):
        for key, item in value.items():
            if isinstance(item, types.FunctionType):
                value[key] = _rebound(item, memo)
    elif type(value) is list:
        value[:] = [_rebound(item, memo) if isinstance(item, types.FunctionType) else item for item in value]
    return value


def _closed(function: types.FunctionType, cells: tuple[types.CellType, ...], memo: dict[int, Any]) -> types.FunctionType:
    """The function over the copy's parts."""
    new = tuple(types.CellType(_held(c.cell_contents, memo)) if _is_filled(c) else c for c in cells)
    if all(n is c or n.cell_contents is c.cell_contents for n, c in zip(new, cells, strict=True)):
        return function
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, new)
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__dict__.update(function.__dict__)
    return made


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _held(value: Any, memo: dict[int, Any]) -> Any:
    """What a function holds, in the copy."""
    if isinstance(value, nn.Module | Tensor):
        return memo.get(id(value), value)
    if isinstance(value, types.MethodType):
        owner = memo.get(id(value.__self__), value.__self__)
        return value if owner is value.__self__ else types.MethodType(value.__func__, owner)
    if isinstance(value, list | tuple | dict) and any(id(v) in memo for v in (value.values() if isinstance(value, dict) else value)):
        return copy.deepcopy(value, memo)
    return _rebound(value, memo) if isinstance(value, types.FunctionType) else value


def values_of(model: nn.Module) -> tuple[tuple[str, tuple[Initialiser, ...]], ...]:
    """What stands in the parameters of a live model, in place of a record: `fill_(value)` where all entries are equal (LayerScale, ReZero and
    fresh norms), `sample_(σ)` where a sample of them has mean zero, σ its standard deviation. Parameters of one sample have one `draw`: layers that
    are copies of each other (`nn.TransformerEncoder`).

    Every parameter is looked at once; what holds of a shape is found once for each shape (`_Grid`), and nobody watches the calls."""
    grids: dict[torch.Size, _Grid] = {}
    draws: dict[tuple[torch.Size, bytes], int] = {}
    with no_modes():
        laws = [(name, p, law) for name, p in model.named_parameters() if (law := _law(p, grids, draws)) is not None]
    drawn: dict[torch.Size, list[float]] = {}
    for _, p, law in laws:
        if law.op == "sample_":
            drawn.setdefault(p.shape, []).append(_sigma(law))
    pools = {shape: _Pool(sorted(sigmas), shape.numel()) for shape, sigmas in drawn.items()}
    return tuple((name, (pools[p.shape].law_of(law) if law.op == "sample_" else law,)) for name, p, law in laws)


@dataclass
class _Pool:
    """The deviations of all parameters of one shape, in order."""

    sigmas: list[float]
    entries: int
    found: dict[tuple[int, int], float] = field(default_factory=dict)

    def law_of(self, law: Initialiser) -> Initialiser:
        """With the σ of all that differ from it by no more than chance: the same weight of every block."""
        sigma = _sigma(law)
        room = _room(sigma, self.entries)
        place = bisect_left(self.sigmas, sigma - room), bisect_right(self.sigmas, sigma + room)
        if place not in self.found:
            alike = self.sigmas[slice(*place)]
            self.found[place] = float(f"{math.sqrt(math.fsum(s * s for s in alike) / len(alike)):.3g}")
        return replace(law, args=(self.found[place],))


def _sigma(law: Initialiser) -> float:
    return float(str(law.args[0]))


def _room(sigma: float, entries: int) -> float:
    """How far chance takes the deviation of so many entries, at most."""
    return MEAN_LIMIT * sigma / math.sqrt(2 * min(entries, SAMPLE))


class _Grid:
    """Where the sample of a parameter of some shape is taken, and in which bands of its rows and of its columns."""

    def __init__(self, shape: torch.Size) -> None:
        self.form = shape[0], math.prod(shape[1:])
        self.places = None if shape.numel() <= SAMPLE else _chosen(shape.numel())
        rows, columns = self.form
        lines = (torch.arange(rows), torch.arange(columns)) if self.places is None else (self.places // columns, self.places % columns)
        self.bands = [line * BANDS // size for line, size in zip(lines, self.form, strict=True)]
        each = (columns, rows) if self.places is None else (1, 1)
        self.counts = [(torch.bincount(band, minlength=BANDS) * n).tolist() for band, n in zip(self.bands, each, strict=True)]

    def sample(self, parameter: Tensor) -> Tensor:
        """All entries, or some of them at random."""
        flat = parameter.detach().reshape(-1)
        return (flat if self.places is None else flat[self.places.to(flat.device)]).double().cpu()

    def is_even(self, sample: Tensor, spread: float) -> bool:
        """Whether the parts of a fused weight have one deviation: twelve bands of its rows, and of its columns, differ by no more than chance."""
        squares = sample.square()
        sums = [squares.view(self.form).sum(axis) for axis in (1, 0)] if self.places is None else [squares, squares]
        for band, counts, each in zip(self.bands, self.counts, sums, strict=True):
            powers = torch.bincount(band, each, minlength=BANDS).tolist()
            if any(n >= FEWEST and abs(math.sqrt(p / n) - spread) > _room(spread, n) for n, p in zip(counts, powers, strict=True)):
                return False
        return True


def _chosen(entries: int) -> Tensor:
    """Some of so many places; the global random state is left as it was."""
    return torch.randint(entries, (SAMPLE,), generator=torch.Generator("cpu").manual_seed(0), device="cpu")


def _law(parameter: Tensor, grids: dict[torch.Size, _Grid], draws: dict[tuple[torch.Size, bytes], int]) -> Initialiser | None:
    if parameter.device.type == "meta" or nn.parameter.is_lazy(parameter) or not parameter.is_floating_point() or not parameter.numel():
        return None
    if parameter.numel() <= CONSTANT_LIMIT:
        low, high = (float(v) for v in torch.aminmax(parameter.detach()))
        if low == high:
            return Initialiser("fill_", (low,))
    if parameter.numel() < FEWEST:
        return _of_program(parameter)
    if parameter.shape not in grids:
        grids[parameter.shape] = _Grid(parameter.shape)
    grid = grids[parameter.shape]
    sample = grid.sample(parameter)
    mean, spread = float(sample.mean()), float(sample.std())
    if not abs(mean) <= MEAN_LIMIT * spread / math.sqrt(sample.numel()) or not grid.is_even(sample, spread):
        return None
    mark = parameter.shape, hashlib.blake2b(sample.numpy().tobytes(), digest_size=16).digest()
    return Initialiser("sample_", (spread,), draw=draws.setdefault(mark, len(draws) + 1))


def _of_program(parameter: Tensor) -> Initialiser | None:
    """A short row of numbers with few decimals, as programs have them and no draw."""
    plain = torch.equal(parameter.detach(), torch.round(parameter.detach(), decimals=DECIMALS))
    return next(iter(as_row(parameter)), None) if plain else None


__all__ = ["again", "has_values", "on_meta", "values_of"]
