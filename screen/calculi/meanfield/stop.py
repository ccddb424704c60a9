"""Why the recursion ends."""

from __future__ import annotations

from screen.structure.types import Unknown


class Stop(Exception):
    """Reading, or running, ends here, for a reason."""

    def __init__(self, reason: str, *nodes: int) -> None:
        super().__init__(reason)
        self.unknown = Unknown(reason, nodes)


__all__ = ["Stop"]
