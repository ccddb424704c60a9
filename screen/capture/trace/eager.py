"""Nothing is compiled while a forward is tried or watched: what was compiled before runs as it is written, and `torch.compile` gives it back."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """For the time of a run. `torch._dynamo` takes a second to import: where nothing has, nothing is compiled yet."""
    stance = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else contextlib.nullcontext()
    with stance, mock.patch.object(torch, "compile", _as_it_is):
        yield


def _as_it_is(model: Callable[..., Any] | None = None, **_: Any) -> Any:
    """`torch.compile(f, …)`, and `@torch.compile(…)`."""
    return _as_it_is if model is None else model


__all__ = ["eager"]
