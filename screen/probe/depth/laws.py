"""Experiment `depth`: the block stacked 4 … 64 times with fresh weights, the last norm as the model has it.

    rms            √(mean of squares) of the stream after N blocks: exponent of N
    last gradient  ‖∂L/∂W‖_F of the matrix nearest to the output in block N of N, L a random linear function of the normed end: exponent of N
    first over last  the same of block 1 over block N, at each N
    1 − cosine     mean over pairs of tokens of a sequence of 1 − ⟨x_i, x_j⟩/(‖x_i‖‖x_j‖) after N blocks

Where the user's code starts a model of another depth otherwise, each N has the start of the model of N blocks (`screen.probe.depth.starts`). The
predictions of the covariance recursion are means over random weights, at the model's own depth and number of tokens. It starts from tokens of its
own: 1 − cosine is compared where the tokens that arrive at the first block are as far apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor

from screen.probe.budget.narrower import BEYOND
from screen.probe.depth.fits import law, mean
from screen.probe.depth.starts import Depths
from screen.probe.measure.stack import Stack
from screen.probe.plan.types import BlockPlan, Experiment, rounded

DEPTHS = (4, 8, 16, 32, 64)
NETWORKS = 2
NEAR, FAR = 1.3, 3.0
"""A factor between measured and predicted within which they agree, and beyond which the prediction is refuted; between them nothing is said."""
EACH_NEAR, EACH_FAR = 0.1, 0.3
"""The same for 1 − cosine, a product over blocks, as shares of its logarithm where that is more."""
APART = 1.1
"""A factor between 1 − cosine of the tokens that arrive and of those that the recursion starts from."""
ALIKE = 3.0
"""A factor between the sizes of tokens that arrive up to which they are one kind."""
ROUNDED_OFF = 16.0
"""Times the distance of neighbouring floats: differences of unit vectors below which they are rounding."""


@dataclass
class Sample:
    """Networks of several depths."""

    rms: dict[int, list[float]] = field(default_factory=dict)
    last: dict[int, list[float]] = field(default_factory=dict)
    ratio: dict[int, list[float]] = field(default_factory=dict)
    gap: dict[int, list[float]] = field(default_factory=dict)
    grown: dict[int, list[float]] = field(default_factory=dict)
    """rms after block N over rms after block 4 of the same network."""

    def add(self, other: Sample) -> None:
        """Networks of other depths."""
        for table in fields(Sample):
            getattr(self, table.name).update(getattr(other, table.name))


def depths_of(plan: BlockPlan, largest: int) -> list[int]:
    """Depths to measure, the model's own among them."""
    return sorted({d for d in (*DEPTHS, plan.depth) if 4 <= d <= largest})


def layers_of(depths: list[int], follow: bool) -> int:
    """Blocks that are drawn and run: the first N of the deepest network are the network of depth N, unless each depth starts otherwise."""
    return sum(depths) if follow else max(depths, default=0)


def measure(found: Depths, starts: dict[int, Tensor], networks: int = NETWORKS) -> Sample:
    """All depths. `starts`: the stream where the first block begins, by depth."""
    sample = Sample()
    for stack in {id(s): s for s in found.stacks.values()}.values():
        depths = [n for n, s in found.stacks.items() if s is stack]
        sample.add(_networks(stack, starts[depths[0]], depths, networks))
    return sample


def _networks(stack: Stack, x: Tensor, depths: list[int], networks: int) -> Sample:
    """All depths of one start, in one pass for each network."""
    sample = Sample()
    for network in range(networks):
        states = [x]
        for layer in range(1, max(depths) + 1):
            states.append(stack.run(states[-1], stack.drawn(layer, network))[stack.plan.exit].detach())
        for n in depths:
            early, size = (float(states[k].square().mean().sqrt()) for k in (min(n, 4), n))
            sample.rms.setdefault(n, []).append(size)
            sample.grown.setdefault(n, []).append(size / early if early else math.nan)
            sample.gap.setdefault(n, []).append(gap(stack.tokens_of(states[n])))
        _backward(stack, states, depths, network, sample)
    return sample


def gap(x: Tensor) -> float:
    """1 − cosine, mean over sequences and pairs of different tokens: Σ‖u_i − ū‖²/(n − 1) for unit vectors u; nan for one token.
    [sequences, tokens, features]"""
    n = x.shape[1]
    unit = torch.nn.functional.normalize(x, dim=-1)
    return float((unit - unit.mean(1, keepdim=True)).square().sum((1, 2)).mean() / (n - 1)) if n > 1 else math.nan


def _backward(stack: Stack, states: list[Tensor], depths: list[int], network: int, sample: Sample) -> None:
    """Gradients of every depth on one way back."""
    flowing: dict[int, Tensor] = {}
    lasts: dict[int, float] = {}
    for layer in range(max(depths), 0, -1):
        leaves = stack.drawn(layer, network)
        with torch.enable_grad():
            x = states[layer - 1].clone().requires_grad_(True)
            w = leaves[stack.weight] = leaves[stack.weight].clone().requires_grad_(True)
            out = stack.run(x, leaves)[stack.plan.exit]
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
    g = torch.randn(out.shape, generator=stack.material.generator(stack.plan.entry, 900 + network), dtype=torch.float64)
    (found,) = torch.autograd.grad(out, x, g.to(out.device, out.dtype))
    return found


def depth(found: Depths, starts: dict[int, Tensor], words: str, plan: BlockPlan) -> list[Experiment]:
    """The laws, and what is predicted at the model's own depth."""
    sample = measure(found, starts)
    empty = Experiment("depth", "", "observed", plan.stream, plan.kind, samples=NETWORKS)
    apart = {n: v for n, v in sample.gap.items() if min(v) > _rounding(found)}
    return [
        _with_line(law(replace(empty, what="rms of the stream, exponent of depth"), sample.rms, f"{words}; {found.words}"), plan, found),
        law(replace(empty, what="gradient of the last block, exponent of depth"), sample.last, found.words),
        law(replace(empty, what="first over last gradient, exponent of depth"), sample.ratio, found.words),
        *([law(replace(empty, what="1 − cosine of two tokens, exponent of depth"), apart, found.words)] if len(apart) > 1 else []),
        *_compared(plan, sample, empty, _unlike(found, starts, plan)),
        _collapse(found, starts, sample, empty, plan),
    ]


def _with_line(said: Experiment, plan: BlockPlan, found: Depths) -> Experiment:
    """The recursion's rms at each depth that was measured: of a model whose start follows the depth only at its own."""
    places = [n for n in found.stacks if n <= len(plan.rms) and (n == plan.depth or not found.follow)]
    return replace(said, numbers={**said.numbers, **{f"predicted_{n}": rounded(plan.rms[n - 1]) for n in places}})


def _unlike(found: Depths, starts: dict[int, Tensor], plan: BlockPlan) -> str:
    """Why gradients are not those of alike tokens; empty where tokens arrive with sizes of one kind. A small token has a large part of the gradient
    that comes back through a norm."""
    if plan.depth not in starts:
        return ""
    sizes = found.stacks[plan.depth].tokens_of(starts[plan.depth]).square().mean(-1).sqrt()
    low, high = float(sizes.amin()), float(sizes.amax())
    return f"tokens arrive with rms {low:.3g} to {high:.3g}, and the recursion takes them as alike" if low * ALIKE < high else ""


def _compared(plan: BlockPlan, sample: Sample, empty: Experiment, unlike: str) -> list[Experiment]:
    """Growth of the stream, and first over last gradient, at the model's own depth against the covariance recursion."""
    n = plan.depth
    grown = plan.rms[n - 1] / plan.rms[3] if 4 < n <= len(plan.rms) and plan.rms[3] else None
    ratio, why = (None, unlike) if unlike and plan.ratio is not None else (plan.ratio, plan.unknown)
    rows = (("growth of rms from block 4 to the last", sample.grown, grown, plan.unknown), ("first over last gradient", sample.ratio, ratio, why))
    found = [(replace(empty, what=f"{what}, {n} blocks"), v.get(n, []) if n > 4 else [], said, why) for what, v, said, why in rows]
    return [_against(e, v, said, why if v else _not_reached(n)) for e, v, said, why in found]


def _not_reached(depth: int) -> str:
    """Why there is no stack of the model's own depth."""
    if depth <= DEPTHS[0]:
        return f"the model has {depth} blocks, and more than {DEPTHS[0]} are compared"
    return f"its {depth} blocks are more than the {DEPTHS[-1]} that are stacked" if depth > DEPTHS[-1] else f"{BEYOND}: fewer blocks were stacked"


def _collapse(found: Depths, starts: dict[int, Tensor], sample: Sample, empty: Experiment, plan: BlockPlan) -> Experiment:
    """1 − cosine of two tokens at the model's own depth against the covariance recursion."""
    n = plan.depth
    empty = replace(empty, what=f"1 − cosine of two tokens, {n} blocks")
    measured = [max(g, _rounding(found)) for g in sample.gap.get(n, [])]
    if not measured or plan.gap is None or plan.begun is None:
        return _against(empty, measured, None, plan.unknown if measured else _not_reached(n))
    arrived = gap(found.stacks[n].tokens_of(starts[n]))
    if not plan.begun / APART <= arrived <= plan.begun * APART:
        return _against(empty, measured, None, f"tokens arrive {arrived:.3g} apart (1 − cosine), and the recursion starts from {plan.begun:.3g}")
    predicted = max(plan.gap, _rounding(found))
    slack = abs(math.log(predicted))
    return _against(empty, measured, predicted, "", max(NEAR, math.exp(EACH_NEAR * slack)), max(FAR, math.exp(EACH_FAR * slack)))


def _rounding(found: Depths) -> float:
    """1 − cosine below which it is rounding, a square of such differences."""
    return float((ROUNDED_OFF * torch.finfo(next(iter(found.stacks.values())).material.tape.dtype).eps) ** 2)


def _against(empty: Experiment, measured: list[float], predicted: float | None, unknown: str, near: float = NEAR, far: float = FAR) -> Experiment:
    if not measured:
        return replace(empty, outcome="not_measured", reason=unknown)
    if any(not math.isfinite(m) or m <= 0 for m in measured):
        return replace(empty, outcome="not_measured", reason="a value is zero or leaves the range of floats")
    found = replace(empty, measured=rounded(mean(measured)), interval=(rounded(min(measured)), rounded(max(measured))))
    if predicted is None or not math.isfinite(predicted) or predicted <= 0:
        return replace(found, reason=f"no prediction{': ' + unknown if unknown else ''}")
    away = [math.exp(abs(math.log(m / predicted))) for m in (mean(measured), *measured)]
    return agreement(replace(found, predicted=rounded(predicted)), away[0], near, far, min(away))


def agreement(found: Experiment, factor: float, near: float = NEAR, far: float = FAR, nearest: float | None = None) -> Experiment:
    """A prediction in the mean over weights against a few networks. `factor`: of their mean; `nearest`: of the network that comes nearest, for what
    varies much (a product over blocks without a norm has a mean that few networks reach)."""
    if factor <= near:
        return replace(found, outcome="confirmed")
    if min(factor, factor if nearest is None else nearest) <= far:
        return replace(found, outcome="observed", reason=f"a factor of {factor:.3g} apart: {near:.3g} confirm, {far:.3g} refute")
    return replace(found, outcome="refuted", reason=f"a factor of {factor:.3g} apart")


__all__ = ["DEPTHS", "agreement", "depth", "depths_of", "gap", "layers_of", "measure"]
