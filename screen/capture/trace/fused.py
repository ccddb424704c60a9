"""A product that is added in one call is written down as the product and the sum that it is.

    torch.addmm(x, a, b, alpha=c)        is        x + c * (a @ b)

so that a residual add, or a mask, is found where it stands. What stays one call is a map with its bias: `addmm` and `baddbmm` of a weight or a buffer
of the model, or of what is smaller than the result and made of no argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch import Tensor

from screen.capture.trace.recorder import Origin, Recorder, region_of
from screen.capture.trace.source_lines import no_modes

Do = Callable[..., Tensor]
"""Records one call of a function on its operands."""

_PRODUCTS: dict[str, Callable[[Do, Tensor, Tensor], Tensor]] = {
    "addmm": lambda do, a, b: do(torch.mm, a, b),
    "baddbmm": lambda do, a, b: do(torch.bmm, a, b),
    "addbmm": lambda do, a, b: do(torch.sum, do(torch.bmm, a, b), 0),
    "addmv": lambda do, a, b: do(torch.matmul, a, b),
    "addr": lambda do, a, b: do(torch.mul, do(torch.unsqueeze, a, -1), b),
    "addcmul": lambda do, a, b: do(torch.mul, a, b),
    "addcdiv": lambda do, a, b: do(torch.div, a, b),
}
"""Aten op -> the product alone, of the second and the third operand of the call."""
_RANK = {"addmm": 2, "baddbmm": 3}
"""Of the result of those that may be maps with a bias."""


def is_fused(recorder: Recorder, func: Any, args: Any, origin: Origin) -> bool:
    """Whether an aten call adds a product to something that is no bias of it."""
    op = _name(func)
    if op not in _PRODUCTS:
        return False
    if op not in _RANK:
        return True
    first = recorder.read(args[0], origin)
    if args[0].dim() < _RANK[op]:
        return _reads([first], lambda node: node.op == "placeholder")
    held = first.op == "get_attr" and first.meta["kind"] != "constant"
    return not held or _reads([recorder.read(t, origin) for t in args[1:3]], lambda node: node is first)


def apart(recorder: Recorder, func: Any, args: Any, kwargs: Any, result: Any, origin: Origin) -> torch.fx.Node:
    """Record the product, its factor, and the sum, which makes the result; returns the node of the sum."""

    def do(function: Any, *operands: Any) -> Tensor:
        with no_modes():
            value: Tensor = function(*(t.to("meta") if isinstance(t, Tensor) else t for t in operands))
        recorder.call(function, operands, {}, value, origin)
        return value

    op, first = _name(func), args[0]
    made = _PRODUCTS[op](do, args[1], args[2])
    factor, kept = kwargs.get("value" if op in ("addcmul", "addcdiv") else "alpha", 1), kwargs.get("beta", 1)
    if factor != 1:
        made = do(torch.mul, made, factor)
    if func._schema.name.endswith("_"):
        if kept != 1:
            less = recorder.call(Tensor.mul_ if kept else Tensor.zero_, (first, kept) if kept else (first,), {}, None, origin)
            recorder.written(first, less, region_of(first), origin)
        return recorder.call(Tensor.add_, (first, made), {}, result, origin)
    into = {"out": kwargs["out"]} if kwargs.get("out") is not None else {}
    if kept == 0:
        return recorder.call(torch.mul if into else torch.clone, (made, 1) if into else (made,), into, result, origin)
    return recorder.call(torch.add, (first if kept == 1 else do(torch.mul, first, kept), made), into, result, origin)


def _name(func: Any) -> str:
    name: str = func._schema.name
    return name.removeprefix("aten::").rstrip("_")


def _reads(nodes: list[torch.fx.Node], wanted: Callable[[torch.fx.Node], bool]) -> bool:
    """Whether some node, or one that it is made of, is wanted."""
    stack, seen = list(nodes), set(nodes)
    while stack:
        node = stack.pop()
        if wanted(node):
            return True
        fresh = set(node.all_input_nodes) - seen
        seen |= fresh
        stack.extend(fresh)
    return False


__all__ = ["apart", "is_fused"]
