"""Samples of unequal lengths in one tensor, `torch.nested.nested_tensor(samples, layout=torch.jagged)`: its sizes are no numbers.

Samples that are all of one shape are stacked in its place: every op on [batch, length, …] does to them what it does to the nested tensor, and what
only a nested tensor has (`values`, `offsets`, `to_padded_tensor`) is answered from the stack. Those of unequal shapes are refused in words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import torch.nested._internal.nested_tensor as jagged
from torch import Tensor


@contextlib.contextmanager
def stacked() -> Iterator[None]:
    """For the time of a run."""
    methods = {"values": _values, "offsets": _offsets, "to_padded_tensor": lambda whole, *_, **__: whole}
    with mock.patch.object(jagged, "jagged_from_list", _stacked), contextlib.ExitStack() as patches:
        for name, made in methods.items():
            patches.enter_context(mock.patch.object(Tensor, name, _method(getattr(Tensor, name, made), made), create=True))
        yield


def _stacked(samples: Sequence[Tensor], offsets: Any = None, dtype: torch.dtype | None = None, device: Any = None) -> tuple[Tensor, Any]:
    """As `jagged_from_list`: the tensor, and where its samples begin."""
    if len({tuple(sample.shape) for sample in samples}) > 1:
        raise NotImplementedError("samples of unequal lengths in one nested tensor are not followed; give them one length")
    whole = torch.stack(list(samples))
    return (whole if dtype is None else whole.to(dtype)), offsets


def _method(own: Any, made: Any) -> Any:
    """A method of nested and of sparse tensors that a stack has too."""
    return lambda tensor, *args, **kwargs: (own if tensor.is_nested or tensor.layout != torch.strided else made)(tensor, *args, **kwargs)


def _values(whole: Tensor) -> Tensor:
    return whole.flatten(0, 1)


def _offsets(whole: Tensor) -> Tensor:
    return torch.arange(0, whole.shape[0] * whole.shape[1] + 1, whole.shape[1])


__all__ = ["stacked"]
