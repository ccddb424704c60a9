"""Settings: what the command line says over `screen.toml` or `[tool.screen]` of `pyproject.toml` over the defaults, each with its origin.

The nearest of the two files counts, looked for from the working directory upwards; `screen.toml` wins where both stand in one folder.
An unknown key is an error that names the nearest known one. Paths in a file are meant from that file's folder.

Targets with settings of their own stand in `[[targets]]` (`[[tool.screen.targets]]`): what an entry says wins over what the file says for all,
and the command line over both. `set` is joined key by key, and a recipe field by field where only fields are said; every other setting is replaced.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from screen import plugins, tables
from screen.errors import UsageError
from screen.trusted import Trusted, trusted
from screen.visible import clean, quoted

if TYPE_CHECKING:
    from screen.recipe import Stated

FORMATS = "screen.report.formats"
"""Where formats of a report are found (`screen.plugins`)."""
FAIL_ON = ("slip", "unstable", "conditional", "never")
"""Words of `--fail-on`; what else stands there is the code of a rule or its beginning."""
CODE = re.compile(r"[A-Z]\d{0,3}")
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30, "k": 2**10, "m": 2**20, "g": 2**30}
LARGEST = 1 << 60
"""Bytes of a limit of memory; what is more than a machine can count is no limit."""
LONGEST = 366 * 86400
"""Seconds of a limit of time."""
SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


OF_TARGET = ("set", "config", "input", "depth", "width", "select", "ignore", "fail-on", "recipe")
"""Settings that an entry of `[[targets]]` may have of its own."""


SHOWING = frozenset({"format", "report", "output", "color", "quiet", "short", "verbose", "jobs", "device"})
"""Settings that change neither what is judged nor what fails."""


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
    strict_rules: bool = False
    """Whether a rule that does not load, or whose check raises, is exit 2."""
    skip_without_model: bool = False
    """Whether a Python file in which no model can be read is no error."""
    jobs: int = 1
    """Targets that are judged at the same time."""
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
    short: bool = False
    """Markdown without tables and details, no longer than a comment on GitHub may be."""
    verbose: bool = False
    spot_check: bool = True
    """Whether claims are compared with the program on real tensors."""
    second_opinion: bool = True
    """Whether a file or a module is captured twice, and the captures compared."""
    require_opinion: bool = False
    """Whether a model of which no second opinion was had is not judged."""
    sandbox: str = "auto"
    """Whether the user's code runs without network and without files to write to."""
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
    targets: tuple[Target, ...] = ()
    """What a bare `screen check` judges."""
    file: str = ""
    """The file that they come from, where it lies in the tree or was named; empty: no file, or a commit's."""
    trusted: Trusted | None = None
    """Where settings come from in place of the tree that is judged."""

    @property
    def of_tree(self) -> dict[str, str]:
        """Setting that changes what is judged or what fails -> the file of the judged tree that it comes from."""
        if self.trusted is None:
            return {key: origin for key, origin in self.origins.items() if key not in SHOWING and origin not in ("default", "option")}
        files = {"config": [tables.split(str(self.config.get("", "")))[0]], "recipe": list(self.recipe.words) if self.recipe is not None else []}
        named = {key: [word for word in words if os.path.isfile(word)] for key, words in files.items() if self.origins[key] != "option"}
        return {key: ", ".join(words) for key, words in named.items() if words}


@dataclass(frozen=True)
class Target:
    """One entry of `[[targets]]`."""

    spec: str
    """As the file writes it: a path in it is meant from the file's folder."""
    name: str
    """What it may be called on the command line beside its spec; empty: nothing."""
    file: str
    """The file of settings, from the working directory."""
    where: str
    """The entry and its file, in words."""
    own: tuple[str, ...]
    """Keys that the entry itself says."""
    settings: Settings
    """In effect for it."""


def load(options: Mapping[str, Any], start: Path | None = None) -> Settings:
    """Settings in effect. `options`: field name to what the command line said, None or empty where it said nothing.

    `trusted_config` among them says where settings come from in place of the tree. Raises `UsageError`.
    """
    start = start or folder()
    said_to_trust = options.get("trusted_config")  # an empty text is no commit, and no way around one
    elsewhere = trusted(said_to_trust, start) if said_to_trust is not None else None
    file, table = find(start, elsewhere)
    label = elsewhere.label(file) if elsewhere is not None and file else file
    common = (label, _read_table({key: value for key, value in table.items() if key != "targets"}, f"`{label}`", os.path.dirname(file)))
    if elsewhere is not None and not elsewhere.commit and "baseline" in common[1]:  # beside the trusted file; targets are those of the tree
        common[1]["baseline"] = os.path.join(os.path.dirname(elsewhere.name), common[1]["baseline"])
    said: dict[str, Any] = {}
    for name, value in options.items():
        if name == "trusted_config":
            continue
        if value is None or (value is False and name not in ("probe", "spot_check", "second_opinion")) or value == ():
            continue
        key = name.replace("_", "-")
        said[key] = _layered(key, value, f"`--{key}`")
    targets = tuple(
        Target(spec, name, file, where, tuple(own), _merged([common, (f"{label}, entry {place}", own), ("option", said)], elsewhere))
        for place, (spec, name, where, own) in enumerate(_entries(table.get("targets", []), label, os.path.dirname(file)), start=1)
    )
    here = file if elsewhere is None else "" if elsewhere.commit else elsewhere.name
    return replace(_merged([common, ("option", said)], elsewhere), targets=targets, file=here)


def folder() -> Path:
    """The working directory. Raises `UsageError` where it is gone."""
    try:
        return Path.cwd()
    except OSError:
        raise UsageError("`screen` must run in a folder that exists", "the working directory is gone", "`cd` into another one") from None


def _merged(layers: Sequence[tuple[str, Mapping[str, Any]]], elsewhere: Trusted | None) -> Settings:
    """Settings of layers (origin, key -> value): a later one wins, and `set` is joined key by key. Raises `UsageError`."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = dict.fromkeys(READERS, "default")
    for origin, layer in layers:
        for key, value in layer.items():
            name = key.replace("-", "_")
            values[name] = _recipe_over(values.get(name), *value) if key == "recipe" else {**values.get(name, {}), **value} if key == "set" else value
            origins[key] = origin
    settings = Settings(**values, origins=origins, trusted=elsewhere)
    if elsewhere is not None and settings.update_baseline:
        found = "`--trusted-config` says that they come from elsewhere"
        raise UsageError("`--update-baseline` writes a file of this tree", found, "Leave one out")
    if settings.stress and not settings.probe and origins["stress"] == origins["probe"] == "option":
        raise UsageError("`--stress` and `--no-probe` exclude each other", "both are set", "Leave one out")
    if settings.require_opinion and not (settings.spot_check and settings.second_opinion):
        found = "`--no-spot-check` or `--no-second-opinion` says that there is none"
        raise UsageError("`--require-opinion` must find a second opinion", found, "Leave one out")
    if settings.quiet and settings.verbose:
        raise UsageError("`--quiet` and `--verbose` exclude each other", "both are set", "Leave one out")
    return settings


def _read_table(table: Mapping[str, Any], where: str, folder: str, known: tuple[str, ...] = ()) -> dict[str, Any]:
    """Key -> checked value. `folder`: what paths are meant from. `known`: the keys that may stand there; empty: all."""
    found: dict[str, Any] = {}
    for written, value in table.items():
        key = check_key(written, where, known)
        found[key] = _layered(key, _from_folder(folder, key, value), f"`{key}` in {where}")
    return found


def _from_folder(folder: str, key: str, value: Any) -> Any:
    """The value with paths as they are called from the working directory."""
    if not folder or not value:
        return value
    if key in ("config", "baseline", "output") and isinstance(value, str):
        return os.path.join(folder, value)
    if key == "recipe" and isinstance(value, str | list):  # a file, among names and fields
        return [os.path.join(folder, item) if os.path.isfile(os.path.join(folder, item)) else item for item in _items(value, key)]
    if key == "report" and isinstance(value, dict):
        return {name: os.path.join(folder, str(path)) for name, path in value.items()}
    if key == "report" and isinstance(value, str | list):
        pairs = [str(item).partition("=") for item in ([value] if isinstance(value, str) else value)]
        return [f"{name}={os.path.join(folder, path)}" if path else name for name, _, path in pairs]
    return value


def _entries(entries: Any, file: str, folder: str) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Every entry of `[[targets]]`: spec, name, where it stands, and its settings. Raises `UsageError`."""
    title = "`[[tool.screen.targets]]`" if file.endswith("pyproject.toml") else "`[[targets]]`"
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{title} in `{file}` must be tables, one for each target", "it is a value", 'For example `spec = "model.py"` below it')
    found: list[tuple[str, str, str, dict[str, Any]]] = []
    for place, entry in enumerate(entries, start=1):
        spec, name = entry.get("spec"), entry.get("name", "")
        where = f"entry {place} of {title} in `{file}`"
        if not isinstance(spec, str) or not spec.strip():
            said = f"Is `{typo[0]}` meant to be `spec`?" if "spec" not in entry and (typo := get_close_matches("spec", entry, 1, 0.5)) else ""
            raise UsageError(f"{where} must have `spec`, the target", f"it is `{spec}`" if "spec" in entry else "there is none", said)
        where += f" (`{spec}`)"
        if not isinstance(name, str):
            raise UsageError(f"`name` in {where} must be text", f"it is `{name}`")
        earlier = next((other for other in found if name and other[1] == name), None)
        if earlier is not None:
            raise UsageError(f"`name` in {where} must be its own", f"`{name}` is the name of {earlier[2]} too", "Give it another one")
        own = {key: value for key, value in entry.items() if key not in ("spec", "name")}
        found.append((spec, name, where, _read_table(own, where, folder, ("spec", "name", *OF_TARGET))))
    return found


def find(start: Path, elsewhere: Trusted | None = None) -> tuple[str, dict[str, Any]]:
    """The nearest file of settings, as it is called from `start`, and its table; ("", {}) when there is none. `elsewhere`: of which commit, or which
    file alone: what it names is meant from `start`."""
    if elsewhere is not None and not elsewhere.commit:
        path = start / elsewhere.name
        table = _table(path, path.name)
        if table is None:
            raise UsageError("`--trusted-config` must name a file with settings", f"`{elsewhere.name}` has no `[tool.screen]`")
        return path.name, table
    for depth, folder in enumerate((start, *start.parents)):
        for name in ("screen.toml", "pyproject.toml"):
            called = "../" * depth + name
            text = elsewhere.text(called) if elsewhere is not None else None
            if elsewhere is None and os.path.lexists(folder / name) and not (folder / name).is_file():
                raise UsageError(f"`{called}` must be a file of settings", "it is no regular file", "Rename it, or write the settings there")
            if text is not None or (elsewhere is None and (folder / name).is_file()):
                table = _table(folder / name, name, text)
                if table is not None:
                    return called, table
    return "", {}


def _table(path: Path, name: str, text: str | None = None) -> dict[str, Any] | None:
    """What a file of settings says. `text`: in place of what stands there."""
    try:
        document = tomllib.loads((path.read_text(encoding="utf-8") if text is None else text).removeprefix("\ufeff"))
    except (OSError, ValueError, RecursionError) as error:  # a number of 5,000 digits is a `ValueError`
        raise UsageError(f"`{name}` must be readable TOML", str(error), "Mend it, or run from another folder", file=str(path)) from None
    if name != "pyproject.toml":
        return document
    tool = document.get("tool", {})
    table = tool.get("screen") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError("`[tool.screen]` must be a table", f"`{name}` gives it a value", "Write `[tool.screen]` and keys below it", file=str(path))
    return table


def check_key(key: str, where: str, known: tuple[str, ...] = ()) -> str:
    """The key as it is written in a file. `known`: the keys that may stand there; empty: all. Raises `UsageError` with the nearest known key."""
    dashed = key.replace("_", "-")
    if dashed in (known or READERS):
        return dashed
    if dashed in READERS:
        raise UsageError(f"every key of {where} must be a setting of one target", f"`{key}` is one of the whole run", "Write it for all targets")
    if key == "tool":
        raise UsageError(f"every key of {where} must be a setting of `screen`", f"`{key}` is none", "Its keys stand without `[tool.screen]` there")
    names = known or (*READERS, "targets")
    said = "The keys are " + ("" if known else "the long options of `screen check`: ") + ", ".join(f"`{k}`" for k in names)
    raise UsageError(f"every key of {where} must be a setting of `screen`", f"`{key}` is none", near(dashed, names) or said)


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
    known = plugins.own(FORMATS)
    return value if isinstance(value, str) and (value in known or value in plugins.foreign(FORMATS)) else _choice(*known)(value, where)


def _reports(value: Any, where: str) -> tuple[tuple[str, str], ...]:
    triples = [(k, "=", v) for k, v in value.items()] if isinstance(value, dict) else [str(item).partition("=") for item in _items(value, where)]
    for name, sign, path in triples:
        if not path:
            raise UsageError(f"{where} must be `FORMAT=PATH`", f"it is `{name}{sign}`", "For example `--report markdown=report.md`")
    return tuple((_format(name, where), _path(path, where)) for name, _, path in triples)


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
    if not isinstance(value, str) or not value or "\0" in value:
        raise UsageError(f"{where} must be a path", f"it is `{value}`")
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where} must be true or false", f"it is `{value}`")
    return value


def _duration(value: Any, where: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).lower())
    if isinstance(value, bool) or match is None or match[2] not in SECONDS or not 0 < float(match[1]) * SECONDS[match[2]] <= LONGEST:
        raise UsageError(f"{where} must be a time above zero in seconds, and below a year", f"it is `{value}`", "For example `120` or `2m`")
    return float(match[1]) * SECONDS[match[2]]


def _size(value: Any, where: str) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).lower())
    if isinstance(value, bool) or match is None or match[2] not in UNITS or float(match[1]) * UNITS[match[2]] > LARGEST:
        raise UsageError(f"{where} must be a size below 2⁶⁰ bytes", f"it is `{value}`", "For example `8GiB`; `0` is no limit")
    return int(float(match[1]) * UNITS[match[2]])


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value)) or int(value) < 1:
        raise UsageError(f"{where} must be a whole number above zero and below 10⁹", f"it is `{value}`")
    return int(value)


def _jobs(value: Any, where: str) -> int:
    if value == "auto":
        return os.cpu_count() or 1
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,4}", str(value)) or int(value) < 1:
        raise UsageError(f"{where} must be a whole number from 1 to 9999, or `auto`", f"it is `{value}`")
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
        found[key.strip()] = _said(text)
    return found


def _said(text: str) -> Any:
    """A value as JSON or Python writes it (`false`, `False`, `(3, 3)`); any other text, and what JSON has no value for, as it is."""
    for read in (json.loads, lambda said: json.loads(json.dumps(ast.literal_eval(said)))):
        with contextlib.suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return read(text)
    return text


def _config(value: Any, where: str) -> dict[str, Any]:
    """The table in a YAML, JSON or TOML file, or a part of it (`FILE:section`), as dotted keys."""
    path, section = tables.split(_path(value, where))
    return {"": value, **dict(tables.flat(tables.composed(Path(path), where, section)))}


def _recipe(value: Any, where: str) -> Stated:
    """Pydantic is loaded for the first one."""
    from screen.recipe.read import recipe_of

    return recipe_of(value, where)


def _layered(key: str, value: Any, where: str) -> Any:
    """One value of a layer, checked; of a recipe also whether it only changes fields of one that stands before it. Raises `UsageError`."""
    if key != "recipe":
        return read(key, value, where)
    from screen.recipe.read import is_change

    return _recipe(value, where), isinstance(value, Mapping) or all(map(is_change, _items(value, where)))


def _recipe_over(before: Stated | None, stated: Stated, is_change: bool) -> Stated:
    from screen.recipe.stated import over

    return over(before, stated) if before is not None and is_change else stated


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
    "strict-rules": _flag,
    "skip-without-model": _flag,
    "jobs": _jobs,
    "timeout": _duration,
    "memory": _size,
    "depth": _count,
    "width": _count,
    "set": _assignments,
    "config": _config,
    "input": _texts,
    "color": _choice("auto", "always", "never"),
    "quiet": _flag,
    "short": _flag,
    "verbose": _flag,
    "spot-check": _flag,
    "second-opinion": _flag,
    "require-opinion": _flag,
    "sandbox": _choice("auto", "require", "off"),
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
    """The settings in effect, one per line, each with its origin; then every target with what its entry says."""
    text = _rows({key: getattr(settings, key.replace("-", "_")) for key in READERS}, settings.origins)
    for place, target in enumerate(settings.targets, start=1):
        said = {"spec": target.spec, **({"name": target.name} if target.name else {})}
        own = {key: getattr(target.settings, key.replace("-", "_")) for key in OF_TARGET if key in target.own}
        origins = {**target.settings.origins, **dict.fromkeys(said, f"{target.file}, entry {place}")}
        text += f"\n[[targets]]\n{_rows({**said, **own}, origins)}"
    return text


def _rows(values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    rows = [(key, json.dumps(_shown(value)), origins[key]) for key, value in values.items()]
    if (stated := values.get("recipe")) is not None:
        rows += [(f"recipe.{key}", json.dumps(value), stated.origins[key]) for key, value in stated.recipe.stated.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    return "".join(f"{key:<{widths[0]}} = {quoted(f'{value:<{widths[1]}}')}  # {clean(origin)}\n" for key, value, origin in rows)


def _shown(value: Any) -> Any:
    from screen.recipe.stated import Stated

    return dict(value) if isinstance(value, Mapping) else list(value.words) if isinstance(value, Stated) else value


READ = {key.replace("-", "_") for key in READERS}
assert {f.name for f in fields(Settings)} == READ | {"origins", "targets", "trusted", "file"}, "a setting without a reader"

__all__ = ["FAIL_ON", "FORMATS", "OF_TARGET", "READERS", "Settings", "Target", "check_key", "find", "folder", "later", "load", "near", "show"]
