"""Weights over ten orders of magnitude, and inputs that are hostile before any ascent."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import torch
from torch import Tensor

Shapes = Mapping[str, tuple[int, ...]]

KINDS = ("normal", "ones", "identity", "rank_one", "orthogonal", "outlier", "sparse", "signs", "repeated", "zero")
"""Forms of a weight. `ones`, `identity` and `rank_one` let every factor of a product bound be reached at once."""


def weights(shapes: Shapes, rng: random.Random) -> dict[str, Tensor]:
    """One draw: a common form half of the time, one scale in 1e-5 … 1e5 for each parameter, ordinary scales a third of the time."""
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    common = rng.choice(KINDS[:-1]) if rng.random() < 0.5 else None
    spread = rng.choice((0.0, 1.0, 5.0))
    common_scale = 10 ** rng.uniform(-5, 5) if rng.random() < 0.3 else 1.0
    found = {}
    for name, shape in shapes.items():
        kind = common or rng.choice(KINDS if rng.random() < 0.3 else KINDS[:-1])
        scale = common_scale * 10 ** rng.uniform(-spread, spread)
        found[name] = scale * form(kind, shape, generator, rng)
    return found


def form(kind: str, shape: tuple[int, ...], generator: torch.Generator, rng: random.Random) -> Tensor:
    """A tensor of one kind, with entries of order one."""
    plain = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "zero":
        return torch.zeros_like(plain)
    if kind == "ones":
        return torch.full_like(plain, rng.choice((1.0, -1.0)))
    if kind == "signs":
        return plain.sign()
    if kind == "outlier":
        flat = plain.flatten()
        if flat.numel():
            flat[rng.randrange(flat.numel())] *= 1e4
        return flat.view(shape)
    if kind == "sparse":
        return plain * (torch.rand(shape, generator=generator) < 0.3)
    if len(shape) < 2:
        return plain
    rows, columns = shape[0], math.prod(shape[1:])
    matrix = plain.reshape(rows, columns)
    if kind == "identity":
        matrix = torch.eye(columns, dtype=torch.float64).repeat(-(-rows // columns), 1)[:rows]
    elif kind == "rank_one":
        matrix = torch.outer(matrix[:, 0], matrix[0])
    elif kind == "orthogonal":
        left, _, right = torch.linalg.svd(matrix, full_matrices=False)
        matrix = left @ right
    elif kind == "repeated":
        matrix = matrix[:1].expand(rows, columns)
    return matrix.reshape(shape).contiguous()


STARTS = ("normal", "constant", "one_hot", "nearly_constant", "equal_tokens", "huge", "tiny", "mixed", "opposed", "zero_mean_spike")


def inputs(shape: tuple[int, ...], rng: random.Random) -> Tensor:
    """One input; last axis features, the one before tokens."""
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    kind = rng.choice(STARTS)
    if kind == "constant":
        x = torch.ones_like(x) * rng.choice((1.0, -3.0))
    elif kind == "one_hot":
        hot = torch.zeros_like(x)
        hot[..., rng.randrange(shape[-1])] = rng.choice((-1.0, 1.0))
        x = hot + 1e-3 * x
    elif kind == "nearly_constant":
        x = 1.0 + 10 ** rng.uniform(-9, -2) * x
    elif kind == "equal_tokens":
        x = x[..., :1, :].expand(shape).contiguous() + 1e-3 * x
    elif kind == "mixed":
        x = x * 10 ** (3 * torch.randn((*shape[:-1], 1), generator=generator, dtype=torch.float64))
    elif kind == "opposed":
        x = x[..., :1, :] * torch.where(torch.arange(shape[-2]) % 2 == 0, 1.0, -1.0).unsqueeze(-1)
    elif kind == "zero_mean_spike":
        x = torch.full_like(x, -1.0)
        x[..., 0] = shape[-1] - 1.0
    scale = {"huge": 10 ** rng.uniform(2, 8), "tiny": 10 ** rng.uniform(-9, -2)}.get(kind, 10 ** rng.uniform(-1, 1) if rng.random() < 0.7 else 1.0)
    return scale * x
