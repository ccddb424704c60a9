"""What code reads of an argument, told from its source: attributes, keys, and what it asks by name."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import sys
import tokenize
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_MAP = (("in_features", "width"), ("out_features", "width"))
_CONVOLUTION = (("in_channels", "width"), ("out_channels", "width"), ("kernel_size", "kernel"))
_RECURRENT = (("input_size", "width"), ("hidden_size", "width"), ("num_layers", "count"))
_LAYERS = {
    "Linear": _MAP,
    **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"), _CONVOLUTION),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _RECURRENT),
    **dict.fromkeys(("LayerNorm", "RMSNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d"), (("normalized_shape", "width"),)),
    "Embedding": (("num_embeddings", "rows"), ("embedding_dim", "width")),
    "Dropout": (("p", "rate"),),
    "MultiheadAttention": (("embed_dim", "width"), ("num_heads", "heads")),
    "range": (("stop", "count"),),
}
"""Layers of torch, and `range`, with what their first arguments are."""
_COUNTS = ("len", "enumerate", "zip", "sum", "list", "tuple", "reversed", "sorted")
"""Functions of what has several entries."""
HANDED = 8
"""Calls through which an argument is followed."""
NOT_ATTRIBUTES = frozenset(vars(dict)) | {"to_dict", "merge_from_dict"}


@functools.lru_cache(maxsize=64)
def tree_of(entry: Any) -> ast.AST | None:
    """The source of a class (its constructor, with those of its bases in the same file) or of a function."""
    text = source_of(entry)
    try:
        return ast.parse(inspect.cleandoc("\n" + text)) if text is not None else None
    except SyntaxError:
        return None


def source_of(entry: Any) -> str | None:
    """The text of a class, a function or a module; None where it cannot be had: the lines that code says it stands on are what somebody made them."""
    try:
        return (_of_class(entry) if inspect.isclass(entry) else None) or inspect.getsource(entry)
    except (OSError, TypeError, SyntaxError, IndexError, ValueError, tokenize.TokenError):
        return None


def _of_class(cls: type[Any]) -> str | None:
    """What `inspect` gives, which parses the whole file for each class."""
    file = inspect.getsourcefile(cls) or ""
    lines = linecache.getlines(file, vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else None)
    first, last = _classes_of("".join(lines)).get(cls.__qualname__, (0, 0))
    return "".join(lines[first - 1 : last]) if first else None


@functools.lru_cache(maxsize=32)
def _classes_of(text: str) -> dict[str, tuple[int, int]]:
    """First line, with decorators, and last one of each class of a file by its qualified name: the first of several of one name."""
    found: dict[str, tuple[int, int]] = {}
    stack: list[tuple[ast.AST, str]] = [(ast.parse(text), "")]
    while stack:
        node, prefix = stack.pop()
        if isinstance(node, ast.ClassDef):
            found[prefix + node.name] = (min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or node.lineno)
            prefix += f"{node.name}."
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            prefix += f"{node.name}.<locals>."
        stack.extend((child, prefix) for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case))
    return found


def reads(entry: Any, name: str) -> dict[str, bool]:
    """The names that the code of `entry` reads of its argument `name` (`cfg.x`, `cfg["x"]`), with whether each must be there."""
    tree, held = tree_of(entry), held_as(entry, name)
    found: dict[str, bool] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in held and isinstance(node.ctx, ast.Load):
            if node.attr not in NOT_ATTRIBUTES:
                found[node.attr] = True
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) in held:
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                found[node.slice.value] = True
        elif isinstance(node, ast.Call) and (key := asked_for(node, name)):
            found.setdefault(key, False)
    return found | dict.fromkeys(_unmade(entry, tree) if spreads(entry, name) else (), True)


def spreads(entry: Any, name: str) -> bool:
    """Does a class make the entries of an argument its own attributes: `self.__dict__.update(config)`, `for key in config: setattr(self, key, …)`?"""
    tree, held = tree_of(entry) if isinstance(entry, type) else None, held_as(entry, name)
    pairs = {f"{one}.items()" for one in held} | held
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("self.__dict__.update", "vars(self).update"):
            if any(ast.unparse(value) in held for value in (*node.args, *(k.value for k in node.keywords if k.arg is None))):
                return True
        elif isinstance(node, ast.For) and ast.unparse(node.iter) in pairs:
            calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and ast.unparse(n.func) == "setattr" and n.args]
            if any(ast.unparse(n.args[0]) == "self" for n in calls):
                return True
    return False


def _unmade(cls: type[Any], tree: ast.AST | None) -> list[str]:
    """The attributes that a class reads of its objects and that nothing in it or its bases makes."""
    nodes = [n for base in cls.__mro__ if not _is_of_torch(base) for n in ast.walk(tree_of(base) or ast.Module([], []))]
    made = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    calls = [n for n in nodes if isinstance(n, ast.Call) and n.args]
    made |= {str(n.args[0].value) for n in calls if isinstance(n.args[0], ast.Constant)}  # `register_buffer("mask", …)`
    own = [n.attr for n in ast.walk(tree or ast.Module([], [])) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "self"]
    return list(dict.fromkeys(name for name in own if name not in made and name != "training" and not hasattr(cls, name)))


def reads_below(entry: Any, name: str, seen: frozenset[tuple[Any, str]] = frozenset()) -> dict[str, bool]:
    """As `reads`; where `entry` itself reads nothing, what is read by the classes and functions to which it hands the argument on, `Encoder(cfg)`, or
    by one that takes its entries as arguments, `Settings(**cfg)`."""
    found = reads(entry, name)
    if (found and not spreads(entry, name)) or (entry, name) in seen or len(seen) > HANDED:
        return found
    for other, key in handed_on(entry, name):
        more = reads_below(other, key, seen | {(entry, name)}) if key else _taken(other)
        found |= {one: must or found.get(one, False) for one, must in more.items()}
    return found


def unpacked(entry: Any, name: str) -> list[str]:
    """What `Settings(**cfg)` must find in the argument `name`: no access by a name tells there that it is missing."""
    return [key for other, at in handed_on(entry, name) if not at for key, must in _taken(other).items() if must]


def handed_on(entry: Any, name: str) -> Iterator[tuple[Any, str]]:
    """The classes and functions to which the code of `entry` hands its argument `name` whole, each with the name that it has there: an empty one
    where its entries become the arguments that the call does not say, `Settings(**cfg)`."""
    tree, names = tree_of(entry), {**globals_of(entry), **vars(sys.modules.get(str(getattr(entry, "__module__", "")), sys))}
    held = {*held_as(entry, name), *_kept_as(tree, name)}
    for node in ast.walk(tree) if tree is not None else ():
        other = _called(node.func, names) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not (isinstance(other, type) or inspect.isfunction(other)) or _is_of_torch(other):
            continue
        try:
            known = inspect.signature(other).parameters.values()
        except (TypeError, ValueError):
            continue
        places = [p.name for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        pairs = [*zip(places, node.args, strict=False), *((k.arg, k.value) for k in node.keywords)]
        said = functools.partial(other, *node.args, **{k.arg: k.value for k in node.keywords if k.arg})  # `Part(width, **cfg)`: without the width
        yield from ((other if key else said, key or "") for key, value in pairs if ast.unparse(value) in held)


def _is_of_torch(other: Any) -> bool:
    return str(getattr(other, "__module__", "")).partition(".")[0] in ("torch", "builtins")


def _kept_as(tree: ast.AST | None, name: str) -> Iterator[str]:
    """Other names of an argument, or of an entry of one: `self.cfg = cfg`, `self.a, self.b = cfg.a, cfg.b`."""
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign):
            for target in node.targets:
                several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                pairs = zip(target.elts, node.value.elts, strict=False) if several else [(target, node.value)]  # type: ignore[attr-defined]
                yield from (ast.unparse(one) for one, value in pairs if isinstance(one, ast.Attribute) and ast.unparse(value) == name)


def entries_told(entry: Any, name: str, deep: int = HANDED // 2) -> int:
    """How many entries the code says that an argument has, `height, width = size`, `size[1]`, here or where it hands it on; 0 where it does not."""
    tree = tree_of(entry)
    held, most = {name, *_kept_as(tree, name)}, 0
    for node in ast.walk(tree or ast.Module([], [])):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and ast.unparse(node.value) in held:
            return len(node.targets[0].elts)
        place = node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else None
        if type(place) is int and ast.unparse(node.value) in held:  # type: ignore[attr-defined]
            most = max(most, place + 1)
    return most or (max((entries_told(other, key, deep - 1) for other, key in handed_on(entry, name) if key), default=0) if deep else 0)


def used_as(entry: Any, path: str, deep: int = HANDED // 2) -> str:
    """What an argument, or an entry of one (`cfg.width`), is to the layers that the code makes with it: "width", "rows", "rate", "count", "kernel" or
    "heads"; empty where it goes into none."""
    tree = tree_of(entry)
    held = {path, *_kept_as(tree, path)}
    for node in ast.walk(tree or ast.Module([], [])):
        known = _LAYERS.get(ast.unparse(node.func).rpartition(".")[2], ()) if isinstance(node, ast.Call) else ()
        if not known or not isinstance(node, ast.Call):
            continue
        places = dict(known)
        pairs = [*zip([use for _, use in known], node.args, strict=False), *((places.get(k.arg or ""), k.value) for k in node.keywords)]
        found = next((use for use, value in pairs if use and held & {ast.unparse(n) for n in ast.walk(value) if isinstance(n, ast.expr)}), "")
        if found:
            return found
    below = ((other, key) for other, key in handed_on(entry, path) if key) if deep else ()
    return next((found for other, key in below if (found := used_as(other, key, deep - 1))), "")


def held_as(entry: Any, name: str) -> set[str]:
    """What stands for an argument in the code of `entry`: its name, and where the constructor is that of a class below, which keeps it (`self.H = H`)
    and leaves the rest to another method, what it keeps it as."""
    if not isinstance(entry, type) or "__init__" in vars(entry):
        return {name}
    below = next((c for c in entry.__mro__ if "__init__" in vars(c)), object)
    return {name} if _is_of_torch(below) else {name, *_kept_as(tree_of(below), name)}


def _called(node: ast.expr, names: dict[str, Any]) -> Any:
    """What a call names, `Encoder` or `parts.Encoder`, among the names of its file; None where it is none of them."""
    path = ast.unparse(node).split(".") if isinstance(node, ast.Name | ast.Attribute) else [""]
    found = names.get(path[0])
    for part in path[1:]:
        found = vars(found).get(part) if isinstance(found, ModuleType) else None
    return found


def _taken(other: Any) -> dict[str, bool]:
    """The arguments of a class or function, with whether each must be there; none where a call says more than it takes."""
    try:
        known = inspect.signature(other).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.default is p.empty for p in known if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def globals_of(entry: Any) -> dict[str, Any]:
    """The names that the code of a class or function sees."""
    code = inspect.unwrap(entry.__init__ if isinstance(entry, type) else entry) if entry is not None else None  # type: ignore[misc]
    module = sys.modules.get(str(getattr(entry, "__module__", "")))
    return dict(getattr(code, "__globals__", vars(module) if module is not None and isinstance(entry, type) else {}))


def written(entry: Any) -> dict[str, Any]:
    """What the code of a class writes to a configuration itself, `config.vocab_size = 50257` (in another method, for published weights)."""
    found: dict[str, Any] = {}
    tree = tree_of(entry)
    for node in ast.walk(tree) if tree is not None else ():
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and isinstance(value, ast.Constant) and value.value is not None:
            found.setdefault(target.attr, value.value)
    return found


def choices(entry: Any, name: str) -> dict[str, dict[str, list[str]]]:
    """Tables in the code that a name of its configuration looks up, `{"small": dict(depth=6), …}[cfg.size]`: `{"size": {"small": ["depth"], …}}`."""
    found: dict[str, dict[str, list[str]]] = {}
    tree = tree_of(entry)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Dict):
            continue
        asked = node.slice
        if isinstance(asked, ast.Attribute) and isinstance(asked.value, ast.Name) and asked.value.id == name:
            rows = zip(node.value.keys, node.value.values, strict=True)
            found[asked.attr] = {key.value: _names_in(row) for key, row in rows if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return found


def _names_in(row: ast.expr) -> list[str]:
    """The names in a row of settings, `dict(depth=6)` or `{"depth": 6}`."""
    if isinstance(row, ast.Call):
        return [k.arg for k in row.keywords if k.arg]
    keys = row.keys if isinstance(row, ast.Dict) else []
    return [k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]


def compared(entry: Any, name: str, deep: int = HANDED // 2) -> Iterator[str]:
    """The words that the code compares an argument with, `kind == "xavier"`, `kind in ("xavier", "kaiming")`, or looks up by it, `KINDS[kind]`: that
    of a class or function, then of the other classes of its file that have an argument of that name, and of functions to which it is handed on."""
    module = sys.modules.get(str(getattr(entry, "__module__", "")))
    others = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__] if module is not None else []
    for owner in (entry, *others):
        tree = tree_of(owner) or ast.Module([], [])
        given = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Dict) and inspect.isroutine(owner)]
        local = {ast.unparse(t): n.value for n in given for t in n.targets}
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and ast.unparse(node.left) in (name, f"self.{name}") and isinstance(node.ops[0], ast.Eq | ast.In):
                values = node.comparators[0].elts if isinstance(node.comparators[0], ast.List | ast.Tuple | ast.Set) else node.comparators
                yield from (v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str))
            if isinstance(node, ast.Subscript) and ast.unparse(node.slice) in (name, f"self.{name}"):
                written = local.get(ast.unparse(node.value), node.value)
                table = _called(node.value, vars(module)) if module is not None else None
                keys = [k.value for k in written.keys if isinstance(k, ast.Constant)] if isinstance(written, ast.Dict) else table
                yield from (key for key in keys if isinstance(key, str)) if isinstance(keys, dict | list) else ()
    for other, key in handed_on(entry, name) if deep and inspect.isroutine(entry) else ():
        if inspect.isroutine(other):
            yield from compared(other, key, deep - 1)


def is_iterated(entry: Any, name: str, deep: int = HANDED // 2) -> bool:
    """Does the code count an argument, go through it, cut it or join it to a list, `len(widths)`, `[n, *widths]`, here or where it hands it on?"""
    tree = tree_of(entry)
    held = {name, *_kept_as(tree, name)}
    for node in ast.walk(tree or ast.Module([], [])):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COUNTS:
            parts = node.args
        elif isinstance(node, ast.For | ast.comprehension):
            parts = [node.iter]
        elif isinstance(node, ast.Starred) or (isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant)):
            parts = [node.value]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and {type(node.left), type(node.right)} & {ast.List, ast.ListComp}:
            parts = [node.left, node.right]
        if held & {ast.unparse(part) for part in parts}:
            return True
    return deep > 0 and any(key and is_iterated(other, key, deep - 1) for other, key in handed_on(entry, name))


def only_tested(entry: Any, path: str) -> bool:
    """Does the code of a class or function ask of an argument, or of an entry of one (`cfg.tied`), whether it holds and nothing else?"""
    tree = tree_of(entry) or ast.Module([], [])
    held = {path, f"self.{path}", *_kept_as(tree, path)}
    asked = [n for n in ast.walk(tree) if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Load) and ast.unparse(n) in held]
    waiting = [n.test for n in ast.walk(tree) if isinstance(n, ast.If | ast.IfExp | ast.Assert)]
    for test in waiting:
        waiting += test.values if isinstance(test, ast.BoolOp) else [test.operand] if isinstance(test, ast.UnaryOp) else []
    tested = {id(test) for test in waiting}
    kept = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Assign) and {ast.unparse(t) for t in n.targets} & held}
    return any(id(n) in tested for n in asked) and all(id(n) in tested | kept for n in asked)


def is_set(entry: Any, name: str, key: str) -> bool:
    """Does the code write this name of its configuration itself, `cfg.x = …`?"""
    tree = tree_of(entry)
    return any(
        isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name) and n.value.id == name and n.attr == key
        for n in (ast.walk(tree) if tree is not None else ())
    )


def with_defaults(node: ast.ClassDef) -> list[str]:
    """The names that an object of a class has where all have defaults: fields of a dataclass, or what its constructor keeps; none elsewhere."""
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    if init is None:
        return [ast.unparse(n.target) for n in fields] if all(n.value is not None for n in fields) else []
    taken = [*init.args.posonlyargs, *init.args.args]
    kept = [n for n in ast.walk(init) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    own = [n.attr for n in kept if taken and isinstance(n.value, ast.Name) and n.value.id == taken[0].arg]
    return own if len(init.args.defaults) == len(taken) - 1 and None not in init.args.kw_defaults else []


def below(entry: Any, name: str, key: str) -> list[str]:
    """What the code of `entry` reads of an entry of its argument, `config.model.width`, by dotted paths from the argument; the entry itself where it
    reads nothing of it."""
    tree = tree_of(entry)
    found = []
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == f"{name}.{key}" and node.attr not in NOT_ATTRIBUTES:
            found.append(f"{key}.{node.attr}")
    return list(dict.fromkeys(found)) or [key]


def entries_read(entry: Any, name: str) -> list[str]:
    """The keys that the code reads of its argument `name`, `batch["x"]`."""
    tree = tree_of(entry)
    subscripts = [
        n.slice.value
        for n in (ast.walk(tree) if tree is not None else ())
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and n.value.id == name and isinstance(n.slice, ast.Constant)
    ]
    return list(dict.fromkeys(key for key in subscripts if isinstance(key, str)))


def entries_offered(entry: Any, name: str) -> list[str]:
    """The keys that the code asks its argument `name` for: those that it reads, `name.get("x")`, and those of the table that stands for it where it
    is left out, `name or {"x": None}`."""
    tree = tree_of(entry)
    found = entries_read(entry, name)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and (key := asked_for(node, name)):
            found.append(key)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and isinstance(node.values[0], ast.Name) and node.values[0].id == name:
            tables = [v for v in node.values[1:] if isinstance(v, ast.Dict)]
            found += [k.value for v in tables for k in v.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
    return list(dict.fromkeys(found))


def asked_for(call: ast.Call, name: str) -> str:
    """The name in `cfg.get("x")` and `getattr(cfg, "x", default)`; one of Python's own (`__deepcopy__`) is asked of any object."""
    method = isinstance(call.func, ast.Attribute) and call.func.attr == "get" and isinstance(call.func.value, ast.Name) and call.func.value.id == name
    function = isinstance(call.func, ast.Name) and call.func.id in ("getattr", "hasattr") and len(call.args) > 1
    if method and call.args:
        key = call.args[0]
    elif function and isinstance(call.args[0], ast.Name) and call.args[0].id == name:
        key = call.args[1]
    else:
        return ""
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) and not key.value.startswith("__") else ""


def is_read_by_name(key: str, *sources: Any) -> bool:
    """Does modelling code ask a configuration for this name, `getattr(config, "key")`, in one of these modules?"""
    pattern = re.compile(rf"""(?:getattr|hasattr)\(\s*[\w.]+\s*,\s*["']{re.escape(key)}["']|\.get\(\s*["']{re.escape(key)}["']""")
    return any(source is not None and pattern.search(source_of(source) or "") for source in sources)


def is_read_of(name: str, key: str, *sources: Any) -> bool:
    """Does one of these modules read a setting of a configuration, by whatever name of such it goes there, or by its own name?"""
    pattern = re.compile(rf"\b({re.escape(name)}|\w*(config|cfg|args)|self)\.{re.escape(key)}\b")
    return is_read_by_name(key, *sources) or any(source is not None and pattern.search(source_of(source) or "") for source in sources)


def only_kept(cls: Any, name: str) -> bool:
    """Does a constructor do nothing with an argument but keep it, `self.tokenizer = tokenizer`, and its forward not ask for that?"""
    tree = tree_of(cls) if isinstance(cls, type) else None
    body = next((n.body for n in ast.walk(tree) if isinstance(n, ast.ClassDef)), []) if tree is not None else []
    methods = {n.name: n for n in body if isinstance(n, ast.FunctionDef)}
    if not {"__init__", "forward"} <= {*methods}:
        return False
    kept = {ast.unparse(t): n.value for n in ast.walk(methods["__init__"]) if isinstance(n, ast.Assign) for t in n.targets}
    places = {target for target, value in kept.items() if isinstance(value, ast.Name) and value.id == name and target.startswith("self.")}
    asked = [n for n in ast.walk(methods["__init__"]) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    read = {ast.unparse(n) for m in methods.values() if m.name in ("__init__", "forward") for n in ast.walk(m) if _is_load(n)}
    return bool(places) and len(asked) == len(places) and not places & read


def _is_load(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)


__all__ = [
    "HANDED",
    "NOT_ATTRIBUTES",
    "asked_for",
    "below",
    "choices",
    "compared",
    "entries_offered",
    "entries_read",
    "entries_told",
    "globals_of",
    "handed_on",
    "held_as",
    "is_iterated",
    "is_read_by_name",
    "is_set",
    "only_kept",
    "only_tested",
    "reads",
    "reads_below",
    "source_of",
    "spreads",
    "tree_of",
    "unpacked",
    "used_as",
    "with_defaults",
    "written",
]
