"""Values that both processes have: weights are drawn by their names, everything else is sent as text."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from screen.probe.plan.spot_types import Leaf, Sample

MOST = 16 << 20
"""Bytes of what is no weight, together."""
ENTRIES = 256
"""Of an output, that are compared."""
SAME = 1e-3
"""Relative difference up to which two outputs are one: both are computed by the same kernels, in float32."""


def weight(name: str, shape: Sequence[int], seed: int) -> Tensor:
    """A weight by its name: maps N(0, 1/columns), gains and biases uniform in [0.5, 1.5], so that none hides another (all start at 1 or 0)."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode("utf-8", "replace")) + seed)
    if len(shape) < 2:
        return torch.rand(tuple(shape), generator=generator) + 0.5
    return torch.randn(tuple(shape), generator=generator) / math.sqrt(max(shape[-1], 1))


def packed(node: int, value: Tensor) -> Leaf:
    """A value as text."""
    raw = value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    text = base64.b64encode(zlib.compress(raw, 1)).decode("ascii")
    return Leaf(node, str(value.dtype).removeprefix("torch."), tuple(value.shape), text)


def unpacked(leaf: Leaf) -> Tensor:
    """What `packed` made. Raises `ValueError` for anything else."""
    dtype = getattr(torch, leaf.dtype, None)
    if not isinstance(dtype, torch.dtype) or min(leaf.shape, default=0) < 0:
        raise ValueError(f"a value in `{leaf.dtype}`")
    size = math.prod(leaf.shape) * dtype.itemsize
    if size > MOST:
        raise ValueError(f"a value of {size:,} bytes")
    reader = zlib.decompressobj()
    try:
        raw = reader.decompress(base64.b64decode(leaf.data), max(size, 1))
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(raw) != size:
        raise ValueError(f"{len(raw)} bytes for {size}")
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(leaf.shape) if size else torch.empty(leaf.shape, dtype=dtype)


def sample(out: Tensor) -> Sample:
    """Entries of an output, at places that follow from its size; none of them where one of all is no finite number."""
    flat = out.detach().flatten()
    top = float(flat.abs().amax()) if flat.numel() else 0.0
    if not math.isfinite(top):
        return Sample(tuple(out.shape), None, ())
    places = torch.randint(max(flat.numel(), 1), (ENTRIES,), generator=torch.Generator().manual_seed(5)) if flat.numel() else torch.zeros(0).long()
    return Sample(tuple(out.shape), top, tuple(flat[places].double().tolist()))


def apart(one: Sample, other: Sample) -> float:
    """The largest difference of two outputs, relative to the larger of them; infinite where their shapes differ, or one of them alone is finite."""
    if one.shape != other.shape or len(one.values) != len(other.values) or one.top is None or other.top is None:
        return 0.0 if one == other else math.inf
    differences = [one.top - other.top, *(a - b for a, b in zip(one.values, other.values, strict=True))]
    found = max(map(abs, differences)) / max(one.top, other.top, 1e-30)
    return found if math.isfinite(found) else math.inf


__all__ = ["MOST", "SAME", "apart", "packed", "sample", "unpacked", "weight"]
