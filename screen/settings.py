"""Settings: what the command line says over `screen.toml` or `[tool.screen]` of `pyproject.toml` over the defaults, each with its origin.

The nearest of the two files counts, looked for from the working directory upwards; `screen.toml` wins where both stand in one folder.
An unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from screen import plugins, tables
from screen.errors import UsageError

if TYPE_CHECKING:
    from screen.recipe import Stated

FORMATS = "screen.report.formats"
"""Where formats of a report are found (`screen.plugins`)."""
LATER_FORMATS = ("html",)
FAIL_ON = ("slip", "unstable", "conditional", "never")
"""Words of `--fail-on`; what else stands there is the code of a rule or its beginning."""
CODE = re.compile(r"[A-Z]\d{0,3}")
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30, "k": 2**10, "m": 2**20, "g": 2**30}
SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


@dataclass(frozen=True)
class Settings:
    """Everything that changes what `screen check` does; one field per option."""

    format: str = "text"
    report: tuple[tuple[str, str], ...] = ()
    """(format, path)."""
    output: str | None = None
    select: tuple[str, ...] = ()
    """Prefixes of rule codes; empty: all."""
    ignore: tuple[str, ...] = ()
    fail_on: tuple[str, ...] = ("slip",)
    """Words of `FAIL_ON` and prefixes of rule codes: what exits 1."""
    baseline: str | None = None
    """File of findings that do not fail the gate."""
    update_baseline: bool = False
    """Write that file anew."""
    allow_unknown: bool = False
    timeout: float = 120.0
    """Seconds."""
    memory: int = 8 << 30
    """Bytes; 0: no limit."""
    depth: int | None = None
    width: int | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    """What a file of settings says, as `set` has it; what the target does not take is left out."""
    input: tuple[str, ...] = ()
    color: str = "auto"
    quiet: bool = False
    verbose: bool = False
    spot_check: bool = True
    """Whether claims are compared with the program on real tensors."""
    probe: bool = False
    device: str = "auto"
    dtype: str = "auto"
    seed: int = 0
    probe_seconds: float = 60.0
    """Counted work of the probe."""
    stress: bool = False
    recipe: Stated | None = None
    """How the model will be trained; None: nothing is stated."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Key (as in a file) to `default`, the file's name, or `option`."""


def load(options: Mapping[str, Any], start: Path | None = None) -> Settings:
    """Settings in effect. `options`: field name to what the command line said, None or empty where it said nothing.

    Raises `UsageError`.
    """
    file, table = find(start or Path.cwd())
    values: dict[str, Any] = {}
    origins: dict[str, str] = dict.fromkeys(READERS, "default")
    for key, value in table.items():
        key = check_key(key, f"`{file}`")
        values[key.replace("-", "_")] = read(key, value, f"`{key}` in `{file}`")
        origins[key] = str(file)
    for name, value in options.items():
        if value is None or (value is False and name not in ("probe", "spot_check")) or value == ():
            continue
        key = name.replace("_", "-")
        values[name] = read(key, value, f"`--{key}`") if key != "recipe" else _recipe_over(values.get(name), value)
        origins[key] = "option"
    settings = Settings(**values, origins=origins)
    if settings.quiet and settings.verbose:
        raise UsageError("`--quiet` and `--verbose` exclude each other", "both are set", "Leave one out")
    return settings


def find(start: Path) -> tuple[str, dict[str, Any]]:
    """The nearest file of settings, as it is called from `start`, and its table; ("", {}) when there is none."""
    for depth, folder in enumerate((start, *start.parents)):
        for name in ("screen.toml", "pyproject.toml"):
            path = folder / name
            if path.is_file():
                table = _table(path, name)
                if table is not None:
                    return "../" * depth + name, table
    return "", {}


def _table(path: Path, name: str) -> dict[str, Any] | None:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"`{name}` must be readable TOML", str(error), "Mend it, or run from another folder", file=str(path)) from None
    if name == "screen.toml":
        return document
    tool = document.get("tool", {})
    table = tool.get("screen") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError("`[tool.screen]` must be a table", f"`{name}` gives it a value", "Write `[tool.screen]` and keys below it", file=str(path))
    return table


def check_key(key: str, where: str) -> str:
    """The key as it is written in a file. Raises `UsageError` with the nearest known key."""
    dashed = key.replace("_", "-")
    if dashed in READERS:
        return dashed
    hint = near(dashed, tuple(READERS)) or "The keys are the long options of `screen check`: " + ", ".join(f"`{k}`" for k in READERS)
    raise UsageError(f"every key of {where} must be a setting of `screen`", f"`{key}` is none", hint)


def later(what: str, found: str) -> UsageError:
    """The refusal of something that a later version will have."""
    from screen import __version__

    return UsageError(f"{what} is not in this version", f"this is {__version__}, and {found}", "Leave it out")


def read(key: str, value: Any, where: str) -> Any:
    """One value, checked. Raises `UsageError`."""
    return READERS[key](value, where)


def _choice(*choices: str) -> Callable[[Any, str], str]:
    def reader(value: Any, where: str) -> str:
        if value not in choices:
            raise UsageError(f"{where} must be one of " + ", ".join(f"`{c}`" for c in choices), f"it is `{value}`", near(value, choices))
        return str(value)

    return reader


def near(value: Any, choices: tuple[str, ...]) -> str:
    """`Did you mean X?`, or nothing when no choice is near."""
    found = get_close_matches(str(value), choices, 1, 0.5)
    return f"Did you mean `{found[0]}`?" if found else ""


def _format(value: Any, where: str) -> str:
    if value in LATER_FORMATS:
        raise later(f"the format `{value}`", f"{where} asks for it")
    known = plugins.own(FORMATS)
    return str(value) if value in known or value in plugins.foreign(FORMATS) else _choice(*known)(value, where)


def _reports(value: Any, where: str) -> tuple[tuple[str, str], ...]:
    pairs = list(value.items()) if isinstance(value, dict) else [str(item).partition("=")[::2] for item in _items(value, where)]
    for name, path in pairs:
        if not path:
            raise UsageError(f"{where} must be `FORMAT=PATH`", f"it is `{name}`", "For example `--report markdown=report.md`")
    return tuple((_format(name, where), str(path)) for name, path in pairs)


def _codes(value: Any, where: str) -> tuple[str, ...]:
    codes = tuple(code.strip().upper() for item in _items(value, where) for code in str(item).split(",") if code.strip())
    for code in codes:
        if not CODE.fullmatch(code):
            raise UsageError(f"{where} must name rule codes or their beginnings", f"`{code}` is none", "For example `G1`; `screen rule` lists them")
    return codes


def _fail_on(value: Any, where: str) -> tuple[str, ...]:
    given = [word.strip() for item in _items(value, where) for word in str(item).split(",") if word.strip()]
    words = tuple(dict.fromkeys(word.upper() if CODE.fullmatch(word.upper()) else word for word in given))
    strange = next((word for word in words if word not in FAIL_ON and not CODE.fullmatch(word)), None)
    beside = "`never` stands beside others" if "never" in words[:-1] or "never" in words[1:] else "" if words else "it is empty"
    if strange is not None or beside:
        required = f"{where} must be " + ", ".join(f"`{word}`" for word in FAIL_ON) + " or rule codes, by commas"
        raise UsageError(required, beside or f"`{strange}` is none", near(strange, FAIL_ON) if strange else "")
    return words


def _items(value: Any, where: str) -> list[Any]:
    if not isinstance(value, str | list | tuple):
        raise UsageError(f"{where} must be text or a list", f"it is `{value}`")
    return [value] if isinstance(value, str) else list(value)


def _path(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where} must be a path", f"it is `{value}`")
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where} must be true or false", f"it is `{value}`")
    return value


def _duration(value: Any, where: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).lower())
    if isinstance(value, bool) or match is None or match[2] not in SECONDS or float(match[1]) <= 0:
        raise UsageError(f"{where} must be a time above zero in seconds", f"it is `{value}`", "For example `120` or `2m`")
    return float(match[1]) * SECONDS[match[2]]


def _size(value: Any, where: str) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).lower())
    if isinstance(value, bool) or match is None or match[2] not in UNITS:
        raise UsageError(f"{where} must be a size", f"it is `{value}`", "For example `8GiB`; `0` is no limit")
    return int(float(match[1]) * UNITS[match[2]])


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)) or int(value) < 1:
        raise UsageError(f"{where} must be a whole number above zero", f"it is `{value}`")
    return int(value)


def _seed(value: Any, where: str) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value)):
        raise UsageError(f"{where} must be a whole number from 0 to 999999999", f"it is `{value}`")
    return int(value)


def _assignments(value: Any, where: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return dict(tables.flat(value))
    found: dict[str, Any] = {}
    for item in _items(value, where):
        key, equals, text = str(item).partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{where} must be `KEY=VALUE`", f"it is `{item}`", "For example `--set num_hidden_layers=4`")
        try:
            found[key.strip()] = json.loads(text)
        except ValueError:
            found[key.strip()] = text
    return found


def _config(value: Any, where: str) -> dict[str, Any]:
    """The table in a YAML, JSON or TOML file, as dotted keys."""
    path = Path(_path(value, where))
    return {"": str(path), **dict(tables.flat(tables.read(path, where)))}


def _recipe(value: Any, where: str) -> Stated:
    """Pydantic is loaded for the first one."""
    from screen.recipe.read import recipe_of

    return recipe_of(value, where)


def _recipe_over(filed: Stated | None, given: Any) -> Stated:
    """What `--recipe` says; over the recipe of the file of settings where it only changes fields."""
    from screen.recipe.read import is_change
    from screen.recipe.stated import over

    stated = _recipe(given, "`--recipe`")
    return over(filed, stated) if filed is not None and all(map(is_change, _items(given, "`--recipe`"))) else stated


def _texts(value: Any, where: str) -> tuple[str, ...]:
    return tuple(str(item) for item in _items(value, where))


READERS: dict[str, Callable[[Any, str], Any]] = {
    "format": _format,
    "report": _reports,
    "output": _path,
    "select": _codes,
    "ignore": _codes,
    "fail-on": _fail_on,
    "baseline": _path,
    "update-baseline": _flag,
    "allow-unknown": _flag,
    "timeout": _duration,
    "memory": _size,
    "depth": _count,
    "width": _count,
    "set": _assignments,
    "config": _config,
    "input": _texts,
    "color": _choice("auto", "always", "never"),
    "quiet": _flag,
    "verbose": _flag,
    "spot-check": _flag,
    "probe": _flag,
    "device": _choice("auto", "cpu", "cuda"),
    "dtype": _choice("auto", "float64", "float32"),
    "seed": _seed,
    "probe-seconds": _duration,
    "stress": _flag,
    "recipe": _recipe,
}
"""Key to how its value is read, in the order in which `screen config` shows them."""


def show(settings: Settings) -> str:
    """The settings in effect, one per line, each with its origin."""
    rows = [(key, json.dumps(_shown(getattr(settings, key.replace("-", "_")))), settings.origins[key]) for key in READERS]
    if settings.recipe is not None:
        rows += [(f"recipe.{key}", json.dumps(value), settings.recipe.origins[key]) for key, value in settings.recipe.recipe.stated.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    return "".join(f"{key:<{widths[0]}} = {value:<{widths[1]}}  # {origin}\n" for key, value, origin in rows)


def _shown(value: Any) -> Any:
    from screen.recipe.stated import Stated

    return dict(value) if isinstance(value, Mapping) else list(value.words) if isinstance(value, Stated) else value


assert {f.name for f in fields(Settings)} == {key.replace("-", "_") for key in READERS} | {"origins"}, "a setting without a reader"

__all__ = ["FAIL_ON", "FORMATS", "READERS", "Settings", "check_key", "find", "later", "load", "near", "show"]
