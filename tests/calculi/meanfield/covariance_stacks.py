"""Designs as hand-made stacks of the recursion, and the random networks beside them."""

from __future__ import annotations

import math
import statistics

from screen.calculi.meanfield.activation_kernels import kernel
from screen.calculi.meanfield.attention import Softmax
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import Add, Inlet, Stack
from screen.calculi.meanfield.result import Recursion, read
from screen.calculi.meanfield.transfer import Attend, Entrywise, Linear, Normalise, Product, Step
from screen.structure.types import Unknown
from tests.calculi.meanfield.simulation import Design, Sample, simulate

TOKENS = 32
NORM = Normalise(0, 0, True, 1e-5, 1.0)




class Draft:
    """Steps with slots that count themselves."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.size = 1

    def slot(self) -> int:
        self.size += 1
        return self.size - 1

    def norm(self, source: int) -> int:
        self.steps.append(Normalise(source, slot := self.slot(), True, 1e-5, 1.0))
        return slot

    def linear(self, source: int, gain: float, ratio: float = 1.0, entries: float = 1.0) -> int:
        """`entries`: of the weight, in units of width²."""
        self.steps.append(Linear(source, slot := self.slot(), gain, gain * ratio, 0.0, (), int(entries * 64)))
        return slot

    def program(self, output: int) -> Program:
        return Program(tuple(self.steps), self.size, output)


def _attention(design: Design, width: int, heads: int, tokens: int) -> Program:
    draft = Draft()
    x = draft.norm(0) if design.a else 0
    q, k, v = draft.linear(x, design.qk), draft.linear(x, design.qk), draft.linear(x, design.v)
    if design.qk_norm:
        q, k = draft.norm(q), draft.norm(k)
    scale = 0.0 if design.uniform else (width // heads) ** -0.5
    draft.steps.append(Attend(q, k, v, o := draft.slot(), Softmax(width // heads, scale, design.causal, tokens, heads), 0))
    out = draft.linear(o, design.o)
    return draft.program(draft.norm(out) if design.b else out)


def _feed(design: Design) -> Program:
    draft, ratio = Draft(), float(design.ratio)
    x = draft.norm(0) if design.a else 0
    draft.steps.append(Entrywise(draft.linear(x, design.w1, ratio, ratio), hidden := draft.slot(), kernel(design.act)))
    if design.gated:
        draft.steps.append(Product(hidden, draft.linear(x, design.w1, ratio, ratio), both := draft.slot()))
        hidden = both
    out = draft.linear(hidden, design.w2, 1 / ratio, ratio)
    return draft.program(draft.norm(out) if design.b else out)


def stack_of(design: Design, depth: int, *, width: int = 128, tokens: int = TOKENS, heads: int = 4) -> Stack:
    close = NORM if design.c else None
    adds = [Add((Inlet("attention", _attention(design, width, heads, tokens)),), design.alpha**2, close)] if design.attention else []
    adds += [Add((Inlet("ffn", _feed(design)),), design.alpha**2, close)] if design.feed else []
    return Stack(Moments(1.0, 1.0), (tuple(adds),) * depth, NORM if design.final else None, (0,) * depth if design.tied else (), tokens)


def predicted(design: Design, depth: int, **sizes: int) -> Recursion:
    return read(stack_of(design, depth, **sizes), {}, ())


def sampled(design: Design, depth: int, seeds: int = 2, *, width: int = 128, tokens: int = TOKENS) -> list[Sample]:
    return [simulate(design, depth, seed=seed, width=width, tokens=tokens) for seed in range(seeds)]


def number(value: float | Unknown | str) -> float:
    assert isinstance(value, float), value
    return value


def geometric(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def deepnorm(depth: int) -> Design:
    beta = (8 * depth) ** -0.5
    return Design(c=True, alpha=(2 * depth) ** 0.25, v=beta, o=beta, w1=beta, w2=beta)


SMALL = {"v": 0.554**2, "o": 0.554**2, "w1": 0.554**2, "w2": 0.554**2, "qk": 0.554**2}
DESIGNS = {
    "pre": (Design(a=True), 24),
    "pre relu": (Design(a=True, act="relu"), 24),
    "pre silu": (Design(a=True, act="silu"), 24),
    "pre tanh": (Design(a=True, act="tanh"), 24),
    "pre gated": (Design(a=True, act="silu", gated=True), 24),
    "pre causal": (Design(a=True, causal=True), 24),
    "peri": (Design(a=True, b=True), 24),
    "peri gated": (Design(a=True, b=True, act="silu", gated=True), 24),
    "B and QK": (Design(b=True, qk_norm=True), 24),
    "B, small Q and K": (Design(b=True, qk=0.0625), 24),
    "post": (Design(c=True), 6),
    "post relu": (Design(c=True, act="relu"), 6),
    "post at 0.554": (Design(c=True, **SMALL), 24),  # type: ignore[arg-type]
    "A and C": (Design(a=True, c=True), 6),
    "DeepNorm": (deepnorm(24), 24),
    "GPT-2 init": (Design(a=True, o=1 / 48, w2=1 / 48), 24),
}
