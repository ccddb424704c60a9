"""A loop of a block at two depths, run plainly: the sizes of what enters its blocks, and the gradient of each. A law of depth is not seen at one."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build.built import Built
from screen.capture.trace.loop import Loop, first_tensor, returned
from screen.probe.measure.kernels import differentiable
from screen.probe.measure.leaves import is_shape_alone
from screen.probe.plan.spot_types import FoundDepth, SpotPlan
from screen.probe.sizes import gap_of, plain_number

TIMES = 4
"""How many times as deep the second loop is."""


def depths(deep: Loop, args: tuple[Any, ...], kwargs: Mapping[str, Any], counts: Sequence[int], axis: int = -1) -> tuple[FoundDepth, ...]:
    """A loop whose copies have weights of their own, in float64, each time so many of its first blocks. `axis`: of features."""
    blocks = list(deep.double().members)
    with _doubles():
        args, kwargs = torch.utils._pytree.tree_map_only(Tensor, lambda t: t.double() if t.is_floating_point() else t, (args, dict(kwargs)))
        return tuple(_run(Loop.of(blocks[:count], deep), args, kwargs, axis) for count in counts)


def _run(loop: Loop, args: tuple[Any, ...], kwargs: Mapping[str, Any], axis: int) -> FoundDepth:
    """One forward and one backward. L is a random linear function of the stream behind the last block."""
    sizes: list[float | None] = []
    begun: list[Any] = []
    state = loop.state(args, kwargs)

    def seen(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = first_tensor(loop.state(args, kwargs), state)
        sizes.append(_rms([given]))
        begun.extend([given] if not begun else ())

    handles = [block.register_forward_pre_hook(seen, with_kwargs=True) for block in loop.members]
    try:
        for p in loop.parameters():
            p.requires_grad_(p.is_floating_point())
            p.grad = None
        args, kwargs = torch.utils._pytree.tree_map_only(Tensor, differentiable, (args, dict(kwargs)))
        with torch.enable_grad():
            out = first_tensor(returned(loop(*args, **kwargs), state)[0], state)
            g = torch.randn(out.shape, generator=torch.Generator().manual_seed(11), dtype=torch.float64)
            (out * g).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    gradients = tuple(_number(math.sqrt(sum(float(p.grad.square().sum()) for p in b.parameters() if p.grad is not None))) for b in loop.members)
    gaps = tuple(plain_number(gap_of(t.detach(), axis)) if isinstance(t, Tensor) else None for t in (*begun, out))
    return FoundDepth(len(loop.members), (*sizes, _rms([out.detach()])), gradients, gaps)


def at_depths(
    plan: SpotPlan, built: Built, deeper: Callable[[int, int], Loop] | None, law: bool, numbers: bool
) -> tuple[FoundDepth, ...]:
    """The module itself at two depths (`law`), or at its own (`numbers`), from the inputs that there are, or random ones. Nothing where
    it does not run so."""
    here = len(built.model.members) if isinstance(built.model, Loop) else 0
    counts = [here, TIMES * here] if law else []
    if numbers and plan.own and plan.own not in counts:
        counts.append(plan.own)
    if deeper is None or not counts:
        return ()
    generator = torch.Generator().manual_seed(plan.seed)
    args, kwargs = torch.utils._pytree.tree_map_only(Tensor, lambda t: _drawn(t, generator), (built.args, built.kwargs))
    try:
        return depths(deeper(plan.seed, max(counts)), args, kwargs, counts, plan.streams[0].axis if plan.streams else -1)
    except Exception:
        return ()


def _drawn(like: Tensor, generator: torch.Generator) -> Tensor:
    """An argument that has values, but for floats that are all one number; else a random tensor of a float argument, and zeros: a mask of falses, a
    table's first row."""
    if like.device.type != "meta" and not is_shape_alone(like):
        return like.detach()
    return torch.randn(like.shape, generator=generator) if like.is_floating_point() else torch.zeros(like.shape, dtype=like.dtype)


def _rms(values: list[Any]) -> float | None:
    found = [v for v in values if isinstance(v, Tensor) and v.is_floating_point() and v.numel()]
    return _number(float(found[0].detach().square().mean().sqrt())) if found else None


def _number(value: float) -> float | None:
    """A number that JSON can carry."""
    return None if math.isnan(value) else min(value, sys.float_info.max)


@contextlib.contextmanager
def _doubles() -> Iterator[None]:
    """Tensors that forward makes are float64 as well."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


__all__ = ["TIMES", "at_depths", "depths"]
