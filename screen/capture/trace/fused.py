"""A product that is added to what is no bias, in one call, is written down as the product and the sum that it is.

    torch.addmm(x, a, b, alpha=c)        is        x + c * (a @ b)

so that a residual add, or a mask, is found where it stands; a call whose first operand is a weight of the model stays as it was written: a map
with its bias.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch import Tensor

from screen.capture.trace.recorder import Origin, Recorder, region_of
from screen.capture.trace.source_lines import no_modes

_PRODUCTS: dict[str, tuple[Any, str, str]] = {
    "addmm": (torch.mm, "mat1", "mat2"),
    "baddbmm": (torch.bmm, "batch1", "batch2"),
    "addcmul": (torch.mul, "tensor1", "tensor2"),
    "addcdiv": (torch.div, "tensor1", "tensor2"),
}
"""Op -> (the product alone, names of its two operands)."""


def is_fused(recorder: Recorder, op: str, args: Any, kwargs: Any) -> bool:
    """Whether a call adds a product to something that is no weight."""
    first = _argument(args, kwargs, 0, "input")
    if op not in _PRODUCTS or not isinstance(first, Tensor) or kwargs.get("out") is not None or len(args) > 3:
        return False
    whole = op in ("addcmul", "addcdiv") or first.dim() == (2 if op == "addmm" else 3)
    return whole and id(first) not in recorder.names and all(isinstance(t, Tensor) for t in _operands(op, args, kwargs))


def apart(recorder: Recorder, op: str, args: Any, kwargs: Any, result: Any, origin: Origin, *, in_place: bool) -> torch.fx.Node:
    """Record the product, its factor, and the sum, which makes the result; returns the node of the sum."""
    product, first = _PRODUCTS[op][0], _argument(args, kwargs, 0, "input")
    operands = _operands(op, args, kwargs)
    made = _record(recorder, product, operands, origin)
    factor = kwargs.get("value" if op in ("addcmul", "addcdiv") else "alpha", 1)
    if factor != 1:
        made = _record(recorder, torch.mul, (made, factor), origin)
    kept = kwargs.get("beta", 1)
    if in_place:
        if kept != 1:
            recorder.written(first, recorder.call(Tensor.mul_, (first, kept), {}, None, origin), region_of(first), origin)
        return recorder.call(Tensor.add_, (first, made), {}, result, origin)
    if kept == 0:
        return recorder.call(torch.clone, (made,), {}, result, origin)
    if kept != 1:
        first = _record(recorder, torch.mul, (first, kept), origin)
    return recorder.call(torch.add, (first, made), {}, result, origin)


def _operands(op: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    _, left, right = _PRODUCTS[op]
    return _argument(args, kwargs, 1, left), _argument(args, kwargs, 2, right)


def _argument(args: Any, kwargs: Any, place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _record(recorder: Recorder, func: Any, args: tuple[Any, ...], origin: Origin) -> Tensor:
    """One call that the program makes inside of another one; nothing runs but its shapes."""
    with no_modes():
        made: Tensor = func(*(a.to("meta") if isinstance(a, Tensor) else a for a in args))
    recorder.call(func, args, {}, made, origin)
    return made


__all__ = ["apart", "is_fused"]
