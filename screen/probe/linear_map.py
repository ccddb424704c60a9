"""What a linear map does, by running it: how much it enlarges, whether it goes on doing so, and how far each of several values reaches its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from screen.probe.measure.replay import Env
from screen.probe.sizes import plain_number

CLIMBS, STEADY = 24, 1e-4
"""Most steps of the power iteration for the gain of the linear part, and the relative change at which it ends."""
AGAIN, RISEN = 24, 10.0
"""How often the linear part is repeated to see whether its growth lasts, and from which growth on that is asked."""
DIRECTIONS = 3
"""Random directions at the end of a stream from which what reaches it is asked."""
TURNS = 6
"""Steps of a power iteration on the part of the first value that is added: one channel of many may be kept where all others are lost."""


def operator_norm(mapped: Callable[[Tensor], Tensor], like: Tensor) -> float | None:
    """A lower bound of ‖A‖ by a few steps of a power iteration from several starts; None where the map is not linear."""
    zero = mapped(torch.zeros_like(like))
    generator = torch.Generator().manual_seed(7)
    v = torch.randn(like.shape, generator=generator, dtype=torch.float64)
    once, twice = mapped(v) - zero, mapped(2.0 * v) - zero
    size = float(once.abs().amax())
    if not math.isfinite(size) or float((twice - 2.0 * once).abs().amax()) > 1e-9 * max(size, 1e-300):
        return None
    best = 0.0
    for start in (v, torch.ones_like(v)):
        x = start / start.norm()
        for _ in range(CLIMBS):
            with torch.enable_grad():
                x = x.detach().requires_grad_(True)
                y = mapped(x) - zero
            before, best = best, max(best, float(y.detach().norm() / x.detach().norm()))
            if best - before < STEADY * best and before:
                break
            if not y.requires_grad or not float(y.detach().norm()):
                break
            (back,) = torch.autograd.grad(y, x, y.detach() / y.detach().norm(), allow_unused=True)
            if back is None or not float(back.norm()):
                break
            x = back / back.norm()
    return plain_number(best)


def reach(mapped: Callable[[Env], Tensor], like: Mapping[int, Tensor]) -> dict[int, float] | None:
    """For each value the largest found ‖Rᵀg‖/‖g‖, R its part in the end; None where the end is not linear in all of them together."""
    generator = torch.Generator().manual_seed(17)
    zero = mapped(dict(like))
    one, other = ({i: torch.randn(v.shape, generator=generator, dtype=v.dtype) for i, v in like.items()} for _ in range(2))
    parts = mapped(one) + mapped(other) - 2 * zero
    size = float(parts.abs().amax())
    if not math.isfinite(size) or float((mapped({i: one[i] + other[i] for i in like}) - zero - parts).abs().amax()) > 1e-9 * max(size, 1e-300):
        return None
    best, farthest = dict.fromkeys(like, 0.0), None
    for turn in range(DIRECTIONS + TURNS):
        with torch.enable_grad():
            values = {i: v.clone().requires_grad_(True) for i, v in like.items()}
            end = mapped(values)
        g = torch.randn(end.shape, generator=generator, dtype=end.dtype) if turn < DIRECTIONS or farthest is None else farthest
        back = torch.autograd.grad(end, list(values.values()), g, allow_unused=True)
        best = {i: max(best[i], 0.0 if b is None else float(b.norm() / g.norm())) for i, b in zip(values, back, strict=True)}
        first = next(((i, b) for i, b in list(zip(values, back, strict=True))[1:] if b is not None and float(b.norm()) > 0), None)
        if turn + 1 >= DIRECTIONS and first is not None:  # the direction that is kept best from the first of what is added
            found = mapped({**like, first[0]: first[1] / first[1].norm()}) - zero
            farthest = found / found.norm() if float(found.norm()) > 0 else None
    return best


def lasts(mapped: Callable[[Tensor], Tensor], like: Tensor) -> float | None:
    """How fast a linear map still makes a value larger after many times, over how fast in the beginning: 1 for an exponential, less for a power."""
    v = torch.randn(like.shape, generator=torch.Generator().manual_seed(13), dtype=torch.float64)
    zero, rates = mapped(torch.zeros_like(like)), list[float]()
    for _ in range(AGAIN):
        w = mapped(v) - zero
        size = float(w.norm() / v.norm())
        if w.shape != v.shape or not math.isfinite(size) or size <= 0:
            return None
        rates.append(math.log(size))
        v = w / w.norm()
    return rates[-1] / rates[0] if rates[0] > math.log(RISEN) else None


__all__ = ["lasts", "operator_norm", "reach"]
