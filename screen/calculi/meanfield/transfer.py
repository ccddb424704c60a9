"""One step of a branch at initialisation: how it carries moments forward and gradients back. A branch is a list of them (`program`).

A step reads and writes numbered slots. Formulas (q, δ, m as in `moments`; primes are the results; weights have independent entries of
mean zero and variance σ²):

    Linear     q' = σ²·in·q + b², δ' = σ²·in·δ, m' = 0            g = σ²·out·g'
    Normalise  centred: q₀ = q − m², δ' = γ²δ/(q₀+ε), m' = 0      g = γ²g'/(q₀+ε)   (the projection, one direction of many, is left out)
    Entrywise  the kernel of φ                                    see `activation_kernels`
    Product    q' = q₁q₂, r' = r₁r₂, m' = m₁m₂                    g₁ = q₂·g', ḡ₁ = r₂·ḡ'
    Sum        q' = Σq + 2Σm_a m_b, δ' = Σδ (independent terms)   g' to each
    Stretch    q' = a²q                                           g = a²g'
    Shift      q' = q + b² + 2m·m_b, δ' = δ + δ_b                 g'
    Average    q' = q − δ(1 − 1/n), δ' = 0                        g' + (n−1)ḡ' over n, to all tokens
    Within     as its source                                      g'
    Part       as its whole                                       the whole receives g' on that fraction of its entries
    Copies     as its source                                      k·g', the copies' readers being independent
    Join       mean over its parts, by their shares               each part receives g'
    Attend     see `attention`; Mix: see `experts`; Fourier: see `lower.fourier`
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from screen.calculi.meanfield.activation_kernels import Kernel
from screen.calculi.meanfield.attention import Softmax
from screen.calculi.meanfield.experts import Routing
from screen.calculi.meanfield.linear_steps import REACH, Average, Backs, Begin, Join, Part, Shift, Slots, Stretch, Sum, Within, give
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.stop import Stop


@dataclass(frozen=True)
class Linear:
    """A weight with independent entries, and a bias."""

    source: int
    target: int
    forward_gain: float
    """σ²·in."""
    backward_gain: float
    """σ²·out."""
    bias: float
    """b², mean square of the bias's entries."""
    weights: tuple[str, ...]
    entries: int = 1
    """Of the weight."""
    outputs: int = 0
    """Entries of the bias; 0 without one."""
    inputs: int = 0
    """Features that it reads; 0 where that is not noted."""
    experts: int = 1
    """Of how many experts it holds a matrix each, side by side: what comes back to their sum is shared among them."""

    def forward(self, slots: Slots) -> None:
        x = slots[self.source]
        slots[self.target] = Moments(self.forward_gain * x.power + self.bias, self.forward_gain * x.gap)

    def backward(self, slots: Slots, backs: Backs) -> None:
        give(backs, self.source, backs[self.target].scaled(self.backward_gain))


@dataclass(frozen=True)
class Normalise:
    """A norm over the features with gain γ; or over so many features and tokens. A mean over all tokens (BatchNorm) takes away what they share."""

    source: int
    target: int
    centred: bool
    eps: float
    gain: float
    """γ², divided by the width for a norm to length one."""
    features: float = math.inf
    tokens: float = 1.0
    """What one statistic runs over; of infinitely many features a mean takes away that of all entries."""

    def size(self, x: Moments) -> float:
        """What is divided by, squared, but for ε."""
        return x.power - x.mean**2 - self._of_mean(x.power - x.mean**2, x.gap) if self.centred else x.power

    def factor(self, slots: Slots) -> float:
        """γ²/(size + ε)."""
        size = self.size(slots[self.source])
        return self.gain / (size + self.eps) if size + self.eps > 0 else 0.0

    def forward(self, slots: Slots) -> None:
        x, factor = slots[self.source], self.factor(slots)
        slots[self.target] = Moments(self.size(x) * factor, x.gap * factor, 0.0 if self.centred else x.mean * math.sqrt(factor))

    def backward(self, slots: Slots, backs: Backs) -> None:
        g = backs[self.target]
        taken = self._of_mean(g.power, g.power - g.shared) if self.centred else 0.0
        give(backs, self.source, Gradient(g.power - taken, g.shared - taken).scaled(self.factor(slots)))

    def _of_mean(self, power: float, gap: float) -> float:
        """The square of a mean over independent features and exchangeable tokens: what tokens share does not average out over them."""
        return (power - gap + gap / self.tokens) / self.features


@dataclass(frozen=True)
class Entrywise:
    """φ on a Gaussian value."""

    source: int
    target: int
    kernel: Kernel

    def forward(self, slots: Slots) -> None:
        slots[self.target] = self.kernel.forward(slots[self.source])

    def backward(self, slots: Slots, backs: Backs) -> None:
        give(backs, self.source, self.kernel.backward(slots[self.source], backs[self.target]))


@dataclass(frozen=True)
class Product:
    """Two independent values, entry by entry."""

    left: int
    right: int
    target: int
    repeats: tuple[float, float] = (1.0, 1.0)
    """How often an entry of each counts: a gate of one entry per token counts for every feature."""

    def forward(self, slots: Slots) -> None:
        a, b = slots[self.left], slots[self.right]
        gap = a.gap * b.power + a.power * b.gap - a.gap * b.gap
        slots[self.target] = Moments(a.power * b.power, gap, a.mean * b.mean)

    def backward(self, slots: Slots, backs: Backs) -> None:
        g = backs[self.target]
        for one, other, times in (self.left, slots[self.right], self.repeats[0]), (self.right, slots[self.left], self.repeats[1]):
            give(backs, one, Gradient(g.power * other.power, g.shared * (other.power - other.gap)).scaled(times))


@dataclass(frozen=True)
class Attend:
    """Softmax attention of three values."""

    query: int
    key: int
    value: int
    target: int
    core: Softmax
    node: int
    """The op of the graph that weighs the values."""
    places: tuple[tuple[int, float], ...] = ()
    """Queries of relative positions, each with τ²·d_h·δ of the rows that it meets."""
    window: int = 0
    """How many tokens of a sample one of its windows holds, each with keys of its own; 0 where all tokens have the same keys."""

    def variance(self, slots: Mapping[int, Moments] | Slots) -> float:
        """What relative positions add to the variance of the logits."""
        return math.fsum(slots[query].power * square for query, square in self.places)

    def logit_rms(self, slots: Slots) -> float:
        """√(E u²) of the logits, what all keys have in common included."""
        square = self.core.scale**2 * self.core.width * slots[self.query].power * slots[self.key].power
        return self.core.capped(math.sqrt(square + self.variance(slots)))

    def forward(self, slots: Slots) -> None:
        if math.isfinite(self.core.within) and self.logit_rms(slots) * REACH > self.core.within:
            raise Stop("a clamp on attention logits is reached", self.node)
        slots[self.target] = self.core.forward(slots[self.query], slots[self.key], slots[self.value], self.variance(slots))

    def backward(self, slots: Slots, backs: Backs) -> None:
        three, places, g = (slots[self.query], slots[self.key], slots[self.value]), self.variance(slots), backs[self.target]
        for slot, gradient in zip((self.query, self.key, self.value), self.core.backward(*three, g, places), strict=True):
            give(backs, slot, gradient)
        for slot, square in self.places:
            give(backs, slot, Gradient(square * self.core.steepness(*three, places) * g.power, 0.0))


@dataclass(frozen=True)
class Mix:
    """Σ_e g_e f_e: outputs of experts, weighted by what a routing makes of its logits."""

    logits: int
    values: tuple[int, ...]
    """Outputs of all experts: in one value, or each in its own."""
    target: int
    core: Routing

    def _mean(self, slots: Slots) -> Moments:
        found = [slots[v] for v in self.values]
        return Moments(*(math.fsum(x[i] for x in found) / len(found) for i in range(2)))

    def forward(self, slots: Slots) -> None:
        slots[self.target] = self.core.forward(slots[self.logits], self._mean(slots))

    def backward(self, slots: Slots, backs: Backs) -> None:
        to_logits, to_value = self.core.backward(slots[self.logits], self._mean(slots), backs[self.target])
        give(backs, self.logits, to_logits)
        for value in self.values:
            give(backs, value, to_value.scaled(1 / len(self.values)))


@dataclass(frozen=True)
class Fourier:
    """Re F x over tokens and features: the differences between tokens, spread over all; forward only (see `lower.fourier`)."""

    source: int
    target: int
    size: float
    """n·d/2."""

    def forward(self, slots: Slots) -> None:
        gap = slots[self.source].gap * self.size
        slots[self.target] = Moments(gap, gap)

    def backward(self, slots: Slots, backs: Backs) -> None:
        raise NotImplementedError("gradients through a Fourier mixing are not told")


Step = Fourier | Linear | Normalise | Entrywise | Product | Sum | Stretch | Shift | Part | Join | Attend | Mix | Average | Within | Begin

__all__ = [
    "Attend", "Average", "Backs", "Begin", "Entrywise", "Fourier", "Join", "Linear", "Mix", "Normalise", "Part", "Product", "Shift", "Slots", "Step",
    "Stretch", "Sum", "Within",
]  # fmt: skip
