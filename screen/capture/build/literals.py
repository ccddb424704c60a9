"""What the names of a source stand for: literals, the defaults of a command line, and arithmetic with such. Nothing of the source is run."""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import enum
import types
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy

PASSES = 2
"""Times that a source is gone through: what stands outside may be made of what stands under a condition above it."""
_ARITHMETIC = ("max", "min", "int", "len", "round", "float", "bool", "str")
_FUNCTIONS = {name: getattr(builtins, name) for name in _ARITHMETIC}
"""All that Python has of its own there: `type` and `__name__` are names that the source does not tell."""
_ARRAYS = ("linspace", "arange", "array", "asarray", "geomspace", "logspace", "sqrt", "log", "log2", "exp")
_ENVIRONMENT = ("os.environ.get", "os.getenv", "environ.get", "getenv")
"""What reads a variable of the environment: what it is where nobody has set it is what the author says."""
LONG = 10_000
"""Numbers in a call of numpy that is run to find a value."""


class Entries(types.SimpleNamespace):
    """The names of a module of settings, `import config`, and then `config.width`."""

    def __str__(self) -> str:
        return f"the names of `{self.__name__}`"

    __repr__ = __str__


def literals(tree: ast.AST, options: dict[str, Any], imported: dict[str, Any] | None = None) -> dict[str, Any]:
    """The names that are given a literal anywhere in a source that is not under a condition which is told to be false (the first one), with the
    defaults of its command line, and those it has `imported`; of a table the entries that can be told."""
    above = imported or {}
    found: dict[str, Any] = {}
    partly: set[str] = set()
    names = ChainMap(found, above)
    for _ in range(PASSES):
        before = len(found), len(partly)
        for node in _walked(tree, names, options):
            target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
            if not isinstance(target, ast.Name | ast.Tuple) or not isinstance(node, ast.Assign):
                continue
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)  # `batch, length = 3, 80`
            pairs = zip(target.elts, node.value.elts, strict=False) if several else [(target, node.value)]  # type: ignore[union-attr, attr-defined]
            for name, value in [(one.id if isinstance(one, ast.Name) else "", value) for one, value in pairs]:
                with contextlib.suppress(Open):
                    if name not in found or name in partly:
                        told, whole = _told(value, names, options)
                        found[name] = found.get(name, {}) | told if name in partly else told
                        partly = partly - {name} if whole else partly | {name}
        if before == (len(found), len(partly)):
            break
    return {**above, **found}


def _walked(tree: ast.AST, names: Mapping[str, Any], options: dict[str, Any]) -> Iterator[ast.AST]:
    """The nodes of a source, outer ones first, without those under a condition that these names decide the other way."""
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        yield node
        left: list[ast.stmt] = []
        if isinstance(node, ast.If):
            with contextlib.suppress(Open):
                left = node.orelse if value_of(node.test, names, options, {}) else node.body
        waiting += [inner for inner in ast.iter_child_nodes(node) if inner not in left]


def _told(node: ast.expr, names: Mapping[str, Any], options: dict[str, Any]) -> tuple[Any, bool]:
    """A value, or of a table that is written out, `{"depth": args.depth, "rows": len(words)}`, what of it can be told; and whether that is all.
    Raises `Open`."""
    try:
        return value_of(node, names, options, {}), True
    except Open:
        pairs: list[tuple[Any, ast.expr]] = []
        if isinstance(node, ast.Dict):
            pairs = [(key.value, value) for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dict" and not node.args:
            pairs = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
        found = {}
        for key, value in pairs:
            with contextlib.suppress(Open):
                found[key] = value_of(value, names, options, {})
        if not found:
            raise
        return found, False


def options(tree: ast.AST) -> dict[str, Any]:
    """The defaults of a command line, `parser.add_argument("--n-layer", default=12)`, and what is written over them, `args.n_layer = 6`."""
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            words = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            said = {k.arg: k.value for k in node.keywords}
            name = max(words, key=lambda w: (w.startswith("--"), len(w)), default="").lstrip("-").replace("-", "_")
            action = getattr(said.get("action"), "value", "")
            try:
                default = value_of(said["default"], {}, {}, {}) if "default" in said else {"store_true": False, "store_false": True}[action]
            except (Open, KeyError, TypeError):
                continue
            found.setdefault(str(getattr(said.get("dest"), "value", name)), default)
    called = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
    parsed = [n for n in called if ast.unparse(n.value).endswith("parse_args()")]
    held = {t.id for n in parsed for t in n.targets if isinstance(t, ast.Name)}
    for node in ast.walk(tree):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in held and isinstance(node, ast.Assign):
            with contextlib.suppress(Open):
                found.setdefault(target.attr, value_of(node.value, {}, {}, {}))
    for key, value in _of_classes(tree).items():
        found.setdefault(key, value)
    return found


def _of_classes(tree: ast.AST) -> dict[str, Any]:
    """The entries of the classes of settings of a source, without bases or methods, that it makes an object of, `args = Settings()`, or reads them of
    by name, `Settings.width`: those that one such class alone has."""
    calls = (n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call))
    made = {call.func.id: call for call in calls if isinstance(call.func, ast.Name) and not call.args}
    read = {n.value.id for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
    found: dict[str, list[Any]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or node.bases or node.name not in {*made, *read}:
            continue
        if any(isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for s in node.body):
            continue
        entries = entries_of(node)
        for keyword in made[node.name].keywords if node.name in made else ():
            entries.pop(keyword.arg or "", None)
            with contextlib.suppress(Open):
                entries |= {keyword.arg: value_of(keyword.value, {}, {}, {})} if keyword.arg else {}
        for key, value in entries.items():
            found.setdefault(key, []).append(value)
    return {key: values[0] for key, values in found.items() if len(values) == 1}


def entries_of(node: ast.ClassDef) -> dict[str, Any]:
    """The entries that the body of a class gives a value which can be told; later ones may be made of those above."""
    found: dict[str, Any] = {}
    for statement in node.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        value = getattr(statement, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.expr):
            found.pop(target.id, None)
            with contextlib.suppress(Open):
                found[target.id] = value_of(value, found, {}, {})
    return found


class Open(Exception):
    """A value that the source does not tell."""


def _is_arithmetic(call: ast.Call) -> bool:
    """Is a call one of a few functions of numbers, `max(a, b)`, `np.linspace(0, 1, 50).tolist()`, that makes no large array?"""
    func = call.func
    if isinstance(func, ast.Name):
        return func.id in _ARITHMETIC
    large = any(isinstance(n, ast.Constant) and isinstance(n.value, int | float) and abs(n.value) > LONG for n in ast.walk(call))
    if not isinstance(func, ast.Attribute) or large:
        return False
    return func.attr == "tolist" or (func.attr in _ARRAYS and ast.unparse(func.value) in ("np", "numpy"))


def _is_option(node: ast.AST, options: dict[str, Any]) -> bool:
    """Is it one of these, `args.width`, `self.args.width`?"""
    if not isinstance(node, ast.Attribute) or node.attr not in options:
        return False
    return isinstance(node.value, ast.Attribute) or (isinstance(node.value, ast.Name) and node.value.id != "self")


def _unset(node: ast.AST) -> ast.expr | None:
    """What a call that reads a variable of the environment gives where it is not set; None for every other node."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) not in _ENVIRONMENT:
        return None
    return node.args[1] if len(node.args) > 1 else ast.Constant(None)


class _Options(ast.NodeTransformer):
    """Puts the values of options, and of variables of the environment that nobody has set, into arithmetic with them, `4 * args.width`."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An option that is a number or a word."""
        value = self.options[node.attr] if _is_option(node, self.options) else ...
        return ast.Constant(value) if isinstance(value, int | float | str | None) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A variable of the environment."""
        default = _unset(node)
        return self.generic_visit(node) if default is None else self.visit(default)


def value_of(node: ast.expr, names: Mapping[str, Any], options: dict[str, Any], seen: dict[str, Any]) -> Any:
    """The value of a literal, of a name that stands for one, of an entry or an option, or of arithmetic with such. Raises `Open`."""
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    held = names.get(node.value.id) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else None
    if isinstance(node, ast.Attribute) and isinstance(held, Entries):
        if not hasattr(held, node.attr):
            raise Open
        return getattr(held, node.attr)
    if _is_option(node, options):
        return options[node.attr]  # type: ignore[attr-defined]
    kind = seen.get(ast.unparse(node.value).rpartition(".")[2]) if isinstance(node, ast.Attribute) else None
    if isinstance(node, ast.Attribute) and isinstance(kind, enum.EnumMeta) and node.attr in kind.__members__:
        return kind[node.attr]  # `Kind.RECURRENT`, by whichever way it is imported
    if isinstance(node, ast.Tuple | ast.List) and not any(isinstance(entry, ast.Starred) for entry in node.elts):
        entries = [value_of(entry, names, options, seen) for entry in node.elts]
        return entries if isinstance(node, ast.List) else tuple(entries)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.device", "device"):
        return "cpu"  # where this is built, a device is meta in any case
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        return {k.arg: value_of(k.value, names, options, seen) for k in node.keywords if k.arg}
    if isinstance(node, ast.Subscript):
        key = value_of(node.slice, names, options, seen)
        try:
            return value_of(node.value, names, options, seen)[key]
        except (KeyError, IndexError, TypeError):
            raise Open from None
        except Open:  # `settings["depth"]` of what a function is handed: the one table of the source that has such an entry
            tables = [t for t in names.values() if type(t) is dict and key in t] if isinstance(node.value, ast.Name) and type(key) is str else []
            if len(tables) != 1:
                raise
            return tables[0][key]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    if (default := _unset(node)) is not None:
        return value_of(default, names, options, seen)
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    if isinstance(node, ast.Name) or not all(_is_arithmetic(n) or _unset(n) is not None for n in calls):
        raise Open
    try:
        known = {**names, **seen, "np": numpy, "numpy": numpy, "__builtins__": _FUNCTIONS}
        told = ast.fix_missing_locations(_Options(options).visit(copy.deepcopy(node))) if options or calls else node
        result = eval(compile(ast.Expression(told), "<call>", "eval"), known)  # arithmetic on names of the file
    except Exception:  # a name of the function around it
        raise Open from None
    result = result.tolist() if isinstance(result, numpy.ndarray | numpy.generic) else result
    if not isinstance(result, int | float | str | list | tuple | dict):
        raise Open
    return result


def number_or_word(text: str) -> Any:
    """What a word of a command line stands for."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, int | float | list | tuple) else text


__all__ = ["Entries", "Open", "entries_of", "literals", "number_or_word", "options", "value_of"]
