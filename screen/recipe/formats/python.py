"""A Python file of plain assignments, as nanoGPT's `config/*.py` and the head of its `train.py`: read as text, never run.

Read are literals, arithmetic of them, and earlier names; a pass's `batch_size` is of one device, and its gradients are added up over
`gradient_accumulation_steps`, devices counted, as there. Whatever else a name of a recipe gets is named as not read.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any

from screen import tables
from screen.errors import UsageError
from screen.recipe.document import Document
from screen.recipe.gather import gather, meaning
from screen.recipe.stated import Stated, Where

ORDER = 10
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
BITS = 256
"""Of the largest number that is worked with, and the largest exponent."""


class NotPlain(Exception):
    """Something else than literals and arithmetic."""


def fits(document: Document) -> bool:
    return document.suffix == ".py"


def read(document: Document) -> Stated:
    """Raises `UsageError`."""
    try:
        tree = ast.parse(document.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        found = f"{document.origin}" + (f", line {line}" if line else "") + f": {getattr(error, 'msg', error)}"
        raise UsageError("a Python recipe must parse", found, file=document.name, line=line) from None
    names: dict[str, Any] = {}
    lines: dict[str, int] = {}
    unread: dict[str, str] = {}
    for statement in tree.body:
        for name, value in assigned(statement, names):
            lines[name] = statement.lineno
            names.pop(name, None)
            unread.pop(name, None)
            if isinstance(value, NotPlain):
                unread[name] = f"line {statement.lineno}: {value}"
            else:
                names[name] = value
    told = {name: why for name, why in unread.items() if meaning(name) is not None or name == "*"}
    return gather(dict(tables.flat(names)), Where(document.origin, document.name, line=lines.get), devices=1, unread=told)


def assigned(statement: ast.stmt, names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a statement gives names to; `NotPlain` for what is not known."""
    if isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
        value = _value_or_not(statement.value, names)
        yield from ((target.id, value) for target in statement.targets if isinstance(target, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        if statement.value is not None:
            yield statement.target.id, _value_or_not(statement.value, names)
    elif isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
        for name in list(names):
            yield name, NotPlain(f"`from {'.' * statement.level}{statement.module or ''} import *` may give it another value")
        yield "*", NotPlain("what it imports was not read")
    else:
        for name in dict.fromkeys(_bound(statement)):
            yield name, NotPlain("not a plain assignment of a literal")


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Names of the file that a statement may bind or delete, at any depth of it."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        yield from (name for node in ast.walk(statement) if isinstance(node, ast.Global) for name in node.names)
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


def _value_or_not(node: ast.expr, names: dict[str, Any]) -> Any:
    try:
        return value_of(node, names)
    except NotPlain as why:
        return why
    except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
        return NotPlain(f"it cannot be worked out: {error}")


def value_of(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value of a literal, of arithmetic of literals, or of an earlier name. Raises `NotPlain`, and what arithmetic raises."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | None):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.Tuple | ast.List):
        return [value_of(item, names) for item in node.elts]
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in node.keys):
        return {ast.literal_eval(key): value_of(value, names) for key, value in zip(node.keys, node.values, strict=True) if key is not None}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return -_number(node.operand, names) if isinstance(node.op, ast.USub) else _number(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = _number(node.left, names), _number(node.right, names)
        if isinstance(node.op, ast.Pow) and (abs(right) > BITS or abs(left) > 2**BITS):
            raise NotPlain("too large a power")
        made = OPERATORS[type(node.op)](left, right)
        if not isinstance(made, int | float) or (isinstance(made, int) and made.bit_length() > BITS**2):
            raise NotPlain("too large a number")
        return made
    raise NotPlain(f"`{type(node).__name__}` is neither a literal nor arithmetic of literals")


def _number(node: ast.expr, names: dict[str, Any]) -> Any:
    value = value_of(node, names)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotPlain("arithmetic of something else than numbers")
    return value


__all__ = ["ORDER", "assigned", "fits", "read", "value_of"]
