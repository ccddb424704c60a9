"""Our own words: the fields of `Recipe` in TOML, YAML or JSON, flat or under `recipe`, or the nested cells of a published outcome.

`base` names a preset or a file that holds for everything else; `title`, `source` and the table `sources` are for readers. Any other key is an
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screen.errors import UsageError, did_you_mean
from screen.recipe.aliases import ALIASES
from screen.recipe.document import Document
from screen.recipe.recipe import CELLS, Recipe
from screen.recipe.stated import Stated, Where, state

ORDER = 20
ABOUT = ("title", "source", "base")
SOURCES = "sources."


def fits(document: Document) -> bool:
    """A table none of whose keys is another program's word."""
    return document.table is not None and not any(key.rpartition(".")[2] in ALIASES for key in document.leaves)


def read(document: Document) -> Stated:
    """Raises `UsageError`."""
    return of_leaves(document.leaves, document.origin, document)


def of_leaves(leaves: Mapping[str, Any], origin: str, document: Document | None = None) -> Stated:
    """What dotted keys state; an unknown one is an error. `document`: where the lines stand. Raises `UsageError`."""
    values: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for key, value in leaves.items():
        if key in ABOUT or key.startswith(SOURCES):
            continue
        bare = key.removeprefix("recipe.")
        name = CELLS.get(bare, bare.replace("-", "_"))
        if name not in Recipe.model_fields:
            raise _unknown(key, origin, document)
        if name in values and value is not None and values[name] is not None:
            raise UsageError(f"{origin} must state `{name}` once", f"`{keys[name]}` and `{key}` both do", file=document.name if document else None)
        if value is not None:
            values[name], keys[name] = value, key
    where = Where(origin, document.name, keys, document.line) if document else Where(origin, keys=keys)
    general = str(leaves.get("source") or "")
    named = {key.removeprefix(SOURCES): str(value) for key, value in leaves.items() if key.startswith(SOURCES)}
    sources = {name: named.get(name, general) for name in values if named.get(name, general)}
    return state(values, where, sources=sources)


def _unknown(key: str, origin: str, document: Document | None) -> UsageError:
    bare = key.removeprefix("recipe.")
    file, line = (document.name, document.line(key)) if document else (None, None)
    word = ALIASES.get(bare.rpartition(".")[2])
    hint = f"Did you mean `{word}`" if word else did_you_mean(bare, [*Recipe.model_fields, *CELLS]) or "`screen recipe --fields` lists them"
    found = f"`{key}`" + (f" (line {line})" if line else "") + " is none"
    return UsageError(f"every key of {origin} must be a field of a recipe", found, hint, file=file, line=line)


__all__ = ["ORDER", "fits", "of_leaves", "read"]
