"""Packed sequences written out: neither packing nor a recurrence over what is packed can be watched on meta, where lengths are not known.

Where all sequences of a batch are as long as the longest, `pack_padded_sequence` lays the steps of all one behind the other, [T, B, …] as [T·B, …], a
recurrence runs over [T, B, …], and `pad_packed_sequence` undoes it (docstrings of `torch.nn.utils.rnn`). Of shorter ones torch has its own way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn.modules import rnn as modules
from torch.nn.utils import rnn as utils

from screen.capture.trace.source_lines import no_modes

Takes = Callable[[Tensor, int, int], bool]
"""Whether lengths on meta are taken for so many of so many steps each."""


@contextlib.contextmanager
def written_out(takes: Takes = lambda lengths, count, steps: True, *, short: bool = False) -> Iterator[None]:
    """For the time of a run; `short`: nobody watches it, so that of a recurrence on meta one step tells the shapes of all."""
    calls = _Calls(takes, short)
    with mock.patch.object(utils, "_VF", calls), mock.patch.object(modules, "_VF", calls):
        yield


def stated(values: Iterable[Any]) -> Takes:
    """Lengths are taken for full ones where an argument says so, or none says how long samples are."""
    arguments = [v for v in values if isinstance(v, Tensor) and v.dim() == 1 and not v.dtype.is_floating_point and not v.is_meta]

    def takes(_: Tensor, count: int, steps: int) -> bool:
        alike = [v for v in arguments if len(v) == count]
        return not alike or any(_all_are(v, steps, count) for v in alike)

    return takes


class _Calls:
    """`torch._VF`, with calls of our own in the place of those that take or give packed sequences."""

    def __init__(self, takes: Takes, short: bool = False) -> None:
        self.takes, self.short = takes, short

    def __getattr__(self, name: str) -> Any:
        return getattr(torch._VF, name)

    def _pack_padded_sequence(self, padded: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Any]:
        if padded.dim() > 1 and lengths.dim() == 1:
            steps = padded.transpose(0, 1) if batch_first else padded
            count, batch = steps.shape[:2]
            with no_modes():  # which tell code of the user's that nothing is on meta
                full = self.takes(lengths, batch, count) if lengths.is_meta else _all_are(lengths, count, batch)
            if full and len(lengths) == batch:
                return steps.reshape(count * batch, *steps.shape[2:]), _Sizes([batch] * count)
        return torch._VF._pack_padded_sequence(padded, lengths, batch_first)

    def _pad_packed_sequence(self, packed: Tensor, sizes: Any, batch_first: bool, padding: float, total: int) -> tuple[Tensor, Tensor]:
        if not isinstance(sizes, _Sizes):
            return torch._VF._pad_packed_sequence(packed, sizes, batch_first, padding, total)
        steps = packed.reshape(len(sizes), sizes[0], *packed.shape[1:])
        if total > len(sizes):
            steps = torch.cat((steps, steps.new_full((total - len(sizes), *steps.shape[1:]), padding)))
        return steps.transpose(0, 1) if batch_first else steps, torch.full((sizes[0],), len(sizes), dtype=torch.int64)

    def lstm(self, *args: Any) -> Any:
        return _recurrence(torch._VF.lstm, self.short, *args)

    def gru(self, *args: Any) -> Any:
        return _recurrence(torch._VF.gru, self.short, *args)

    def rnn_tanh(self, *args: Any) -> Any:
        return _recurrence(torch._VF.rnn_tanh, self.short, *args)

    def rnn_relu(self, *args: Any) -> Any:
        return _recurrence(torch._VF.rnn_relu, self.short, *args)


def _recurrence(call: Callable[..., Any], short: bool, x: Tensor, sizes: Any, *rest: Any) -> Any:
    """A recurrence over what is packed, `(x, sizes, states, …)`; else as it is, `(x, states, …)`."""
    if not isinstance(sizes, _Sizes):
        time = 1 if rest[-1] is True else 0
        if not short or not x.is_meta or x.dim() != 3 or x.shape[time] < 2:
            return call(x, sizes, *rest)
        out, *states = call(x.narrow(time, 0, 1), sizes, *rest)  # torch runs one step after the other there, 9 ms each
        return out.repeat_interleave(x.shape[time], time), *states
    out, *states = call(x.reshape(len(sizes), sizes[0], x.shape[-1]), *rest, False)
    return out.reshape(x.shape[0], out.shape[-1]), *states


class _Sizes(tuple[int, ...]):
    """How many sequences have each step: all of them. It answers what torch asks of the tensor of these."""

    device = torch.device("cpu")

    def size(self, axis: int) -> int:
        return (len(self),)[axis]


def _all_are(entries: Tensor, value: int, count: int) -> bool:
    with no_modes():
        return len(entries) == count and bool((entries == value).all())


__all__ = ["stated", "written_out"]
