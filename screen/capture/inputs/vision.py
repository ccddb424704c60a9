"""Rows of the table of inputs: images, videos, patches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.inputs.context import BATCH, Lookup
from screen.capture.inputs.registry import GRID, VISION, row


def pair(value: Any) -> tuple[int, int]:
    """(height, width) of an int, a pair, or a dictionary."""
    if isinstance(value, dict):
        value = [value.get("height", value.get("shortest_edge")), value.get("width", value.get("shortest_edge"))]
    if isinstance(value, list | tuple):
        value = [v[0] if isinstance(v, list | tuple) else v for v in value]
        return int(value[0]), int(value[-1])
    return int(value), int(value)


def channels(look: Lookup) -> int:
    """Colours of an image."""
    found = look.get("num_channels", "in_channels", "in_chans", "n_channels", part=VISION)
    conv = look.first(nn.Conv2d, nn.Conv3d)
    return found if isinstance(found, int) else conv.in_channels if conv is not None else 3


def patch(look: Lookup) -> tuple[int, int]:
    """(height, width) of a patch."""
    found = look.get("patch_size", "spatial_patch_size", part=VISION)
    conv = look.first(nn.Conv2d, nn.Conv3d)
    if found is None and conv is not None:
        return pair(conv.stride[-2:])
    return pair(found or 16)


def sides(look: Lookup) -> list[tuple[int, int]]:
    """Heights and widths to try: as configured, then multiples of the patch, then usual ones."""
    stated = look.get("image_size", "img_size", "crop_size", "input_size", "max_image_size", "max_img_size", part=VISION)
    height, width = patch(look)
    found = [pair(stated)] if stated else [(7 * height, 7 * width)] if height > 7 else [(224, 224)]
    return list(
        dict.fromkeys(
            [
                *found,
                (found[0][1], found[0][1]),
                (4 * found[0][0], 4 * found[0][1]),
                (224, 224),
                (14 * height, 14 * width),
                (256, 256),
                (512, 512),
            ]
        )
    )


def flat_patch(look: Lookup) -> list[int]:
    """Sizes of one patch as a vector."""
    height, width = patch(look)
    depth = look.get("temporal_patch_size", part=VISION)
    volume = channels(look) * height * width
    found = [volume * depth] if isinstance(depth, int) else []
    return list(dict.fromkeys([*found, volume, *(w for w in look.widths[:4])]))


def gridded(look: Lookup) -> bool:
    """Does the model take the patches of all images in one list, with a grid for each?"""
    return any(n in look.parameters for n in ("grid_thw", "image_grid_thw", "image_grid_hw", "video_grid_thw"))


@row("pixel_values", "flattened_patches", "image_pixel_values", "image", "images", main=True)
def _pixels(look: Lookup) -> Iterator[Tensor]:
    count = sum(math.prod(g) for g in GRID)
    if gridded(look):
        for size in flat_patch(look):
            yield look.floats(count, size)
        yield look.floats(count, channels(look), *patch(look))
        yield look.floats(1, count, channels(look), *patch(look))
        merge = look.get("spatial_merge_size", default=1, part=VISION)
        yield look.floats(count, *(merge * p for p in patch(look)), channels(look))
        yield look.floats(math.prod(GRID[0]), flat_patch(look)[0])  # the last grid is that of an image to be made
    if "spatial_shapes" in look.parameters or "pixel_position_ids" in look.parameters or "image_position_ids" in look.parameters:
        for size in flat_patch(look):
            yield look.floats(BATCH, math.prod(GRID[0]), size)
    if "target_sizes" in look.parameters:  # the patches of all images side by side
        height, width = patch(look)
        yield look.floats(1, channels(look), height, BATCH * math.prod(GRID[0]) * width)
    if "aspect_ratio_ids" in look.parameters:  # images in tiles
        yield look.floats(BATCH, 1, look.get("max_num_tiles", default=1, part=VISION), channels(look), *sides(look)[0])
    frames = look.get("num_frames", "frames_per_clip", part=VISION)
    many = frames if isinstance(frames, int) else 2
    c = channels(look)
    depth = look.get("temporal_patch_size", part=VISION)
    if isinstance(depth, int):
        yield look.floats(BATCH, depth, *patch(look), c)  # single patches, colours last
    for number, side in enumerate(sides(look)):
        forms = [(BATCH, c, *side), (BATCH, many, c, *side), (BATCH, 1, c, *side), (BATCH, 2, 3, *side), (BATCH, c, many, *side)]
        forms.append((BATCH * many, c, *side))
        yield from (look.floats(*form) for form in (forms[1:2] + forms[:1] + forms[2:] if isinstance(frames, int) else forms))
        if number == 0:
            for size in flat_patch(look)[:3]:
                yield look.floats(BATCH, (side[0] // patch(look)[0]) * (side[1] // patch(look)[1]), size)
                yield look.floats(BATCH, look.tokens, size)
                yield look.floats(BATCH, look.tokens, size + 2)  # row and column in front


@row("prompt_pixel_values", "prompt_masks")
def _prompt_pixels(look: Lookup) -> Iterator[Tensor]:
    for side in sides(look)[:2]:
        yield look.floats(BATCH, channels(look), *side)


@row("pixel_values_videos")
def _video(look: Lookup) -> Iterator[Tensor]:
    frames = look.get("num_frames", "frames_per_clip", part=VISION)
    many = frames if isinstance(frames, int) else 4
    for side in sides(look):
        yield look.floats(BATCH, many, channels(look), *side)
        yield look.floats(BATCH, channels(look), many, *side)


@row("grid_thw", "image_grid_thw", goes_with=("pixel_values",))
def _grid(look: Lookup) -> Iterator[Tensor]:
    yield torch.tensor(GRID)


@row("image_grid_hw", "grid_hw", goes_with=("pixel_values",))
def _flat_grid(look: Lookup) -> Iterator[Tensor]:
    yield torch.tensor([g[1:] for g in GRID])


@row("spatial_shapes", "target_sizes", "tgt_sizes", goes_with=("pixel_values",))
def _shapes(look: Lookup) -> Iterator[Tensor]:
    yield torch.tensor([GRID[0][1:]] * BATCH)
    step = patch(look)
    yield from (torch.tensor([[side[0] // step[0], side[1] // step[1]]] * BATCH) for side in sides(look)[:1])


@row("aspect_ratio_ids", goes_with=("pixel_values",))
def _aspects(look: Lookup) -> Iterator[Tensor]:
    """One image of one tile for each text."""
    yield torch.ones(BATCH, 1, dtype=torch.long)


@row("aspect_ratio_mask", goes_with=("pixel_values",))
def _tiles(look: Lookup) -> Iterator[Tensor]:
    yield torch.ones(BATCH, 1, look.get("max_num_tiles", default=1, part=VISION), dtype=torch.long)


@row("image_attention_mask", extra=True)
def _images_seen(look: Lookup) -> Iterator[Tensor]:
    """[batch, tokens, images]: every token sees every image"""
    yield torch.ones(BATCH, look.tokens, 2, dtype=torch.bool)


@row("pixel_position_ids", "image_position_ids", goes_with=("pixel_values",))
def _patch_places(look: Lookup) -> Iterator[Tensor]:
    _, height, width = GRID[0]
    yield torch.tensor([[x, y] for y in range(height) for x in range(width)]).repeat(BATCH, 1, 1)


@row("image_sizes", extra=True)
def _image_sizes(look: Lookup) -> Iterator[Tensor]:
    yield torch.tensor([sides(look)[0]] * BATCH)


@row("merge_sizes", "image_merge_sizes", goes_with=("pixel_values",))
def _merges(look: Lookup) -> Iterator[Tensor]:
    yield torch.tensor([look.get("spatial_merge_size", "merge_size", default=1, part=VISION)] * BATCH)


@row("pixel_attention_mask", "patch_attention_mask", "pixel_mask", extra=True)
def _pixel_mask(look: Lookup) -> Iterator[Tensor]:
    if "spatial_shapes" in look.parameters:
        yield torch.ones(BATCH, math.prod(GRID[0]), dtype=torch.long)
    yield torch.ones(BATCH, *sides(look)[0], dtype=torch.bool)
    yield torch.ones(BATCH, 1, *sides(look)[0], dtype=torch.bool)


@row("high_res_pixel_values", goes_with=("pixel_values",))
def _fine_pixels(look: Lookup) -> Iterator[Tensor]:
    size = look.get("image_size", default=1024, part=("high_res",))
    yield look.floats(BATCH, channels(look), *pair(size))


@row("bool_masked_pos", extra=True)
def _masked_places(look: Lookup) -> Iterator[Tensor]:
    side, step = sides(look)[0], patch(look)
    yield torch.zeros(BATCH, (side[0] // step[0]) * (side[1] // step[1]), dtype=torch.bool)


__all__ = ["channels", "flat_patch", "gridded", "pair", "patch", "sides"]
