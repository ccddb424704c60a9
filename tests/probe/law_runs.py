"""Designs of `examples/laws` through the product's own probe: stacks, their starts, and what is read off them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from screen.calculi.meanfield import Recursion, recursion_of
from screen.capture.build.build import build
from screen.capture.trace.tracer import run
from screen.facts import derive
from screen.graph.target import parse
from screen.probe.budget.budget import Budget
from screen.probe.depth.fits import mean
from screen.probe.depth.laws import Sample, measure
from screen.probe.depth.starts import of_depths
from screen.probe.measure.leaves import Watch
from screen.probe.measure.replay import Env
from screen.probe.measure.session import Session
from screen.probe.measure.stack import Stack
from screen.probe.plan.from_facts import plan_of
from screen.probe.plan.types import Options
from tests.shared import ROOT

BLOCKS = 6
"""Blocks of a model that a stack is taken from."""
DESIGNS = ROOT / "examples" / "laws" / "designs.py"


@dataclass(frozen=True)
class Size:
    """How large a reproduction is."""

    depths: tuple[int, ...] = (4, 8, 16, 32, 64)
    networks: int = 3
    seed: int = 0


FULL = Size()
SMALL = Size((4, 8, 16, 32), 1)


@dataclass(frozen=True)
class Row:
    """One statement and what was found."""

    design: str
    quantity: str
    asked: str
    found: float
    interval: tuple[float, float] | None
    samples: int
    holds: bool | None
    """None: nothing is asked of it."""


def within(design: str, quantity: str, values: list[float], low: float, high: float, asked: str = "") -> Row:
    """A row whose geometric mean (of one value, the value) is to lie in a range."""
    found = values[0] if len(values) == 1 else mean(values) if min(values) > 0 else sum(values) / len(values)
    words = asked or (f"above {low:.3g}" if math.isinf(high) else f"{low:.3g} … {high:.3g}")
    return Row(design, quantity, words, found, (min(values), max(values)) if len(values) > 1 else None, len(values), low <= found <= high)


@functools.lru_cache(maxsize=64)
def session(name: str, size: Size, **settings: Any) -> tuple[Stack, Session]:
    """One design, built and traced with few blocks, unless a depth is given."""
    with Watch() as watch:
        (built,) = build(parse(f"{DESIGNS}::{name}"), set={"depth": BLOCKS, **settings}, inputs=(), depth=None)
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    given = Session(trace, built, watch, Options(seed=size.seed, device="cpu", seconds=1e9), Budget(1e9, 0, "cpu"))
    return Stack(plan_of(derive(trace.graph)).blocks[0], given.material()), given


def predicted(name: str, size: Size, blocks: int, **settings: Any) -> Recursion:
    """The covariance recursion of so many blocks, with the tokens of the inputs."""
    stack, given = session(name, size, **settings)
    facts = derive(given.trace.graph)
    found = recursion_of(facts.streams[0], facts.graph, blocks, tokens=stack.tokens_of(stack.start(True)[0]).shape[1])
    assert isinstance(found, Recursion), found
    return found


def sample(name: str, size: Size, depths: tuple[int, ...] = (), **settings: Any) -> Sample:
    """Networks of every depth, each started as the model of that depth."""
    with torch.no_grad():
        stack, given = session(name, size, **settings)
        found = of_depths(stack, given, sorted(depths or size.depths))
        return measure(found, {n: s.start(True)[0] for n, s in found.stacks.items()}, size.networks)


@dataclass(frozen=True)
class Layer:
    """One block of one network."""

    stack: Stack
    x: Tensor
    """What arrives."""
    leaves: Env
    values: Env

    @property
    def out(self) -> Tensor:
        """What leaves."""
        return self.values[self.stack.plan.exit]  # type: ignore[no-any-return]

    def weight(self, end: str) -> Tensor:
        """The one weight whose name ends so (the names are those of `examples/laws`)."""
        nodes = self.stack.material.tape.nodes
        (found,) = [v for i, v in self.leaves.items() if nodes[i].meta["label"].endswith(end)]
        return found  # type: ignore[no-any-return]


def layers(name: str, depth: int, size: Size, network: int = 0, **settings: Any) -> Iterator[Layer]:
    """The blocks of one network, first to last, of a design whose start does not depend on the depth."""
    with torch.no_grad():
        stack, _ = session(name, size, **settings)
        x = stack.start(True)[0]
        for number in range(1, depth + 1):
            leaves = stack.drawn(number, network)
            layer = Layer(stack, x, leaves, stack.run(x, leaves))
            yield layer
            x = layer.out


def rms(x: Tensor) -> float:
    """√(mean of squares)."""
    return float(x.square().mean().sqrt())


__all__ = ["FULL", "SMALL", "Layer", "Row", "Size", "layers", "predicted", "rms", "sample", "within"]
