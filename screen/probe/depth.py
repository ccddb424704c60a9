"""Experiment `depth`: the block stacked 4 … 64 times with fresh weights, the last norm as the model has it.

    rms            √(mean of squares) of the stream after N blocks: exponent of N
    last gradient  ‖∂L/∂W‖_F of the matrix nearest to the output in block N of N, L a random linear function of the normed end: exponent of N
    first over last  the same of block 1 over block N, at each N

Each is called a power law or an exponential in N by the smaller squared residual of its logarithm against log N or N (both have two parameters, so
that this is the likelihood ratio), and neither where the largest value is under 30 times the smallest.

Initialisers are those that the model records, at the depth that it was built with: a depth-scaled start does not follow N here. The predictions
of the covariance recursion are means over random weights; a network is compared with them at depths up to the model's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from screen.probe.plan import Experiment, rounded
from screen.probe.stack import Stack

DEPTHS = (4, 8, 16, 32, 64)
NETWORKS = 2
TELLING = 30.0
"""Largest over smallest from which a power law and an exponential can be told apart between 4 and 64 (review, item 55)."""
NEAR, FAR = 1.3, 3.0
"""A factor between measured and predicted within which they agree, and beyond which the prediction is refuted; between them single networks vary."""


@dataclass
class Sample:
    """Networks of several depths."""

    rms: dict[int, list[float]] = field(default_factory=dict)
    last: dict[int, list[float]] = field(default_factory=dict)
    ratio: dict[int, list[float]] = field(default_factory=dict)


def depths_of(stack: Stack, largest: int) -> list[int]:
    """Depths to measure, the model's own among them."""
    return sorted({d for d in (*DEPTHS, stack.plan.depth) if 4 <= d <= largest})


def measure(stack: Stack, x: Tensor, depths: list[int]) -> Sample:
    """All depths of each network at once: the first N layers of the deepest are the network of depth N."""
    sample = Sample()
    for network in range(NETWORKS):
        states = [x]
        for layer in range(1, max(depths) + 1):
            states.append(stack.run(states[-1], layer, network)[stack.plan.exit].detach())
        for n in depths:
            sample.rms.setdefault(n, []).append(float(states[n].square().mean().sqrt()))
        _backward(stack, states, depths, network, sample)
    return sample


def _backward(stack: Stack, states: list[Tensor], depths: list[int], network: int, sample: Sample) -> None:
    """Gradients of every depth on one way back."""
    flowing: dict[int, Tensor] = {}
    lasts: dict[int, float] = {}
    for layer in range(max(depths), 0, -1):
        with torch.enable_grad():
            x = states[layer - 1].clone().requires_grad_(True)
            w = stack.drawn(layer, network)[stack.weight].clone().requires_grad_(True)
            out = stack.run(x, layer, network, w)[stack.plan.exit]
        if layer in depths:
            flowing[layer] = _arriving(stack, states[layer], network)
        for n, g in list(flowing.items()):
            flowing[n], gradient = torch.autograd.grad(out, (x, w), g, retain_graph=True)
            size = float(gradient.norm())
            if layer == n:
                lasts[n] = size
                sample.last.setdefault(n, []).append(size)
            if layer == 1:
                sample.ratio.setdefault(n, []).append(size / lasts[n] if lasts[n] > 0 else math.nan)


def _arriving(stack: Stack, end: Tensor, network: int) -> Tensor:
    """∂L/∂x at the end of the stream, for a fixed random linear L of what stands behind the last norm."""
    with torch.enable_grad():
        x = end.clone().requires_grad_(True)
        out = stack.finish(x)
    g = torch.randn(out.shape, generator=stack.material.generator(stack.plan.end, 900 + network), dtype=torch.float64)
    (found,) = torch.autograd.grad(out, x, g.to(out.device, out.dtype))
    return found


def depth(stack: Stack, x: Tensor, words: str, largest: int) -> list[Experiment]:
    """The three laws."""
    depths = depths_of(stack, largest)
    sample = measure(stack, x, depths)
    empty = Experiment("depth", "", "observed", stack.plan.stream, stack.plan.kind, samples=NETWORKS)
    found = [
        _law(replace(empty, what="rms of the stream, exponent of depth"), sample.rms),
        _law(replace(empty, what="gradient of the last block, exponent of depth"), sample.last),
        _law(replace(empty, what="first over last gradient, exponent of depth"), sample.ratio),
    ]
    found = [replace(e, reason="; ".join(p for p in (words, e.reason) if p)) for e in found]
    return [*found, _compared(stack, "rms", sample.rms), _compared(stack, "ratio", sample.ratio)]


def _law(empty: Experiment, values: dict[int, list[float]]) -> Experiment:
    """The exponent with its standard error, the values, and which law fits."""
    points = [(n, v) for n, found in sorted(values.items()) for v in found]
    numbers: dict[str, float | str] = {f"at_{n}": rounded(_mean(v)) for n, v in sorted(values.items())}
    if any(not math.isfinite(v) or v <= 0 for _, v in points):
        return replace(empty, numbers=numbers, measured="nan", reason="a value is zero or leaves the range of floats")
    slope, error, power = _fitted([(math.log(n), math.log(v)) for n, v in points])
    _, _, exponential = _fitted([(float(n), math.log(v)) for n, v in points])
    means = [_mean(v) for v in values.values()]
    law = "unknown" if max(means) < TELLING * min(means) else "power law" if power <= exponential else "exponential"
    numbers["standard_error"] = rounded(error)
    interval = (rounded(slope - 2 * error), rounded(slope + 2 * error))
    return replace(empty, measured=rounded(slope), interval=interval, numbers={**numbers, "law": law}, reason=f"law: {law}")


def _compared(stack: Stack, what: str, values: dict[int, list[float]]) -> Experiment:
    """The stream's growth, or first over last, at the model's own depth against the covariance recursion."""
    plan = stack.plan
    said = "growth of rms from block 4 to the last" if what == "rms" else "first over last gradient"
    empty = Experiment("depth", f"{said}, {plan.depth} blocks", "not_measured", plan.stream, plan.kind, samples=NETWORKS)
    if plan.depth not in values or plan.depth <= 4:
        return replace(empty, reason="the model's own depth is not among those that were measured")
    predicted = (plan.rms[plan.depth - 1] / plan.rms[3] if len(plan.rms) >= plan.depth and plan.rms[3] else None) if what == "rms" else plan.ratio
    own = values[plan.depth]
    measured = [a / b for a, b in zip(own, values[4], strict=True)] if what == "rms" else own
    if any(not math.isfinite(m) or m <= 0 for m in measured):
        return replace(empty, reason="a value is zero or leaves the range of floats")
    found = replace(empty, measured=rounded(_mean(measured)), interval=(rounded(min(measured)), rounded(max(measured))))
    if predicted is None or not math.isfinite(predicted) or predicted <= 0:
        return replace(found, outcome="observed", reason=f"no prediction{': ' + plan.unknown if plan.unknown else ''}")
    found = replace(found, predicted=rounded(predicted))
    factor = math.exp(abs(math.log(_mean(measured) / predicted)))
    return agreement(found, factor)


def agreement(found: Experiment, factor: float) -> Experiment:
    """A prediction in the mean over weights against a few networks."""
    if factor <= NEAR:
        return replace(found, outcome="confirmed")
    if factor <= FAR:
        return replace(found, outcome="observed", reason=f"a factor of {factor:.3g} apart, within what single networks of this size may vary")
    return replace(found, outcome="refuted", reason=f"a factor of {factor:.3g} apart")


def _mean(values: list[float]) -> float:
    """Geometric mean; nan when a value is not positive and finite."""
    if any(not math.isfinite(v) or v <= 0 for v in values):
        return math.nan
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _fitted(points: list[tuple[float, float]]) -> tuple[float, float, float]:
    """(slope, its standard error, sum of squared residuals) of a straight line."""
    n = len(points)
    mx, my = (math.fsum(p[i] for p in points) / n for i in (0, 1))
    spread = math.fsum((x - mx) ** 2 for x, _ in points)
    slope = math.fsum((x - mx) * (y - my) for x, y in points) / spread
    left = math.fsum((y - my - slope * (x - mx)) ** 2 for x, y in points)
    return slope, math.sqrt(left / max(n - 2, 1) / spread), left


__all__ = ["DEPTHS", "agreement", "depth", "depths_of", "measure"]
