"""Expressions as text that SymPy reads: the notation of a report's JSON.

What people read is printed by SymPy (`screen.report.printers`). This is written without it, since every report has it and SymPy takes 0.24 s to load.
"""

from __future__ import annotations

import math

from screen.calculi.bounds.expr.node import ExprNode


WRITTEN = 100
"""How many times the limit of a small expression may be written where parts of it stand in several places: a loop over tokens that reads its state
twice has few parts and is written out 2ᵗ times."""


def text(e: ExprNode, limit: int) -> str:
    """One line while the expression is small; else sub-expressions that are used twice get names, one line each, before the last line."""
    order = list(e.walk())
    uses: dict[int, int] = {}
    written_out: dict[int, int] = {}
    for here in order:
        written_out[here.serial] = 1 + sum(written_out[a.serial] for a in here.args)
        for a in here.args:
            uses[a.serial] = uses.get(a.serial, 0) + 1
    shared = len(order) > limit or written_out[e.serial] > WRITTEN * limit
    done: dict[int, str] = {}
    lines: list[str] = []
    for here in order:
        written = _node(here, done)
        named = shared and uses.get(here.serial, 0) > 1 and here.kind not in ("num", "sym")
        if named or (shared and len(written) > 2000):
            lines.append(f"u{len(lines) + 1} = {written}")
            written = f"u{len(lines)}"
        done[here.serial] = written
    return "\n".join([*lines, done[e.serial]])


def number(value: float) -> str:
    """A number; roots of integers are written as such."""
    if value == int(value) and abs(value) < 1e15 if math.isfinite(value) else False:
        return str(int(value))
    if not math.isfinite(value):
        return "oo"
    if 1e-6 < value < 1.0 and abs(1 / value - round(1 / value)) < 1e-15:
        return f"1/{round(1 / value)}"
    for sign in (1, -1) if 1e-4 < abs(value) < 1e4 else ():
        square = value ** (2 * sign)
        if 1 < square < 1e7 and abs(square - round(square)) < 1e-12 * square:
            return f"sqrt({round(square)})" if sign == 1 else f"1/sqrt({round(square)})"
    return repr(value)


def _node(e: ExprNode, done: dict[int, str]) -> str:
    args = [done[a.serial] for a in e.args]
    if e.kind == "sym":
        return e.name
    if e.kind == "add":
        return " + ".join([*sorted(args), *([number(e.value)] if e.value else [])])
    if e.kind == "mul":
        parts: list[str] = []
        for a, text_of, p in zip(e.args, args, e.powers, strict=True):
            inside = f"({text_of})" if a.kind in ("add", "mul") and not _is_name(text_of) else text_of
            parts.append(inside if p == 1.0 else f"sqrt({text_of})" if p == 0.5 else f"{inside}**({number_of_power(p)})")
        return "*".join([*([] if e.value == 1.0 else [number(e.value)]), *sorted(parts, key=_plain_first)])
    if e.kind in ("min", "max"):
        ends = [number(e.value)] if math.isfinite(e.value) and not (e.kind == "max" and e.value == 0.0) else []
        return f"{'Min' if e.kind == 'min' else 'Max'}({', '.join([*ends, *sorted(args)])})"
    return number(e.value)


def _is_name(text_of: str) -> bool:
    """Whether it is the name of a line before: `u1`, not `u1 + 1`."""
    return text_of.startswith("u") and text_of[1:].isdigit()


def _plain_first(factor: str) -> tuple[bool, str]:
    """Symbols before brackets."""
    return "(" in factor, factor


def number_of_power(p: float) -> str:
    """An exponent: a fraction where it is one."""
    return str(int(p)) if p == int(p) else f"{int(2 * p)}/2" if 2 * p == int(2 * p) else repr(p)
