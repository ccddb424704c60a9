"""A copy of a live model on the meta device. The user's model is never altered, and its weights are never copied."""

from __future__ import annotations

import copy
import math
import types
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from screen.graph import Initialiser

_REGISTRIES = ("_parameters", "_buffers", "_modules")
KEPT = 4096
"""Entries of an integer tensor whose values are kept."""
CONSTANT_LIMIT = 1 << 20
"""Parameters up to this many entries are looked at: are all entries equal?"""
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
    for module in model.modules():
        for name, value in vars(module).items():
            if name not in _REGISTRIES and not isinstance(value, nn.Module) and id(value) not in memo:
                _try_copy(value, memo)
    return copy.deepcopy(model, memo)


def _try_copy(value: Any, memo: dict[int, Any]) -> None:
    """Copy an attribute on its own first, so that one that cannot be copied does not take the model with it."""
    if isinstance(value, bool | int | float | str | type | None):
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
    for module in block.modules():
        for name, value in vars(module).items():
            if name not in _REGISTRIES and not isinstance(value, nn.Module) and id(value) not in memo:
                _try_copy(value, memo)
    made = copy.deepcopy(block, memo)
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
    fresh norms), `sample_(σ)` where a sample of them has mean zero, σ its standard deviation."""
    laws = [(name, p, law) for name, p in model.named_parameters() if (law := _law(p)) is not None]
    drawn: list[tuple[Tensor, Initialiser]] = [(p, law) for _, p, law in laws if law.op == "sample_"]
    pooled = {id(law): Initialiser("sample_", (_pooled(p, law, drawn),)) for p, law in drawn}
    return tuple((name, (pooled.get(id(law), law),)) for name, _, law in laws)


def _pooled(parameter: Tensor, law: Initialiser, drawn: list[tuple[Tensor, Initialiser]]) -> float:
    """σ of all parameters of one shape that differ by no more than chance: the same weight of every block."""
    alike = [_sigma(other) for p, other in drawn if p.shape == parameter.shape and _is_chance(_sigma(other), _sigma(law), p.numel())]
    return float(f"{math.sqrt(sum(s * s for s in alike) / len(alike)):.3g}")


def _sigma(law: Initialiser) -> float:
    return float(str(law.args[0]))


def _is_chance(one: float, two: float, entries: int) -> bool:
    return abs(one - two) <= MEAN_LIMIT * two / math.sqrt(2 * min(entries, SAMPLE))


def _law(parameter: Tensor) -> Initialiser | None:
    if parameter.device.type == "meta" or nn.parameter.is_lazy(parameter) or not parameter.is_floating_point() or not parameter.numel():
        return None
    if parameter.numel() <= CONSTANT_LIMIT:
        low, high = (float(v) for v in torch.aminmax(parameter.detach()))
        if low == high:
            return Initialiser("fill_", (low,))
    if parameter.numel() < FEWEST:
        return None
    places = _places(parameter.numel())
    sample = parameter.detach().reshape(-1)[places.to(parameter.device)].double().cpu()
    mean, spread = float(sample.mean()), float(sample.std())
    if not abs(mean) <= MEAN_LIMIT * spread / math.sqrt(sample.numel()) or not _is_even(sample, spread, places, parameter.shape):
        return None
    return Initialiser("sample_", (spread,))


def _places(entries: int) -> Tensor:
    """All entries, or some of them at random; the global random state is left as it was."""
    if entries <= SAMPLE:
        return torch.arange(entries, device="cpu")
    return torch.randint(entries, (SAMPLE,), generator=torch.Generator("cpu").manual_seed(0), device="cpu")


def _is_even(sample: Tensor, spread: float, places: Tensor, shape: torch.Size) -> bool:
    """Whether the parts of a fused weight have one deviation: twelve bands of its rows, and of its columns, differ by no more than chance."""
    columns = math.prod(shape[1:])
    for place, size in ((places // columns, shape[0]), (places % columns, columns)):
        band = place * BANDS // size
        count = torch.bincount(band, minlength=BANDS)
        power = torch.bincount(band, sample**2, minlength=BANDS)
        for n, p in zip(count.tolist(), power.tolist(), strict=True):
            if n >= FEWEST and not _is_chance(math.sqrt(p / n), spread, n):
                return False
    return True


__all__ = ["again", "has_values", "on_meta", "values_of"]
