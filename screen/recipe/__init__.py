"""The training recipe: what a user may state of it, and where it is read from."""

from __future__ import annotations

from screen.recipe.recipe import Recipe, of_cells
from screen.recipe.stated import Stated

__all__ = ["Recipe", "Stated", "of_cells"]
