"""Settings of a target that are whole numbers: what a trial may change to build it deeper or wider. Names, as `--set` takes them, say nothing."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from torch import nn

from screen.capture.build.configs import config_of, defaults_of
from screen.capture.inputs.context import config_parts, entries_of


def of_config(config: Any) -> dict[str, int]:
    """Fields of a config of transformers and of the configs below it, outer ones first."""
    found: dict[str, int] = {}
    for key, part in config_parts(config):
        entries = entries_of(part)
        found.update(_whole((f"{key}.{name}".removeprefix("."), value) for name, value in entries.items() if not str(name).startswith("_")))
    return found


def of_entry(entry: Any, settings: Mapping[str, Any], module: ModuleType | None) -> dict[str, int]:
    """Arguments of a class or a function, and fields of the config class that one of its arguments takes."""
    if isinstance(entry, nn.Module):
        return {}
    try:
        parameters = list(inspect.signature(entry).parameters.values())
    except (TypeError, ValueError):
        return {}
    found: dict[str, int] = {}
    for parameter in parameters:
        cls = config_of(parameter, module, entry)
        if cls is not None:
            found.update(_whole((name, value) for name, value in defaults_of(cls).items()))
    found.update(_whole((p.name, p.default) for p in parameters))
    found.update(_whole(settings.items()))
    return found


def _whole(pairs: Any) -> Iterator[tuple[str, int]]:
    return ((str(name), value) for name, value in pairs if type(value) is int)


__all__ = ["of_config", "of_entry"]
