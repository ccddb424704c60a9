"""What the report says of whole streams, under attack: how they grow as their input and the weights do, how gradients change with depth, and that one
derivation serves all blocks of a kind."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from screen.calculi.analysis import analyse
from screen.capture.trace.tracer import run
from screen.facts import derive
from screen.facts.queries import branches
from screen.facts.record import Facts
from screen.rules import gradient_ratio, stream_growth
from screen.structure.branches.branch import Branch
from screen.structure.types import Unknown
from tests.soundness.grammar import Design
from tests.soundness.model import bare, build, example
from tests.soundness.record import Record, Sample
from tests.soundness.region import readers

INPUTS = (1e4, 1e8)
"""Factors of the input, both beyond the ε of every norm; what a stream gains must not follow them."""
MATRICES = 1e3
"""Factor of the matrices beside the larger input, where the sentence is about all weights."""
ALLOWED = 100.0
"""How many times the gain at the smaller input the one at the larger may be: a power of what was raised is far above."""
DEPTHS = (8, 32, 128)
SEEDS = 5
STEEPER, SPREAD = 2.0, 4.0
"""How many times more the logarithm of a gradient may gain from the second depth to the third than from the first to the second (a power of depth:
once; an exponential: four times), and what medians of so few draws may be off by."""
NOISE = 1e-11
"""Rounding of a sum, relative to the stream."""
SENTENCES = {"does not depend on depth": "size", "whatever the weights": "weights", "hands on": "largest", "at fixed weights": "inputs"}
"""What R301 says where it holds, and what is compared for it."""


def attack_sentences(design: Design, seed: str, record: Record) -> None:
    """One structure: its growth as R301 tells it, and the bounds of the blocks that share one derivation."""
    graph = run(build(design, "meta"), (example(design, "meta"),), {}).graph
    facts = derive(graph)
    sample = Sample(design.line, seed, -1)
    streams = [s for s in facts.streams if any(k.sublayers for k in s.kinds)]
    if len(streams) == 1 and branches(facts, streams[0]) >= design.depth * len(design.parts):  # it is that of the model, and all of it was found
        (outcome,) = stream_growth.check(facts)
        if outcome.result == "holds":
            about = next((kind for words, kind in SENTENCES.items() if words in outcome.message), None)
            if about is None:
                assert "behind a given input" in outcome.message  # nothing is said of other inputs
            else:
                _grow(design, about, sample, record)
        (outcome,) = gradient_ratio.check(facts)
        alike = (
            design.alpha != "constant" and not design.stream_norm and not design.carry and not design.end
        )  # a constant, or a norm behind the last sum, counts for more in more blocks
        if outcome.result == "holds" and gradient_ratio.LAW in outcome.message and alike:
            _deepen(design, sample, record)
    for kind, own, first in _shared(facts, readers(graph)):
        record.checks["one derivation for a kind"] += 1
        if own != first:
            record.violation(sample, f"blocks of `{kind}` share one derivation, and differ in it", 1.0, 0.0)


def _grow(design: Design, about: str, sample: Sample, record: Record) -> None:
    torch.manual_seed(random.Random(sample.seed).getrandbits(40))
    model, x = build(design).train(), torch.randn_like(example(design))  # batch norms with the statistics of a batch
    sums = design.depth * (1 if design.parallel else len(design.parts))
    gain = 0.0 if about == "size" else 1.5**sums if design.alpha == "constant" else 1.0
    moved = design.carry or design.end  # what is carried on is a map of its own: the model without what branches add
    if about == "largest":  # tokens may be exchanged: the largest one is what does not grow with the input
        sizes = [_largest(model, f * x) - f * float(x.norm(dim=-1).amax()) for f in INPUTS]
        record.compare(sample, "growth, largest", sizes[1], ALLOWED * max(sizes[0], 1.0), 0.0, NOISE * INPUTS[1] * float(x.norm(dim=-1).amax()))
        return
    small = _beyond(model, x, INPUTS[0]) if moved else _gained(model, x, INPUTS[0], gain)
    if about == "weights":
        _raise(model, MATRICES)
    large = _beyond(model, x, INPUTS[1]) if moved else _gained(model, x, INPUTS[1], gain)
    if torch.isfinite(small) and torch.isfinite(large):
        noise = NOISE * INPUTS[1] * gain * float(x.norm(dim=-1).amax())
        record.compare(sample, f"growth, {about}", float(large), ALLOWED * float(small.clamp(min=1.0)), 0.0, noise)


def _deepen(design: Design, sample: Sample, record: Record) -> None:
    """Gradients of random weights, each depth four times the one before: a power of depth adds the same to their logarithm each time."""
    sizes = [statistics.median(_gradient(replace(design, depth=depth), f"{sample.seed}:{n}") for n in range(SEEDS)) for depth in DEPTHS]
    if all(map(math.isfinite, sizes)):
        early, late = abs(sizes[1] - sizes[0]), abs(sizes[2] - sizes[1])
        record.compare(sample, "gradients over depth", late, STEEPER * max(early, math.log(DEPTHS[2] / DEPTHS[1])) + SPREAD, 0.0, 0.0)


def _gradient(design: Design, seed: str) -> float:
    """Logarithm of ‖∂(u·x_N)/∂x_0‖, u random."""
    torch.manual_seed(random.Random(seed).getrandbits(40))
    x = torch.randn_like(example(design)).requires_grad_(True)
    out = build(design).train()(x)
    (found,) = torch.autograd.grad((out * torch.randn_like(out)).sum(), x)
    size = float(found.norm())
    return math.log(size) if size > 0.0 else -math.inf


def _gained(model: nn.Module, x: Tensor, factor: float, gain: float) -> Tensor:
    """How much more than `gain` times its input a token has at the end, at most."""
    with torch.no_grad():
        return ((model(factor * x).norm(dim=-1)) - gain * factor * x.norm(dim=-1)).amax()


def _largest(model: nn.Module, x: Tensor) -> float:
    """The size of the largest token at the end."""
    with torch.no_grad():
        return float(model(x).norm(dim=-1).amax())


def _beyond(model: nn.Module, x: Tensor, factor: float) -> Tensor:
    """How far a token ends from where it ends when no branch adds anything, at most."""
    with torch.no_grad():
        full = model(factor * x)
        with bare(model):
            return (full - model(factor * x)).norm(dim=-1).amax()


def _raise(model: nn.Module, factor: float) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            if min(weight.shape[-2:], default=1) > 1 < weight.dim():  # no gains, those of weight norm included
                weight *= factor


def _shared(facts: Facts, branches: list[list[Branch]]) -> Iterator[tuple[str, str, str]]:
    """(kind, bounds of a later block's branch, bounds of the first one's)."""
    for stream in facts.streams:
        keys = {(s.add, s.output) for k in stream.kinds for s in k.sublayers}
        mine = next((found for found in branches if keys <= {(b.add, b.output) for b in found}), [])
        layers = sorted((layer, k) for k in stream.kinds for a, b in k.layers for layer in range(a, b + 1))
        place = 0
        first: dict[tuple[str, int], str] = {}
        for _, kind in layers:
            for position, branch in enumerate(mine[place : place + len(kind.sublayers)]):
                bounds = analyse(branch).bounds
                claims = [getattr(bounds, what) for what in ("magnitude", "lipschitz", "bounded")]
                text = "; ".join(c.reason if isinstance(c, Unknown) else str(c) for c in claims)
                yield kind.id, text, first.setdefault((kind.id, position), text)
            place += len(kind.sublayers)
