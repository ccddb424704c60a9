"""`screen check --watch`: judges again whenever a file changes that the targets stand in, or import from the repository."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from screen import settings as configuration
from screen.command import console
from screen.command.models import imported_by
from screen.command.targets import wanted
from screen.errors import INTERRUPTED, ScreenError, UsageError

PAUSE = 0.5
"""Seconds between two looks."""
Stamp = tuple[int, int] | None


def watch(run: Callable[[], int], targets: tuple[str, ...], sleep: Callable[[float], None] = time.sleep) -> int:
    """Runs until Ctrl-C, and then the last exit code. Raises `UsageError` where there is no file to look at."""
    files = _files(targets, Path.cwd())
    if not files:
        raise UsageError("`--watch` must have files to look at", "no target is a file", "Name one, or leave `--watch` out")
    code = INTERRUPTED
    try:
        while True:
            seen = _stamps(files)
            new = _judged(run)
            if new == INTERRUPTED:
                return code
            code = new
            console.line(f"watching {len(files)} file{'s' if len(files) != 1 else ''}; Ctrl-C ends")
            while _stamps(files) == seen:
                sleep(PAUSE)
            files = _files(targets, Path.cwd()) or files
    except KeyboardInterrupt:
        return code


def _judged(run: Callable[[], int]) -> int:
    """One round; an error is said, and the next change may mend it."""
    try:
        return run()
    except (ScreenError, OSError) as error:
        console.about(error)
        return 2


def _files(targets: tuple[str, ...], root: Path) -> list[Path]:
    """The targets' files with what they import from the repository, and the settings; none where these cannot be read now."""
    try:
        specs = [one.spec for one in wanted(targets, configuration.load({}))]
    except ScreenError:
        return []
    paths = [Path(os.path.abspath(spec.path)) for spec in specs if spec.path is not None]
    if not paths:
        return []
    settings = [root / name for name in ("pyproject.toml", "screen.toml")]
    return sorted({*paths, *settings, *(file for path in paths if path.suffix == ".py" for file in imported_by(path))})


def _stamps(files: Sequence[Path]) -> dict[Path, Stamp]:
    return {path: _stamp(path) for path in files}


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


__all__ = ["watch"]
