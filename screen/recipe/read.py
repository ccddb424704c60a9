"""What `--recipe`, `[tool.screen.recipe]` and `recipe=` were given, as a recipe: files, names of presets, `FIELD=VALUE`, tables, lists of these."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from screen import plugins, tables
from screen.errors import UsageError, did_you_mean
from screen.recipe import presets
from screen.recipe.document import Document, document, shown
from screen.recipe.formats import own
from screen.recipe.recipe import Recipe
from screen.recipe.stated import Stated, over

FORMATS = "screen.recipe.formats"
FORMS = "Give a TOML, YAML or JSON file, a nanoGPT-like `config.py`, a name that `screen recipe` lists, or `FIELD=VALUE`"


class Format(Protocol):
    """A module of `screen/recipe/formats`."""

    ORDER: int

    def fits(self, document: Document) -> bool:
        """Whether this is a file of the format."""

    def read(self, document: Document) -> Stated:
        """What it states. Raises `UsageError`."""


def recipe_of(value: Any, where: str) -> Stated:
    """The recipe that a value means. `where`: what the value stands in, for errors. Raises `UsageError`."""
    if isinstance(value, Stated):
        return value
    if isinstance(value, Recipe):
        return Stated(value, dict.fromkeys(value.stated, where))
    if isinstance(value, Mapping):
        return _with_base(own.of_leaves(dict(tables.flat(value)), where), value.get("base"), where, nested=False)
    if isinstance(value, str | os.PathLike):
        return _named(os.fspath(value), where)
    if isinstance(value, list | tuple):
        found = Stated()
        for item in value:
            found = over(found, recipe_of(item, where))
        return found
    raise UsageError(f"{where} must be a recipe", f"it is a `{type(value).__name__}`", FORMS)


def is_change(value: Any) -> bool:
    """Whether a value only changes fields of a recipe that stands before it: `FIELD=VALUE`."""
    text = value if isinstance(value, str) else ""
    return "=" in text and text.partition("=")[0].strip().replace(".", "_").replace("-", "_").isidentifier()


def _named(text: str, where: str, *, nested: bool = False) -> Stated:
    """A file, a preset or `FIELD=VALUE`. `nested`: what a file names as its base, which has none itself. Raises `UsageError`."""
    kind, colon, rest = text.partition(":")
    word = shown(text)
    if colon and plugins.find(FORMATS, kind):
        found, word = _read(document(rest), kind, nested=nested), f"{kind}:{shown(rest)}"
    elif is_change(text) and not os.path.isfile(text):
        key, _, value = text.partition("=")
        try:
            given = json.loads(value)
        except ValueError:
            given = value
        found = own.of_leaves({key.strip(): given}, where)
    elif os.path.isfile(text):
        found = _read(document(text), nested=nested)
    elif (preset := presets.find(text)) is not None:
        found = _read(Document(preset.name, preset.read_bytes()), "own", f"preset `{preset.stem}`")
    else:
        raise _nothing(text, where)
    return Stated(found.recipe, found.origins, found.sources, found.unused, (word,))


def _nothing(text: str, where: str) -> UsageError:
    if "/" in text or os.sep in text or Path(text).suffix in (".toml", ".yaml", ".yml", ".json", ".py", ".bin"):
        found = f"`{text}` is no regular file" if os.path.exists(text) else f"there is no file `{text}`"
        return UsageError(f"{where} must name a file that exists", found, did_you_mean(text, presets.names()) or FORMS)
    inside = [f"`{name}`" for name in sorted(presets.names(), key=len) if len(text) > 2 and text.lower() in name]
    hint = f"Did you mean {' or '.join(inside[:3])}" if inside else did_you_mean(text, presets.names()) or FORMS
    return UsageError(f"{where} must be a file or the name of a recipe", f"there is no recipe called `{text}`", hint)


def _read(found: Document, kind: str | None = None, origin: str | None = None, *, nested: bool = False) -> Stated:
    """What a file states, by the format that is named or else the first that it fits."""
    if kind is None:
        for module in formats():
            if module.fits(found):
                break
        else:
            raise UsageError(f"{found.origin} must be a file of a known format", f"its name ends in `{found.suffix}`", FORMS, file=found.name)
    else:
        path = plugins.find(FORMATS, kind)
        assert path is not None
        module = import_module(path)
    stated = module.read(found) if origin is None else own.of_leaves(found.leaves, origin, found)
    base = (found.table or {}).get("base") if module is own else None
    if found.suffix == ".py" and not stated.recipe.stated and not stated.unused:  # a model's file, say
        raise UsageError(f"{found.origin} must state a field of a recipe", "it states none", "`screen recipe --fields` lists them", file=found.name)
    return _with_base(stated, base, found.origin, nested=nested)


def _with_base(stated: Stated, base: Any, where: str, *, nested: bool) -> Stated:
    """Over the recipe that `base` names, which has none itself unless it is a preset: no chain, no circle."""
    if base is None:
        return stated
    if nested:
        raise UsageError("what `base` names must be a recipe without a `base`", f"{where} has one", f"Name `{base}` itself")
    if not isinstance(base, str) or is_change(base):
        raise UsageError(f"`base` in {where} must be the name of a recipe or a file", f"it is `{base}`", FORMS)
    under = _named(base, f"`base` in {where}", nested=True)
    return over(Stated(under.recipe, under.origins, under.sources, under.unused), stated)


def formats() -> list[Format]:
    """The formats of other distributions, then ours, each in the order of their `ORDER`."""
    foreign = [import_module(path) for path in plugins.foreign(FORMATS).values()]
    ours = sorted((import_module(path) for path in plugins.own(FORMATS).values()), key=lambda module: int(module.ORDER))
    return [*foreign, *ours]


__all__ = ["FORMATS", "Format", "formats", "is_change", "recipe_of"]
