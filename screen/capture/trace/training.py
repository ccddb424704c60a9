"""Where the user's code asks whether it is in training, and what it is answered.

Models are traced in evaluation: dropout draws nothing there, and the program is the one that random masks stand around. But `if self.training:` may
choose another program, and that one is trained. While a model runs, each line of the user's code that reads `training` is noted where the answer may
decide something: not one that only hands it to a dropout of torch, nor `p if self.training else 0.0` with p = 0, nor `self.training and
p > 0`. And each line can be answered by itself: yes where training is another program, no where it only draws (`screen.child.training` finds out
which).
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import operator
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from torch import nn

from screen.capture.trace.dropouts import DROPOUTS, DropoutsOff
from screen.capture.trace.source_lines import HERE, TORCH

Line = tuple[str, int]
"""File and number."""


@dataclass
class Reads:
    """The lines of the user's code that read `training` while a model ran, and what they are answered."""

    yes: frozenset[Line] | None
    """Lines that are told that it is training; None: all. The others are told what their module says."""
    lines: dict[Line, None] = field(default_factory=dict)
    """Those whose answer may decide something, in the order in which they were met."""
    _known: dict[tuple[CodeType, int], _Use] = field(default_factory=dict)

    def answer(self, frame: FrameType, stored: Any) -> Any:
        """What a line is told where its module says `stored`."""
        line = (frame.f_code.co_filename, frame.f_lineno or 0)
        if line[0].startswith((TORCH, HERE, "<")):
            return stored
        key = (frame.f_code, frame.f_lasti)
        if key not in self._known:
            self._known[key] = _use_of(*key)
        if not self._known[key].is_harmless(frame):
            self.lines[line] = None
        return True if self.yes is None or line in self.yes else stored


@contextlib.contextmanager
def watched(yes: Iterable[Line] | None = ()) -> Iterator[Reads]:
    """While this runs, `training` of every module tells who reads it and answers these lines with yes (None: all), dropouts off; nothing else changes
    in the modules."""
    reads = Reads(None if yes is None else frozenset(yes))

    def get(self: nn.Module) -> Any:
        try:
            stored = vars(self)["training"]
        except KeyError:
            raise AttributeError("training") from None  # of a scripted module
        return reads.answer(sys._getframe(1), stored)

    def put(self: nn.Module, value: Any) -> None:
        vars(self)["training"] = value

    outer = vars(nn.Module).get("training")
    nn.Module.training = property(get, put)  # type: ignore[assignment]
    _ANSWERED.append(reads)
    try:
        with DropoutsOff() if reads.yes != frozenset() else contextlib.nullcontext():
            yield reads
    finally:
        _ANSWERED.pop()
        if outer is None:
            del nn.Module.training
        else:
            nn.Module.training = outer


_ANSWERED: list[Reads] = []
"""What runs now, one inside of the other."""


def told() -> tuple[Line, ...]:
    """The lines that were answered with yes so far, and may decide something."""
    yes, lines = (_ANSWERED[-1].yes, _ANSWERED[-1].lines) if _ANSWERED else (frozenset(), {})
    return tuple(line for line in lines if yes is None or line in yes)


def is_trained() -> bool:
    """Whether some line is answered with yes now."""
    return bool(_ANSWERED) and _ANSWERED[-1].yes != frozenset()


@dataclass(frozen=True)
class _Use:
    """What the line does with what it reads."""

    called: ast.expr | None = None
    """The function that it is handed to."""
    choice: tuple[ast.expr, ast.expr] | None = None
    """The two values that it chooses from."""
    beside: tuple[ast.expr, ...] = ()
    """What else an `and` asks for, or an `or` (then `settled` is what makes the answer nothing)."""
    settled: bool = False

    def is_harmless(self, frame: FrameType) -> bool:
        """Whether the answer decides nothing but whether a dropout draws."""
        names = {**frame.f_builtins, **frame.f_globals, **frame.f_locals}
        try:
            if self.called is not None:
                return _value(self.called, names) in DROPOUTS
            if self.choice is not None:
                one, other = (_value(end, names) for end in self.choice)
                return type(one) in (int, float, bool) and type(other) in (int, float, bool) and one == other
            for other in self.beside:
                with contextlib.suppress(Exception):
                    if _is_true(other, names) is self.settled:
                        return True
        except Exception:  # an attribute that the user's code answers, names that are not there
            return False
        return False


def _use_of(code: CodeType, instruction: int) -> _Use:
    """By the source of the function; nothing where there is none."""
    try:
        line, _, column, _ = list(code.co_positions())[instruction // 2]
        lines, first = inspect.getsourcelines(code)
        text = textwrap.dedent("".join(lines))
        cut = len(lines[0]) - len(text.split("\n", 1)[0] + "\n")
        tree = ast.parse(text)
    except (OSError, SyntaxError, TypeError, IndexError):
        return _Use()
    if line is None or column is None:
        return _Use()
    at = (line - max(first, 1) + 1, len(lines[line - first].encode()[:column].decode(errors="ignore")) - cut)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    read = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "training")
    found: ast.AST | None = next((n for n in read if (n.lineno, n.col_offset) == at), None)
    while found is not None:
        above = parents.get(found)
        if isinstance(above, ast.keyword) or (isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)):
            found = above
        elif isinstance(above, ast.Call) and found is not above.func:
            return _Use(called=above.func)
        elif isinstance(above, ast.IfExp) and found is above.test:
            return _Use(choice=(above.body, above.orelse))
        elif isinstance(above, ast.BoolOp):
            return _Use(beside=tuple(v for v in above.values if v is not found), settled=isinstance(above.op, ast.Or))
        else:
            break
    return _Use()


def _value(expression: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of a name, an attribute or a number. Raises where it is none of these."""
    if isinstance(expression, ast.Constant):
        return expression.value
    if isinstance(expression, ast.Name):
        return names[expression.id]
    if isinstance(expression, ast.Attribute):
        return getattr(_value(expression.value, names), expression.attr)
    raise ValueError("not looked at")


def _is_true(expression: ast.expr, names: Mapping[str, Any]) -> bool | None:
    """Whether a comparison of plain numbers holds, or a flag is set; None where it is anything else. Raises where a name is not there."""
    if isinstance(expression, ast.Compare) and len(expression.ops) == 1:
        one, other = _value(expression.left, names), _value(expression.comparators[0], names)
        compare = _COMPARISONS.get(type(expression.ops[0]))
        return compare(one, other) if compare is not None and {type(one), type(other)} <= _PLAIN else None
    found = _value(expression, names)
    return found if type(found) is bool else None


_PLAIN = {int, float, bool, str, type(None)}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip


__all__ = ["Line", "Reads", "is_trained", "told", "watched"]
