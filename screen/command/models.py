"""Models of a repository, found by reading: nothing of it is imported or executed.

A class is a model when its bases lead to `torch.nn`, through imports and through files of the repository, and when it has a `forward`. What another
model makes is a part of it, and no target of its own. A file that has `build_model`, `model` or `__screen__` says itself what is looked at.
"""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SKIPPED = frozenset({"build", "dist", "docs", "node_modules", "site-packages", "test", "tests", "__pycache__"})
"""Folders that are not looked into, and those that begin with a dot or are a virtual environment."""
ENTRIES = ("build_model", "model", "__screen__")
"""What a file may call its model; as `screen check FILE` takes them."""
PLAIN = ("Module", "LightningModule", "PreTrainedModel")
"""Classes of libraries that make a model of what is derived from them, and bring no forward."""
LIBRARIES = ("lightning", "pytorch_lightning", "transformers")
"""Where these come from, beside `torch.nn`."""
HOPS = 20
"""Files that one name is followed through."""


@dataclass(frozen=True)
class Model:
    """What may be a target."""

    file: str
    """From the folder that was searched, with slashes."""
    name: str
    """The class; empty: the file says itself what is looked at."""
    needs: tuple[str, ...] = ()
    """Arguments of its constructor without a default."""

    @property
    def spec(self) -> str:
        """As a target."""
        return f"{self.file}::{self.name}" if self.name else self.file


def find(root: Path) -> tuple[list[Model], int]:
    """The models below a folder, and how many Python files were read."""
    repository = _Repository(root)
    files = list(_python_files(root))
    return [model for file in files for model in repository.models(file)], len(files)


def has_model(file: Path) -> bool:
    """Whether a Python file has a class that may be a model, or says itself what is looked at; True where it cannot be read as Python."""
    source = _Repository(Path.cwd()).source(Path(os.path.abspath(file)))
    return source is None or source.has_entry or any(source.kind(name) for name in source.classes)


def imported_by(file: Path) -> set[Path]:
    """The files of the repository that a Python file leads to through imports, itself left out."""
    repository = _Repository(Path.cwd())
    found: set[Path] = set()
    waiting = [Path(os.path.abspath(file))]
    while waiting:
        source = repository.source(waiting.pop())
        new = (source.imported if source is not None else set()) - found
        found |= new
        waiting += new
    return found - {Path(os.path.abspath(file))}


def _python_files(root: Path) -> Iterator[Path]:
    """Those below a folder, without tests; a name that is no text in UTF-8 can stand in no file of settings."""
    for folder, folders, names in os.walk(root):
        named = [f for f in folders if f not in SKIPPED and not f.startswith(".") and not Path(folder, f, "pyvenv.cfg").exists()]
        folders[:] = sorted(filter(_is_text, named))
        files = [name for name in names if name.endswith(".py") and not name.startswith("test_") and name not in ("conftest.py", "setup.py")]
        kept = sorted(filter(_is_text, files))
        yield from (Path(folder, name) for name in kept)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Repository:
    """Sources by their paths, each read once."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))
        self._sources: dict[Path, _Source | None] = {}
        self._parts: set[tuple[Path, str]] | None = None

    def source(self, path: Path) -> _Source | None:
        """A file's source; None where it is no Python."""
        if path not in self._sources:
            self._sources[path] = None  # while it is read
            with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
                self._sources[path] = _Source(self, path, ast.parse(path.read_bytes()))
        return self._sources[path]

    def models(self, path: Path) -> list[Model]:
        """The targets of one file."""
        source = self.source(Path(os.path.abspath(path)))
        if source is None:
            return []
        file = source.path.relative_to(self.root).as_posix()
        if source.has_entry and source.reaches_torch:
            return [Model(file, "")]
        names = [name for name in source.classes if source.kind(name) == "whole" and (source.path, name) not in self.parts]
        return [Model(file, name, source.needs(name)) for name in names]

    @property
    def parts(self) -> set[tuple[Path, str]]:
        """Classes that some other model makes."""
        if self._parts is None:
            sources = [s for path in _python_files(self.root) if (s := self.source(path)) is not None]
            self._parts = {part for s in sources for name in s.classes if s.kind(name) for part in s.makes(name) if part != (s.path, name)}
        return self._parts

    def file_of(self, module: str, level: int, path: Path) -> Path | None:
        """The file of the repository that an import in `path` means: from its package, its folder, or a folder above it."""
        parts = Path(*module.split(".")) if module else Path()
        starts = [path.parent.joinpath(*[".."] * (level - 1))] if level else [path.parent, *path.parent.parents]
        for start in starts:
            if not level and self.root not in (start, *start.parents):
                break
            for place in (start / parts / "__init__.py", start / f"{parts}.py", start / "src" / parts / "__init__.py", start / "src" / f"{parts}.py"):
                if place.is_file():
                    return Path(os.path.abspath(place))
        return None


class _Source:
    """One file: its classes, and what its names mean."""

    def __init__(self, repository: _Repository, path: Path, tree: ast.Module) -> None:
        self.repository, self.path, self.tree = repository, path, tree
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self._kinds: dict[str, str] = {}

    @cached_property
    def imports(self) -> dict[str, tuple[str, int, str]]:
        """Name -> module, level, and what of the module it is (empty: the module)."""
        found: dict[str, tuple[str, int, str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.partition(".")[0]] = (alias.name if alias.asname else alias.name.partition(".")[0], 0, "")
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found[alias.asname or alias.name] = (node.module or "", node.level, alias.name)
        return found

    @property
    def imported(self) -> set[Path]:
        """Files of the repository that it imports."""
        modules = {(module, level) for module, level, _ in self.imports.values()}
        modules |= {(".".join(filter(None, [module, what])), level) for module, level, what in self.imports.values()}  # what may be a file, too
        return {path for module, level in modules if (path := self.repository.file_of(module, level, self.path)) is not None}

    @property
    def has_entry(self) -> bool:
        """Whether it says itself what is looked at."""
        made = [node.name for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            made += [target.id for target in targets if isinstance(target, ast.Name)]
        return any(name in made for name in ENTRIES)

    @property
    def reaches_torch(self) -> bool:
        """Whether it imports torch, or something of the repository."""
        return any(module.split(".")[0] in ("torch", *LIBRARIES) or self._own(module, level) for module, level, _ in self.imports.values())

    def _own(self, module: str, level: int) -> bool:
        return self.repository.file_of(module, level, self.path) is not None

    def kind(self, name: str) -> str:
        """`whole`: a model with a forward; `base`: one without; empty: no model, as far as can be read."""
        if name not in self._kinds:
            self._kinds[name] = ""  # while its bases are asked
            kinds = [self._kind_of(base) for base in self.classes[name].bases]
            own = any(isinstance(node, ast.FunctionDef) and node.name == "forward" for node in self.classes[name].body)
            self._kinds[name] = "" if not any(kinds) else "whole" if own or "whole" in kinds else "base"
        return self._kinds[name]

    def _kind_of(self, base: ast.expr) -> str:
        words = _dotted(base.value if isinstance(base, ast.Subscript) else base)
        return self.kind_of(words) if words else ""

    def kind_of(self, words: list[str], hops: int = 0) -> str:
        """The kind of the class that a dotted name means here. `hops`: files that led here, which may go round in a circle."""
        if words[0] in self.classes and len(words) == 1:
            return self.kind(words[0])
        if words[0] not in self.imports or hops > HOPS:
            return ""
        module, level, what = self.imports[words[0]]
        inner = [*([what] if what else []), *words[1:]]
        if not level and module.split(".")[0] in ("torch", *LIBRARIES):
            whole = [*module.split("."), *inner]
            known = whole[0] in LIBRARIES or whole[:2] == ["torch", "nn"]
            return "" if not known else "base" if whole[-1] in PLAIN else "whole" if whole[0] == "torch" else ""
        found = self._elsewhere(module, level, inner)
        return found[0].kind_of(found[1], hops + 1) if found else ""

    def _elsewhere(self, module: str, level: int, inner: list[str]) -> tuple[_Source, list[str]] | None:
        """The file of the repository that an import leads to, and what of it is meant."""
        for n in range(len(inner) - 1, -1, -1):  # `from package import file` before a name in `package/__init__.py`
            path = self.repository.file_of(".".join(filter(None, [module, *inner[:n]])), level, self.path)
            source = self.repository.source(path) if path is not None and path != self.path else None
            if source is not None and (inner[n] in source.classes or inner[n] in source.imports):
                return source, inner[n:]
        return None

    def home(self, words: list[str], hops: int = 0) -> tuple[Path, str] | None:
        """File and name of the class of the repository that a dotted name means here."""
        if words[0] in self.classes and len(words) == 1:
            return self.path, words[0]
        if words[0] not in self.imports or hops > HOPS:
            return None
        module, level, what = self.imports[words[0]]
        found = self._elsewhere(module, level, [*([what] if what else []), *words[1:]])
        return found[0].home(found[1], hops + 1) if found else None

    def makes(self, name: str) -> set[tuple[Path, str]]:
        """Classes of the repository that stand in a class's body, annotations and bases left out."""
        found = set()
        for node in _without_annotations(self.classes[name]):
            words = _dotted(node)
            if words and (place := self.home(words)) is not None:
                found.add(place)
        return found

    def needs(self, name: str) -> tuple[str, ...]:
        """Arguments of the constructor without a default; of one that is a dataclass its fields without one."""
        for node in self.classes[name].body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                positional = [*node.args.posonlyargs, *node.args.args][1:]
                required = positional[: len(positional) - len(node.args.defaults)] if len(node.args.defaults) <= len(positional) else []
                keyword = [a for a, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default is None]
                return tuple(path for argument in [*required, *keyword] for path in self._fields(argument))
        return ()

    def _fields(self, argument: ast.arg) -> list[str]:
        """The paths that must be set of an argument."""
        place = self.home(words) if (words := _dotted(argument.annotation or ast.Constant(None))) else None
        source = self.repository.source(place[0]) if place is not None else None
        fields = source.fields(place[1]) if source is not None and place is not None else None
        return [argument.arg] if fields is None else [f"{argument.arg}.{field}" for field in fields]

    def fields(self, name: str) -> list[str] | None:
        """Fields of a dataclass without a default; None of any other class, and of one that has bases."""
        made = self.classes[name]
        decorators = [_dotted(d.func if isinstance(d, ast.Call) else d) for d in made.decorator_list]
        if made.bases or not any(words[-1:] == ["dataclass"] for words in decorators):
            return None
        return [n.target.id for n in made.body if isinstance(n, ast.AnnAssign) and n.value is None and isinstance(n.target, ast.Name)]


def _dotted(node: ast.AST) -> list[str]:
    """`a.b.C` as words; nothing for what is no such name."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return [*before, node.attr]
    return []


def _without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from _without_annotations(child)


__all__ = ["Model", "find", "has_model", "imported_by"]
