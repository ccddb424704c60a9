"""A channel as it is judged under a stated recipe."""

from __future__ import annotations

from screen.facts.record import Facts
from screen.recipe import Recipe
from screen.rule import RuleRun
from screen.verdict.state import ChannelState


def under_recipe(channel: ChannelState, facts: Facts, run: RuleRun, recipe: Recipe) -> ChannelState:
    """The channel that structure gives, as it stands under the recipe. Until a rule reads the recipe it stays as it is."""
    return channel


__all__ = ["under_recipe"]
