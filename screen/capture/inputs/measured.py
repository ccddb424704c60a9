"""Integers that were made up for an argument, where the forward adds them to floats entry by entry, or maps them by weights, which on meta runs: they
stand for measured numbers (coordinates)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build.meta_copy import on_meta
from screen.capture.inputs.context import Lookup
from screen.capture.inputs.explicit import Inputs
from screen.capture.inputs.mend import Failed, Watch
from screen.capture.inputs.trial import outcome

_SUMS = frozenset({"add", "__add__", "__radd__", "sub", "__sub__"})
_MAPS = frozenset({"linear", "matmul", "__matmul__", "conv1d", "conv2d", "conv3d"})


class _Sums(Watch):
    """Notes which arguments are added, as they are, to floats of their own shape, or mapped by floats."""

    def __init__(self, found: Failed) -> None:
        super().__init__(found)
        self.names: dict[str, None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        name, operands = getattr(func, "__name__", ""), [v for v in args if isinstance(v, Tensor)]
        if name in _SUMS | _MAPS and isinstance(result, Tensor) and any(v.is_floating_point() for v in operands):
            for operand in (v for v in operands if not v.is_floating_point() and v.dim() > 1):
                if (name in _MAPS or operand.shape == result.shape) and len(own := self.found.origins(operand)) == 1:
                    self.names |= dict.fromkeys(own)
        return result


def measured(model: nn.Module, look: Lookup, given: Inputs, fixed: Inputs) -> Inputs:
    """The arguments, floats in the place of such integers wherever the forward runs with them; `fixed` ones stay."""
    args, values = given
    tensors = {n: v for n, v in values.items() if isinstance(v, Tensor)}
    asked = [n for n, v in tensors.items() if v.dim() > 1 and not v.is_floating_point() and v.dtype != torch.bool and n not in fixed[1]]
    if args or len(tensors) < 2 or not asked:
        return given
    values = {n: v.clone() if n in tensors else v for n, v in values.items()}  # one tensor may have been given twice
    twin, found = on_meta(model), Failed(values)
    with _Sums(found) as sums:
        failed = outcome(twin, (), values, tracing=False).error is not None
    for name in () if failed else (n for n in sums.names if n in asked):
        floats = {**values, name: look.floats(*values[name].shape)}
        values = floats if outcome(twin, (), floats).error is None else values
    return args, values


__all__ = ["measured"]
