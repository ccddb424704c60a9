"""Names that classes of a script read and that only `if __name__ == "__main__":` gives: sizes, as a script of one file has them.

    class Net(nn.Module):                            if __name__ == "__main__":
        def __init__(self):                              width, words = 512, {"a": 0, "b": 1}
            self.table = nn.Embedding(rows, width)       rows = len(words)

What they are made of is run, statement by statement, up to there: nothing that makes a model, trains, or is asked for by no class.
"""

from __future__ import annotations

import ast
import builtins
import os
import symtable
from collections.abc import Iterator
from types import ModuleType

from screen.capture.build import python_file
from screen.capture.build.piecewise import Reading, is_guard

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def supply(module: ModuleType, reading: Reading) -> None:
    """Give a module what its classes read and only its guard makes; a line of the `reading` says so."""
    path = getattr(module, "__file__", None) or ""
    text = _source(path)
    guards = [n for n in ast.parse(text).body if isinstance(n, ast.If) and is_guard(n)] if "__name__" in text else []
    if not guards:
        return
    body = [statement for guard in guards for statement in guard.body]
    wanted = _read_by_classes(module, text, path) & {name for statement in body for name in _stored(statement)} - {*vars(module), *dir(builtins)}
    if not wanted:
        return
    before, lines = set(vars(module)), []
    for statement in _made_of(body, wanted, set(python_file.defined_classes(module))):
        try:
            exec(compile(ast.Module([statement], []), path, "exec", dont_inherit=True), vars(module))
        except (Exception, SystemExit):  # data that are not here
            continue
        lines.append(statement.lineno)
    made = sorted(wanted & set(vars(module)))
    for name in set(vars(module)) - before - set(made) - {"__builtins__"}:  # what they are made of is a candidate for nothing
        del vars(module)[name]
    if made:
        listed = ", ".join(f"`{name}`" for name in made)
        reading.lines.append(f"{listed}: as its `__main__` has them, from {os.path.basename(path)}:{lines[0]} on")


def _source(path: str) -> str:
    """The text of a file; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return ""
    return text


def _read_by_classes(module: ModuleType, text: str, path: str) -> set[str]:
    """The global names that the module classes of a file read, in functions of it that they name too."""
    tables = {table.get_name(): table for table in symtable.symtable(text, path, "exec").get_children()}
    below = python_file.references(module)
    named = {name for cls in python_file.defined_classes(module) for name in (cls, *below.get(cls, ()))}
    return {symbol for name in named & set(tables) for symbol in _globals(tables[name])}


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    yield from (symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced())
    for child in table.get_children():
        yield from _globals(child)


def _made_of(body: list[ast.stmt], wanted: set[str], classes: set[str]) -> list[ast.stmt]:
    """The statements of a guard that make these names, with what they need, above the first that names a class of modules or trains."""
    last = next((n for n, statement in enumerate(body) if classes & {*_loaded(statement)} or _trains(statement)), len(body))
    needed, chosen = set(wanted), []
    for statement in reversed(body[:last]):
        touched = {*_stored(statement), *_asked(statement)}
        if touched & needed:
            needed |= {*_loaded(statement)}
            chosen.append(statement)
    return chosen[::-1]


def _stored(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement gives a value to."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, _SCOPES) and not isinstance(node, ast.Lambda):
            yield node.name


def _asked(statement: ast.stmt) -> Iterator[str]:
    """The names whose entries a statement changes, or whose methods it calls for what they do, `words.append(…)`, `table["a"] = 0`."""
    for node in ast.walk(statement):
        holder = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else node
        changes = isinstance(holder, ast.Attribute | ast.Subscript) and (holder is not node or isinstance(holder.ctx, ast.Store))
        while isinstance(holder, ast.Attribute | ast.Subscript):
            holder = holder.value
        if changes and isinstance(holder, ast.Name):
            yield holder.id


def _loaded(statement: ast.stmt) -> Iterator[str]:
    yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))


def _trains(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in ast.walk(statement))


__all__ = ["supply"]
