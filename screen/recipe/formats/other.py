"""Tables of other programs (argparse, Hydra, DeepSpeed, Lightning, …): words of `screen.recipe.aliases`; other keys are listed as not used."""

from __future__ import annotations

from screen.recipe.document import Document
from screen.recipe.gather import gather
from screen.recipe.stated import Stated, Where

ORDER = 30


def fits(document: Document) -> bool:
    """Any table that no other format knows."""
    return document.table is not None


def read(document: Document) -> Stated:
    """Raises `UsageError`."""
    return gather(document.leaves, Where(document.origin, document.name, line=document.line))


__all__ = ["ORDER", "fits", "read"]
