"""What a verdict is made of, as data: the state of a channel and the conditions it names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from screen.rule import ChannelId
from screen.verdict.conditions import Met

VerdictName = Literal["stable", "conditional", "unknown", "unstable"]
State = Literal["closed", "guarded", "out_of_scope", "conditional", "unknown", "open"]


@dataclass(frozen=True)
class Condition:
    """Something that has to hold for the verdict, and which rules or channels need it."""

    id: str
    text: str
    needed_by: tuple[str, ...] = ()
    recipe: Met = "not_stated"
    stated: str = ""
    """What the recipe states of it, in a sentence; empty where nothing."""


@dataclass(frozen=True)
class ChannelState:
    """One failure channel: closed by structure, guarded by the recipe, open, or why neither."""

    id: ChannelId
    state: State
    reason: str
    codes: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    risk: float | None = None
    """Probability that it fails under the recipe; None without one."""


__all__ = ["ChannelState", "Condition", "State", "VerdictName"]
