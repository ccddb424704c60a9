"""Main inputs on a grid, from the convolution that takes them: images, videos, signals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from torch import Tensor, nn

from screen.capture.inputs.context import BATCH, Lookup, parameters_of

IMAGE_SIDES = (224, 32, 64, 28, 256)
"""Sides of square images to try when no grid of positions says better."""
SIDES = (32, 16, 64)
"""Sides of the maps that take the place of an argument with too few axes."""


def images(model: nn.Module, look: Lookup) -> Iterator[Tensor]:
    conv = look.first(nn.Conv2d, nn.Conv3d)
    if conv is None:
        yield from _pictures(model, look)
        return
    patch = max(conv.kernel_size[-1], conv.stride[-1])
    sizes = [v for m in model.modules() for k, v in vars(m).items() if "size" in k]
    stated = [v for size in sizes for v in (size[-1:] if isinstance(size, tuple) else [size]) if isinstance(v, int) and v > patch]
    tables = [p.shape for p in parameters_of(model) if p.dim() == 3] + [(m.num_embeddings,) for m in model.modules() if isinstance(m, nn.Embedding)]
    grids = [s - extra for shape in tables for s in shape for extra in (0, 1) if s >= 16]
    sides = [conv.stride[-1] * round(n**0.5) for n in grids if round(n**0.5) ** 2 == n]
    if isinstance(conv, nn.Conv3d):  # a video: so many frames that its patches are those of a table, one that is no parameter too
        held = [v.shape[-2] for m in model.modules() for v in vars(m).values() if isinstance(v, Tensor) and v.dim() in (2, 3)]
        for count, side in itertools.product(dict.fromkeys([*grids, *held]), dict.fromkeys([*stated, *IMAGE_SIDES])):
            area = (side // conv.stride[-1]) ** 2
            if side % conv.stride[-1] == 0 and area > 1 and count % area == 0:
                yield look.floats(BATCH, conv.in_channels, count // area * conv.stride[0], side, side)
    for side in dict.fromkeys([*stated, *sides, *IMAGE_SIDES]):
        if side % conv.stride[-1] == 0:
            shape = (conv.in_channels, side, side) if isinstance(conv, nn.Conv2d) else (conv.in_channels, 4 * conv.stride[0], side, side)
            yield look.floats(BATCH, *shape)
    if patch == 1:
        yield from _pictures(model, look)


def _pictures(model: nn.Module, look: Lookup) -> Iterator[Tensor]:
    """Images of a model that cuts them into patches itself: its first layer takes channels · side²."""
    taken = (getattr(m, "in_features", getattr(m, "in_channels", None)) for m in model.modules())
    features = next((f for f in taken if isinstance(f, int)), 0)
    tables = [s - extra for p in parameters_of(model) if p.dim() in (2, 3) for s in p.shape[:-1] for extra in (0, 1)]
    for channels in (3, 1):
        patch = math.isqrt(features // channels)
        if patch > 1 and patch * patch * channels == features:
            for count in dict.fromkeys([*(n for n in tables if 1 < n < 4096 and math.isqrt(n) ** 2 == n), 16, 64, 196, 3136]):
                yield look.floats(BATCH, channels, patch * math.isqrt(count), patch * math.isqrt(count))
    for side in IMAGE_SIDES:
        yield look.floats(BATCH, 3, side, side)
    stated = look.get("in_channels", default=getattr(model, "in_channels", None))
    if isinstance(stated, int) and stated != 3:
        for side in (32, 16, 64):
            yield look.floats(BATCH, stated, side, side)


def videos(model: nn.Module, look: Lookup) -> Iterator[Tensor]:
    """Images in a row, before or behind the channels."""
    conv = look.first(nn.Conv2d, nn.Conv3d)
    stated = look.get("in_channels", default=getattr(model, "in_channels", None))
    for channels in dict.fromkeys([*([conv.in_channels] if conv is not None else []), stated, 3]):
        if isinstance(channels, int):
            for side in (32, 16, 64):
                yield look.floats(BATCH, channels, 4, side, side)
                yield look.floats(BATCH, 4, channels, side, side)


def signals(model: nn.Module, look: Lookup) -> Iterator[Tensor]:
    conv = look.first(nn.Conv1d)
    if conv is not None:
        strides = 1
        for module in model.modules():
            strides *= module.stride[0] if isinstance(module, nn.Conv1d) else 1
        tables = {t.shape[-2] * strides for t in [*parameters_of(model), *model.buffers()] if t.dim() in (2, 3) and 256 <= t.shape[-2] <= 4096}
        for length in (look.tokens, 16 * min(strides, 4096), 16000, *sorted(tables)[:4]):
            yield look.floats(BATCH, conv.in_channels, length)
            yield look.floats(BATCH, length, conv.in_channels)
        if conv.in_channels == 1:
            yield look.floats(BATCH, 16000)


def maps_of(axes: int, channels: int, look: Lookup) -> Iterator[Tensor]:
    """Tensors with so many axes, channels behind the batch or behind the time."""
    if axes == 3:
        yield look.floats(BATCH, channels, look.tokens)
    elif axes in (4, 5):
        for side in SIDES:
            if axes == 4:
                yield look.floats(BATCH, channels, side, side)
            else:
                yield look.floats(BATCH, channels, 4, side, side)
                yield look.floats(BATCH, 4, channels, side, side)
    elif axes > 5:  # images of a text, tiles of an image
        yield from (look.floats(BATCH, *[1] * (axes - 4), channels, side, side) for side in SIDES)


__all__ = ["images", "maps_of", "signals", "videos"]
