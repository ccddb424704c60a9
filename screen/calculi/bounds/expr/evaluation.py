"""Numbers out of expressions: node by node, plainly or in logarithms, and as Python text."""

from __future__ import annotations

import math
from collections.abc import Mapping

from screen.calculi.bounds.expr.node import ExprNode


def plain_node(e: ExprNode, table: dict[int, float], values: Mapping[str, float]) -> float:
    """The value of one node, from those of its operands."""
    if e.kind == "sym":
        return float(values[e.name])
    args = [table[a.serial] for a in e.args]
    if e.kind == "add":
        return e.value + math.fsum(args)
    if e.kind == "mul":
        found = e.value
        for a, p in zip(args, e.powers, strict=True):
            found *= a if p == 1.0 else float(a**p)
        if math.isnan(found):
            raise OverflowError
        return found
    if e.kind in ("min", "max"):
        return min(e.value, *args) if e.kind == "min" else max(e.value, *args)
    return e.value


def exp_of(x: float) -> float:
    """e^x, `inf` where it is larger than a float."""
    return math.exp(x) if x < 709.0 else math.inf


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def log_node(e: ExprNode, table: dict[int, float], values: Mapping[str, float]) -> float:
    """The logarithm of one node, from those of its operands."""
    if e.kind == "sym":
        return _log(float(values[e.name]))
    args = [table[a.serial] for a in e.args]
    if e.kind == "mul":
        terms = [p * a for a, p in zip(args, e.powers, strict=True)]
        return -math.inf if -math.inf in terms else _log(e.value) + sum(terms)
    if e.kind == "add":
        parts = [_log(e.value), *args]
        top = max(parts)
        return top if math.isinf(top) else top + math.log(math.fsum(math.exp(x - top) for x in parts))
    if e.kind in ("min", "max"):
        return min(_log(e.value), *args) if e.kind == "min" else max(_log(e.value), *args)
    return _log(e.value)


def code_of(e: ExprNode) -> str:
    """One node as Python, with `t<serial>` for its operands and `v` for the values."""
    args = [f"t{a.serial}" for a in e.args]
    if e.kind == "sym":
        return f"v[{e.name!r}]"
    if e.kind == "add":
        return " + ".join([repr(e.value), *args])
    if e.kind == "mul":
        return " * ".join([repr(e.value), *(a if p == 1.0 else f"{a} ** {p!r}" for a, p in zip(args, e.powers, strict=True))])
    if e.kind in ("min", "max"):
        return f"{e.kind}({', '.join([repr(e.value), *args])})"
    return repr(e.value)
