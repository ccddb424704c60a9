"""What is being done right now, on stderr, and only where that is a terminal: a line for each target, and a bar while it is measured.

The bar counts the budget of the probe that is spent, in the seconds of counted work that `--probe-seconds` speaks of: it moves with what was done,
not with the clock.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from screen.child.results import Progress as Listener

PHASES = {"load": "building", "trace": "tracing", "judge": "judging", "probe": "measuring"}


class Progress:
    """A bar on stderr; nothing when stderr is no terminal."""

    def __init__(self, quiet: bool, targets: int = 1, seconds: float = 0.0) -> None:
        self._on = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._targets, self._seconds = targets, seconds
        self._begun = 0
        self._bars: Bars | None = None
        self._task: TaskID | None = None

    def of(self, target: str) -> Listener:
        """The listener for one target."""
        self._begun += 1
        which = f"{self._begun}/{self._targets} " if self._targets > 1 else ""
        self._say(f"{which}importing torch for {target}")

        def hear(phase: str, doing: str = "", share: float = 0.0) -> None:
            words = f"{which}{PHASES.get(phase, phase)} {target}"
            self._say(words, doing, share if doing else None)

        return hear

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Leave nothing behind."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def _say(self, words: str, doing: str = "", share: float | None = None) -> None:
        if not self._on:
            return
        if self._bars is None:
            self._bars, self._task = _started(_plain(words))
        assert self._task is not None
        spent = f"{share * self._seconds:.0f} of {self._seconds:.0f} s of counted work" if share is not None and self._seconds else ""
        total = None if share is None else 1.0  # without a share the bar moves to and fro
        self._bars.update(self._task, description=_plain(words), completed=share or 0.0, total=total, spent=spent, doing=_plain(doing))


def _started(words: str) -> tuple[Bars, TaskID]:
    """A bar on stderr that goes away when it stops."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True, file=sys.stderr)
    plain = [TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), TextColumn("{task.fields[spent]}", markup=False)]
    bars = Progress(SpinnerColumn(), *plain, TextColumn("{task.fields[doing]}", markup=False), console=console, transient=True)
    task = bars.add_task(words, total=None, spent="", doing="")
    bars.start()
    return bars, task


def _plain(text: str) -> str:
    """Text of the model's on a terminal: what would move the cursor is left out."""
    return "".join(c for c in text if c.isprintable())[:100]


__all__ = ["PHASES", "Progress"]
