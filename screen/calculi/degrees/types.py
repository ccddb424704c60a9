"""What the degree calculus says of one branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from screen.structure.types import Unknown

Status = Literal["exact", "asymptotic", "bound"]


@dataclass(frozen=True)
class Degree:
    """The exponent of ‖∂F/∂x‖ when one weight group is multiplied by c, with every bias between it and the next norm to its power."""

    group: str
    """`PARAM` or `PARAM[rows]`."""
    parameters: tuple[str, ...]
    """All parameters of the group: several where experts stand side by side."""
    rows: str | None
    """Of a fused parameter, `first:last` or `first:last of every period`, along `axis`."""
    axis: int
    predicted: float
    status: Status
    """`bound`: the largest exponent of the bound of the value, never a slope (review, item 11)."""
    biases: tuple[tuple[str, float], ...] = ()
    """Biases that are scaled along, each with its power of c."""
    output: float | None = 0.0
    """The exponent of F itself; None where F is not homogeneous in the group."""


@dataclass(frozen=True)
class Orders:
    """m of one branch: total degrees of the monomials of its sensitivity, in all its weights together."""

    degree: int | Unknown
    """The largest, a shared matrix with multiplicity."""
    distinct: int | Unknown
    """The largest with each shared matrix once: E's convention, and the safer one for N^(−1/m)."""
    min_degree: int | Unknown
    """The smallest: which one binds when weights shrink (criterion b)."""
    path: tuple[str, ...]
    """The groups of the largest monomial, in data-flow order."""
    smallest_path: tuple[str, ...]
    """Those of the smallest."""


@dataclass(frozen=True)
class Degrees:
    """All degrees of one branch."""

    groups: tuple[Degree, ...]
    orders: Orders
    unknown: Unknown | None = None
    stream: float | None = None
    """The exponent of F itself in the stream that it reads, at least for a large one; None where it is not homogeneous in it."""


__all__ = ["Degree", "Degrees", "Orders", "Status"]
