"""The user's Python: load a file or module, and find the models in it.

Order of the contract: `build_model`, `model`, `__screen__` if one is there; else every `nn.Module` that the file defines and that no other
class of the file contains. Containment is read from the source (a class, or a function that it calls, names the other) and from what
the instances contain; two classes that name each other are both kept.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from torch import nn

from screen.capture.build import piecewise
from screen.capture.build.reads import tree_of
from screen.errors import LoadError, UsageError
from screen.graph.target import TargetSpec, did_you_mean

PART = re.compile(r"([^\W\d]\w*)|\[([^\]]*)\]")
"""Of what follows `::`: a name, or the key of an entry."""
ENTRIES = ("build_model", "model", "__screen__")
INPUTS = "example_inputs"

Candidate = tuple[str, Any]
"""A name and what stands under it: a class, an instance, or a function."""


def load(spec: TargetSpec) -> ModuleType:
    """Import what a file or module target names; statement by statement where it does not run to its end. Exceptions of the user's code pass
    through."""
    try:
        return load_at_once(spec)
    except (Exception, SystemExit) as error:
        return load_after(spec, error)


def load_at_once(spec: TargetSpec) -> ModuleType:
    """Import what a file or module target names, unless it trains then. Exceptions of the user's code pass through."""
    if spec.kind == "file" and piecewise.trains(spec.path or ""):
        raise _Trains
    return load_whole(spec)


def load_after(spec: TargetSpec, error: BaseException) -> ModuleType:
    """What can be read of a target that ended with `error`; raises that where there is no model in it."""
    if isinstance(error, SyntaxError | LoadError):
        raise error
    above = None
    if isinstance(error, ModuleNotFoundError) and spec.path is not None:
        above = piecewise.above(piecewise.importing(error) or spec.path, error.name or "")
    if above is not None:
        sys.path.append(above)
        try:
            return load_at_once(spec)
        except (Exception, SystemExit) as again:
            return load_after(spec, again)
    if spec.path is not None:  # `sys.path.append("utils")` is written for the folder of the file
        known = [os.path.join(os.path.dirname(os.path.abspath(spec.path)), p) for p in sys.path if p and not os.path.isabs(p)]
        sys.path += [p for p in known if p not in sys.path and os.path.isdir(p)]
    try:
        module = load_piecewise(spec)
        find(module, spec)
    except (Exception, SystemExit) as again:
        raise again if isinstance(error, _Trains) else error from None
    vars(module)[BEFORE] = error
    return module


class _Trains(Exception):
    """A file that trains a model when it is imported is not run whole."""


BEFORE = "__screen_before__"
"""Where a module that was read in part keeps what kept it from being run."""
READING = "__screen_reading__"
"""Where a module keeps what was left out of it."""


def reading_of(module: ModuleType) -> piecewise.Reading:
    """What was left out when a module was read."""
    found = vars(module).setdefault(READING, piecewise.Reading())
    return found if isinstance(found, piecewise.Reading) else piecewise.Reading()


def load_piecewise(spec: TargetSpec) -> ModuleType:
    """As `load_whole`, with what does not run left out, in the files of the target's own project too."""
    path = os.path.abspath(spec.path) if spec.path else ""
    folders = [_root(path), os.getcwd()] if path else [os.getcwd()]
    if spec.module is not None and (found := importlib.util.find_spec(spec.module.partition(".")[0])) is not None:
        folders += list(found.submodule_search_locations or ())
    with piecewise.reading(folders, path) as reading:
        module = load_whole(spec, reading)
    vars(module)[READING] = reading
    return module


def _root(path: str) -> str:
    """The folder above the outermost package of a file."""
    folder = os.path.dirname(path)
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def load_whole(spec: TargetSpec, reading: piecewise.Reading | None = None) -> ModuleType:
    """Import what a file or module target names. Exceptions of the user's code pass through."""
    piecewise.forget_orphans()
    if spec.kind == "file":
        return load_file(spec.path or "", reading)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    name = spec.module or ""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise LoadError(
            "`package.module:attr` must name a module that can be imported from here",
            f"there is no module `{error.name}`",
            "Run `screen` where `python -c 'import …'` works, or give the file's path",
        ) from error


def load_file(path: str, reading: piecewise.Reading | None = None) -> ModuleType:
    """Run a Python file as a throw-away module; a file of a package (`__init__.py` beside it) as a member of that package.

    Its folder goes first on `sys.path`, as `python path` would do, and stays there: forward may import too."""
    full = os.path.abspath(path)
    folder, base = os.path.split(full)
    parts = [base.removesuffix(".py")]
    within = _within_its_name(full)
    climbs = max(within, 0 if os.path.isfile(os.path.join(folder, "__init__.py")) else _climbs(full))  # a package without the file that says so
    while (climbs >= len(parts) or os.path.isfile(os.path.join(folder, "__init__.py"))) and os.path.basename(folder).isidentifier():
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    for beside in (os.getcwd(), *([] if within else [os.path.dirname(full)])):  # the latter for a file of a package that imports as a script would
        if beside not in sys.path:
            sys.path.append(beside)
    if (hidden := _hidden(full)) is not None:
        sys.path.insert(0, hidden)
        importlib.invalidate_caches()
    sys.argv = [full]
    if len(parts) > 1 and all(p.isidentifier() for p in parts):
        module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        if os.path.realpath(module.__file__ or "") == os.path.realpath(full):
            return module
    return _execute(full, _free("".join(c if c.isalnum() else "_" for c in parts[-1]), full), reading)


def _free(name: str, path: str) -> str:
    """The name that a script beside it would import a file by, unless another module has it."""
    other = sys.modules.get(name)
    if name in sys.stdlib_module_names or (other is not None and os.path.realpath(getattr(other, "__file__", None) or "") != os.path.realpath(path)):
        return f"{name}_file"
    return name


def _climbs(path: str) -> int:
    """How many folders up the relative imports of a file reach, its own being one: `from .layers import …`."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return 0
    return max((n.level for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)), default=0)


def _within_its_name(path: str) -> int:
    """How many folders up the package lies that a file imports by its own name, `from net.parts import …` in `net/models/net.py`: as a script it
    would stand in the place of that; 0 elsewhere."""
    folder, base = os.path.split(path)
    own = base.removesuffix(".py")
    names = piecewise.imported_of(path, own) - {own}
    for count in range(1, piecewise.LEVELS + 1):
        parent, name = os.path.split(folder)
        if name == own and _are_all_in(parent, names):
            return count
        folder = parent
    return 0


def _are_all_in(folder: str, names: set[str]) -> bool:
    """Whether there are modules of such dotted names, and all of them stand in a folder."""
    places = [os.path.join(folder, *name.split(".")) for name in names]
    return bool(places) and all(os.path.isdir(place) or os.path.isfile(f"{place}.py") for place in places)


def _hidden(path: str) -> str | None:
    """The folder of the package around a file that it imports by name, where another one of that name is installed; None elsewhere."""
    folder = os.path.dirname(path)
    for _ in range(piecewise.LEVELS):
        parent, root = os.path.split(folder)
        names = piecewise.imported_of(path, root) if root.isidentifier() and root not in sys.modules else set()
        if _are_all_in(parent, names):
            found = importlib.machinery.PathFinder.find_spec(root)
            return parent if found is not None and "site-packages" in (found.origin or "") else None
        folder = parent
    return None


def _execute(path: str, name: str, reading: piecewise.Reading | None) -> ModuleType:
    """Run a file under a name; dataclasses and type hints look it up in `sys.modules`."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError("A Python file must be loadable", f"`{path}` is not")
    with open(path, "rb") as file:
        if b"\0" in file.read():  # before Python 3.11.4 a `ValueError` without a place
            raise LoadError("A Python file must be text", f"`{path}` holds null bytes")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        if reading is None:
            spec.loader.exec_module(module)
        else:
            piecewise.execute(path, module, reading)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def find(module: ModuleType, spec: TargetSpec) -> list[Candidate]:
    """What to build. Raises `LoadError` when nothing is there, with the candidates that a name could choose."""
    if spec.name is not None:
        return [(spec.name, attribute(module, spec.name, spec.text))]
    for name in ENTRIES:
        value = getattr(module, name, None)
        if is_candidate(value):
            return [(name, value)]
        if name == "__screen__" and value is not None:
            return list(_listed(module, value, spec.text))
    found = _outermost(module)
    found = _joining(module, found) + found
    if not found:
        found = [(n, v) for n, v in vars(module).items() if _is_own(v, module) and not _has_forward(v) and "__init__" in vars(v)]
    if not found:
        candidates = _candidates(module)
        raise LoadError(
            "A file given as target must define a model (`build_model`, `model`, `__screen__` or a class derived from `torch.nn.Module`)",
            f"`{spec.text}` defines none; " + (f"its candidates are {candidates}" if candidates else "nothing in it could be one"),
            f"Name a class, an instance or a function that returns one: `{spec.text}::Name`" if candidates else "Define one, or give another file",
            file=spec.path,
        )
    return found


def others(module: ModuleType, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The models of a file beside the one entry that stands for all of them; none where there is no such entry."""
    return {} if set(entries).isdisjoint(ENTRIES) else {name: entry for name, entry in _outermost(module) if name not in entries}


def attribute(module: ModuleType, dotted: str, text: str) -> Any:
    """What stands under a dotted name. Raises `UsageError` with the nearest names, or when it can be no model."""
    value: Any = module
    for part, key in PART.findall(dotted):
        if key:
            value = _entry(value, key.strip("'\""), text)
            continue
        try:
            value = getattr(value, part)
        except AttributeError:
            known = [n for n, v in vars(value).items() if is_candidate(v)] if hasattr(value, "__dict__") else []
            listed = f"It has {', '.join(f'`{k}`' for k in sorted(known)[:12])}" if known else ""
            raise UsageError(f"`{text}` must name something that is there", f"there is no `{part}`", did_you_mean(part, known) or listed) from None
    if isinstance(value, dict) and value:
        raise UsageError(f"`{text}` must name a model", "it is a table of them", f"Take one: {', '.join(f'`{text}[{k}]`' for k in value)}")
    if not is_candidate(value):
        raise UsageError(
            f"`{text}` must name an `nn.Module` class, an instance, or a function that returns one", f"`{dotted}` is a `{type(value).__name__}`"
        )
    return value


def _entry(value: Any, key: str, text: str) -> Any:
    """`MODELS[key]`. Raises `UsageError` with the keys that are there."""
    if not isinstance(value, dict | list | tuple):
        raise UsageError(f"`{text}` must name an entry of a table", f"what stands before `[{key}]` is a `{type(value).__name__}`")
    known = {str(k): v for k, v in (value.items() if isinstance(value, dict) else enumerate(value))}
    if key not in known:
        raise UsageError(f"`{text}` must name an entry that is there", f"there is no `{key}`", f"It has {', '.join(f'`{k}`' for k in known)}")
    return known[key]


def is_candidate(value: Any) -> bool:
    """A module, a class of modules, or a function (the contract's three)."""
    if isinstance(value, type):
        return issubclass(value, nn.Module)
    return isinstance(value, nn.Module) or inspect.isroutine(value) or (callable(value) and not isinstance(value, ModuleType))


def _listed(module: ModuleType, value: Any, text: str) -> Iterator[Candidate]:
    """`__screen__` as a name, or a list or dictionary of names and models."""
    if isinstance(value, str):
        value = [value]
    entries = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, str) or is_candidate(entry) for entry in entries):
        odd = next((e for e in entries if not isinstance(e, str) and not is_candidate(e)), None) if isinstance(entries, list | tuple) else value
        raise LoadError("`__screen__` must be names and models, or a list or a dictionary of them", f"there is a `{type(odd).__name__}` in it")
    pairs = value.items() if isinstance(value, dict) else [(v if isinstance(v, str) else getattr(v, "__name__", type(v).__name__), v) for v in value]
    for name, entry in pairs:
        yield str(name), attribute(module, entry, f"{text}::{entry}") if isinstance(entry, str) else entry


def _candidates(module: ModuleType) -> str:
    """What a name could choose: the functions of the file, and the classes and instances of modules that it imports or keeps to itself."""
    names = [
        name
        for name, value in vars(module).items()
        if (inspect.isfunction(value) and value.__module__ == module.__name__)
        or isinstance(value, nn.Module)
        or (isinstance(value, type) and issubclass(value, nn.Module) and _has_forward(value))
    ]
    return ", ".join(f"`{n}`" for n in [n for n in names if not n.startswith("__")][:12])


def _is_own(value: Any, module: ModuleType) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module) and value.__module__ == module.__name__


def own_classes(module: ModuleType) -> dict[str, type[nn.Module]]:
    """The module classes that the file itself defines, in the order of the source."""
    found: dict[type[nn.Module], str] = {}
    for name, value in vars(module).items():
        if _is_own(value, module):
            found.setdefault(value, name)
    return {name: cls for cls, name in found.items()}


def defined_classes(module: ModuleType) -> dict[str, type[nn.Module]]:
    """Those of them that have a forward."""
    return {name: cls for name, cls in own_classes(module).items() if _has_forward(cls)}


def _has_forward(cls: type[nn.Module]) -> bool:
    """Has it a forward of its own that does anything: not one that other classes are to write?"""
    found = inspect.getattr_static(cls, "forward")  # a `ScriptModule` makes its own when it is asked for
    return found is not nn.Module.forward and not _only_refuses(found)


def _only_refuses(function: Any) -> bool:
    """Is there nothing in it but `raise NotImplementedError`?"""
    tree = tree_of(function)
    if not isinstance(tree, ast.Module):
        return False
    body = tree.body[0].body if len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef) else []
    said = [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    return len(said) == 1 and isinstance(said[0], ast.Raise) and "NotImplemented" in ast.dump(said[0])


def _outermost(module: ModuleType) -> list[Candidate]:
    """Instances and classes of the file that no other class of the file contains."""
    instances = {n: v for n, v in vars(module).items() if isinstance(v, nn.Module) and not n.startswith("__")}
    inner = {id(m) for v in instances.values() for m in v.modules() if m is not v}
    kept: list[Candidate] = [(n, v) for n, v in instances.items() if id(v) not in inner]
    built = {type(m) for v in instances.values() for m in v.modules()}
    classes = {n: c for n, c in defined_classes(module).items() if c not in built}
    names = references(module)
    every = defined_classes(module)
    for name, cls in classes.items():
        apart = [o for o, other in every.items() if o != name and not issubclass(cls, other)]  # a base that makes one of those derived from it
        if not any(name in names.get(o, ()) and o not in names.get(name, ()) for o in apart):
            kept.append((name, cls))
    return kept


def _joining(module: ModuleType, outermost: list[Candidate]) -> list[Candidate]:
    """The functions of a file that put all of its outermost classes into a container of torch and return that, `nn.Sequential(…)`."""
    classes = {name for name, value in outermost if isinstance(value, type)}
    tree = _tree(module) if classes and len(classes) == len(outermost) else ast.Module([], [])
    names, containers = references(module), {"nn.Sequential", "Sequential", "torch.nn.Sequential"}
    own = [n for n in tree.body if isinstance(n, ast.FunctionDef) and inspect.isfunction(vars(module).get(n.name)) and not n.name.startswith("_")]
    return [(node.name, vars(module)[node.name]) for node in own if classes <= names.get(node.name, set()) and _returns(node, containers)]


def _tree(module: ModuleType) -> ast.Module:
    """The source of a file; nothing where it cannot be read."""
    try:
        with open(module.__file__ or "", encoding="utf-8") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def below(module: ModuleType, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The classes of a file that these contain, the outermost of them: where a whole does not build here."""
    names, classes = references(module), defined_classes(module)
    inside = {n: c for n, c in classes.items() if n not in entries and any(n in names.get(e, ()) for e in entries)}
    return {n: c for n, c in inside.items() if not any(n in names.get(o, ()) and o not in names.get(n, ()) for o in inside if o != n)}


def references(module: ModuleType) -> dict[str, set[str]]:
    """For each class, function or table of the file, the names that its body reads, through whatever of the file it names.

    Base classes, decorators, annotations and arguments of `isinstance` and `super` are no containment."""
    tree = _tree(module)
    direct = {n.name: set(_read(n)) for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and target.id not in ENTRIES:
                    direct[target.id] = set(_read(node.value))
    bases = {n.name: {b.id for b in n.bases if isinstance(b, ast.Name)} for n in tree.body if isinstance(n, ast.ClassDef)}
    closed: dict[str, set[str]] = {}
    for name in direct:
        seen: set[str] = set()
        waiting = [name, *bases.get(name, ())]
        while waiting:
            for read in direct.get(waiting.pop(), ()):
                if read not in seen:
                    seen.add(read)
                    waiting += [read, *bases.get(read, ())]
        closed[name] = seen
    return closed


def kept_from(module: ModuleType, names: Iterable[str]) -> Exception | None:
    """What a package that is not there kept a file from defining, where that holds all of the classes of these names: they are its parts."""
    error = vars(module).get(BEFORE)
    read = references(module) if isinstance(error, ImportError) else {}
    lost = {n.name for n in _tree(module).body if isinstance(n, ast.ClassDef) and not hasattr(module, n.name)} if read else set()
    inside = {name for one in lost for name in read.get(one, ())}
    return error if isinstance(error, ImportError) and lost and {*names} <= inside else None


def held(module: ModuleType) -> dict[str, int]:
    """How many classes of modules of a file each of its classes and functions names, through whatever of the file it names."""
    classes = {*defined_classes(module)}
    return {name: len(classes & read - {name}) for name, read in references(module).items()}


def makers(module: ModuleType, entry: Any) -> list[str]:
    """The functions of a file that return an instance of one of its classes, or what another one of them returns, in the order of the source."""
    tree = _tree(module)
    own = [n for n in tree.body if isinstance(n, ast.FunctionDef) and inspect.isfunction(vars(module).get(n.name))] if isinstance(entry, type) else []
    names, before = {getattr(entry, "__name__", "")}, 0
    while len(names) > before:
        before = len(names)
        names |= {node.name for node in own if _returns(node, names)}
    return [node.name for node in own if node.name in names]


def factories(entry: Any, most: int = 0) -> dict[str, Any]:
    """The public static and class methods of a class that ask for nothing, or for up to `most` arguments, and return an instance of it, or what
    another one of them returns, by dotted names in the order of the source: `Net.small`."""
    tree = tree_of(entry) if isinstance(entry, type) else None
    body = next((n.body for n in ast.walk(tree) if isinstance(n, ast.ClassDef)), []) if tree is not None else []
    marked = [n for n in body if isinstance(n, ast.FunctionDef) and {ast.unparse(d) for d in n.decorator_list} & {"staticmethod", "classmethod"}]
    names, before = {getattr(entry, "__name__", ""), "cls"}, 0
    while len(names) > before:
        before = len(names)
        names |= {node.name for node in marked if _returns(node, names)}
    found = {f"{entry.__name__}.{n.name}": getattr(entry, n.name) for n in marked if n.name in names and not n.name.startswith("_")}
    return {name: made for name, made in found.items() if sum(map(_is_asked, inspect.signature(made).parameters.values())) <= most}


def _is_asked(parameter: inspect.Parameter) -> bool:
    """Must it be given?"""
    return parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)


def wholes(module: ModuleType) -> list[str]:
    """The functions of a file that return an instance of one of its classes which has no forward: what they make holds parts that are run one by
    one."""
    classes = [v for v in vars(module).values() if _is_own(v, module) and not _has_forward(v)]
    return list(dict.fromkeys(name for cls in classes for name in makers(module, cls)))


def _returns(node: ast.FunctionDef, names: set[str]) -> bool:
    """Does a function return what a call of one of these gives?"""
    assigned = [n for n in ast.walk(node) if isinstance(n, ast.Assign) and _calls(n.value, names)]
    made = {t.id for n in assigned for t in n.targets if isinstance(t, ast.Name)}
    found = [n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None]
    returned = [v.elts[0] if isinstance(v, ast.Tuple) and v.elts else v for v in found]  # `return model, loss`
    return any(_calls(value, names) or (isinstance(value, ast.Name) and value.id in made) for value in returned)


def _calls(node: ast.AST, names: set[str]) -> bool:
    func = node.func if isinstance(node, ast.Call) else None
    if func is not None and ast.unparse(func) in names:  # `nn.Sequential(…)`
        return True
    if isinstance(func, ast.Attribute):  # `Net.small()`
        return isinstance(func.value, ast.Name) and func.value.id in names and func.attr in names
    return False


def _read(node: ast.AST) -> Iterator[str]:
    """Names read in the body of a definition, except where they only type or test."""
    if isinstance(node, ast.Name):
        yield node.id
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass", "super"):
        return
    skipped = {"bases", "decorator_list", "annotation", "returns", "keywords" if isinstance(node, ast.ClassDef) else ""}
    for key, value in ast.iter_fields(node):
        if key in skipped:
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _read(item)


def drop_contained(models: list[tuple[str, Any]], model_of: Callable[[Any], nn.Module]) -> list[tuple[str, Any]]:
    """Without those whose class another one of them contains: what the source does not show (a registry, a factory in another file)."""
    inside = [{type(m) for m in model_of(entry).modules() if m is not model_of(entry)} for _, entry in models]
    kept = []
    for position, (name, entry) in enumerate(models):
        cls = type(model_of(entry))
        containers = [
            o for o, classes in enumerate(inside) if o != position and cls in classes and type(model_of(models[o][1])) not in inside[position]
        ]
        if not containers:
            kept.append((name, entry))
    return kept


__all__ = [
    "Candidate",
    "ENTRIES",
    "INPUTS",
    "attribute",
    "below",
    "defined_classes",
    "drop_contained",
    "factories",
    "find",
    "held", "kept_from",
    "is_candidate",
    "load",
    "load_file",
    "makers",
    "others",
    "own_classes",
    "reading_of",
    "references",
    "wholes",
]
