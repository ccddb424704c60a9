"""The main input of a model whose first layer takes its axes apart by a written pattern, `b c (h p1) (w p2) -> b (h w) (p1 p2 c)`.

The pattern says how many axes there are and what divides them; the features of the layer behind it give the channels, the table of positions how many
patches there are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from screen.capture.inputs.context import BATCH, Lookup

COUNTS = (8, 4, 16, 7, 14, 2)
"""Patches along an axis, where no table of positions says."""


def patterned(model: nn.Module, look: Lookup) -> Iterator[Tensor]:
    """Inputs that fit the pattern of the first layer with one, if layers with weights stand only behind it."""
    layers = list(model.modules())
    found = next((n for n, m in enumerate(layers) if _pattern(m) is not None), None)
    if found is None or any(next(m.parameters(recurse=False), None) is not None and not next(m.children(), None) for m in layers[:found]):
        return
    left, lengths = _pattern(layers[found])  # type: ignore[misc]  # it is there
    groups = [g.strip("()").split() for g in re.findall(r"\([^)]*\)|\S+", left)]
    if any(not re.fullmatch(r"\w+", name) for group in groups for name in group):
        return  # an ellipsis
    features = next((int(f) for m in layers[found:] if (f := _features(m)) is not None), 0)
    inside = math.prod(lengths.get(name, 1) for group in groups for name in group)
    single = [group[0] for group in groups[1:] if len(group) == 1 and group[0] not in lengths]
    counts = [name for group in groups if len(group) > 1 for name in group if name not in lengths]
    for chosen in _chosen(model, counts, single, features // inside if inside and features % inside == 0 else 3):
        sizes = {groups[0][0]: BATCH, **chosen, **lengths}
        yield look.floats(*(math.prod(sizes.get(name, BATCH) for name in group) for group in groups))


def _pattern(module: nn.Module) -> tuple[str, dict[str, int]] | None:
    """The left side of a layer's pattern, and the lengths it is given."""
    text, lengths = getattr(module, "pattern", None), getattr(module, "axes_lengths", None)
    return (text.partition("->")[0], lengths) if isinstance(text, str) and "->" in text and isinstance(lengths, dict) else None


def _features(module: nn.Module) -> int | None:
    """The size of the last axis that a layer takes."""
    shape: Any = getattr(module, "normalized_shape", None)
    found = getattr(module, "in_features", shape[-1] if isinstance(shape, tuple) else None)
    found = getattr(module, "in_channels", None) if found is None else found
    if isinstance(found, int):
        return found
    own = next(module.parameters(recurse=False), None)
    sizes = [s for s in own.shape if s > 1] if own is not None and not nn.parameter.is_lazy(own) else []
    return sizes[0] if len(sizes) == 1 else None


def _chosen(model: nn.Module, counts: list[str], single: list[str], channels: int) -> Iterator[dict[str, int]]:
    """Numbers of patches for each count, and of channels; those that make up a table of positions first."""
    rest = {name: channels if place == 0 else BATCH for place, name in enumerate(single)}
    tables = [p.shape for p in model.parameters() if p.dim() in (2, 3) and next(iter(p.shape), 0) < 4096]
    sizes = [s - extra for shape in tables for s in shape[:-1] for extra in (0, 1) if s - extra > 1]
    for size in dict.fromkeys(sizes):
        for first in range(1, size + 1) if len(counts) == 3 else (1,):
            side = round((size / first) ** (1 / max(len(counts) - (len(counts) == 3), 1)))
            split = [first, side, side] if len(counts) == 3 else [side] * len(counts)
            if math.prod(split) == size and size > 1 and (first > 1 or len(counts) < 3):
                yield {**rest, **dict(zip(counts, split, strict=True))}
    for count in COUNTS:
        yield {**rest, **dict.fromkeys(counts, count)}


__all__ = ["patterned"]
