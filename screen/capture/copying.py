"""A copy of a live model on the meta device. The user's model is never altered, and its weights are never copied."""

from __future__ import annotations

import copy
import math
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


__all__ = ["has_values", "on_meta", "values_of"]
