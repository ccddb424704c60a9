"""The sign of a value, where the ops alone tell it: enough to see that `exp(−softplus(·)·exp(·))` is at most one."""

from __future__ import annotations

from screen.calculi.degrees.laws import KEEPS_SIGN, NONNEGATIVE
from screen.structure.dataflow import Flow, number


def sign_of(flow: Flow, node: int, depth: int = 32) -> int | None:
    """1 for values ≥ 0, −1 for values ≤ 0, None where the ops do not tell."""
    here = flow.graph.nodes[node]
    if depth == 0:
        return None
    if here.op in NONNEGATIVE:
        return 1
    if here.op == "neg":
        inner = sign_of(flow, here.inputs[0], depth - 1)
        return None if inner is None else -inner
    if here.op in ("mul", "div") and here.args:
        return _product(flow, here.args[:2], depth)
    if here.op == "pow" and here.args[1:] and number(here.args[1]) == 2.0:
        return 1
    if here.inputs and (flow.classes[node] in ("view", "part") or here.op in KEEPS_SIGN):
        return sign_of(flow, here.inputs[0], depth - 1)
    return None


def _product(flow: Flow, factors: tuple[object, ...], depth: int) -> int | None:
    sign = 1
    for factor in factors:
        value = number(factor)
        if value is not None:
            found = 1 if value >= 0 else -1
        else:
            index = getattr(factor, "node", None)
            inner = sign_of(flow, index, depth - 1) if index is not None else None
            if inner is None:
                return None
            found = inner
        sign *= found
    return sign
