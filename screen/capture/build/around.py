"""What stands around a call in its file: the names of the function that it is in, and the classes and functions that the file has by name."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
from typing import Any

from torch import nn

from screen.capture.build.literals import Open, literals, value_of


def _function(tree: ast.AST, call: ast.Call) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function around a call."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    around = [f for f in functions if f.lineno <= getattr(call, "lineno", 0) <= (f.end_lineno or 0)]
    return around[-1] if around and any(node is call for node in ast.walk(around[-1])) else None  # inner ones come last


def names_at(tree: ast.AST, call: ast.Call, names: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The names that stand for literals where a call is: those of a file, and over them those of the function around it, the defaults of its
    parameters with them."""
    function = _function(tree, call)
    if function is None:
        return names
    own = [*function.args.posonlyargs, *function.args.args]
    pairs = [*zip(own[::-1], function.args.defaults[::-1], strict=False), *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)]
    found: dict[str, Any] = {}
    for parameter, default in pairs:
        with contextlib.suppress(Open):
            found |= {parameter.arg: value_of(default, names, options, {})} if default is not None else {}
    return {**names, **found, **literals(ast.Module(function.body, []), options)}


def thing_of(node: ast.expr, tree: ast.AST, call: ast.Call, names: dict[str, Any], seen: dict[str, Any]) -> Any:
    """A class of modules or a function that a file has by name, as it is or with arguments of its own, `partial(nn.LayerNorm, eps=1e-6)`; a name
    of the function around the call is what it is given there, once. Raises `Open`."""
    if isinstance(node, ast.Name) and (function := _function(tree, call)) is not None:
        given = [n.value for n in ast.walk(function) if isinstance(n, ast.Assign) and any(ast.unparse(t) == node.id for t in n.targets)]
        if len(given) > 1 or node.id in {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}:
            raise Open
        node = given[0] if given else node
    if isinstance(node, ast.Call) and _seen(node.func, seen) is functools.partial and node.args:
        held = _of_file(node.args[0], seen)
        try:
            given_to = {k.arg: value_of(k.value, names, {}, {}) for k in node.keywords if k.arg}
            return functools.partial(held, *(value_of(a, names, {}, {}) for a in node.args[1:]), **given_to)
        except TypeError:
            raise Open from None
    return _of_file(node, seen)


def _seen(node: ast.expr, seen: dict[str, Any]) -> Any:
    """What a name stands for, or an entry of a module or class that has a name; None where it is nothing."""
    if isinstance(node, ast.Attribute):
        held = _seen(node.value, seen)
        return getattr(held, node.attr, None) if inspect.ismodule(held) or isinstance(held, type) else None
    return seen.get(node.id) if isinstance(node, ast.Name) else None


def _of_file(node: ast.expr, seen: dict[str, Any]) -> Any:
    held = _seen(node, seen)
    if inspect.isroutine(held) or (isinstance(held, type) and issubclass(held, nn.Module)):
        return held
    raise Open


__all__ = ["names_at", "thing_of"]
