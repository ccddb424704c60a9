"""What is changed in this process for the sake of one capture: each with what takes it back, and what a report says of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class Makeshift:
    """Changes of one kind."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}
        self._undo: list[Callable[[], object]] = []

    def undone_by(self, step: Callable[[], object]) -> None:
        """A change was made; this takes it back."""
        self._undo.append(step)

    def tell(self, note: str) -> None:
        """What a report says, once."""
        self._told[note] = None

    def notes(self) -> tuple[str, ...]:
        """What a report says of what was changed in this process."""
        return tuple(self._told)

    @contextlib.contextmanager
    def taken_back(self) -> Iterator[None]:
        """What is changed within is taken back behind it, the latest first: the caller's own process is left as it was."""
        told, made = dict(self._told), len(self._undo)
        try:
            yield
        finally:
            while len(self._undo) > made:
                self._undo.pop()()
            self._told = told


__all__ = ["Makeshift"]
