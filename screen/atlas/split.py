"""Which runs a fit may see. The rule looks at the cell alone and was fixed before anything was trained."""

from __future__ import annotations

from typing import Literal

from screen.atlas.cell import Cell

Part = Literal["fit", "unseen"]
UNSEEN_DESIGNS = frozenset(
    {"sub-ln", "sub-ln+qk", "residual", "residual+qk", "pre-post+qk", "parallel", "layerscale+qk", "peri", "mix-ln+qk", "deepnorm+qk"}
)
"""Whole designs that no fit sees, with every seed."""
FIT_SEED = 0
"""Of the other designs a fit sees this seed; every other seed belongs to the unseen part."""


def part(cell: Cell) -> Part:
    """The part that a cell belongs to."""
    return "fit" if cell.design not in UNSEEN_DESIGNS and cell.seed == FIT_SEED else "unseen"


__all__ = ["FIT_SEED", "Part", "UNSEEN_DESIGNS", "part"]
