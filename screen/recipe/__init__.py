"""The training recipe: what a user may state of it, and where it is read from."""

from __future__ import annotations

from screen.recipe.recipe import Recipe

__all__ = ["Recipe"]
