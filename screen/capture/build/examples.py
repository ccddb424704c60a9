"""Arguments as the file itself gives them: a call of the class in its own file (in `main`, under the guard, in another function), or in the examples
of its docstring, literals only.

    model = GPT(vocab_size=50257, n_layer=12)          the arguments of this call
    CONFIG = {"dim": 768, …}; model = GPT(CONFIG)      with names that stand for literals of the file
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import itertools
from collections.abc import Iterator
from typing import Any

from screen.capture.build.configs import globals_of, literals_of


STATEMENTS = 40
"""Of the examples of a docstring."""


def example(entry: Any, wanted: list[str]) -> tuple[dict[str, Any], int]:
    """Arguments by name of the first call that gives all of `wanted`, and its line; nothing, and 0, where there is none."""
    try:
        file = inspect.getsourcefile(entry) or ""
        signature = inspect.signature(entry)
    except (TypeError, ValueError):
        return {}, 0
    tree, known = literals_of(file)
    names = globals_of(entry)
    for call in itertools.chain.from_iterable(_calls(t, getattr(entry, "__name__", "")) for t in (tree, ast.Module(documented(entry), []))):
        found: dict[str, Any] = {}
        positional = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for name, value in [*zip(positional, call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg in signature.parameters)]:
            if name is not None and (literal := _literal(value, known, names)) is not None:
                found[name] = literal
        if all(name in found for name in wanted):
            return found, call.lineno
    return {}, 0


def documented(cls: Any) -> list[ast.stmt]:
    """The assignments, expressions and imports of the examples of a class and of its forward, up to one that reads weights: none are downloaded.

    Of other packages than torch and its own none is imported; examples that are no Python are left out."""
    known = {"torch", "math", str(getattr(cls, "__module__", "")).partition(".")[0]}
    found: list[ast.stmt] = []
    for owner in (cls, getattr(cls, "__init__", None), getattr(cls, "forward", None)):
        text = inspect.getdoc(owner) if owner is not None else None
        with contextlib.suppress(ValueError, SyntaxError):
            read = ast.parse("".join(example.source for example in doctest.DocTestParser().get_examples(text or ""))).body
            found += itertools.takewhile(lambda s: not any(getattr(n, "attr", "") == "from_pretrained" for n in ast.walk(s)), read)
    return [s for s in found if isinstance(s, ast.Assign | ast.Expr) or _imported(s) & known][:STATEMENTS]


def _imported(statement: ast.stmt) -> set[str]:
    """The package that an import names."""
    if isinstance(statement, ast.ImportFrom):
        return {(statement.module or "").partition(".")[0]} if not statement.level else set()
    return {a.name.partition(".")[0] for a in statement.names} if isinstance(statement, ast.Import) and len(statement.names) == 1 else set()


def _calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def _literal(node: ast.expr, known: dict[str, Any], names: dict[str, Any]) -> Any:
    """The value of a literal, of a name that stands for one, or of arithmetic with such names; None where it is none of these."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    called = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    if not all(isinstance(f, ast.Name) and f.id in ("max", "min", "int", "len", "round") for f in called):
        return None
    try:
        return eval(compile(ast.Expression(node), "<call>", "eval"), {**known, **names})  # arithmetic on names of the file
    except Exception:  # a name of the function around it
        return None


__all__ = ["documented", "example"]
