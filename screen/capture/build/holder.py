"""What a part has of a model that holds it: its place there, where it does not build alone, and inputs that no guess finds: those that arrive at it
there, or those of the examples in the docstring of the class.

A holder is a class whose source names the part's class, through whatever else it names, in the part's own file or in a loaded file of its package
that has the class: a whole model, which the end of a file defines, before what lies between. It is built from its defaults, with the part's own
configuration in the place of the one that it has for it, and run; what arrives first at an instance of the class with the same weights is taken.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build import documented
from screen.capture.build.construct import Told, construct
from screen.capture.build.python_file import defined_classes, references
from screen.capture.initial.buffers import Record
from screen.capture.inputs.explicit import Inputs, with_values
from screen.capture.inputs.trial import outcome
from screen.capture.trace.recorder import tensors
from screen.capture.trace.session import as_known
from screen.capture.trace.tracer import run

MOST, BUILT = 4, 8
"""Holders that are run, and that are built, until one gives what is asked for."""

Guess = Callable[[nn.Module, Any], Inputs]
"""Inputs of a whole model with its configuration."""


@dataclass(frozen=True)
class Within:
    """A part in a model that holds it."""

    holder: type[nn.Module]
    made: tuple[nn.Module, Record, dict[str, list[Any]]]
    """The whole model, what its weights start as, and what its arguments changed."""
    path: str
    words: str


def arriving(model: nn.Module, config: Any, guess: Guess) -> tuple[Inputs, str] | None:
    """Inputs with which the forward of `model` runs, and where they come from; None where none are found.

    `guess`: inputs of a holder. Nothing that a holder raises gets out."""
    part, tried = type(model), 0
    for cls in [part, *holders(part)]:
        if tried > MOST:
            break
        found = [(documented.arriving(part, cls), f"of the example in the docstring of `{cls.__name__}`")]
        if cls is not part:
            found.insert(0, (_held(model, cls, config, guess), f"that arrive at it in `{cls.__name__}`"))
        tried += any(given is not None for given, _ in found)
        for given, where in found:
            for valued in () if given is None else _without_objects(with_values(given)):
                if outcome(model, *valued).error is None:
                    return valued, where
    return None


def _without_objects(given: Inputs) -> Iterator[Inputs]:
    """The arguments less objects of classes (a cache that the holder's own run has filled), and with them."""
    plain = {name: value for name, value in given[1].items() if _is_plain(value)}
    if len(plain) < len(given[1]):
        yield given[0], plain
    yield given


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, value.values()))
    return value is None or isinstance(value, Tensor | bool | int | float | str | torch.dtype | torch.device) or dataclasses.is_dataclass(value)


def within(part: type[nn.Module]) -> Within | None:
    """A part where a model of its own file holds it that builds from its defaults; None where there is none. Of several instances one of the form
    that most have: first layers are often others. Nothing that a holder raises gets out."""
    own = (cls for cls in holders(part) if cls.__module__ == part.__module__)
    for cls in itertools.islice(own, BUILT):
        with contextlib.suppress(Exception):
            made = construct(cls.__name__, cls, {}, sys.modules[cls.__module__], Told())
            forms: dict[str, list[str]] = {}
            for path, module in made[0].named_modules():
                if type(module) is part:
                    forms.setdefault(str(module), []).append(path)
            alike = max(forms.values(), key=len)
            others = sum(map(len, forms.values())) - len(alike)
            which = f"it is `{alike[0]}` of `{cls.__name__}`" + (f", which has {len(alike)} of this form and {others} of others" if others else "")
            return Within(cls, made, alike[0], f"`{part.__name__}` does not build alone: {which}")
    return None


def _held(model: nn.Module, cls: type[nn.Module], config: Any, guess: Guess) -> Inputs | None:
    """What arrives at a module with the weights of `model` in a holder."""
    try:
        whole, its = _built(cls, model, config)
        places = [m for m in whole.modules() if type(m) is type(model) and _form(m) == _form(model)]
        return _first(whole, places, guess(whole, its)) if places else None
    except Exception:  # of a class that is not the target: it says nothing about the target
        return None


def holders(part: type[nn.Module]) -> Iterator[type[nn.Module]]:
    """Classes that may hold a part, the last of a file first."""
    package = part.__module__.partition(".")[0]
    own = sys.modules.get(part.__module__)
    others = [m for n, m in sorted(sys.modules.items()) if n.partition(".")[0] == package and m is not own and isinstance(m, ModuleType)]
    for module in [own, *(m for m in others if vars(m).get(part.__name__) is part)]:
        if module is not None:
            named = references(module)
            for name, cls in reversed(defined_classes(module).items()):
                if cls is not part and part.__name__ in named.get(name, ()) and not issubclass(cls, part):
                    yield cls


def _built(cls: type[nn.Module], model: nn.Module, config: Any) -> tuple[nn.Module, Any]:
    """The holder on meta, from its defaults and from what the part keeps under the names of its arguments, and its configuration. Raises what its
    constructor raises."""
    if (kind := getattr(cls, "config_class", None)) is not None and hasattr(cls, "_from_config"):
        from screen.capture.build import transformers as hf

        config = copy.deepcopy(config)
        if hasattr(config, "_attn_implementation"):
            config._attn_implementation = None  # the holder chooses one itself
        whole = config if isinstance(config, kind) else _around(kind(), config)
        with torch.device("meta"):
            return hf.instantiate(cls, whole).eval(), whole
    wanted = [p.name for p in inspect.signature(cls).parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    kept = {name: vars(model)[name] for name in wanted if vars(model).get(name) is not None}
    whole = construct(cls.__name__, partial(cls, **kept) if kept else cls, {}, sys.modules[cls.__module__])[0]
    return whole, getattr(whole, "config", None)


def _around(whole: Any, part: Any) -> Any:
    """The configuration of a holder with the part's in the places of those of its class."""
    for name, value in list(vars(whole).items()):
        if type(value) is type(part):
            setattr(whole, name, part)
    return whole


def _form(module: nn.Module) -> list[Any]:
    return [(name, None if nn.parameter.is_lazy(p) else tuple(p.shape)) for name, p in module.named_parameters()]


def _first(whole: nn.Module, places: list[nn.Module], given: Inputs) -> Inputs | None:
    """What arrives first at one of the places; whether the holder runs to its end does not matter."""
    found: list[Inputs] = []

    def arrived(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        found.append(as_known((args, kwargs)))

    hooks = [place.register_forward_pre_hook(arrived, with_kwargs=True) for place in places]
    try:
        outcome(whole, *given)
        if found and any(t.device.type == "meta" and not t.dtype.is_floating_point for t in tensors(found[0])):
            found.clear()  # a run that is watched knows integers
            run(whole, *given)
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None


__all__ = ["Within", "arriving", "holders", "within"]
