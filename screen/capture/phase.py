"""What capture is doing right now, said by whoever begins it: when the process dies, its parent knows where."""

from __future__ import annotations

from collections.abc import Callable

Listener = Callable[[str, str, float], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Tell this one, and no other."""
    _listeners[:] = [listener]


def enter(name: str) -> None:
    """`load`: the user's code is imported and built; `trace`: its forward runs; `probe`: its blocks are measured."""
    for listener in _listeners:
        listener(name, "", 0.0)


def measure(what: str, share: float) -> None:
    """What is measured next, and the share of the budget that was spent before it."""
    for listener in _listeners:
        listener("probe", what, share)


__all__ = ["enter", "listen", "measure"]
