"""κ: how far the first step of Adam moves what the head reads, per unit of learning rate (docs/theory/first_update.md).

Adam's first step is δW = −η·sign(G), G = Σ_t g_t x_tᵀ over the T = B·n tokens of a batch. With h the last state, normed to mean square one, and
gradients of h that are independent between tokens,

    κ = lim rms(δh)/η        for η → 0.

Three things that tokens share are kept apart, because steps of different weights add up in each of them: what all tokens of the batch share, what
those of one sequence share beyond that, and the rest. With V_k the part of E G² (per entry and token) that comes from k, ‖δh‖ along the gradient
follows from ⟨δh, g_h⟩ = η·Σ_W ‖G_W‖₁ (what a first-order step takes from the loss), of which weight W has

    c_k = √(2/π)·entries·V_k/√(ΣV)·s_k/d,        s = 1, 1/√B, 1/√T.

What is pushed along a gradient at depth l arrives as J Jᵀ g, J the map from there to h: along g and beside it, ‖J Jᵀ g‖² = M·⟨J Jᵀ g, g⟩²/‖g‖² with M
the normalised second moment of the singular values of J. For a product of free maps M − 1 adds up: 2f(1−f) + (1−f)²·v for an add whose identity
carries the share f of the gradient, v = Σ width/inputs over the maps of the branch. So |Σ_W|² = Σ_kl c_k c_l M_later. The signs of single entries
are noise besides: entries·ΣV/d, added up as far as later layers still read the same x.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from screen.calculi.meanfield import forms
from screen.calculi.meanfield.linear_steps import Begin, Shift, Stretch, Within
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import Add, Forward, Inlet, Stack, added, norm_factor, normed
from screen.calculi.meanfield.tied_weights import attended
from screen.calculi.meanfield.transfer import Attend, Entrywise, Join, Linear, Mix, Normalise, Product, Slots, Step, Sum

SEQUENCES = 16
"""Sequences B of the batch that κ stands for; where tokens are alike across sequences it does not depend on B."""
SIGN = math.sqrt(2 / math.pi)
"""E|z| of a standard Gaussian z."""
ONE = Moments(1.0, 0.0)
"""What a bias is multiplied with."""
NEAR = 0.1
"""Correlation at which the slope of a kernel at zero is taken."""
TINY = 1e-300
LARGEST_POWER = 700.0
"""Of e, within floats."""


@dataclass(frozen=True)
class FirstUpdate:
    """How far one step of Adam moves the last normed state."""

    kappa: float
    """rms(δh)/η for a vanishing rate η."""
    shares: Mapping[str, float]
    """Sublayer -> its share of the moves along the gradient, over all its blocks; they sum to one."""

    @property
    def rate(self) -> float:
        """1/κ, the learning rate at which one step without warm-up replaces the representation."""
        return 1 / self.kappa if self.kappa > 0 else math.inf


@dataclass(frozen=True)
class Head:
    """What the loss of a model of words adds to gradients that are independent between tokens."""

    spread: float = 0.0
    """Standard deviation s of its logits."""
    words: int = 1

    def alike(self, cosine: float, slope: float) -> float:
        """Of E g_t·g_u over E g_t², at a cosine of h_t and h_u."""
        return slope * cosine + min(math.expm1(min(self.spread**2 * cosine, LARGEST_POWER)) / self.words, 1.0)


@dataclass(frozen=True)
class At:
    """What is known at the output of a weight."""

    gradient: Gradient
    across: float
    """Of E g·g', what two sequences share when all tokens of the batch have one gradient at h."""
    excess: float = 0.0
    """What the maps between the weight and the stream add to M."""


@dataclass
class Tally:
    """Sums over weights, the latest first."""

    width: int
    tokens: int
    sequences: int
    loud: tuple[float, float]
    """How many times what the batch, and what a sequence, has in common of a gradient is larger than for independent tokens."""
    moments: tuple[float, float] = (1.0, 1.0)
    """M on the way to h, for what tokens have in common and for the rest."""
    along: list[float] = field(default_factory=lambda: [0.0] * 3)
    later: list[float] = field(default_factory=lambda: [0.0] * 3)
    noise: float = 0.0
    carried: float = 0.0
    shares: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def weight(self, name: str, entries: float, at: At, x: Moments, between: Moments, blow: float = 1.0, kept: bool = True) -> None:
        """Add what one weight moves. `x`, `between`: its input, for two tokens of one sequence and of different ones; `blow`: how many times
        two inputs are more alike by chance than independent features would be; `kept`: whether later layers read the same input."""
        n, g = self.tokens, at.gradient
        common, apart = max(g.power + (n - 1) * g.shared, 0.0), max(g.power - g.shared, 0.0)
        alike = between.power - between.gap
        whole = min(at.across / common, 1.0) if common > 0 else 0.0
        sequence = max(x.power - x.gap * (1 - 1 / n) - alike, 0.0) + alike * (1 - whole)
        plain = (alike * whole * common, sequence * common, x.gap * (1 - 1 / n) * apart)
        loud = plain[0] * self.loud[0], plain[1] * self.loud[1], plain[2]
        if not (entries > 0 and math.fsum(loud) > 0):
            return
        unit = SIGN * entries / (math.sqrt(math.fsum(loud)) * self.width)
        scales = self.loud[0] ** -0.5, (self.sequences * self.loud[1]) ** -0.5, (self.sequences * n) ** -0.5
        for k in range(3):
            moved, m = unit * loud[k] * scales[k], self.moments[k == 2] + at.excess
            self.along[k] += moved * (moved * m + 2 * self.later[k])
            self.later[k] += moved * m
            self.shares[name] += moved
        size = math.sqrt(entries * math.fsum(plain) / self.width * blow)
        self.noise += size * (size + 2 * self.carried * kept)
        self.carried += size * kept

    def norm(self, name: str, at: At, x: Moments, between: Moments) -> None:
        """The gain and the bias of a norm whose output has the moments `x`."""
        self.weight(name, self.width, at, x, between)
        self.weight(name, self.width, at, ONE, ONE)

    def scale(self, name: str, step: Stretch, at: At, x: Moments, between: Moments) -> None:
        """A learned weight of fewer entries than the features that it multiplies: one entry is pulled by all of its features, whose gradients add up
        as if at random, and moves them all alike. What it multiplies comes from maps of its own layer."""
        self.weight(name, math.sqrt(step.entries * step.features), at, x, between, math.sqrt(step.features / step.entries), False)

    def told(self) -> FirstUpdate:
        """κ of all that was added."""
        whole = math.fsum(self.shares.values())
        shares = {name: found / whole for name, found in self.shares.items()} if whole > 0 else {}
        return FirstUpdate(math.sqrt(math.fsum(self.along) + self.noise), shares)


def first_update(
    stack: Stack,
    run: Forward,
    width: int,
    *,
    entry: float = 1.0,
    head: Head | None = None,
    sequences: int = SEQUENCES,
    between: Moments | None = None,
) -> FirstUpdate:
    """κ of a stack. `entry`: mean square of ∂x₀/∂(table entry), x₀ the first state; `head`: through which the loss pulls
    all tokens the same way (softmax(Wh) follows what all h share); without it gradients are independent between tokens; `between`: of the
    first state, see `between_sequences`; without it no position has a share in it."""
    if not run.adds:
        return FirstUpdate(math.sqrt(entry), {})
    slots, sums = every_between(stack, run, in_common(stack.start) if between is None else between)
    end, far = run.states[-1], behind(run.adds[-1], sums[-1])
    tally = Tally(width, stack.tokens, sequences, loudness(end, far, stack, sequences, head or Head(), width))
    factor = 1 / max(end.power, TINY)
    gradient, across = Gradient(1.0, 0.0), 1.0
    if stack.final is not None:
        tally.norm("final norm", At(gradient, across), end.scaled(factor), far.scaled(factor))
    gradient, across = gradient.scaled(factor), factor
    for place in reversed(range(len(run.adds))):
        gradient, across = _through(tally, run, place, slots[place], sums[place], gradient, across)
    tally.noise += gradient.power * entry
    return tally.told()


def loudness(end: Moments, far: Moments, stack: Stack, sequences: int, head: Head, width: int) -> tuple[float, float]:
    """Wᵀ(softmax(W h_t) − e_y) is σ²·h_t and, with V words and no more, something at random, of which tokens have in common
    what their softmaxes have: (e^(s²ρ) − 1)/V. A norm lets nothing pass along h_t: where one makes h_t only the second part goes on."""
    n = stack.tokens
    alike = (far.power - far.gap) / max(far.power, TINY)
    sequence = max((end.power - end.gap * (1 - 1 / n)) / max(end.power, TINY), alike)
    behind_norm = stack.final is not None or stack.blocks[-1][-1].close is not None
    batch, own = (head.alike(part, 0.0 if behind_norm else head.spread**2 / width) for part in (alike, sequence))
    return 1 + n * (sequences * batch + own - batch), 1 + n * (own - batch)


# -- two tokens of different sequences ---------------------------------------------------------------------------------------------------


def between_sequences(program: Program, own: Slots, state: Moments, tokens: int, places: Container[int] = ()) -> Slots:
    """At every slot of a branch (C, C − R, m): C is what tokens at one position of two sequences share, R what others of them do; `own` are the
    moments of one sequence, and what begins with the slots `places` is the same in all."""
    slots = [state, *([Moments(0.0, 0.0)] * (program.size - 1))]
    for slot, moments in program.given:
        slots[slot] = in_common(moments)

    def make(step: Step) -> None:
        slots[step.target] = _crossed(step, own, slots, places)

    if program.tokens:
        forms.forward(program.steps, slots, tokens, own, make)
    else:
        for step in program.steps:
            make(step)
    return slots


def _crossed(step: Step, own: Slots, slots: Slots, places: Container[int]) -> Moments:
    if isinstance(step, Begin):
        return own[step.target] if step.target in places else in_common(own[step.target])
    if isinstance(step, Attend):
        read = ((s, slots[s]) for s in (*_sources(step), *(s for s, _ in step.places)))
        pairs = {s: (np.array([x.power]), np.array([x.power - x.gap])) for s, x in read}
        same, other = (float(found[0]) for found in attended(step, pairs, own, [own]))
        return Moments(same, same - other, own[step.target].mean)
    if isinstance(step, Entrywise | Mix | Normalise | Within):  # they depend on the size of what they read
        same, other = (_shared(step, own, {s: slots[s].power - slots[s].gap * part for s in _sources(step)}) for part in (0.0, 1.0))
        return Moments(same, same - other, own[step.target].mean)
    step.forward(slots)
    return slots[step.target]


def _shared(step: Step, own: Slots, shares: Mapping[int, float]) -> float:
    """What two tokens share of the value that a step makes, from what they share of those that it reads."""
    slots = list(own)
    for slot, share in shares.items():
        slots[slot] = own[slot]._replace(gap=own[slot].power - share)
    step.forward(slots)
    return slots[step.target].power - slots[step.target].gap


def in_common(own: Moments) -> Moments:
    """Of what is no position: two tokens share as much as two of one sequence."""
    return Moments(own.power - own.gap, 0.0, own.mean)


def every_between(stack: Stack, run: Forward, state: Moments) -> tuple[list[list[Slots]], list[Moments]]:
    """Of every add the slots of its branches and its sum before C, with the gap of two tokens of different sequences."""
    found: list[list[Slots]] = []
    sums: list[Moments] = []
    for add, every, own in zip(run.adds, run.slots, run.sums, strict=True):
        slots = [between_sequences(inlet.program, mine, state, stack.tokens) for inlet, mine in zip(add.inlets, every, strict=True)]
        terms = [s[i.program.output].scaled(i.square) for s, i in zip(slots, add.inlets, strict=True)]
        state = added(state.scaled(add.identity), terms)
        found.append([[_apart(*pair, stack.tokens) for pair in zip(mine, other, strict=True)] for mine, other in zip(every, slots, strict=True)])
        sums.append(_apart(own, state, stack.tokens))
        if add.close is not None:
            state = Moments(state.power - own.mean**2 * add.close.centred, state.gap, 0.0 if add.close.centred else own.mean)
            state = state.scaled(norm_factor(add.close, own))
    return found, sums


def behind(add: Add, total: Moments) -> Moments:
    """The state behind an add."""
    return total if add.close is None else normed(add.close, total)


def _apart(own: Moments, between: Moments, tokens: int) -> Moments:
    """The moments of a value with the mean gap of two tokens of different sequences, one in n of which stand at the same position. All sequences
    have no more in common than the tokens of one, each of which is counted among them."""
    alike = min(between.power - between.gap * (1 - 1 / tokens), own.power - own.gap * (1 - 1 / tokens))
    return Moments(own.power, own.power - max(alike, 0.0), own.mean)


def _backward(program: Program, slots: Slots, gradient: float) -> list[float]:
    """At every slot what the gradients of two sequences share, when they share `gradient` at the output. Rows of an attention sum to one: values
    have as much of it as what they make."""
    return [back.shared for back in program.of_values.backward(slots, Gradient(gradient, gradient))]


# -- one add -----------------------------------------------------------------------------------------------------------------------------


def _through(
    tally: Tally, run: Forward, place: int, between: Sequence[Slots], far: Moments, gradient: Gradient, across: float
) -> tuple[Gradient, float]:
    """Add what the weights at one add move; the gradient before it."""
    add = run.adds[place]
    if add.close is not None:
        name = add.inlets[-1].name if add.inlets else "norm"
        tally.norm(name, At(gradient, across), normed(add.close, run.sums[place]), normed(add.close, far))
        factor = norm_factor(add.close, run.sums[place])
        gradient, across = gradient.scaled(factor), across * factor
    kept = back = gradient.scaled(add.identity)
    back_across, excess, identity = across * add.identity, 0.0, add.identity
    for inlet, slots, others in zip(add.inlets, run.slots[place], between, strict=True):
        entering, more, here = through_branch(tally, inlet, slots, others, gradient, across)
        back, back_across, excess = back.plus(entering), back_across + more, max(excess, here)
        if inlet.program.tokens:
            own = forms.identity(inlet.program.steps, slots, inlet.program.output)
            kept, identity = kept.plus(forms.passed(gradient, own, tally.tokens).scaled(inlet.square)), identity + own[1] ** 2 * inlet.square
    tally.moments = moments_before(tally, kept, back, excess)
    tally.carried *= persistence(run, place, identity)
    return back, back_across


def through_branch(tally: Tally, inlet: Inlet, slots: Slots, others: Slots, gradient: Gradient, across: float) -> tuple[Gradient, float, float]:
    """Add what the weights of a branch move; what it gives back to the stream, and what its maps add to M."""
    program = inlet.program
    backs = program.backward(slots, gradient.scaled(inlet.square))
    shared = _backward(program, others, across * inlet.square)
    makers = {step.target: step for step in program.steps}
    excess: dict[int, float] = defaultdict(float)
    for step in reversed(program.steps):
        at = At(backs[step.target], shared[step.target], excess[step.target])
        passed = at.excess
        name = inlet.name_at(getattr(step, "node", -1)) if inlet.names else inlet.name
        if isinstance(step, Linear):
            inputs, at = _inputs(step), replace(at, gradient=at.gradient.scaled(1 / step.experts), across=at.across / step.experts)
            blow = 1 + _linear_share(makers.get(step.source), slots) * inputs / tally.width
            tally.weight(name, step.entries, at, slots[step.source], others[step.source], blow)
            tally.weight(name, step.outputs, at, ONE, ONE)
            passed += tally.width / inputs
        elif isinstance(step, Normalise):
            tally.norm(name, at, slots[step.target], others[step.target])
        elif isinstance(step, Stretch) and step.entries:
            tally.scale(name, step, at, slots[step.source], others[step.source])
        elif isinstance(step, Shift) and step.entries:
            tally.weight(name, step.entries, at, ONE, ONE)
        for source in _sources(step):
            excess[source] = max(excess[source], passed)
    return backs[0], shared[0], excess[0]


def moments_before(tally: Tally, kept: Gradient, back: Gradient, excess: float) -> tuple[float, float]:
    """M before an add, from M behind it."""
    n = tally.tokens
    pairs = (kept.power + (n - 1) * kept.shared, back.power + (n - 1) * back.shared), (kept.power - kept.shared, back.power - back.shared)
    shares = [min(max(one / max(whole, TINY), 0.0), 1.0) for one, whole in pairs]
    common, rest = (m + 2 * f * (1 - f) + (1 - f) ** 2 * excess for m, f in zip(tally.moments, shares, strict=True))
    return common, rest


def persistence(run: Forward, place: int, identity: float) -> float:
    """Share of the state behind an add that is the state before it."""
    read = run.slots[place][0][0].power if run.slots[place] else run.sums[place].power
    return min(identity * read / max(run.sums[place].power, TINY), 1.0)


def _inputs(step: Linear) -> float:
    """Inputs of a weight: σ²·in over σ²·out, times in·out."""
    known = step.forward_gain > 0 and step.backward_gain > 0
    return math.sqrt(step.entries / step.experts * step.forward_gain / step.backward_gain) if known else 1.0


def _linear_share(maker: Step | None, slots: Slots) -> float:
    """Square of the share that the linear part has in what differs between outputs of an activation: its features are as many as those that it
    read, however many there are."""
    if not isinstance(maker, Entrywise) or not slots[maker.source].power > 0:
        return 0.0
    power = slots[maker.source].power
    free, near, equal = (maker.kernel.forward(Moments(power, power * gap)) for gap in (1.0, 1 - NEAR, 0.0))
    base = free.power - free.gap
    return (((near.power - near.gap - base) / NEAR) / (equal.power - base)) ** 2 if equal.power > base else 0.0


def _sources(step: Step) -> tuple[int, ...]:
    """The slots that a step reads."""
    if isinstance(step, Mix):
        return step.logits, *step.values
    if isinstance(step, Attend):
        return step.query, step.key, step.value
    if isinstance(step, Product):
        return step.left, step.right
    return step.sources if isinstance(step, Sum | Join) else (step.source,)


__all__ = [
    "SEQUENCES", "At", "FirstUpdate", "Head", "Tally", "behind", "between_sequences", "every_between", "first_update", "in_common", "loudness",
    "moments_before", "persistence", "through_branch",
]  # fmt: skip
