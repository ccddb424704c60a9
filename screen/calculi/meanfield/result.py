"""What the recursion says of a stream, and how it is read off one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Literal

from screen.calculi.meanfield import causal_gradients, tied_weights
from screen.calculi.meanfield.causal import State, is_causal, last_one_minus_cos, states_of
from screen.calculi.meanfield.causal_gradients import Start as Pass
from screen.calculi.meanfield.far import Far, far, with_more
from screen.calculi.meanfield.first_update import FirstUpdate
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.propagate import Backward, Block, Forward, Stack, backward, forward, value_gains
from screen.calculi.meanfield.start import Start
from screen.calculi.meanfield.transfer import Attend, Fourier
from screen.structure.types import Unknown

CUTS = (16, 8, 4, 2, 1)
"""Depths N/16 … N at which exponents are fitted."""
STEEP = 1.0
"""A gradient ratio that grows faster than depth to this power, and better as an exponential than as a power, is called exponential."""
FEWEST, REPEATED = 8, 24
"""Blocks below which no law of depth is told; of fewer ones that repeat it is that of their like, so many."""

FIRST = "gradients count tokens as exchangeable under a causal mask, so that an exponential ratio is too large"
EXCHANGEABLE = "tokens count as exchangeable under a causal mask, so that 1 - cos may be a third off, and below 0.02 is too small"
WINDOWS = "attention is within windows: the tokens told of are those of one window, which is taken to hold the same ones in every block"

COPIED = Unknown("its blocks start as copies of one another, so that their gradients are not independent")
DEPENDENT = Unknown("the same weights serve at several depths, so that gradients of layers are not independent")
MIRRORED = Unknown("gradients through a Fourier mixing depend on what a state has in common with its mirror image")
NOT_COMPUTED = Unknown("it was not computed")
Law = Literal["polynomial", "exponential"]
Positions = Callable[[], Sequence[State]]
"""Makes the states of a stack position by position, at the first call."""


@dataclass(frozen=True)
class Recursion:
    """The stream at its recorded initialisation. All numbers are means over random weights; none is a bound of one model."""

    depth: int
    rms: tuple[float, ...]
    """√(E‖x_l‖²/d) after block 1 … depth (inf from where it leaves the range of floats)."""
    rms_exponent: float | Unknown
    """Slope of log rms against log depth between N/16 and N."""
    cosine: float | Unknown
    """Mean cosine between two tokens after the last block."""
    one_minus_cos: float | Unknown
    gradient_ratio: float | Unknown
    """First over last block: √(Σ‖∂L/∂W‖²) over all weights and biases of a block, the squares in the mean over random weights."""
    ratio_law: Law | Unknown
    ratio_exponent: float | Unknown
    """Slope of log gradient ratio against log depth between N/4 and N."""
    predicted_ratio: float
    """rms_N/rms_1 (review, T3)."""
    last_gradient_exponent: float | Unknown
    """Slope of the gradient of the weight nearest to the last block's output against log depth, at the recorded initialisation."""
    deepnorm_number: float | Unknown
    """Σ over residual branches (v²+w²)/α²: 2N(v²+w²)/α² where they are alike."""
    gains: Mapping[str, tuple[float, ...]]
    """Sublayer -> σ²·√(in·out) of its weights along the value path, output last."""
    assumptions: tuple[str, ...]
    tokens: int = 0
    """How many tokens of a sequence it stands for."""
    tied: bool = False
    """Whether weights serve at several depths."""
    copies: bool = False
    """Whether blocks have weights of their own, which start as copies of one another."""
    of_one: bool = False
    """Whether all blocks are those of one, by either."""
    ratio_without_logits: float | Unknown = NOT_COMPUTED
    """`gradient_ratio` with no gradient through the logits: what is left of T3 for branches of any degree. `gradient_ratio` well above it is
    the mark of channel L."""

    ratio_as_read: float | Unknown | None = None
    """`gradient_ratio` for what the output reads of the stream's end (`readout`); None where that is each token by itself."""
    rms_read: float = math.inf
    """Geometric mean of the rms of the states that the blocks start from; inf where one leaves the range of floats."""
    last_weight_ratio: float | Unknown = NOT_COMPUTED
    """As `gradient_ratio`, of one weight alone, the one nearest to the output of a block's last branch: T3's, and what a probe measures."""
    logits: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Sublayer -> block -> √(E u²) of its attention logits, before any mask or bias of positions; of several the largest."""
    words: Start | Unknown = NOT_COMPUTED
    """The loss at the start of a model of words."""
    last_weight_without_logits: float | Unknown = NOT_COMPUTED
    """The same with no gradient through the logits."""
    far: Far | Unknown = NOT_COMPUTED
    """What a block does to gradients where its like are repeated."""
    first_update: FirstUpdate | Unknown = NOT_COMPUTED
    """κ, how far Adam's first step moves the last normed state."""

    @property
    def ratio_of_output(self) -> float | Unknown:
        """The gradient ratio for a function of the output."""
        return self.gradient_ratio if self.ratio_as_read is None else self.ratio_as_read

    @property
    def logit_rms(self) -> dict[str, tuple[float, float]]:
        """The first and the last of every sublayer's `logits`."""
        return {name: (sizes[min(sizes)], sizes[max(sizes)]) for name, sizes in self.logits.items()}

    def logits_in(self, sublayer: str, layers: Sequence[tuple[int, int]]) -> tuple[float, float] | None:
        """√(E u²) of a sublayer in the first and the last of some blocks."""
        found = [size for block, size in sorted(self.logits.get(sublayer, {}).items()) if any(first <= block <= last for first, last in layers)]
        return (found[0], found[-1]) if found else self.logit_rms.get(sublayer)

    def without_gradients(self, why: Unknown) -> Recursion:
        """The same with nothing told of gradients."""
        unknown: dict[str, Any] = dict.fromkeys((*GRADIENTS, "first_update"), why)
        return replace(self, **unknown)


@dataclass(frozen=True)
class Ends:
    """What is told of the first block beside the last one, as in `Recursion`."""

    gradient_ratio: float | Unknown
    predicted_ratio: float
    one_minus_cos: float | Unknown


GRADIENTS = (
    "gradient_ratio",
    "ratio_without_logits",
    "ratio_law",
    "ratio_exponent",
    "last_gradient_exponent",
    "last_weight_ratio",
    "last_weight_without_logits",
    "far",
)


def _geometric(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if min(values) > 0 else 0.0


def read(stack: Stack, gains: Mapping[str, tuple[float, ...]], assumptions: tuple[str, ...], run: Forward | None = None) -> Recursion:
    """Run the recursion, unless `run` is what it came to, and read it off."""
    run, depth = run or _forward(stack), len(stack.blocks)
    rms = _rms(stack, run)
    blame, mute = _blame(rms[-1]), silent(stack, run)
    positions = cache(partial(states_of, stack))
    last = run.states[-1]
    apart, more = (blame, ()) if blame is not None else _apart(stack, last, positions)
    if mute is None and is_causal(stack) and not causal_gradients.is_read(stack):
        more = (*more, FIRST)
    whole = math.isfinite(rms[-1]) and min(rms) > 0
    sizes, logits = [(n, rms[n - 1]) for n in _cuts(depth)], _logits(run)
    return Recursion(
        depth=depth,
        rms=tuple(rms),
        rms_exponent=_slope(sizes, depth) if whole else Unknown("the stream is zero, or leaves the range of floats"),
        cosine=apart if isinstance(apart, Unknown) else 1.0 - apart,
        one_minus_cos=apart,
        predicted_ratio=_grown(rms),
        rms_read=_geometric([math.sqrt(stack.start.power), *rms[:-1]]),
        deepnorm_number=_deepnorm(stack),
        gains=MappingProxyType(dict(gains)),
        assumptions=(*assumptions, *more),
        tokens=stack.tokens,
        tied=bool(stack.tied) and not stack.copies,
        copies=stack.copies,
        of_one=len(set(stack.tied)) == 1,
        logits=MappingProxyType(logits),
        **(_gradients(stack, run, depth, positions) if mute is None else dict.fromkeys(GRADIENTS, mute)),
    )


def ends(stack: Stack) -> Ends:
    """The same numbers as `read` gives, and no others: one pass back, no logits and no laws of depth."""
    run, positions = _forward(stack), cache(partial(states_of, stack))
    rms = _rms(stack, run)
    blame, mute = _blame(rms[-1]), silent(stack, run)
    apart = blame if blame is not None else _apart(stack, run.states[-1], positions)[0]
    return Ends(_ratio(stack, run, positions) if mute is None else mute, _grown(rms), apart)


def _forward(stack: Stack) -> Forward:
    return tied_weights.forward(stack) if stack.tied else forward(stack)


def _rms(stack: Stack, run: Forward) -> list[float]:
    """Of the state after each block; inf from where it leaves the range of floats."""
    found = [math.sqrt(s.power) for s in run.states]
    return found + [math.inf] * (len(stack.blocks) - len(found))


def _grown(rms: Sequence[float]) -> float:
    return rms[-1] / rms[0] if rms[0] > 0 else math.inf


def _ratio(stack: Stack, run: Forward, positions: Positions) -> float | Unknown:
    """The gradient of the first block over that of the last one, by one pass."""
    depth = len(stack.blocks)
    if is_causal(stack) and causal_gradients.is_read(stack):
        [back] = causal_gradients.backward(stack, (Pass(depth),), positions())
        return ratio_of(back)
    return ratio_of(backward(stack, run, depth))


def _logits(run: Forward) -> dict[str, dict[int, float]]:
    """√(E u²) of every sublayer with attention, in each block that has it."""
    found: dict[str, dict[int, float]] = {}
    start = 0
    for block, end in enumerate(run.ends):
        for add, every in zip(run.adds[start:end], run.slots[start:end], strict=True):
            for inlet, slots in zip(add.inlets, every, strict=True):
                for step in inlet.program.steps:
                    if isinstance(step, Attend):
                        here = found.setdefault(inlet.name_at(step.node), {})
                        here[block] = max(here.get(block, 0.0), step.logit_rms(slots))
        start = end
    return found


def _apart(stack: Stack, last: Moments, positions: Positions) -> tuple[float | Unknown, tuple[str, ...]]:
    """1 − cos after the last block; under a causal mask position by position, and what is assumed if that fails. Of tokens in windows nothing is told
    of those that do not meet: the recursion stands for one window."""
    apart = last.gap / last.power
    attentions = [s for b in {id(b): b for b in stack.blocks}.values() for a in b for i in a.inlets for s in i.program.steps if isinstance(s, Attend)]
    if (within := next((s for s in attentions if s.window), None)) is not None:
        return Unknown("attention is within windows, and tokens of different windows do not meet in it", (within.node,)), (WINDOWS,)
    if not is_causal(stack):
        return apart, ()
    if any(i.program.tokens for b in stack.blocks for a in b for i in a.inlets):
        return apart, (EXCHANGEABLE,)
    found = None if stack.tied else last_one_minus_cos(stack, positions)
    return (apart, (EXCHANGEABLE,)) if found is None else (found, ())


def _gradients(stack: Stack, run: Forward, depth: int, positions: Positions) -> dict[str, Any]:
    """The three facts about gradients, from one forward pass: a stack of n blocks is the beginning of a longer one."""
    depths = sorted({depth, *(depth // c for c in (2, 4) if depth // c)})
    ends = [(n, math.sqrt(backward(stack, run, n, n - 1).lasts[-1])) for n in _cuts(depth)]
    if is_causal(stack) and causal_gradients.is_read(stack):
        *each, still = causal_gradients.backward(stack, (*map(Pass, depths), Pass(depth, silent=True)), positions())
    else:
        silent = {id(add): add.silenced() for add in {id(a): a for a in run.adds}.values()}
        quiet = replace(run, adds=tuple(silent[id(add)] for add in run.adds))
        each, still = [backward(stack, run, n) for n in depths], backward(stack, quiet, depth)
    backs = dict(zip(depths, each, strict=True))
    whole = backs[depth]
    few = _longer(stack) if depth < FEWEST else None
    law, settled = few or (_law(backs, depth), _far(stack, run))
    found = ratio_of(whole), ratio_of(still), *law, _slope(ends, depth), _root(whole.lasts), _root(still.lasts), settled
    return dict(zip(GRADIENTS, found, strict=True))


def _far(stack: Stack, run: Forward) -> Far | Unknown:
    few = Unknown(f"{len(stack.blocks)} blocks are too few for a law of depth")
    return few if len(stack.blocks) < FEWEST else far(stack, run) or Unknown("its blocks do not repeat, or what they do leaves the range of floats")


def _longer(stack: Stack) -> tuple[tuple[Law | Unknown, float | Unknown], Far | Unknown] | None:
    """The law of few blocks that repeat, by more of them; None where they do not, or leave the range of floats then."""
    repeated = with_more(stack, REPEATED)
    if repeated is None:
        return None
    run = forward(repeated)
    if not 0 < run.states[-1].power < math.inf or silent(repeated, run) is not None:
        return None
    found = _gradients(repeated, run, len(repeated.blocks), cache(partial(states_of, repeated)))
    return (found["ratio_law"], found["ratio_exponent"]), found["far"]


def silent(stack: Stack, run: Forward) -> Unknown | None:
    """Why nothing can be told of gradients, if so."""
    blame = _blame(math.sqrt(run.states[-1].power) if len(run.states) == len(stack.blocks) else math.inf)
    if blame is not None:
        return blame
    steps = [s for b in {id(b): b for b in stack.blocks}.values() for a in b for i in a.inlets for s in i.program.steps]
    if stack.tied:
        return COPIED if stack.copies else DEPENDENT
    return MIRRORED if any(isinstance(s, Fourier) for s in steps) else None


def _blame(end: float) -> Unknown | None:
    """Why nothing but the size of the stream can be told, if so."""
    if not math.isfinite(end):
        return Unknown("the stream leaves the range of floats")
    if end == 0:
        return Unknown("the stream is zero")
    return None


def ratio_of(back: Backward) -> float | Unknown:
    return _root(back.weights)


def _root(squares: Sequence[float]) -> float | Unknown:
    first, last = squares[0], squares[-1]
    if not (first > 0 and last > 0 and math.isfinite(first / last)):
        return Unknown("the gradient of the first or the last block is zero at initialisation")
    return math.sqrt(first / last)


def _cuts(depth: int) -> list[int]:
    return sorted({depth // c for c in CUTS if depth // c >= 1})


def _slope(values: Sequence[tuple[int, float]], depth: int) -> float | Unknown:
    """Least-squares slope of log value against log depth."""
    if depth < FEWEST:
        return Unknown(f"{depth} blocks are too few for a law of depth")
    if any(v <= 0 for _, v in values):
        return Unknown("the gradient of a last block is zero at initialisation")
    return _fit([(math.log(n), math.log(v)) for n, v in values])[0]


def _fit(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Slope, and the sum of squares that it leaves."""
    x0, y0 = (math.fsum(p[i] for p in pairs) / len(pairs) for i in (0, 1))
    spread = math.fsum((x - x0) ** 2 for x, _ in pairs)
    slope = math.fsum((x - x0) * (y - y0) for x, y in pairs) / spread
    return slope, math.fsum((y - y0 - slope * (x - x0)) ** 2 for x, y in pairs)


def _law(backs: Mapping[int, Backward], depth: int) -> tuple[Law, float] | tuple[Unknown, Unknown]:
    """Power law or exponential in depth, by which of the two fits log ratio better (and STEEP); and the exponent of the power."""
    if depth < FEWEST:
        return (few := Unknown(f"{depth} blocks are too few for a law of depth")), few
    found: list[tuple[int, float]] = []
    for n, back in backs.items():
        ratio = ratio_of(back)
        if isinstance(ratio, Unknown):
            return ratio, ratio
        found.append((n, math.log(ratio)))
    power, left = _fit([(math.log(n), r) for n, r in found])
    _, other = _fit([(float(n), r) for n, r in found])
    return ("exponential" if abs(power) > STEEP and other < left else "polynomial"), power


def _deepnorm(stack: Stack) -> float | Unknown:
    total = 0.0
    memory: dict[int, float | None] = {}  # equal blocks are one object
    for block in stack.blocks:
        if id(block) not in memory:
            memory[id(block)] = _block_number(block)
        number = memory[id(block)]
        if number is None:
            return Unknown("a branch has fewer than two weights on its value path, or α is zero")
        total += number
    return total


def _block_number(block: Block) -> float | None:
    total = 0.0
    for add in block:
        for inlet in add.inlets:
            gains = value_gains(inlet.program)
            if len(gains) < 2 or add.identity <= 0:
                return None
            total += (gains[-1] + gains[-2]) * inlet.square / add.identity
    return total


__all__ = ["Ends", "Law", "Recursion", "ends", "ratio_of", "read", "silent"]
