"""Which targets a command is about, and with which settings each: what is named on the command line, else what the file of settings lists."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from screen.command.models import has_model
from screen.errors import UsageError
from screen.graph.target import TargetSpec, did_you_mean, from_folder, parse, same
from screen.settings import Settings, Target


@dataclass(frozen=True)
class Wanted:
    """One target with its settings."""

    spec: TargetSpec
    settings: Settings
    name: str = ""
    """Of its entry in the file of settings; empty: it has none."""


def wanted(texts: tuple[str, ...], settings: Settings, command: str = "check") -> list[Wanted]:
    """Every target in its order. A text that is the name or the spec of an entry of the file has the entry's settings, and without texts every entry
    is wanted. Raises `UsageError`."""
    if texts:
        return [found for text in texts for found in named(text, settings)]
    if not settings.targets:
        found = "none is given, and no file of settings lists any"
        advice = f"For example `screen {command} model.py`; `screen init` writes down the models that it finds"
        raise UsageError(f"`screen {command}` must be given a TARGET", found, advice)
    return [Wanted(_of_entry(target), target.settings, target.name) for target in settings.targets]


def without_models(asked: list[Wanted]) -> list[Wanted]:
    """Those of them that are Python files in which no model can be read."""
    return [one for one in asked if one.spec.kind == "file" and one.spec.name is None and not has_model(Path(one.spec.path or ""))]


def named(text: str, settings: Settings) -> list[Wanted]:
    """What one text names: several where the file of settings has several entries for it. Raises `UsageError`."""
    if entries := [target for target in settings.targets if target.name == text]:
        return [Wanted(_of_entry(target), target.settings, target.name) for target in entries]
    try:
        spec = parse(text)
    except UsageError as error:
        hint = did_you_mean(text, [target.name for target in settings.targets if target.name])
        raise UsageError(error.required, error.found, f"{hint}?" if hint else error.try_) from None
    entries = [target for target in settings.targets if _is(spec, target)]
    return [Wanted(spec, target.settings, target.name) for target in entries] or [Wanted(spec, settings)]


def _is(spec: TargetSpec, target: Target) -> bool:
    try:
        return same(spec, _of_entry(target))
    except UsageError:  # another target, whose file is not here
        return False


def _of_entry(target: Target) -> TargetSpec:
    """Raises `UsageError` that names the entry."""
    try:
        return parse(from_folder(target.spec, os.path.dirname(target.file)))
    except UsageError as error:
        raise UsageError(error.required, f"{error.found} ({target.where})", error.try_) from None


__all__ = ["Wanted", "named", "wanted", "without_models"]
