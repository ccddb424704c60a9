"""How much a block stretches a change of its input, in block-∞: Emadi, theorem 5.2 (pre) and 5.3 (post), for any order of branches and norms.

    x ← C(α·x + Σ F(x))      at most max|γ_C|/σ_C · (|α| + Σ L_F),    F in parallel, L_F the Lipschitz constant of what is added

with C the identity where the sum is not normed; the factors of a block's sums multiply.
"""

from __future__ import annotations

import math

from screen.facts.queries import is_unit
from screen.facts.record import Facts
from screen.structure.types import Kind, Sublayer, Unknown


def block_stretch(facts: Facts, kind: Kind) -> str | None:
    """The factor of one block, in `L_name` of its sublayers; None where a constant is unknown, or a branch reads more than its stream."""
    if not all(_is_known(facts, sub) for sub in kind.sublayers):
        return None
    return " · ".join(_factor(group) for group in _sums(kind)) or None


def scale_of(kind: Kind) -> float:
    """What the scales of a block's skips carry of the stream: the product of their |α|."""
    return math.prod(_alpha(group) for group in _sums(kind))


def _sums(kind: Kind) -> list[list[Sublayer]]:
    """Its sublayers, those of one sum together."""
    sums: list[list[Sublayer]] = []
    for sub in kind.sublayers:
        if sums and sub.parallel_group is not None and sub.parallel_group == sums[-1][0].parallel_group:
            sums[-1].append(sub)
        else:
            sums.append([sub])
    return sums


def _is_known(facts: Facts, sub: Sublayer) -> bool:
    analysis = facts.analysis(sub)
    plain = sub.alpha.kind in ("none", "constant") and sub.alpha.value is not None and sub.placement != "unknown"
    plain = plain and not (sub.normed_skip or sub.norm_on_skip)
    known = not isinstance(analysis, Unknown) and not isinstance(analysis.bounds.lipschitz, Unknown)
    alone = all(p.name in ("x", "gate") for p in sub.ports)
    return plain and known and alone and all(is_unit(norm) for position, norm in sub.norms if position == "C")


def _alpha(group: list[Sublayer]) -> float:
    return next((abs(s.alpha.value) for s in group if s.alpha.value not in (None, 1.0)), 1.0)


def _factor(group: list[Sublayer]) -> str:
    inside = " + ".join([f"{_alpha(group):.4g}", *(f"L_{s.name}" for s in group)])
    return f"({inside})" + ("·max|γ|/σ" if any("C" in s.positions for s in group) else "")


__all__ = ["block_stretch", "scale_of"]
