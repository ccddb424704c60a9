"""Tables that users write in files: TOML, YAML, JSON or Python by the suffix, and nested tables as dotted keys.

`composed` reads a file as Hydra and OmegaConf do, without running anything: files of its `defaults` list stand below their groups
(https://hydra.cc/docs/advanced/defaults_list/), `${a.b}` is what stands there (https://omegaconf.readthedocs.io/en/latest/usage.html#variable-interpolation),
and what is left open, `???` or an interpolation by a function, is not there.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from screen.errors import UsageError

MOST = 100_000
"""Keys of a table."""
SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".conf")
_DEEP = 8
"""Files that name files, and names that stand for names."""
_PACKAGE = re.compile(r"^\s*#\s*@package\s+(\S+)", re.MULTILINE)
_NAME = re.compile(r"\$\{(\.?)([\w.]+)\}")
_FLOAT = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+")
"""What YAML 1.2 and OmegaConf take for a number, and PyYAML for text."""
_SECTION = re.compile(r"[\w-]+(\.[\w-]+)*")


def read(path: Path, where: str) -> dict[str, Any]:
    """The table in a file. `where`: what names the file, for errors. Raises `UsageError`."""
    try:
        return _written(path) if path.suffix == ".py" else parse(text(path), path.suffix)
    except (OSError, ValueError, RecursionError) as error:
        found = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        required = f"{where} must be a readable YAML, JSON, TOML or Python file"
        raise UsageError(required, f"`{path}`: {found}", "Mend it, or name another one") from None


def text(path: Path) -> str:
    """A file's text. Raises `OSError`, `ValueError`; a FIFO or a device, which may have no end, is one too."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError("it is no regular file")
    return path.read_text(encoding="utf-8")


def parse(text: str, suffix: str) -> dict[str, Any]:
    """The table in a text; YAML where the suffix is neither `.json` nor `.toml`. Raises `ValueError`; `UsageError` where YAML cannot be read here."""
    table = _LOADERS.get(suffix, _yaml)(text)
    if not isinstance(table, dict):
        raise ValueError(f"it holds a `{type(table).__name__}`, not a table")
    return table


# -- a file that names others ----------------------------------------------------------------------------------------------------------------


def split(text: str) -> tuple[str, str]:
    """`FILE` or `FILE:section.part` as the file and the section; a file that is called so goes first."""
    path, colon, section = text.rpartition(":")
    return (path, section) if colon and not Path(text).exists() and Path(path).is_file() and _SECTION.fullmatch(section) else (text, "")


def composed(path: Path, where: str, section: str = "") -> dict[str, Any]:
    """The table in a file, or a part of it by its dotted name, with what its `defaults` name and its interpolations mean. Raises `UsageError`."""
    whole = _with_defaults(read(path, where), path, where, _DEEP)
    found: Any = _resolved(whole, whole, whole, [])
    for part in section.split(".") if section else ():
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        tops = ", ".join(f"`{key}`" for key, value in whole.items() if isinstance(value, dict))
        raise UsageError(f"{where} must name a table of its file", f"`{path}` has no table `{section}`", f"It has {tops}" if tops else "")
    return found


def sections(table: Mapping[str, Any], before: str = "", deep: int = 4) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A table and those in it by their dotted names, the outer ones first."""
    yield before, table
    for key, value in table.items():
        if isinstance(value, dict) and deep and _SECTION.fullmatch(str(key)):
            yield from sections(value, f"{before}.{key}" if before else str(key), deep - 1)


def _with_defaults(table: dict[str, Any], path: Path, where: str, deep: int) -> dict[str, Any]:
    """A table with the files of its `defaults`, those that are there; its own values win unless `_self_` stands before them."""
    named = table.get("defaults")
    if not isinstance(named, list) or not deep or not all(isinstance(entry, str | dict) for entry in named):
        return table
    own = {key: value for key, value in table.items() if key != "defaults"}
    found: dict[str, Any] = {}
    for entry in named if "_self_" in named else [*named, "_self_"]:
        if entry == "_self_":
            _merge(found, own)
        for group, option in [("", entry)] if isinstance(entry, str) else entry.items():
            for name in option if isinstance(option, list) else [option]:
                if isinstance(name, str) and name != "_self_" and not group.startswith("override "):
                    _merge(found, _of_group(group.removeprefix("optional ").lstrip("/"), name.lstrip("/"), path, where, deep - 1))
    return found


def _of_group(group: str, name: str, path: Path, where: str, deep: int) -> dict[str, Any]:
    """What a file of a group says, in its place: below the name of its group, or where its header says. Nothing where there is no such file."""
    group, _, package = group.partition("@")
    folder, _, stem = f"{group}/{name}".strip("/").rpartition("/")
    base = next((b for b in (path.parent, *list(path.parents)[1:3]) for s in SUFFIXES if (b / folder / f"{stem}{s}").is_file()), None)
    if base is None:
        return {}
    file = next(base / folder / f"{stem}{s}" for s in SUFFIXES if (base / folder / f"{stem}{s}").is_file())
    with contextlib.suppress(OSError, ValueError):
        header = _PACKAGE.search(text(file))
        package = package or (header[1] if header is not None else "")
    table = _with_defaults(_said(file, where), file, where, deep)
    for part in reversed([] if package == "_global_" else (package if package not in ("", "_group_") else folder.replace("/", ".")).split(".")):
        table = {part: table} if part else table
    return table


def _said(file: Path, where: str) -> dict[str, Any]:
    """What a file of a group says: one of comments alone says nothing. Raises `UsageError`."""
    with contextlib.suppress(OSError, ValueError):
        if all(not line.strip() or line.lstrip().startswith("#") for line in text(file).splitlines()):
            return {}
    return read(file, where)


def _merge(below: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _merge(below[key], value)
        else:
            below[key] = value


def _resolved(value: Any, whole: Mapping[str, Any], around: Mapping[str, Any], made: list[None], deep: int = _DEEP) -> Any:
    """A value with its interpolations, those with a dot before them (`${.width}`) of the table around it; `None` for what is left open, which tables
    leave out."""
    made.append(None)
    if len(made) > MOST:
        found = f"there are more than {MOST:,} with its interpolations"
        raise UsageError("a table must have few keys", found, "Name the file that holds the settings alone")
    if isinstance(value, dict):
        pairs = ((key, entry, _resolved(entry, whole, value, made, deep)) for key, entry in value.items())
        return {key: new for key, old, new in pairs if new is not None or old is None}
    if isinstance(value, list):
        return [_resolved(entry, whole, around, made, deep) for entry in value]
    if value == "???":
        return None
    if not isinstance(value, str) or not value.startswith("${") or not value.endswith("}"):
        return float(value) if isinstance(value, str) and _FLOAT.fullmatch(value) else value
    said = _NAME.fullmatch(value)
    stands: Any = around if said is not None and said[1] else whole
    for part in said[2].split(".") if said is not None else ("",):
        stands = stands.get(part) if isinstance(stands, dict) else None
    return _resolved(stands, whole, around, made, deep - 1) if stands is not None and deep else None


# -- a file of Python ----------------------------------------------------------------------------------------------------------------------


class _Open(Exception):
    """A value that the source does not tell."""


class _Made(dict[str, Any]):
    """What a call without arguments gives: a table where entries are written into it, else nothing that is known."""


def _written(path: Path, deep: int = _DEEP) -> dict[str, Any]:
    """The table that a Python file writes, read and never run: what its functions without arguments return, by their names where there are several,
    `config = ConfigDict(); config.width = 512; return config`; else the literals that it gives to names. Raises `ValueError`."""
    try:
        tree = ast.parse(text(path))
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno} is no Python") from None
    names, made = (_known(found) for found in _names(tree, path, deep))
    if made:
        return next(iter(made.values())) if len(made) == 1 else made
    return {name: value for name, value in names.items() if isinstance(value, dict | list | str | int | float)}


def _known(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table without what nothing is known of."""
    entries = ((key, _known(value) if isinstance(value, dict) else value) for key, value in table.items() if value or not isinstance(value, _Made))
    return {key: value for key, value in entries if not callable(value)}


def _names(tree: ast.Module, path: Path, deep: int) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What the names of a file stand for, and the tables that its functions without arguments return."""
    names: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and deep and (other := _beside(path, node)) is not None:
            with contextlib.suppress(OSError, ValueError, SyntaxError):
                theirs, tables = _names(ast.parse(text(other)), other, deep - 1)
                known = {**theirs, **{name: lambda table=table: copy.deepcopy(table) for name, table in tables.items()}}
                names.update({a.asname or a.name: known[a.name] for a in node.names if a.name in known})
    _follow([n for n in tree.body if not isinstance(n, ast.FunctionDef)], names)
    made: dict[str, dict[str, Any]] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.args.args and not node.args.kwonlyargs:
            found = _follow(node.body, dict(names))
            if isinstance(found, dict) and _known(found):
                made[node.name] = found
                names[node.name] = lambda found=found: copy.deepcopy(found)
    return names, made


def _beside(path: Path, node: ast.ImportFrom) -> Path | None:
    """The file that an import names, beside a file or in a folder above it."""
    for folder in path.absolute().parents[node.level - 1 if node.level else 0 :][: 1 if node.level else 4]:
        if (found := folder.joinpath(*(node.module or "").split(".")).with_suffix(".py")).is_file():
            return found
    return None


def _follow(body: Iterable[ast.stmt], names: dict[str, Any]) -> Any:
    """Assignments, to names and to entries of what these stand for, and what is returned; every other statement is passed over."""
    for node in body:
        if isinstance(node, ast.With):
            _follow(node.body, names)
        with contextlib.suppress(_Open):
            if isinstance(node, ast.Return) and node.value is not None:
                return _value(node.value, names)
            if isinstance(node, ast.Assign):
                value = _value(node.value, names)
                for target in node.targets:
                    _assign(target, value, names)
    return None


def _assign(target: ast.expr, value: Any, names: dict[str, Any]) -> None:
    if isinstance(target, ast.Name):
        names[target.id] = value
    elif isinstance(target, ast.Attribute | ast.Subscript) and isinstance(holder := _value(target.value, names), dict):
        holder[target.attr if isinstance(target, ast.Attribute) else _value(target.slice, names)] = value


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value of a literal, a name or an entry; of a call of a function that was read, what it returns; of another call its keywords as a table."""
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(entry, names) for entry in node.elts]
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        return {key.value: _value(entry, names) for key, entry in zip(node.keys, node.values, strict=True)}  # type: ignore[union-attr]
    if isinstance(node, ast.Attribute | ast.Subscript):
        holder = _value(node.value, names)
        key = node.attr if isinstance(node, ast.Attribute) else _value(node.slice, names)
        if isinstance(holder, dict) and key in holder:
            return holder[key]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_ref" and len(node.args) == 1:
        return _value(ast.Subscript(node.func.value, node.args[0]), names)  # of ml_collections: an entry that stands in two places
    if isinstance(node, ast.Call) and not node.args:
        made = names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if callable(made):
            return made()
        told = _Made()
        for keyword in node.keywords:
            with contextlib.suppress(_Open):
                told |= {keyword.arg: _value(keyword.value, names)} if keyword.arg else {}
        return told
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise _Open from None


# -- dotted keys -------------------------------------------------------------------------------------------------------------------------------


def flat(table: Mapping[Any, Any], before: str = "") -> list[tuple[str, Any]]:
    """Nested tables as dotted keys, as `--set` writes them. Raises `UsageError` for too many of them: YAML can write 2ⁿ in n lines."""
    pairs: list[tuple[str, Any]] = []
    for key, value in table.items():
        if len(pairs) > MOST or (isinstance(value, list) and _is_large(value)):
            raise UsageError("a table must have few keys", f"there are more than {MOST:,}", "Name the file that holds the settings alone")
        pairs += flat(value, f"{before}{key}.") if isinstance(value, dict) else [(f"{before}{key}", value)]
    return pairs


def _is_large(entries: list[Any]) -> bool:
    """Whether a list has too many entries, with those of what stands in it."""
    waiting = [*entries]
    for value in waiting:
        if len(waiting) > MOST:
            return True
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return False


def _yaml(text: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError("a YAML file needs `pyyaml` to be read", "it is not installed", "Install it, or give JSON or TOML") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


_LOADERS: dict[str, Callable[[str], Any]] = {".json": json.loads, ".toml": tomllib.loads}

__all__ = ["SUFFIXES", "composed", "flat", "parse", "read", "sections", "split"]
