"""Other programs' words for the fields of a recipe, in one table: what means the same in the same unit."""

from __future__ import annotations

ALIASES = {
    "learning_rate": "lr",
    "max_lr": "lr",
}
"""Word -> field."""

__all__ = ["ALIASES"]
