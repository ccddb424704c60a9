"""Capture in the caller's process: a live module, on a copy, or a target that the caller does not want isolated. No limits apply here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from screen.child.protocol import Request
from screen.child.results import Capture, Progress, State, silent
from screen.child.run import run

if TYPE_CHECKING:
    from torch import nn

    from screen.capture.build.build import Built


def capture(request: Request, progress: Progress = silent, *, build: Callable[[Request], list[Built]] | None = None) -> Capture:
    """As `Host.capture`, here. What the child would send is packed and read all the same: one form, checked once."""
    from screen.capture.build import forwards, launcher, offline
    from screen.capture.kernels import older

    state = State(request, progress)
    path = list(sys.path)
    try:
        with launcher.taken_back(), older.taken_back(), offline.taken_back(), forwards.taken_back():
            run(request, lambda data: state.take(json.loads(data[4:].decode("utf-8", "surrogatepass"))), build=build)
    finally:
        sys.path[:] = path  # a file's folder is put there, and must not shadow anything of the caller's later
    return Capture(tuple(state.models), state.error, "", again=state.again)


def object_capturer(model: nn.Module, example_inputs: Any, depth: int | None) -> Callable[[Request, Progress], Capture]:
    """What captures this module, on a copy without weights."""
    from screen.capture.build.build import build_object

    found: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def build(_: Request) -> list[Built]:
        return build_object(model, example_inputs=example_inputs, depth=depth, found=found)

    return lambda request, progress: capture(request, progress, build=build)


__all__ = ["capture", "object_capturer"]
