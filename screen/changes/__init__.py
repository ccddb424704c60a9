"""What a change would bring: the graph is changed as its author would change the program, and screened again. Plain data, no torch."""

from __future__ import annotations

from screen.changes.tried import Tried, tried

__all__ = ["Tried", "tried"]
