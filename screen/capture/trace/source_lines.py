"""Whose line a frame is: the user's, torch's or ours; and how to step out of all modes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import FrameType

import torch

TORCH = os.path.dirname(torch.__file__) + os.sep
HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
CALLER = os.path.join(os.path.dirname(os.path.dirname(HERE)), "child") + os.sep
"""Where a forward is called from: what no line of the user's calls, such as the members of a bare `nn.Sequential`, stands in none."""
COMPOSITE = (os.path.join(TORCH, "nn", "modules", "transformer.py"),)
"""Files of torch that are architectures themselves: a line in them is an answer."""


@contextlib.contextmanager
def no_modes() -> Iterator[None]:
    with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
        yield


_OURS: dict[str, bool] = {}


def user_line() -> tuple[str, int]:
    """File and line of the innermost frame that is neither torch nor ours; an empty one where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        mine = _OURS.get(file)
        if mine is None:
            mine = _OURS[file] = (file.startswith((TORCH, HERE)) and file not in COMPOSITE) or file.startswith("<")
        if not mine:
            return ("", 0) if file.startswith(CALLER) else (file, frame.f_lineno or 0)  # code that was made by hand may have none
        frame = frame.f_back
    return "", 0
