"""Entry-wise functions of one Gaussian value, as they are put together from ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from screen.calculi.meanfield.activation_kernels import FUNCTIONS
from screen.calculi.meanfield.values import Function
from screen.graph import Node, Ref


def named_function(node: Node) -> tuple[str, Function | None]:
    """The function of an activation node with the default arguments of torch; None when it has others."""
    name = node.op
    if name == "gelu" and (node.kwarg("approximate") == "tanh" or "tanh" in node.args[1:]):
        name = "gelu_tanh"
    settings = [a for a in node.args[1:] if not isinstance(a, Ref | str | bool) and a is not None]
    settings += [v for k, v in node.kwargs if k not in ("approximate", "inplace") and not isinstance(v, bool)]
    defaults = {"leaky_relu": [0.01], "elu": [1.0], "celu": [1.0], "softplus": [1.0, 20.0]}
    if settings and [float(s) for s in settings if isinstance(s, int | float)] != defaults.get(name):
        return "", None
    return (name, FUNCTIONS[name]) if name in FUNCTIONS else ("", None)


def joined(
    node: Node, number: float | None, left: Function | None = None, right: Function | None = None, *, first: bool = True
) -> Function | float | None:
    """What an op of sums and products does entry by entry: a factor where it only stretches, a function, or None.

    With a number beside one operand (`first`: that operand is the first one), or with two functions of the same value."""
    if number is None and node.op == "neg":
        return -1.0
    if number is None and node.op in ("square", "reciprocal"):
        return FUNCTIONS.get(node.op)
    if number is not None:
        return _with_number(node, number, first)
    if node.op not in ("add", "sub", "mul"):
        return None
    if left is None or right is None:
        return None
    one, two = left, right
    if node.op == "mul":
        return _once(lambda x: one(x) * two(x))
    return _once(lambda x: one(x) + two(x)) if node.op == "add" else _once(lambda x: one(x) - two(x))


def _once(function: Function) -> Function:
    """The same function, which keeps its last result: y = y·y asks for each y twice, and n of them would be 2ⁿ questions."""
    last: list[Any] = []

    def asked(x: Any) -> Any:
        if not last or last[0] is not x:
            with np.errstate(over="ignore", invalid="ignore"):
                last[:] = [x, function(x)]
        return last[1]

    return asked


def _with_number(node: Node, number: float, first: bool) -> Function | float | None:
    if node.op == "mul":
        return number
    if node.op in ("div", "true_divide") and first and number and node.kwarg("rounding_mode") is None:
        return 1 / number
    if node.op == "add":
        return lambda x: x + number
    if node.op == "sub":
        return (lambda x: x - number) if first else (lambda x: number - x)
    if node.op == "pow" and first and number in (2, 3, 4):
        return lambda x: np.power(x, int(number))
    return None


__all__ = ["joined", "named_function"]
