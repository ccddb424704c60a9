"""The configuration object that a class takes: which argument it is, what builds it, and what `--set` and `--config` say of it.

In this order: a class of settings (the argument's annotation, the class of its default, or the one of the file that has every name which the code
reads of it); what `get_default_config()` of the class gives; a table of the file's own (`CONFIG = {…}`) that has them; else what the user gave, as an
object that answers `cfg.x`, `cfg["x"]` and `cfg.get("x")`. What is missing is named by its path.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import glob
import importlib.util
import inspect
import os
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import nn

from screen.capture.build.examples import example
from screen.capture.build.needs import Needs, needs, refuses
from screen.capture.build.own_tables import as_table, stated, tables_of
from screen.capture.build.overrides import changes, plain, unknown
from screen.capture.build.reads import (
    HANDED, NOT_ATTRIBUTES, asked_for, below, choices, globals_of, handed_on, held_as, is_read_by_name, is_read_of, is_set, reads,
    reads_below, source_of, spreads, tree_of, unpacked, with_defaults, written,
)  # fmt: skip
from screen.capture.inputs.context import entries_of
from screen.capture.inputs.missing import condition, frames, parts_of, statement
from screen.capture.trace.source_lines import HERE, TORCH
from screen.errors import UsageError

_ANYTHING = (dict, Any, object)
"""Annotations of a configuration that say nothing about it."""
_NUMBERS = (int, float, str, "int", "float", "str")
"""Annotations of fields that `None` does not meet."""
BESIDE = 64
"""Files of a folder that are looked at."""
OFFER = "get_default_config"
"""The method without arguments by which a class gives its own defaults."""


class Missing(AttributeError, KeyError):
    """A name that a configuration was asked for and that nobody gave."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"`{self.path}` is not set"


class Given(dict[str, Any]):
    """A configuration made of what was given: `cfg.x`, `cfg["x"]` and `cfg.get("x")` are the same, and what is missing is named by its path."""

    def __init__(self, entries: Mapping[str, Any], path: str) -> None:
        super().__init__({k: Given(v, f"{path}.{k}") if isinstance(v, dict) else v for k, v in entries.items()})
        object.__setattr__(self, "_path", path)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and dict.__contains__(self, name):
            return dict.__getitem__(self, name)
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Missing(f"{vars(self).get('_path', 'config')}.{name}")

    def __missing__(self, key: Any) -> Any:
        raise Missing(f"{vars(self).get('_path', 'config')}.{key}")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        del self[name]

    def to_dict(self) -> dict[str, Any]:
        """A plain copy."""
        return dict(self)

    def merge_from_dict(self, entries: Mapping[str, Any]) -> None:
        """As `update`."""
        self.update(entries)

    def __reduce__(self) -> Any:
        return Given, (dict(self), vars(self)["_path"])


# -- which configuration -------------------------------------------------------------------------------------------------------------------


def config_of(parameter: inspect.Parameter, module: ModuleType | None, entry: Any = None) -> type[Any] | None:
    """The config class of an argument: its annotation, the class of its default, or (no default, or None) the one of the file that fits."""
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return None
    names = {**(vars(module) if module is not None else {}), **globals_of(entry)}
    note = _annotated(parameter.annotation, names)
    if note is not None:
        return note
    if parameter.default is not parameter.empty and parameter.default is not None:
        return type(parameter.default) if dataclasses.is_dataclass(parameter.default) else None
    if not _says_nothing(parameter):
        return None
    stated = getattr(entry, "config_class", None)
    if isinstance(stated, type) and _is_settings(stated):  # as models of transformers name theirs
        return _of_its_file(stated, entry, names)
    wanted = set(reads_below(entry, parameter.name)) if entry is not None else set()
    if not wanted and not _is_alone(parameter, entry):
        return None
    if (beside := _of_models_beside(names, wanted)) is not None:
        return beside
    inside = {id(v): v for v in names.values() if isinstance(v, type) and dataclasses.is_dataclass(v)}.values()
    own = [v for v in inside if v.__module__ == names.get("__name__") and (not wanted or wanted <= {*fields_of(v), *dir(v)})]
    outer = [c for c in own if not any(_names(o, c) for o in own if o is not c)]
    ready = [c for c in outer if not _unset(c)] or (outer if wanted else [])
    if not ready and wanted:  # a class without decoration that keeps all these names of arguments which all have defaults
        ready = [c for c in {id(v): v for v in names.values()}.values() if _is_plain(c, names.get("__name__")) and wanted <= {*_kept(c)}]
    return ready[0] if len(ready) == 1 else None


def _of_its_file(stated: type[Any], entry: Any, names: Mapping[str, Any]) -> type[Any]:
    """The settings that a class states; where these are what it inherits from a library, the one class of its file's names that is made of them."""
    bases = [vars(b) for b in entry.__mro__ if b.__module__ != names.get("__name__")]
    if stated is not next((b["config_class"] for b in bases if b.get("config_class") is not None), None):
        return stated
    made = {id(v): v for v in names.values() if isinstance(v, type) and issubclass(v, stated) and v is not stated and _is_settings(v)}
    return next(iter(made.values())) if len(made) == 1 else stated


def _of_models_beside(names: Mapping[str, Any], wanted: set[str]) -> type[Any] | None:
    """Of a part of a model that names its settings (`config_class`) and stands in one file with it: those, where they have all that is read."""
    own = [v for v in names.values() if isinstance(v, type) and issubclass(v, nn.Module) and v.__module__ == names.get("__name__")]
    kinds = dict.fromkeys(c for v in own if isinstance(c := getattr(v, "config_class", None), type) and _is_settings(c) and not _unset(c))
    fits = [c for c in kinds if wanted and all(hasattr(c(), name) for name in wanted)]
    return fits[0] if len(fits) == 1 else None


def _is_plain(value: Any, module: Any) -> bool:
    """Is this a class of settings of a module's own that is no dataclass?"""
    own = isinstance(value, type) and value.__module__ == module and not dataclasses.is_dataclass(value)
    return own and ("__init__" in vars(value) or hasattr(value, "_fields")) and _is_settings(value)


def _kept(cls: type[Any]) -> list[str]:
    """What the constructor of a class keeps where all its arguments have defaults."""
    tree = tree_of(cls)  # type: ignore[arg-type]
    node = next((n for n in ast.walk(tree or ast.Module([], [])) if isinstance(n, ast.ClassDef)), None)
    return with_defaults(node) if node is not None else []


def _is_alone(parameter: inspect.Parameter, entry: Any) -> bool:
    """Is it the one argument that must be given? Of several of which nothing is read (`Layer(width, heads)`), none is known to be a configuration."""
    try:
        needed = [p.name for p in inspect.signature(entry).parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):
        return True
    return needed in ([], [parameter.name])


def _annotated(note: Any, names: Mapping[str, Any]) -> type[Any] | None:
    """The class of settings that an annotation means; `X | None` is X, and so is `X | Y`: the first that is written."""
    if isinstance(note, str):
        try:
            note = eval(note, dict(names))  # an annotation as text, under `from __future__ import annotations`: Python's own way to read it
        except Exception:  # a name that is there for type checkers only
            return None
    if typing.get_origin(note) in (typing.Union, types.UnionType):
        found = [a for a in typing.get_args(note) if a is not type(None)]
        note = next((a for a in found if isinstance(a, type) and _is_settings(a)), None)
    return note if isinstance(note, type) and _is_settings(note) else None


def _says_nothing(parameter: inspect.Parameter) -> bool:
    """Is an argument without annotation, or with one that any configuration meets?"""
    note = parameter.annotation
    if note is parameter.empty or note in _ANYTHING:
        return True
    text = note if isinstance(note, str) else getattr(note, "__name__", str(note))
    return bool(re.fullmatch(r"(typing\.)?(Dict|dict|Mapping|Any|object|DictConfig|OmegaConf|ConfigDict|Namespace|SimpleNamespace)(\[.*\])?", text))


def _is_dictionary(note: Any, entry: Any) -> bool:
    """Does an annotation mean a dictionary of the author's own, whose entries are its attributes?"""
    cls = globals_of(entry).get(note) if isinstance(note, str) else note
    return isinstance(cls, type) and issubclass(cls, dict) and not fields_of(cls)


def is_config(parameter: inspect.Parameter, entry: Any, deep: int = HANDED) -> bool:
    """Is an argument without a class of its own read as a configuration: asked for names, and (almost) never told to do anything, here or where it is
    handed on?"""
    if parameter.default not in (parameter.empty, None) or not (_says_nothing(parameter) or _is_dictionary(parameter.annotation, entry)):
        return False
    if spreads(entry, parameter.name):
        return True
    tree, name, asked, told = tree_of(entry), parameter.name, 0, 0
    held = held_as(entry, name)
    for node in ast.walk(tree) if tree is not None else ():
        own = node.func if isinstance(node, ast.Call) else node
        if isinstance(own, ast.Subscript) and not (isinstance(own.slice, ast.Constant) and isinstance(own.slice.value, str)):
            continue  # `widths[0]`, `widths[i]`: a list
        if isinstance(own, ast.Attribute | ast.Subscript) and ast.unparse(own.value) in held:
            told += own is not node and isinstance(own, ast.Attribute) and own.attr not in NOT_ATTRIBUTES  # `encoder.embed(x)`: a part
            asked += own is node
        asked += isinstance(node, ast.Call) and bool(asked_for(node, name))
    if asked or told or not deep:
        return asked > 1 + 3 * told or (asked == 1 and not told and _is_option(parameter, entry))
    places = [(other, inspect.signature(other).parameters.get(key), key) for other, key in handed_on(entry, name)]
    return any(not key or (place is not None and is_config(place, other, deep - 1)) for other, place, key in places)


def _is_option(parameter: inspect.Parameter, entry: Any) -> bool:
    """Is the one thing that is read of the one argument that must be given an option of a command line, or a setting, in the files that use it? What
    is called is a part, `self.encoder(x)`."""
    tree = tree_of(entry) or ast.Module([], [])
    kept = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and ast.unparse(n.value) == parameter.name]
    held = {parameter.name, *(ast.unparse(t) for n in kept for t in n.targets)}
    called = any(isinstance(n, ast.Call) and ast.unparse(n.func) in held for n in ast.walk(tree))
    return not called and _is_alone(parameter, entry) and bool(stated(entry, {}, [*reads(entry, parameter.name)])[0])


def _names(outer: type[Any], inner: type[Any]) -> bool:
    """Has dataclass `outer` a field of the type `inner`?"""
    return any(f.type is inner or inner.__name__ in re.findall(r"\w+", str(f.type)) for f in dataclasses.fields(outer))


def _is_settings(cls: type[Any]) -> bool:
    """A plain class of settings: a dataclass or pydantic model, or another class whose arguments all have defaults."""
    if cls.__module__ == "builtins" or issubclass(cls, nn.Module | torch.Tensor) or not fields_of(cls):
        return False
    if dataclasses.is_dataclass(cls) or hasattr(cls, "model_fields") or (issubclass(cls, tuple) and hasattr(cls, "_fields")):
        return True
    return not _unset(cls)


def _unset(cls: Any) -> list[str]:
    """The fields of a config class, or the arguments of a function, that have no default."""
    try:
        signature = inspect.signature(cls)
    except (TypeError, ValueError):
        return []
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [p.name for p in signature.parameters.values() if p.default is p.empty and p.kind not in variadic]


def fields_of(cls: type[Any]) -> list[str]:
    """Names of the settings of a config class."""
    if dataclasses.is_dataclass(cls):  # with a constructor of its own, perhaps
        return list(dict.fromkeys([*(f.name for f in dataclasses.fields(cls)), *_taken(cls)]))
    if isinstance(fields := getattr(cls, "model_fields", None), dict):
        return list(fields)
    return _taken(cls)


def _taken(cls: type[Any]) -> list[str]:
    """Names of the arguments of a class."""
    try:
        found = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def defaults_of(cls: type[Any]) -> dict[str, Any]:
    """The settings of a config class that have defaults, with these."""
    if not _unset(cls):
        with contextlib.suppress(TypeError, ValueError, AssertionError):  # it is none without a table that its defaults leave out
            return entries_of(cls())
    return {p.name: p.default for p in inspect.signature(cls).parameters.values() if p.default is not p.empty}


def settings_of(entry: Any, module: ModuleType | None) -> tuple[str, ...]:
    """The names of the settings of the classes of settings that a class or function takes, as of `--set`."""
    try:
        known = inspect.signature(entry).parameters.values()
    except (TypeError, ValueError):
        return ()
    classes = {p.name: cls for p in known if (cls := config_of(p, module, entry)) is not None}
    return tuple(f"{name}.{key}" for name, cls in classes.items() for key in fields_of(cls))


def fitted(table: Mapping[str, Any], fields: list[str]) -> dict[str, Any]:
    """What a file of settings says of these fields: at its top, or in the part of it that has most of them."""
    parts = [table, *(v for v in table.values() if isinstance(v, dict))]
    best = max(parts, key=lambda part: sum(key in part for key in fields))
    return {key: best[key] for key in fields if key in best}


# -- building it ---------------------------------------------------------------------------------------------------------------------------


def build_config(
    cls: type[Any], settings: Mapping[str, Any], name: str, entry: Any, told: list[str] | None = None
) -> tuple[Any, dict[str, list[Any]]]:
    """A config with settings, and what they changed; a nested class takes nested settings. What it lacks is taken from a call of the author's, which
    `told` is filled with. Raises `UsageError` for what nobody gave."""
    told = [] if told is None else told
    known = fields_of(cls)
    late = {key: value for key, value in settings.items() if key not in known}
    own = entries_of(cls()) if late and not _unset(cls) else {}  # `self.patch_size = -1` of a plain class
    sources = sys.modules.get(cls.__module__), sys.modules.get(getattr(entry, "__module__", ""))
    for key in late:
        if key not in own and not is_asked_of(name, key, entry) and not is_read_by_name(key, *sources):
            raise unknown(key, cls.__name__, known)
    given = {key: value for key, value in settings.items() if key in known}
    lacking = [key for key in _unset(cls) if key not in given]
    below: dict[str, list[Any]] = {}
    for key in lacking:  # a field that is a class of settings itself
        inner = _annotated(_field_note(cls, key), vars(sys.modules[cls.__module__]))
        if inner is not None:
            given[key], below = build_config(inner, {}, f"{name}.{key}", entry, told)
    lacking = [key for key in lacking if key not in given]
    if lacking:
        stated, place = example(cls, lacking, globals_of(cls))
        given = {**{key: value for key, value in stated.items() if key in known}, **given}
        below = {**{f"{name}.{key}": [None, plain(value)] for key, value in stated.items() if key in known and key not in settings}, **below}
        words = [key for key in lacking if key not in given and _field_note(cls, key) in (str, "str")]
        unread = [key for key in words if not is_read_of(name, key, *sources)]
        given = {**dict.fromkeys(unread, ""), **given}
        if lacking := [key for key in lacking if key not in given]:
            raise needs(getattr(entry, "__name__", str(entry)), [f"{name}.{key}" for key in lacking], place)
        told += [f"`{name}` is that of {place}"] * bool(stated) + [f"`{name}.{key}` is empty: no code of its files reads it" for key in unread]
    try:
        base = cls(**{key: given[key] for key in _unset(cls)})
    except Exception as error:
        if isinstance(error, TypeError) and "must be a mapping, not NoneType" in str(error):
            given = {**_parts_of(cls, given, name, entry), **given}  # `Vision(**vision_config)` of one that is left out
        base = _accepted(cls, given, name, entry)
    for key, value in settings.items():
        old = getattr(base, key, None)
        if isinstance(value, dict) and old is not None and not isinstance(old, dict | type) and _is_settings(type(old)):
            given[key] = dataclasses.replace(old, **value) if dataclasses.is_dataclass(old) else type(old)(**value)  # type: ignore[type-var]
    config = cls(**given)
    for key, value in late.items():
        object.__setattr__(config, key, value)
    told = [key for key in settings if key in given or key in late]
    return config, {
        **changes({k: getattr(base, k, None) for k in told}, {k: getattr(config, k, None) for k in told}, name),
        **below,
        **{f"{name}.{key}": [None, settings[key]] for key in _unset(cls) if key in settings},
    }


def _accepted(cls: type[Any], given: Mapping[str, Any], name: str, entry: Any) -> Any:
    """An object of a class that refuses its own defaults. Raises `UsageError` for those that stand for nothing: those below zero, and those that are
    `None` where it fails."""
    try:
        return cls(**given)
    except Exception as error:
        own = [f for f in frames(error) if not f[0].f_code.co_filename.startswith((TORCH, HERE))]
        said = statement(own[-1][0].f_code.co_filename, own[-1][1]) if own else None
        asked = {node.attr for node in parts_of(said) if isinstance(node, ast.Attribute)} if said is not None else set()
        known = {p.name: p.default for p in inspect.signature(cls).parameters.values() if p.name not in given}
        left = {key: value for key, value in known.items() if (value is None and key in asked) or (type(value) is int and value < 0)}
        if not left or isinstance(error, ImportError):  # what is not installed is no setting
            raise
        raise refuses(getattr(entry, "__name__", str(entry)), {f"{name}.{k}": v for k, v in left.items()}, f"`{cls.__name__}`") from error


def is_asked_of(name: str, key: str, entry: Any) -> bool:
    """Does the file of a class read this of what it calls by the name of the argument, `config.encoder_width`, in this class or another?"""
    source = source_of(sys.modules.get(getattr(entry, "__module__", "")))
    return re.search(rf"\b{re.escape(name)}\.{re.escape(key)}\b", source or "") is not None


def _parts_of(cls: type[Any], given: Mapping[str, Any], name: str, entry: Any) -> dict[str, Any]:
    """Empty tables for the arguments of a class of settings that are `None` and become the arguments of others, `Vision(**vision_config)`. Raises
    `UsageError` where those lack something."""
    known = inspect.signature(cls).parameters.values()
    left = [p.name for p in known if p.name not in given and p.default is None]
    parts = {key: unpacked(cls, key) for key in left if any(not at for _, at in handed_on(cls, key))}
    if lacking := [f"{name}.{key}.{inner}" for key, names in parts.items() for inner in names]:
        raise needs(getattr(entry, "__name__", str(entry)), lacking)
    return {key: {} for key in parts}


def _field_note(cls: type[Any], key: str) -> Any:
    found = inspect.signature(cls).parameters.get(key)
    return found.annotation if found is not None else None


def given_config(parameter: inspect.Parameter, entry: Any, settings: Any, told: list[str] | None = None) -> tuple[Any, dict[str, list[Any]]]:
    """What stands for a configuration without a class: the defaults that the class offers, or a table of the file's own that has all names which are
    read, with the settings over it; else the settings alone. `settings`: nested settings, or the name of such a table. Raises `UsageError` with all
    names that are lacking."""
    name = parameter.name
    if not isinstance(settings, str) and (offer := _offer(entry)) is not None:
        return _default_config(offer, name, entry, settings)
    own, read = tables_of(entry), reads_below(entry, name)
    if isinstance(settings, str):
        if settings not in own:
            raise UsageError(f"`--set {name}=…` must name a table of the file", f"there is no `{settings}`", f"It has {_listed(own)}")
        chosen, settings = settings, {}
    else:
        must = {key for key, required in read.items() if required and not is_set(entry, name, key)}
        chosen = next((n for n, table in sorted(own.items(), key=lambda one: one[0] != name) if must and must <= {*table, *settings}), "")
    entries = {**own.get(chosen, {}), **settings}
    lacking = [key for key, required in read.items() if required and key not in entries and not is_set(entry, name, key)]
    if lacking and not chosen:
        chosen, table = stated(entry, own, lacking)
        entries, lacking = {**table, **settings}, [key for key in lacking if key not in table]
        if told is not None and chosen:
            told.append(f"`{name}` is {chosen}" + (f", which does not tell {_listed(dict.fromkeys(lacking))}" if lacking else ""))
    if lacking and not chosen and (cls := _beside(entry, read)) is not None:
        if told is not None:
            told.append(f"`{name}` is `{cls.__name__}` of {os.path.basename(inspect.getsourcefile(cls) or '')}")
        return build_config(cls, settings, name, entry, told)
    if lacking and not settings and not chosen:
        paths = [path for key in lacking for path in below(entry, name, key)]
        raise needs(getattr(entry, "__name__", str(entry)), [f"{name}.{path}" for path in paths])
    if silent := [key for key in unpacked(entry, name) if key not in entries]:
        raise needs(getattr(entry, "__name__", str(entry)), [f"{name}.{key}" for key in silent])
    changed: dict[str, list[Any]] = {name: [None, chosen]} if chosen else {}
    return _container(parameter, entries) or Given(entries, name), {**changed, **changes({}, dict(settings), name)}


def _container(parameter: inspect.Parameter, entries: Mapping[str, Any]) -> Any:
    """The entries as OmegaConf's own class, where that is asked for and there; None elsewhere."""
    library = sys.modules.get("omegaconf")
    if library is None or not re.search(r"\bDictConfig\b", str(getattr(parameter.annotation, "__name__", parameter.annotation))):
        return None
    made = library.OmegaConf.create(as_table(entries))
    library.OmegaConf.set_struct(made, True)
    return made


def _beside(entry: Any, asked: Mapping[str, bool]) -> type[Any] | None:
    """The one class of settings in a file beside that of a class that has all names which its code must find, and defaults for all that it has."""
    try:
        own = os.path.abspath(inspect.getsourcefile(entry) or "")
    except TypeError:
        return None
    must, found = {key for key, required in asked.items() if required}, []
    for path in sorted(glob.glob(os.path.join(glob.escape(os.path.dirname(own)), "*.py")))[:BESIDE] if must else []:
        for node in [n for n in ast.walk(_parsed(path)) if isinstance(n, ast.ClassDef)] if path != own else ():
            if must <= {*with_defaults(node)}:
                found.append((path, node.name))
    if len(found) != 1:
        return None
    [(path, name)] = found
    spec = importlib.util.spec_from_file_location(f"screen_beside_{os.path.basename(path)[:-3]}", path)
    try:
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        sys.modules[module.__name__] = module
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except Exception:  # a file of its own trouble: it says nothing
        return None
    cls = getattr(module, name, None)
    return cls if isinstance(cls, type) and not issubclass(cls, nn.Module) and _is_settings(cls) and not _unset(cls) else None


def _parsed(path: str) -> ast.AST:
    """A file's source; nothing where it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _offer(entry: Any) -> Any:
    """The method of a class that gives its defaults, where it runs without arguments."""
    offer = getattr(entry, OFFER, None) if isinstance(entry, type) else None
    return offer if offer is not None and not _unset(offer) else None


def offered_names(entry: Any, name: str) -> list[str]:
    """The names of the defaults that a class offers for its argument `name`, and those that it reads; none where it offers nothing."""
    offer = _offer(entry)
    return list(_names_of(offer(), reads(entry, name))) if offer is not None else []


def _names_of(config: Any, read: Mapping[str, bool]) -> dict[str, None]:
    return dict.fromkeys([*read, *(config if isinstance(config, Mapping) else vars(config))])


def _default_config(offer: Any, name: str, entry: Any, settings: Mapping[str, Any]) -> tuple[Any, dict[str, list[Any]]]:
    """The configuration that a class itself offers, with settings over it. Raises `UsageError` with all names that it leaves at None and the code
    needs, but for those that a table in the code gives: `{"small": dict(depth=6), …}[config.size]` asks for `size` alone, and its keys are listed."""
    config, read = offer(), reads(entry, name)
    for key in settings:
        if key not in _names_of(config, read):
            raise unknown(key, f"{entry.__name__}.{OFFER}()", _names_of(config, read))
    before = {key: _entry(config, key) for key in settings}
    _set_over(config, settings)
    chosen = {key: rows for key, rows in choices(entry, name).items() if _entry(config, key) is not None}
    filled = {key for rows in chosen.values() for row in rows.values() for key in row}
    filled = filled if not filled & {*settings} else set()
    unset = [key for key, must in read.items() if must and key not in {*chosen, *filled, *settings} and _entry(config, key) is None]
    lacking = [key for key in unset if not is_set(entry, name, key)]
    open_ = {key: rows for key, rows in chosen.items() if _entry(config, key) not in rows}
    own = written(entry)
    if all(key in own for key in lacking):
        more = {key: own[key] for key in unset if key in own}
        more |= {key: next(iter(rows)) for key, rows in open_.items() if key not in settings and rows}
        before |= {key: _entry(config, key) for key in more}
        _set_over(config, more)
        settings, lacking, open_ = {**settings, **more}, [], {key: rows for key, rows in open_.items() if key not in more}
    if lacking or open_:
        code = inspect.unwrap(offer).__code__
        error = needs(getattr(entry, "__name__", str(entry)), [f"{name}.{key}" for key in [*lacking, *open_]])
        listed = "".join(f"; `{name}.{key}` is one of {_listed(rows)}, or `null` beside what they give" for key, rows in open_.items())
        where = f"`{OFFER}()` at {os.path.basename(code.co_filename)}:{code.co_firstlineno} does not give{listed}"
        told = Needs(error.required, f"{error.found}, which {where}", error.try_)
        told.lacking = error.lacking
        raise told
    return config, {name: [None, f"{entry.__name__}.{OFFER}()"], **changes(before, dict(settings), name)}


def _entry(config: Any, key: str) -> Any:
    """What a configuration of any kind says of a name; None where it says nothing."""
    return config.get(key) if isinstance(config, Mapping) else getattr(config, key, None)


def _set_over(config: Any, settings: Mapping[str, Any]) -> None:
    """Settings over a configuration of any kind, nested ones into its parts."""
    for key, value in settings.items():
        part = _entry(config, key)
        if isinstance(value, dict) and part is not None:
            _set_over(part, value)
        elif isinstance(config, dict):
            config[key] = value
        else:
            setattr(config, key, value)


def _listed(names: Iterator[str] | Mapping[str, Any]) -> str:
    return ", ".join(f"`{n}`" for n in names) or "none"


def refused(error: BaseException, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the configurations `given`, by their paths, that the user's line that failed speaks of: all of them where the line refuses
    (`assert`, or `raise` under a condition), else those that are `None` there or in the call that led there (or negative, where that is the error),
    and with these all that are `None` and are said to be numbers or text."""
    full = "allocate memory" in str(error)  # a limit of this machine: no setting is to blame
    own = [] if full else [f for f in frames(error) if not f[0].f_code.co_filename.startswith((TORCH, HERE))]
    for place, (frame, line) in enumerate(reversed(own)):
        said = statement(frame.f_code.co_filename, line)
        refuses = place == 0 and isinstance(said, ast.Assert if isinstance(error, AssertionError) else ast.Raise)
        said = condition(frame.f_code.co_filename, line) if isinstance(said, ast.Raise) else said
        found: dict[str, Any] = {}
        for node in parts_of(said) if said is not None else ():
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            holder = frame.f_locals.get(node.value.id)
            for name in (n for n, config in given.items() if config is not None and (config is holder or _copied(config, holder, node.attr))):
                value = getattr(given[name], node.attr, refuses)
                later = isinstance(value, int) and value < 0 and "negative" in str(error)  # `vocab_size: int = -1`
                if value is None or later or (refuses and not callable(value) and hasattr(given[name], node.attr)):
                    found[f"{name}.{node.attr}"] = value
        for name in [] if refuses else {path.partition(".")[0]: None for path in found}:
            numbers = [f.name for f in dataclasses.fields(given[name]) if f.type in _NUMBERS] if dataclasses.is_dataclass(given[name]) else []
            found |= {f"{name}.{n}": None for n in numbers if getattr(given[name], n) is None}
        if found or refuses:
            return found
    return {}


def _copied(config: Any, holder: Any, key: str) -> bool:
    """Does a module hold an entry of its settings under the same name, `self.patch_size = cfg.patch_size`, that `None` or −1 stands for?"""
    if not isinstance(holder, nn.Module) or isinstance(config, nn.Module | str | int | float | list | tuple | torch.Tensor):
        return False
    own, stated = vars(holder).get(key, config), getattr(config, key, config)
    return own is stated and (own is None or (type(own) is int and own < 0))


__all__ = [
    "Given",
    "Missing",
    "build_config",
    "config_of",
    "defaults_of",
    "fields_of",
    "fitted",
    "given_config",
    "is_asked_of",
    "globals_of",
    "is_config",
    "offered_names",
    "refused",
    "settings_of",
]
