"""Arguments as the author gives them: a call of the class or function, in its own file, in another file of its project, in a README, or in the
examples of its docstring.

    model = GPT(vocab_size=50257, n_layer=12)          the arguments of this call, literals only
    CONFIG = {"dim": 768, …}; model = GPT(CONFIG)      with names that stand for literals of the file, or of a file that it imports
    model = GPT(args.n_token, args.n_layer)            with the defaults of its command line, `add_argument("--n_layer", default=12)`

Another file counts where it imports the name from the file of the class or from a package that holds it. The nearest one comes first.
`usage` gives the inputs that such a file calls the model with, `model = GPT(…); model(torch.randn(1, 16, 512))`.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import doctest
import enum
import functools
import importlib
import inspect
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build.around import names_at, thing_of
from screen.capture.build.literals import Entries, Open, entries_of, literals, options, value_of
from screen.capture.build.project import LEVELS, beside, imported_file

IMPORTS = 3
"""Imports by `*` that are followed from one file to the next."""
MANY = 8
"""Options of a command line, or keywords of a call, that may stand for a configuration without a word of the class."""
_BLOCK = re.compile(r"^```(?:python|py)\s*\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""A piece of Python in a README."""
_MADE = {"randn", "rand", "zeros", "ones", "empty", "randint", "tensor", "LongTensor", "arange", "full"}
"""Functions of torch whose result can be made of literals."""
_MOVED = {"to", "cuda", "cpu", "float", "half", "bfloat16", "contiguous", "requires_grad_", "type"}
"""Methods after which it is the same input: where it lies, and its precision, follow the model here."""
STATEMENTS = 40
"""Of the examples of a docstring."""
_LAYERS = re.compile(r"layers?$|depth|blocks?$")


@dataclass
class _Source:
    """One file, or one piece of a README."""

    path: str
    tree: ast.AST
    names: dict[str, Any] = field(default_factory=dict)
    """Names that stand for literals."""
    options: dict[str, Any] = field(default_factory=dict)
    """The defaults of its command line, and the settings that it imports."""
    first: int = 0
    """Lines above it in its file."""
    settings: str = ""
    """The file of the settings that it imports."""


@dataclass(frozen=True)
class Made:
    """A module that the author makes for an argument, `Net(Encoder(dim=8))`."""

    cls: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        given = [*map(str, self.args), *(f"{key}={value}" for key, value in self.kwargs.items())]
        return f"{self.cls.__name__}({', '.join(given)})"

    def make(self) -> Any:
        """The module."""
        return self.cls(*map(realised, self.args), **{key: realised(value) for key, value in self.kwargs.items()})


def realised(value: Any) -> Any:
    """A value with the modules that it stands for."""
    if isinstance(value, Made):
        return value.make()
    if isinstance(value, dict) and _holds(value):
        made = copy.copy(value)  # of its own class, `Given`
        made.update({key: realised(one) for key, one in value.items()})
        return made
    return type(value)(map(realised, value)) if type(value) in (list, tuple) else value


def _holds(value: Any) -> bool:
    """Does a value stand for a module, or hold one that does?"""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, Made) or any(map(_holds, inside))


def example(
    entry: Any, wanted: list[str], seen: dict[str, Any] | None = None, loosely: bool = False, whole: bool = False
) -> tuple[dict[str, Any], str]:
    """Arguments by name of the nearest call that gives all of `wanted`, and some, and its place (`train.py:12`); else of the call that gives most of
    them; nothing where there is none. `seen`: what the code of `entry` sees by name; `loosely`: also
    those that a constructor takes as `**kwargs`; `whole`: also modules of the project for arguments that are not wanted."""
    try:
        file = os.path.abspath(inspect.getsourcefile(entry) or "")
        signature = inspect.signature(entry)
    except (TypeError, ValueError):
        return {}, ""
    best: tuple[dict[str, Any], str] = {}, ""
    name = getattr(entry, "__name__", "")
    parts = {k: v for k, v in (seen or {}).items() if isinstance(v, type) and issubclass(v, nn.Module) and not v.__module__.startswith("torch.")}
    enumerations = {k: v for k, v in (seen or {}).items() if isinstance(v, type) and issubclass(v, enum.Enum)}
    for source in itertools.chain(_sources(file, name), [_Source(f"the docstring of {name}", ast.Module(documented(entry), []))]):
        for call in _calls(source.tree, name):
            source = _with_settings(source, call, file)
            here = replace(source, names=names_at(source.tree, call, source.names, source.options))
            found = _arguments(call, signature, here, seen or {} if source.path == file else enumerations, loosely)
            found |= {name: 0 for name in wanted if name not in found and _is_first(name, call, signature, entry)}
            asked, known = (signature.parameters, {**_classes_of_project(entry, source), **parts}) if whole else (wanted, parts)
            found |= _parts(call, signature, source, known, [name for name in asked if name not in found])
            if left := [name for name in wanted if name not in found and _is_made(name, call, signature)]:
                found |= _parts(call, signature, source, {**_classes_of_libraries(source), **_functions_of_project(source)}, left)
            place = f"{os.path.basename(source.path)}:{source.first + call.lineno}"
            if found and all(name in found for name in wanted):
                return found, place + _but_for(call, signature, found)
            if sum(name in found for name in wanted) > sum(name in best[0] for name in wanted):
                best = found, place
    return best


def _with_settings(source: _Source, call: ast.Call, file: str) -> _Source:
    """A source with the literals of the one Python file of the project that has all entries which a call reads of a name that nothing is known of,
    `Net(hp.width, hp.depth, …)`: what a program loads by its path."""
    read: dict[str, set[str]] = {}
    for node in [n for a in (*call.args, *(k.value for k in call.keywords)) for n in ast.walk(a)]:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in source.names:
            read.setdefault(node.value.id, set()).add(node.attr)
    for names in [names for holder, names in read.items() if holder != "self" and len(names) >= MANY and not names & {*source.options}]:
        held = [s.names for p in _project(file) if p.endswith(".py") and (s := _parsed(p)) is not None and names <= {*s.names}]
        if len(held) == 1:
            source = replace(source, options={**source.options, **{key: held[0][key] for key in names}})
    return source


def _classes_of_project(entry: Any, source: _Source) -> dict[str, type[nn.Module]]:
    """The classes of modules by name that a file imports from the package that an entry is of."""
    package = str(getattr(entry, "__module__", "")).partition(".")[0]
    return _imported_classes(source, lambda root, _: bool(package) and root == package)


def _functions_of_project(source: _Source) -> dict[str, Any]:
    """The functions that ask for nothing by name that a file imports from its own project, `tokenizer=make_tokenizer()`."""
    above = list(Path(source.path).parents)[:LEVELS]
    found = _brought(source, lambda root, _: any((folder / root).is_dir() or (folder / f"{root}.py").is_file() for folder in above))
    free = {name: f for name, f in found.items() if inspect.isfunction(f) and "site-packages" not in f.__code__.co_filename}
    return {name: f for name, f in free.items() if all(p.default is not p.empty for p in inspect.signature(f).parameters.values())}


def _is_made(name: str, call: ast.Call, signature: inspect.Signature) -> bool:
    """Is an argument of a call a name or a call of its own?"""
    given = dict(zip(signature.parameters, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    return isinstance(given.get(name), ast.Name | ast.Call)


def _is_first(name: str, call: ast.Call, signature: inspect.Signature, entry: Any) -> bool:
    """Is an argument whose name counts layers the place of one among them, `Attention(depth=0)`: nothing is counted with it?"""
    given = dict(zip(signature.parameters, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    value = given.get(name)
    if not isinstance(value, ast.Constant) or type(value.value) is not int or value.value or not _LAYERS.search(name):
        return False
    if not (isinstance(entry, type) and issubclass(entry, nn.Module)):
        return False  # settings count nothing themselves: what reads them does
    try:
        return not re.search(rf"range\([^()]*\b{name}\b|[\])]\s*\*\s*(self\.)?{name}\b", inspect.getsource(entry))
    except (OSError, TypeError):
        return False


def _classes_of_libraries(source: _Source) -> dict[str, type[nn.Module]]:
    """The classes of modules by name that a source calls and imports from an installed library."""
    called = {n.func.id for n in ast.walk(source.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return _imported_classes(source, lambda root, name: name in called and root not in {*sys.stdlib_module_names, "torch"})


def _imported_classes(source: _Source, is_meant: Callable[[str, str], bool]) -> dict[str, type[nn.Module]]:
    """The classes of modules by name that a source imports; `is_meant`: of such a package, and by such a name."""
    return {name: cls for name, cls in _brought(source, is_meant).items() if isinstance(cls, type) and issubclass(cls, nn.Module)}


def _brought(source: _Source, is_meant: Callable[[str, str], bool]) -> dict[str, Any]:
    """What a source imports, by name."""
    found: dict[str, Any] = {}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
            continue
        root = node.module.partition(".")[0]
        names = {a.asname or a.name: a.name for a in node.names if is_meant(root, a.asname or a.name)}
        with contextlib.suppress(Exception):  # it is not installed, needs what is not there, or does not run: it says nothing
            held = vars(importlib.import_module(node.module)) if names else {}
            found |= {name: held.get(own) for name, own in names.items()}
    return found


def tables(file: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tables of literals, objects of settings and the defaults of command lines in the files of a project that import `name`, with their places."""
    for source in _sources(os.path.abspath(file), name):
        yield from _made_for(source, name, os.path.abspath(file))
        if source.options:
            yield _options_in(source), source.options
        for key, value in source.names.items():
            if isinstance(value, Entries):
                yield str(value), {name: entry for name, entry in vars(value).items() if name != "__name__"}
            if isinstance(value, dict) and value and all(isinstance(k, str) for k in value):
                yield f"{key} of {os.path.basename(source.path)}", value
    for path in _project(os.path.abspath(file)):  # a script that hands its settings on: what knows all names that are read is meant
        found = _parsed(path) if path.endswith(".py") else None
        if found is not None and len(found.options) >= MANY:
            yield _options_in(found), found.options
        if found is not None:
            yield from _keywords(found)


def named_settings(entry: Any, cls: type[Any]) -> tuple[dict[str, Any], str]:
    """What the settings say that the author makes for a class by a method of their own class, `Config.from_name("small")`, and the place."""
    file, methods = os.path.abspath(inspect.getsourcefile(entry) or ""), {k for k, v in vars(cls).items() if isinstance(v, classmethod)}
    for source in _sources(file, getattr(entry, "__name__", "")) if methods else ():
        for call in (n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.args):
            if ast.unparse(call.func) in {f"{cls.__name__}.{method}" for method in methods}:
                with contextlib.suppress(Exception):  # what it is given is not known, or it reads what is not here
                    made = getattr(cls, call.func.attr)(*(value_of(a, source.names, source.options, {}) for a in call.args))  # type: ignore[attr-defined]
                    said = {f.name: getattr(made, f.name) for f in dataclasses.fields(cls) if f.init}
                    return said, f"the `{ast.unparse(call.func)}` of {os.path.basename(source.path)}:{source.first + call.lineno}"
    return {}, ""


def _options_in(source: _Source) -> str:
    """What the options of a file are, in words."""
    name = os.path.basename(source.path)
    return f"what {source.settings} makes, which {name} imports" if source.settings else f"the command line of {name}"


def settings_made(entry: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the author says to the settings that are made for a class, `plan = Plan(rows, depth=6)`, `Net(plan)`, with the places."""
    try:
        file = os.path.abspath(inspect.getsourcefile(entry) or "")
    except TypeError:
        return
    for source in _sources(file, getattr(entry, "__name__", "")):
        yield from _made_for(source, entry.__name__, file)


def _settings_of(source: _Source, names: set[str]) -> dict[str, Any]:
    """The keywords of the calls by which a file makes objects of settings of these names, `hparams = HParams(width=512, …)`."""
    found: dict[str, Any] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and names & {ast.unparse(target) for target in node.targets}:
            for _, table in _keywords(_Source(source.path, ast.Expr(node.value), source.names)):
                found |= table
    return found


def _keywords(source: _Source) -> Iterator[tuple[str, dict[str, Any]]]:
    """The settings that a file writes as keywords of one call, `HParams(width=512, layers=3, …)`, with the names that stand for literals."""
    for call in ast.walk(source.tree):
        if isinstance(call, ast.Call) and len(call.keywords) >= MANY:
            table: dict[str, Any] = {}
            for keyword in call.keywords:
                with contextlib.suppress(Open):
                    table |= {keyword.arg: value_of(keyword.value, source.names, source.options, {})} if keyword.arg else {}
            yield f"the `{ast.unparse(call.func)}` of {os.path.basename(source.path)}:{source.first + call.lineno}", table


def _made_for(source: _Source, name: str, file: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is said to the settings that a file makes and hands to `name`, `plan = Plan(rows, depth=6)`, `Net(plan)`: keywords, over the entries of
    their class where it stands in `file`."""
    handed = _handed(source.tree, name)
    for node in ast.walk(source.tree):
        made = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(made, ast.Call) or not isinstance(node, ast.Assign) or not {ast.unparse(t) for t in node.targets} & handed:
            continue
        found = _entries_of_class(file, ast.unparse(made.func).rpartition(".")[2])
        for keyword in made.keywords:
            with contextlib.suppress(Open):
                value = value_of(keyword.value, source.names, source.options, {})
                several = {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else {}  # `Plan(**settings)`
                found |= {keyword.arg: value} if keyword.arg else several
        if found:
            yield f"the `{ast.unparse(made.func)}` of {os.path.basename(source.path)}:{source.first + made.lineno}", found


def _handed(tree: ast.AST, name: str) -> set[str]:
    """The names that stand in calls of `name` as they are, `Net(plan)`."""
    return {a.id for call in _calls(tree, name) for a in (*call.args, *(k.value for k in call.keywords)) if isinstance(a, ast.Name)}


def handed_here(entry: Any) -> set[str]:
    """The names that a class or function is given in its own file."""
    try:
        own = _parsed(os.path.abspath(inspect.getsourcefile(entry) or ""))
    except TypeError:
        return set()
    return _handed(own.tree, getattr(entry, "__name__", "")) if own is not None else set()


def _entries_of_class(file: str, name: str, deep: int = 4) -> dict[str, Any]:
    """The literals that a class of a file and its bases there have as attributes of their own, `class Plan: depth = 6`."""
    own = _parsed(file)
    node = next((n for n in ast.walk(own.tree) if isinstance(n, ast.ClassDef) and n.name == name), None) if own is not None else None
    found: dict[str, Any] = {}
    for base in node.bases if node is not None and deep else ():
        found |= _entries_of_class(file, ast.unparse(base), deep - 1)
    return found | entries_of(node) if node is not None else found


def usage(entry: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], str]]:
    """The inputs that the author calls an instance with, where literals say them, and their place."""
    try:
        file = os.path.abspath(inspect.getsourcefile(entry) or "")
    except TypeError:
        return
    name = getattr(entry, "__name__", "")
    for source in _sources(file, name):
        assigned = [n for n in ast.walk(source.tree) if isinstance(n, ast.Assign) and any(True for _ in _calls(n.value, name))]
        held = {t.id for n in assigned for t in n.targets if isinstance(t, ast.Name)}
        for call in ast.walk(source.tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in held:
                near = _above(source.tree, call)
                try:
                    args = tuple(_input(a, source, near) for a in call.args)
                    kwargs = {k.arg: _input(k.value, source, near) for k in call.keywords if k.arg}
                except Open:
                    continue
                yield args, kwargs, f"{os.path.basename(source.path)}:{source.first + call.lineno}"


def _above(tree: ast.AST, call: ast.Call) -> dict[str, ast.expr]:
    """What the statements above a call, in the smallest block around it, give to names."""
    found: list[ast.stmt] = []
    for node in ast.walk(tree):
        body: list[ast.stmt] = own if isinstance(own := getattr(node, "body", None), list) else []
        for place, statement in enumerate(body):
            if any(inner is call for inner in ast.walk(statement)):
                found = body[:place]  # of blocks in one another the inner one comes last
    return {t.id: n.value for n in found if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}


def _input(node: ast.expr, source: _Source, near: dict[str, ast.expr], deep: int = 0) -> Any:
    """A tensor made of literals, a literal, or a list or dictionary of such. Raises `Open`."""
    if isinstance(node, ast.Name) and node.id not in source.names and deep < 4:
        assigned = [n for n in ast.walk(source.tree) if isinstance(n, ast.Assign)]
        given = [n.value for n in assigned if any(isinstance(t, ast.Name) and t.id == node.id for t in n.targets)]
        if not given:
            raise Open
        return _input(near.get(node.id, given[-1]), source, near, deep + 1)
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        return {key.value: _input(v, source, near, deep) for key, v in zip(node.keys, node.values, strict=True)}  # type: ignore[union-attr]
    if isinstance(node, ast.List | ast.Tuple):
        parts = [_input(value, source, near, deep) for value in node.elts]
        return parts if isinstance(node, ast.List) else tuple(parts)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return value_of(node, source.names, source.options, {})
    name = node.func.attr
    if name in _MOVED | {"long", "bool"}:
        value = _input(node.func.value, source, near, deep)
        return value.to(torch.long if name == "long" else torch.bool) if isinstance(value, Tensor) and name in ("long", "bool") else value
    if name not in _MADE or ast.unparse(node.func.value) != "torch":
        raise Open
    args = [value_of(a, source.names, source.options, {}) for a in node.args]
    named = {k.arg: value_of(k.value, source.names, source.options, {}) for k in node.keywords if k.arg == "size"}
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta" if name in ("randn", "rand", "empty") else "cpu"):
            made = getattr(torch, name)(*args, **named)
    except (TypeError, RuntimeError, ValueError):
        raise Open from None
    return made.to("meta") if made.is_floating_point() else made


# -- where to look -------------------------------------------------------------------------------------------------------------------------


def _sources(file: str, name: str) -> Iterator[_Source]:
    """The file itself, then those of its project that import `name` from it, the nearest first."""
    if not file.endswith(".py"):
        return
    if (own := _parsed(file)) is not None:
        yield own
    parts = {Path(file).stem, *Path(file).parent.parts[-LEVELS:]}
    for path in _project(file):
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        if f"{name}(" not in text:
            continue
        if path.endswith(".py"):
            source = _parsed(path)
            if source is not None and _imports(source.tree, name, parts):
                above = {} if source.options else _options_above(path)
                yield replace(source, options=above, names=literals(source.tree, above, source.names)) if above else source
            continue
        for block in _BLOCK.finditer(text):
            source = _made(path, block[1], text[: block.start(1)].count("\n"))
            if source is not None and _imports(source.tree, name, parts):
                yield source


def _options_above(path: str) -> dict[str, Any]:
    """The command lines of the files of a project that import a class or function of this file, and hand their options on, `Trainer(args)`: what
    those that have an option agree on."""
    own = _parsed(path)
    names = [n.name for n in ast.walk(own.tree) if isinstance(n, ast.ClassDef | ast.FunctionDef)] if own is not None else []
    others = [_parsed(other) for other in _project(path) if other.endswith(".py")]
    held = [s.options for s in others if s is not None and s.options and any(_imports(s.tree, name, {Path(path).stem}) for name in names)]
    told = {key: [options[key] for options in held if key in options] for options in held for key in options}
    return {key: values[0] for key, values in told.items() if all(type(v) is type(values[0]) and v == values[0] for v in values)}


def _project(file: str) -> tuple[str, ...]:
    """The other Python files and READMEs of the project that holds a file, the nearest first."""
    return beside(file, (".py", "readme.md"))


def _imports(tree: ast.AST, name: str, parts: set[str]) -> bool:
    """Does a file import a name from a module or package one part of which is among `parts`, and make none of that name itself?"""
    imported = False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names):
            imported = imported or node.level > 0 or bool(parts & set((node.module or "").split(".")))
        elif isinstance(node, ast.Import) and any(parts & set(a.name.split(".")) for a in node.names):
            imported = True  # `import model`, and then `model.Net(…)`
        elif isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return False
    return imported


@functools.lru_cache(maxsize=1024)
def _parsed(path: str, deep: int = IMPORTS) -> _Source | None:
    """A file, with the literals of those of its project that it imports, and with `*` also those that these have by a `*`."""
    try:
        with open(path, encoding="utf-8") as opened:
            tree = ast.parse(opened.read())
    except (OSError, SyntaxError, ValueError):
        return None
    source = _Source(path, tree, options=options(tree))
    for node in [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module] if deep else ():
        named = {a.asname or a.name: a.name for a in node.names}
        found = imported_file(path, node.module or "")
        other = _parsed(found, deep - 1 if "*" in named else 0) if found and found != path else None
        if other is not None:
            if settings := _settings_of(other, {*named.values()}):
                source.options, source.settings = {**settings, **source.options}, os.path.basename(other.path)
            source.names |= other.names if "*" in named else {k: other.names[n] for k, n in named.items() if n in other.names}
    source.names |= _modules_of_settings(path, tree) if deep else {}
    source.names = literals(tree, source.options, source.names)
    for call in [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func).endswith(".init")]:
        for keyword in [k for k in call.keywords if k.arg == "config"]:  # `wandb.init(config=PLAN)`, and then `wandb.config.width`
            with contextlib.suppress(Open):
                told = value_of(keyword.value, source.names, source.options, {})
                source.options = {**(told if isinstance(told, dict) else {}), **source.options}
    return source


def _modules_of_settings(path: str, tree: ast.AST) -> dict[str, Any]:
    """The files of a project that a source imports as they are and reads names of, `import config`, with what of them can be told."""
    found: dict[str, Any] = {}
    for alias in [a for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names if a.asname or "." not in a.name]:
        other = imported_file(path, alias.name)
        source = _parsed(other, 0) if other and other != path else None
        if source is not None and source.names:
            found[alias.asname or alias.name] = Entries(**source.names, __name__=os.path.basename(other))
    return found


def _made(path: str, text: str, first: int = 0) -> _Source | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    given = options(tree)
    return _Source(path, tree, literals(tree, given), given, first)


def literals_of(file: str) -> dict[str, Any]:
    """The names of a file, anywhere in it, that are given a literal (the first one)."""
    found = _parsed(os.path.abspath(file)) if file else None
    return dict(found.names) if found is not None else {}


# -- what stands there ---------------------------------------------------------------------------------------------------------------------


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
        if isinstance(node, ast.Call) and name and getattr(node.func, "attr", getattr(node.func, "id", "")) == name:
            yield node


def _arguments(call: ast.Call, signature: inspect.Signature, source: _Source, seen: dict[str, Any], loosely: bool = False) -> dict[str, Any]:
    """The arguments of a call that can be told, by name; `loosely`: also those that are taken as `**kwargs`."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p.name for p in signature.parameters.values() if p.kind in kinds]
    starred = next((n for n, a in enumerate(call.args) if isinstance(a, ast.Starred)), len(call.args))
    pairs: list[tuple[str | None, ast.expr]] = [*zip(positional, call.args[:starred], strict=False), *((k.arg, k.value) for k in call.keywords)]
    found: dict[str, Any] = {}
    rest = loosely and any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for name, node in pairs:
        try:
            value = value_of(node, source.names, source.options, seen)
        except Open:
            value = None
            with contextlib.suppress(Open):
                value = thing_of(node, source.tree, call, source.names, seen)
        if name is None:  # `Net(**CONFIG)`
            found.update({k: v for k, v in value.items() if rest or k in signature.parameters} if isinstance(value, dict) else {})
        elif (name == "pretrained" and value is True) or (_LAYERS.search(name) and type(value) is int and not value):
            continue  # none are downloaded, and no layers are settings for parts of another model
        elif (rest or name in signature.parameters) and value is not None:
            found[name] = value
    return found


def _but_for(call: ast.Call, signature: inspect.Signature, found: dict[str, Any]) -> str:
    """Which arguments of a call are not among those that were found, and no literal, in words."""
    given = [*zip(signature.parameters, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
    left = [f"`{name}`" for name, node in given if name in signature.parameters and name not in found and not isinstance(node, ast.Constant)]
    return f" (but for {', '.join(left[:-1])}{' and ' if left[1:] else ''}{left[-1]}, which could not be told)" if left else ""


def _parts(call: ast.Call, signature: inspect.Signature, source: _Source, parts: dict[str, Any], wanted: list[str]) -> dict[str, Any]:
    """The arguments of a call that are modules of the classes `parts`, made there or above it."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p.name for p in signature.parameters.values() if p.kind in kinds]
    pairs = [*zip(positional, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)] if wanted and parts else []
    found: dict[str, Any] = {}
    for name, node in pairs:
        if name in wanted and not isinstance(node, ast.Starred):
            with contextlib.suppress(Open):
                found[name] = _part(node, source, parts)
    return found


def _part(node: ast.expr, source: _Source, parts: dict[str, Any], deep: int = 4) -> Any:
    """A module made of literals and of such modules, or several. Raises `Open`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVED | {"eval", "train"}:
        node = node.func.value
    if isinstance(node, ast.Name) and deep:
        given = [n.value for n in ast.walk(source.tree) if isinstance(n, ast.Assign) and any(ast.unparse(t) == node.id for t in n.targets)]
        if given:
            return _part(given[-1], source, parts, deep - 1)
    if isinstance(node, ast.List | ast.Tuple) and node.elts and deep:
        return tuple(_part(entry, source, parts, deep - 1) for entry in node.elts)
    cls = parts.get(ast.unparse(node.func).rpartition(".")[2]) if isinstance(node, ast.Call) else None
    if cls is None and deep and isinstance(node, ast.Call) and ast.unparse(node.func) == "dict" and not node.args:
        return {k.arg: _given_to(k.value, source, parts, deep) for k in node.keywords if k.arg}
    if cls is None or not deep or not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
        raise Open

    args = tuple(_given_to(value, source, parts, deep) for value in node.args)
    return Made(cls, args, {k.arg: _given_to(k.value, source, parts, deep) for k in node.keywords if k.arg})


def _given_to(node: ast.expr, source: _Source, parts: dict[str, Any], deep: int) -> Any:
    """A literal, or a module made of such. Raises `Open`."""
    try:
        return value_of(node, source.names, source.options, {})
    except Open:
        return _part(node, source, parts, deep - 1)


__all__ = ["Made", "documented", "example", "handed_here", "literals_of", "realised", "settings_made", "tables", "usage"]
