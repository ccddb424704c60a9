"""The models that the classes and functions of a file give: of each, with its own settings, or why it is not built."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from torch import nn

from screen.capture.build import python_file, usual
from screen.capture.build.configs import Missing
from screen.capture.build.construct import Told, construct
from screen.capture.build.holder import within
from screen.capture.build.needs import Needs
from screen.capture.build.piecewise import Reading
from screen.capture.build.unbuilt import by_name_only, explained, none_builds, of_version, version_asked, why_not
from screen.capture.initial.buffers import Record

Made = tuple[str, tuple[nn.Module, Record, dict[str, list[Any]]]]
"""A name of the file; the model, what its weights start as, and what its arguments changed."""


def of_one(name: str, entries: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one model of several: `Name.key` is for it alone."""
    named = {other: f"{other}." for other in entries}
    own = {key.removeprefix(named[name]): value for key, value in settings.items() if key.startswith(named[name])}
    return {**{k: v for k, v in settings.items() if not k.startswith(tuple(named.values()))}, **own}


def made_of(
    entries: dict[str, Any], given: dict[str, dict[str, Any]], module: ModuleType, reading: Reading, told: dict[str, Told], *, choose: bool = False,
    named: bool = False,
) -> tuple[list[Made], list[str]]:
    """The models that build, and why the others do not; a function of the file that makes one of a class stands for it where the class alone lacks
    arguments. `told` is filled with what else each was given; `choose`: usual sizes too, where nobody states them; `named`: a class that does not
    build alone is looked at in a model of its file that holds it (`Told.part`). Raises the first error where none builds."""
    made: list[Made] = []
    errors: dict[str, Exception] = {}
    makers: dict[str, Exception] = {}
    for name in list(entries):
        told[name] = Told()
        try:
            made.append((name, model_of(name, entries[name], given[name], module, reading, told[name], choose)))
        except NameError as error:
            errors[name] = explained(name, error, reading)
        except AssertionError as error:
            errors[name] = of_version(name, asked, error) if (asked := version_asked(error)) else error
        except Exception as error:
            errors[name] = error
        functions = {n: vars(module)[n] for n in python_file.makers(module, entries[name])} if name in errors else {}
        functions |= python_file.factories(entries[name], 1 if choose else 0) if name in errors else {}
        for maker, function in functions.items():
            if maker in entries:
                continue
            told[maker] = Told([f"`{maker}` makes `{name}`"])
            try:
                made.append((maker, model_of(maker, function, given[name], module, reading, told[maker], choose)))
            except Exception as error:
                makers[maker] = error
                continue
            entries[maker], given[maker] = function, given[name]
            del errors[name]
            break
        part = entries[name] if name in errors and named and not given[name] else None
        if isinstance(part, type) and issubclass(part, nn.Module) and (found := within(part)) is not None:
            holder = found.holder.__name__
            entries[holder], given[holder], told[holder] = found.holder, {}, Told([found.words], part=found.path)
            made.append((holder, found.made))
            del errors[name]
    if errors and not any(True for _, (model, *_) in made for _ in model.parameters()):
        made.clear()  # a loss, a schedule, a wrapper: the models of the file are those that do not build
    if not made:
        lacking = {name: error for name, error in makers.items() if isinstance(error, Needs)}
        failed = python_file.kept_from(module, errors) or next(iter(lacking.values()), None) or none_builds(errors, module)
        if isinstance(failed, Needs) and (packages := by_name_only(errors, module, python_file.references(module))):
            before = f"{failed.try_}. " if failed.try_ else ""
            missing = ", ".join(f"`{package}`" for package in packages)
            failed.try_ = f"{before}Its code reads names of {missing}, which {'is' if len(packages) == 1 else 'are'} not installed"
        raise failed
    inside = {type(m).__name__ for _, (model, *_) in made for m in model.modules()}
    return made, [f"not judged: {why_not(name, error)}" for name, error in errors.items() if name not in inside]


def model_of(
    name: str, entry: Any, settings: dict[str, Any], module: ModuleType, reading: Reading, told: Told, choose: bool = False
) -> tuple[nn.Module, Record, dict[str, list[Any]]]:
    """One model of a file, with the names that its settings give back to the file; `choose`: with usual sizes where nobody states them."""
    lost = {key: settings[key] for key in settings if key in reading.lost}
    vars(module).update(lost)
    own = {k: v for k, v in settings.items() if k not in lost or k in takes(entry)}
    sizes: dict[str, Any] = {}
    while True:
        try:
            made = construct(name, entry, {**own, **{k: v for k, v in sizes.items() if k not in lost or k in own}}, module, told)
        except (Needs, Missing, NameError) as error:
            of_file = error.name or "" if isinstance(error, NameError) and error.name in reading.lost else ""
            lacking = error.lacking if isinstance(error, Needs) else (error.path,) if isinstance(error, Missing) else (of_file,) if of_file else ()
            more = usual.chosen(entry, lacking) if choose and lacking and not {*lacking} & {*sizes} else {}
            if not more:
                raise
            told.notes.clear()
            sizes |= more
            if of_file and of_file not in takes(entry):
                lost |= more
                vars(module).update(lost)
        except (ValueError, AssertionError) as error:
            asserted = isinstance(error, AssertionError)
            wider = usual.in_heads(sizes, error) if asserted else usual.wider(sizes) if "divisible" in str(error) else {}
            if not wider:
                raise
            told.notes.clear()
            sizes |= wider
        else:
            told.chosen = sizes
            return made


def takes(entry: Any) -> list[str]:
    """The names of the arguments of a class or function."""
    try:
        return [*inspect.signature(entry).parameters]
    except (TypeError, ValueError):
        return []


__all__ = ["Made", "made_of", "model_of", "of_one", "takes"]
