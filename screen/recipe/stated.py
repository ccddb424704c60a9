"""A recipe with where each of its fields comes from, and how several are laid over each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from screen.errors import UsageError
from screen.recipe.recipe import Recipe

ALTERNATIVES = (("warmup_steps", "warmup_fraction", "warmup_tokens"), ("weight_decay", "weight_decay_on"))
"""Fields that say the same in two ways: what is stated later takes back the other one."""


@dataclass(frozen=True)
class Stated:
    """What is stated of the training, by whom, and what of it nobody reads."""

    recipe: Recipe = field(default_factory=Recipe)
    origins: Mapping[str, str] = field(default_factory=dict)
    """Field -> the file, the name of the preset, `--recipe` or `recipe=` that states it."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Field -> where in the literature the value stands, for presets."""
    unused: tuple[str, ...] = ()
    """Keys of another program's file that say nothing here, each with the file, and why where that is not plain."""
    words: tuple[str, ...] = ()
    """What `--recipe` was given, to repeat it."""

    def __bool__(self) -> bool:
        return bool(self.recipe.stated)


@dataclass(frozen=True)
class Where:
    """Where values were read, for errors: the file, and key and line of each field where they are known."""

    origin: str
    file: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    """Field -> its key there, where that is another word."""
    line: Callable[[str], int | None] = lambda key: None
    """Line of a key, from 1, where it can be told."""


def state(values: Mapping[str, Any], where: Where, unused: Iterable[str] = (), sources: Mapping[str, str] | None = None) -> Stated:
    """The recipe of plain values; those that are None are not stated. Raises `UsageError` with file, key and line."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        recipe = Recipe(**given)
    except ValidationError as error:
        raise _refusal(error, where) from None
    except (ValueError, OverflowError, TypeError) as error:  # what a value's own methods raise
        raise UsageError(f"{where.origin} must state numbers and words", str(error), file=where.file) from None
    return Stated(recipe, dict.fromkeys(recipe.stated, where.origin), dict(sources or {}), tuple(unused))


def _refusal(error: ValidationError, where: Where) -> UsageError:
    """The first fault, in our words."""
    fault = error.errors(include_url=False)[0]
    said = fault["msg"].removeprefix("Value error, ").replace("Input should", "must")
    if not fault["loc"]:
        return UsageError(f"the recipe of {where.origin} must not contradict itself", said, file=where.file)
    name = str(fault["loc"][0])
    key = where.keys.get(name, name)
    line = where.line(key)
    at = f"`{key}` in {where.origin}" + (f", line {line}," if line else "")
    shown = repr(fault["input"])
    found = f"it is `{shown if len(shown) < 60 else shown[:56] + ' …'}`"
    return UsageError(f"{at} {said}", found, f"`{name}` is: {Recipe.model_fields[name].description}", file=where.file, line=line)


def over(first: Stated, second: Stated) -> Stated:
    """The first with everything that the second states in its place. Raises `UsageError` where both together contradict each other."""
    values, origins, sources = first.recipe.stated, dict(first.origins), dict(first.sources)
    for names in ALTERNATIVES:
        if any(name in second.origins for name in names):
            for name in names:
                values.pop(name, None)
    values |= second.recipe.stated
    if "min_lr" not in second.origins and "lr" in second.origins and values.get("min_lr", 0) > values["lr"]:
        del values["min_lr"]  # it was the end of a schedule with another peak
    for name in second.origins:
        sources.pop(name, None)
    origins = {name: second.origins.get(name, origins.get(name, "")) for name in values}
    where = Where(" and ".join(dict.fromkeys(origins.values())))
    both = state(values, where)
    order = list(both.recipe.stated)
    return Stated(
        both.recipe,
        {name: origins[name] for name in order},
        {name: text for name, text in (sources | dict(second.sources)).items() if name in values},
        (*first.unused, *second.unused),
        (*first.words, *second.words),
    )


__all__ = ["Stated", "Where", "over", "state"]
