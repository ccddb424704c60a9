"""Arguments as the file itself gives them: a call of the class in its own file (in `main`, under the guard, in another function), literals only.

    model = GPT(vocab_size=50257, n_layer=12)          the arguments of this call
    CONFIG = {"dim": 768, …}; model = GPT(CONFIG)      with names that stand for literals of the file
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

from screen.capture.build.configs import globals_of, literals_of


def example(entry: Any, wanted: list[str]) -> tuple[dict[str, Any], int]:
    """Arguments by name of the first call in the file that gives all of `wanted`, and its line; nothing, and 0, where there is none."""
    try:
        file = inspect.getsourcefile(entry) or ""
        signature = inspect.signature(entry)
    except (TypeError, ValueError):
        return {}, 0
    tree, known = literals_of(file)
    names = globals_of(entry)
    for call in _calls(tree, getattr(entry, "__name__", "")):
        found: dict[str, Any] = {}
        positional = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for name, value in [*zip(positional, call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg in signature.parameters)]:
            if name is not None and (literal := _literal(value, known, names)) is not None:
                found[name] = literal
        if all(name in found for name in wanted):
            return found, call.lineno
    return {}, 0


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


__all__ = ["example"]
