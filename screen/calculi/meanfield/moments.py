"""Second moments of a value over a random initialisation: what the recursion carries instead of the value itself.

A value X of shape [tokens, width] has over random weights, for two different tokens i, j and any entry a,

    power  q = E X_ia²        gap  δ = q − E X_ia·X_ja        mean  m = E X_ia

so that the cosine between two tokens is c = 1 − δ/q. The gap is kept in place of c because rank collapse takes it to 1e-12 and below,
where 1 − c would be rounding error. Tokens are taken as exchangeable: every pair has the same gap.

A gradient G = ∂L/∂X has `power` E G_ia² and `shared` E G_ia·G_ja, both per entry.
"""

from __future__ import annotations

from typing import NamedTuple


class Moments(NamedTuple):
    """(q, δ, m) of one value, per entry."""

    power: float
    gap: float
    mean: float = 0.0

    @property
    def cosine(self) -> float:
        """c = 1 − δ/q; 1 for a value that is zero."""
        return 1.0 - self.gap / self.power if self.power > 0 else 1.0

    def scaled(self, square: float) -> Moments:
        """The moments of a·X, with a² = `square` and no sign."""
        return Moments(self.power * square, self.gap * square, self.mean * square**0.5)


class Gradient(NamedTuple):
    """(E G_ia², E G_ia·G_ja) of one gradient, per entry."""

    power: float
    shared: float

    def scaled(self, square: float) -> Gradient:
        """The moments of a·G, with a² = `square`."""
        return Gradient(self.power * square, self.shared * square)

    def plus(self, other: Gradient) -> Gradient:
        """Of the sum of two gradients that came through independent weights."""
        return Gradient(self.power + other.power, self.shared + other.shared)


NO_GRADIENT = Gradient(0.0, 0.0)

__all__ = ["NO_GRADIENT", "Gradient", "Moments"]
