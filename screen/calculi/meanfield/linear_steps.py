"""Steps that add, scale and move values: all that keeps a value a linear form of what it was made of (see `forms`), and parts of values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.stop import Stop

REACH = 6.0
"""Standard deviations within which all entries of a Gaussian value lie, but for 2 in 1e9."""

Slots = list[Moments]
Backs = list[Gradient]


def give(backs: Backs, slot: int, gradient: Gradient) -> None:
    backs[slot] = backs[slot].plus(gradient)


@dataclass(frozen=True)
class Sum:
    """Independent values added up."""

    sources: tuple[int, ...]
    target: int

    def forward(self, slots: Slots) -> None:
        terms = [slots[s] for s in self.sources]
        mean = math.fsum(t.mean for t in terms)
        power = math.fsum(t.power - t.mean**2 for t in terms) + mean**2
        slots[self.target] = Moments(power, math.fsum(t.gap for t in terms), mean)

    def backward(self, slots: Slots, backs: Backs) -> None:
        for source in self.sources:
            give(backs, source, backs[self.target])


@dataclass(frozen=True)
class Stretch:
    """a·X."""

    source: int
    target: int
    factor: float
    entries: int = 0
    """Of the learned weight that starts at a; 0 for a number."""
    features: int = 0
    """That it multiplies."""

    def forward(self, slots: Slots) -> None:
        x, square = slots[self.source], self.factor**2
        slots[self.target] = Moments(x.power * square, x.gap * square, x.mean * self.factor)

    def backward(self, slots: Slots, backs: Backs) -> None:
        give(backs, self.source, backs[self.target].scaled(self.factor**2))


@dataclass(frozen=True)
class Begin:
    """Where a value begins: a·X with X independent of everything else."""

    source: int
    target: int
    factor: float
    node: int = -1
    """What it begins with: rows of a table, a float argument."""
    same: float = 0.0
    """Share of the pairs of tokens that begin with one and the same row."""

    def forward(self, slots: Slots) -> None:
        x, square = slots[self.source], self.factor**2
        slots[self.target] = Moments(x.power * square, x.gap * square * (1 - self.same), x.mean * self.factor)

    def backward(self, slots: Slots, backs: Backs) -> None:
        """Nothing stands before it."""


@dataclass(frozen=True)
class Shift:
    """A bias: b², of which `gap` differs between tokens (0 for a bias over features, b² for one per position), and its mean."""

    source: int
    target: int
    square: float
    gap: float
    mean: float = 0.0
    entries: int = 0
    """Of a learned bias that all tokens share; 0 for any other."""

    def forward(self, slots: Slots) -> None:
        x = slots[self.source]
        slots[self.target] = Moments(x.power + self.square + 2 * x.mean * self.mean, x.gap + self.gap, x.mean + self.mean)

    def backward(self, slots: Slots, backs: Backs) -> None:
        give(backs, self.source, backs[self.target])


@dataclass(frozen=True)
class Part:
    """A fraction of the entries of a value; of k copies when the fraction is k > 1."""

    source: int
    target: int
    share: float

    def forward(self, slots: Slots) -> None:
        slots[self.target] = slots[self.source]

    def backward(self, slots: Slots, backs: Backs) -> None:
        give(backs, self.source, backs[self.target].scaled(self.share))


@dataclass(frozen=True)
class Join:
    """Values side by side."""

    sources: tuple[int, ...]
    shares: tuple[float, ...]
    target: int

    def forward(self, slots: Slots) -> None:
        pairs = [(slots[s], w) for s, w in zip(self.sources, self.shares, strict=True)]
        slots[self.target] = Moments(*(math.fsum(x[i] * w for x, w in pairs) for i in range(3)))

    def backward(self, slots: Slots, backs: Backs) -> None:
        for source in self.sources:
            give(backs, source, backs[self.target])


@dataclass(frozen=True)
class Average:
    """The mean over tokens, the same at all of them (see `forms`)."""

    source: int
    target: int
    tokens: int

    def forward(self, slots: Slots) -> None:
        x = slots[self.source]
        slots[self.target] = Moments(x.power - x.gap * (1 - 1 / self.tokens), 0.0, x.mean)

    def backward(self, slots: Slots, backs: Backs) -> None:
        g, n = backs[self.target], self.tokens
        common = (g.power + (n - 1) * g.shared) / n
        give(backs, self.source, Gradient(common, common))


@dataclass(frozen=True)
class Within:
    """A clamp that no entry reaches, or none to speak of."""

    source: int
    target: int
    bound: float
    node: int

    def check(self, power: float) -> None:
        """Raises `Stop` where entries of this mean square get there."""
        if power * REACH**2 > self.bound**2:
            raise Stop("a clamp on the stream is reached", self.node)

    def forward(self, slots: Slots) -> None:
        self.check(slots[self.source].power)
        slots[self.target] = slots[self.source]

    def backward(self, slots: Slots, backs: Backs) -> None:
        give(backs, self.source, backs[self.target])


__all__ = ["Average", "Backs", "Begin", "Join", "Part", "Shift", "Slots", "Stretch", "Sum", "Within", "give"]
