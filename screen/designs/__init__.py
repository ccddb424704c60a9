"""Designs of transformers given in cells, and the ordinary PyTorch models that they describe.

`resolve` completes the cells of one row (those of `design`, `init`, `precision`) without torch; `screen.designs.build` makes the model.
"""

from __future__ import annotations

from screen.designs.cells import resolve
from screen.designs.spec import Design, Init, NotExpressible, Pattern, Residual, Spec, Sublayer
from screen.designs.table import TABLE, row

__all__ = ["Design", "Init", "NotExpressible", "Pattern", "Residual", "Spec", "Sublayer", "TABLE", "resolve", "row"]
