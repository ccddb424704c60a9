"""A file that does not run to its end, read statement by statement.

A script that trains when it is imported stops where its data are missing, or never. Read so, what cannot run is left out: statements that need a file
or a package that is not there, classes and functions that cannot be defined, what needs the names that these would have made, loops that train, and
above the first class what a launcher would have set up (environment variables, processes, a GPU). Everything else that a statement raises ends the
reading: what was defined above it is there. Which lines did not run is told.
"""

from __future__ import annotations

import __future__

import ast
import contextlib
import errno
import importlib.abc
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, ModuleType

from screen.capture.build.absent import imported, is_absent
from screen.capture.build.launcher import launched
from screen.capture.build.libraries import lacks_torchvision
from screen.capture.build.offline import do_without
from screen.capture.inputs.missing import frames
from screen.capture.kernels.older import leave_out
from screen.capture.kernels.stand_in import is_over, stand_in
from screen.capture.trace.source_lines import HERE

LEFT_OUT = (OSError, ImportError)
"""What is not there on this machine: later statements may do without."""
FULL = (errno.EFBIG, errno.ENOSPC)
"""What a limit of this machine ended is not missing."""
_PROVIDED = {"environ", "getenv", "cuda", "distributed", "dist", "init_process_group"}
"""Names of what a launcher and a machine provide."""
ROOT = re.compile(r"readme|pyproject\.toml$|setup\.py$|\.git$", re.IGNORECASE)
"""What stands in a folder of a project that may hold packages beside one another."""
CHILDREN = 64
"""Folders of it that are looked into."""
LEVELS = 4
"""Folders above a file that are looked at for what it imports."""
_INSTALLED = re.compile(r"[/\\](site-packages|dist-packages|lib(64)?[/\\]python3\.\d+)[/\\]")
"""A file that nobody but a package manager wrote there."""
GUARD = 'guard it with `if __name__ == "__main__":`'


@dataclass
class Reading:
    """What was left out of the files of one target."""

    lines: list[str] = field(default_factory=list)
    """One sentence for each statement."""
    lost: dict[str, str] = field(default_factory=dict)
    """Names that the statements left out would have made, and where."""
    target: str = ""
    """The file that was asked for; the others are its neighbours."""


def trains(path: str) -> bool:
    """Does a file train a model when it is run: is there a `.backward()` outside of functions and classes?"""
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return False
    return any(_trains(node) for node in tree.body)


def _trains(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or is_guard(node):
        return False
    waiting: list[ast.AST] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Attribute) and one.attr == "backward":
            return True
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(one)
    return False


def _sets_up(node: ast.stmt) -> bool:
    """Does a statement speak of what a launcher or a machine provides: `os.environ[…]`, `torch.distributed`, CUDA?"""
    named = {n.attr if isinstance(n, ast.Attribute) else n.id for n in ast.walk(node) if isinstance(n, ast.Attribute | ast.Name)}
    return bool(named & _PROVIDED)


def is_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


def execute(path: str, module: ModuleType, reading: Reading, *, neighbour: bool = False) -> None:
    """Run a file in a module, statement by statement. Raises `SyntaxError`, and what the target's own file raises before it defines anything; of a
    `neighbour` every statement that fails is left out, and missed where it is asked for."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            flags |= sum(getattr(__future__, alias.name).compiler_flag for alias in node.names)
    for node in tree.body:
        if _trains(node):
            _leave_out(node, path, "it trains", reading)
            continue
        code = compile(ast.Module([node], []), path, "exec", flags, dont_inherit=True)
        try:
            _execute(code, module, path)
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            if isinstance(error, ImportError) and imported(node, error, module, reading.lines):
                reading.lines.append(f"{os.path.basename(path)}:{node.lineno} did not run ({why}): what it imports is there by name only")
                continue
            full = isinstance(error, OSError) and error.errno in FULL
            defines = isinstance(node, ast.ClassDef | ast.FunctionDef)  # what needs it is missing then, and nothing else
            needs = isinstance(error, LEFT_OUT) or _asks_for(error, reading.lost) or _reads_absent(node, module)
            missing = (neighbour or defines or needs) and not full
            if not missing and not any(isinstance(v, type) and v.__module__ == module.__name__ for v in vars(module).values()):
                if full or not _sets_up(node):
                    raise
                missing = True
            _leave_out(node, path, why, reading)
            if _otherwise(node, path, flags, module):
                reading.lines.append(f"its `else` did, line {node.orelse[0].lineno}")  # type: ignore[attr-defined]
                reading.lost = {name: place for name, place in reading.lost.items() if name not in vars(module)}
                continue
            if not missing:
                rest = tree.body[tree.body.index(node) + 1 :]
                for later in rest:
                    reading.lost |= dict.fromkeys(_names(later), f"{os.path.basename(path)}:{later.lineno}")
                return


def _otherwise(node: ast.stmt, path: str, flags: int, module: ModuleType) -> bool:
    """Run what the author has where a switch is off, `if USE_KERNEL: … else: …`, in the place of what does not run here."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Name | ast.Attribute) or not node.orelse:
        return False
    try:
        _execute(compile(ast.Module(node.orelse, []), path, "exec", flags, dont_inherit=True), module, path)
    except (Exception, SystemExit):
        return False
    return True


def _asks_for(error: BaseException, lost: Mapping[str, str]) -> bool:
    """Is it a name that is missing because a statement of this file, or of a neighbour, did not run?"""
    if isinstance(error, AttributeError):
        return isinstance(error.obj, ModuleType) and error.name in lost
    return isinstance(error, NameError) and error.name in lost


def _reads_absent(node: ast.stmt, module: ModuleType) -> bool:
    """Does a statement read a name of its file that is what a package, or what cannot be had here, would have given (`torch.tensor(tokens)`)?"""
    named = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return any(isinstance(value := vars(module).get(name), type) and is_absent(value) for name in named)


def _execute(code: CodeType, module: ModuleType, path: str) -> None:
    """Run a statement of a file, once more where a launcher would have set up what it asks for, where kernels are stood in for, or where what it
    imports lies in a folder above."""
    while True:
        try:
            return exec(code, vars(module))
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and (folder := above(importing(error), error.name or "")) is not None:
                sys.path.append(folder)
            elif not any(mend(error) for mend in (lacks_torchvision, launched, stand_in, leave_out, do_without)):
                raise
            forget_orphans()


def forget_orphans() -> None:
    """Before a package of the user's is imported again: Python forgets one whose import failed, but none of its modules that ran to their end, and
    those keep the package that is gone, `import package.model` above a `getattr(package.model, …)`."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None) or ""
        if "." in name and file.endswith(".py") and not _INSTALLED.search(file) and not _packages(name) <= sys.modules.keys():
            sys.modules.pop(name, None)


def _packages(name: str) -> set[str]:
    """The packages that a module lies in, by their names."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def importing(error: ImportError) -> str:
    """The file whose import failed: the target, a neighbour, or one of another package that it imports."""
    files = [frame.f_code.co_filename for frame, _ in frames(error)]
    return next((file for file in reversed(files) if not file.startswith(("<", HERE))), "")


def above(path: str, name: str) -> str | None:
    """The folder above a file from which its author runs it: the nearest one that has the module or package of this name, with all that the file
    imports of it, and is no place of imports yet."""
    folder, root = os.path.dirname(os.path.abspath(path)), name.partition(".")[0]
    wanted = {name} if "." in name else imported_of(path, root)
    for _ in range(LEVELS):
        folder = os.path.dirname(folder)
        if root and (os.path.isdir(os.path.join(folder, root)) or os.path.isfile(os.path.join(folder, f"{root}.py"))):
            there = all(os.path.exists(place) or os.path.isfile(f"{place}.py") for place in (os.path.join(folder, *m.split(".")) for m in wanted))
            if there and folder not in sys.path:
                return folder
            break
    return _carried(os.path.dirname(os.path.abspath(path)), wanted) if root else None


def _carried(folder: str, names: set[str]) -> str | None:
    """A folder beside those above a file that holds modules or packages, `other/package/part.py` for `package.part`: projects carry packages that
    their authors install. None where there is none, or several."""
    places = [os.path.join(*name.split(".")) for name in names]
    for _ in range(LEVELS if places else 0):
        folder = os.path.dirname(folder)
        if not any(ROOT.match(entry) for entry in _listed(folder)):
            continue
        try:
            inside = [entry.path for entry in sorted(os.scandir(folder), key=lambda e: e.name) if entry.is_dir()][:CHILDREN]
        except OSError:
            return None
        there = [all(os.path.isdir(os.path.join(one, p)) or os.path.isfile(os.path.join(one, f"{p}.py")) for p in places) for one in inside]
        found = [one for one, holds in zip(inside, there, strict=True) if holds and one not in sys.path]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def imported_of(path: str, root: str) -> set[str]:
    """The modules of one package that a file imports, `import jax.numpy`, by their dotted names."""
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return set()
    names = {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module and not n.level}
    return {name for name in names if name.partition(".")[0] == root}


def _leave_out(node: ast.stmt, path: str, why: str, reading: Reading) -> None:
    place = f"{os.path.basename(path)}:{node.lineno}"
    if why.startswith("NameError"):
        return _follow(node, path, reading)
    reading.lost |= dict.fromkeys(_names(node), place)
    unset = re.match(r"KeyError: '(\w+)'$", why)
    asked = unset is not None and re.search(rf"environ\[['\"]{unset[1]}['\"]\]", ast.unparse(node)) is not None
    advice = f": set it, `{unset[1]}=… screen check …`" if unset is not None and asked else f": {GUARD}"
    advice = "" if isinstance(node, ast.Import | ast.ImportFrom) else advice
    reading.lines.append(f"{place} did not run ({why}){advice}")


def _follow(node: ast.stmt, path: str, reading: Reading) -> None:
    """A statement that needs what another one would have made."""
    name = os.path.basename(path)
    reading.lost |= dict.fromkeys(_names(node), f"{name}:{node.lineno}")
    if reading.lines and reading.lines[-1].endswith(f"of {name}, which need what is missing"):
        reading.lines[-1] = reading.lines[-1].replace(" of ", f", {node.lineno} of ", 1)
    else:
        reading.lines.append(f"nor did lines {node.lineno} of {name}, which need what is missing")


def _names(node: ast.stmt) -> Iterator[str]:
    """The names that a statement makes in its file."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            yield one.id
        elif isinstance(one, ast.alias):
            yield (one.asname or one.name).partition(".")[0]


class _Files(importlib.abc.MetaPathFinder):
    """Finds the modules below some folders, and reads those that fail statement by statement."""

    def __init__(self, folders: Sequence[str], reading: Reading) -> None:
        self.folders = tuple(os.path.join(os.path.realpath(f), "") for f in folders)
        self.reading = reading

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target) if not is_over(fullname) else None
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return None
        if not os.path.realpath(spec.origin or "").startswith(self.folders):
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path, self.reading)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, reading: Reading) -> None:
        super().__init__(name, path)
        self.reading = reading

    def exec_module(self, module: ModuleType) -> None:
        before = dict(vars(module))
        try:
            super().exec_module(module)
        except Exception:  # whatever it was, it comes again, or is left out
            parts = {key: v for key, v in vars(module).items() if isinstance(v, ModuleType) and v.__name__ == f"{module.__name__}.{key}"}
            vars(module).clear()
            vars(module).update(before | parts)  # those are imported by now, and Python puts them into their package once
            execute(self.path, module, self.reading, neighbour=os.path.realpath(self.path) != self.reading.target)


@contextlib.contextmanager
def reading(folders: Sequence[str], target: str = "") -> Iterator[Reading]:
    """For the time of an import, files below `folders` that fail are read statement by statement; `target` is the one that was asked for."""
    found = Reading(target=os.path.realpath(target))
    finder = _Files(folders, found)
    sys.meta_path.insert(0, finder)
    try:
        yield found
    finally:
        sys.meta_path.remove(finder)


def replaced(error: NameError, found: Reading) -> str:
    """Why a name is not there, where a statement that did not run would have made it; empty elsewhere."""
    place = found.lost.get(error.name or "")
    return next((t for t in found.lines if t.startswith(f"{place} ")), f"{place} did not run") if place else ""


__all__ = ["GUARD", "LEVELS", "Reading", "above", "execute", "forget_orphans", "imported_of", "importing", "is_guard", "reading", "replaced",
           "trains"]  # fmt: skip
