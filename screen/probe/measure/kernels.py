"""Calls that a device or a type has no kernel for, by the same arithmetic from other calls: what was traced on meta does not know where it runs.
And a batch norm, which was traced in evaluation, as it is in training."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

NARROW = (torch.float16, torch.bfloat16)
"""Types in which a grouped product has a kernel on every device."""


def called(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """One call."""
    first, name = (args[0] if args else None), getattr(target, "__name__", "")
    if isinstance(first, Tensor):
        if name == "histc" and first.device.type == "cpu" and not first.is_floating_point():  # counts are whole numbers in float64 too
            return target(first.double(), *args[1:], **kwargs).to(first.dtype)
        if name in ("grouped_mm", "_grouped_mm") and first.dtype not in NARROW:
            return grouped(*args, **kwargs)
        if target is torch.nn.functional.batch_norm:
            return batch_norm(*args, **kwargs)
    return target(*args, **kwargs)


def batch_norm(x: Tensor, mean: Tensor | None, var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None,
               training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:  # fmt: skip
    """As in training, by the statistics of the batch: what is said of a batch norm is said of that. x: [samples, channels, …]"""
    return torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True, eps=eps)


class BatchStatistics(TorchFunctionMode):
    """Every batch norm of a module as in training, wherever the module itself stands."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        return (batch_norm if func is torch.nn.functional.batch_norm else func)(*args, **(kwargs or {}))


def differentiable(value: Tensor) -> Tensor:
    """A copy that may be written to, and that gradients reach where it is float: torch 2.11 and 2.13 end the process in the backward pass of a group
    norm with the channels last whose input needs none."""
    copy = value.detach().clone()
    with torch.enable_grad():
        return copy.requires_grad_().clone() if copy.is_floating_point() else copy


def grouped(a: Tensor, b: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: torch.dtype | None = None) -> Tensor:
    """Rows of a up to each offset times the matrix of their group; rows behind the last one are 0. a: [n, d], b: [groups, d, e], offs: [groups]"""
    if offs is None or a.dim() != 2 or b.dim() != 3 or bias is not None:
        raise NotImplementedError(f"a grouped product of {a.dim()} and {b.dim()} axes in {a.dtype}")
    ends = [0, *offs.tolist()]
    parts = [a[start:end] @ b[i] for i, (start, end) in enumerate(pairwise(ends))]
    return torch.cat([*parts, a.new_zeros(a.shape[0] - ends[-1], b.shape[-1])])


__all__ = ["BatchStatistics", "batch_norm", "called", "differentiable", "grouped"]
