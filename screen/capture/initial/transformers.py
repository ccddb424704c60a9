"""What transformers would do to the weights: its `_init_weights`, which it skips on meta, run for the record where it would be called.

It draws nothing on meta and is only looked at. Modules of one class with equal shapes and equal plain attributes get equal laws, so that one of
them is run and the others take its record as that call left it, before a parent writes to some of them (T5's attention to its queries): 1,000
layers cost little more than one.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from screen.capture.initial.recorder import Recorder
from screen.graph import Initialiser

_PLAIN = (bool, int, float, str)
_OTHERS = frozenset({dict, OrderedDict, set, type(None)})
_IMPORTS = re.compile(r"^\s*(?:from|import) +transformers\b", re.MULTILINE)
_STARTED = "_is_hf_initialized"
"""The mark that transformers leaves on a module whose weights have started."""


def is_imported() -> bool:
    """Whether there is a transformers that does not start its weights on meta, which version 5 began with."""
    return "transformers.initialization" in sys.modules and "transformers.modeling_utils" in sys.modules


def import_for(path: str | None) -> None:
    """Import it for a file that says that it does, so that models which the file makes itself are watched from the start."""
    if path is None or is_imported():
        return
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
        if _IMPORTS.search(file.read()) is not None:
            with contextlib.suppress(ImportError):  # said by the file's own line
                importlib.import_module("transformers.modeling_utils")


@contextlib.contextmanager
def started(recorder: Recorder) -> Iterator[None]:
    """While models of transformers, where it is imported, start their weights for `recorder` on meta as they do elsewhere: at the end of their
    constructors, so that what is written to them later stands. `recorder` is running."""
    if not is_imported():
        yield
        return
    from transformers import PreTrainedModel

    theirs = PreTrainedModel.init_weights

    def init_weights(model: Any) -> None:
        if "all_tied_weights_keys" not in vars(model):  # a constructor without `post_init()`, of before there was one: it asks for that at first
            theirs(model)
            return
        _initialise(model, recorder)
        model.tie_weights(recompute_mapping=False)

    PreTrainedModel.init_weights = init_weights  # type: ignore[method-assign]
    try:
        yield
    finally:
        PreTrainedModel.init_weights = theirs  # type: ignore[method-assign]


def _initialise(model: nn.Module, recorder: Recorder) -> None:
    """Add to `recorder` what `_init_weights` of `model` and of the models in it does, children first, as transformers does."""
    from transformers import initialization

    calls = [call for call in _calls(model, model) if not getattr(call[0], _STARTED, False)]
    with _untied(model), torch.no_grad(), initialization.guard_torch_init_functions(), recorder.patched():
        seen: dict[Any, dict[str, tuple[Initialiser, ...]]] = {}
        for module, owner, key in calls:
            setattr(module, _STARTED, True)
            twin = seen.get(key) if key is not None else None
            if twin is not None:
                for name, parameter in module._parameters.items():
                    if parameter is not None:
                        recorder.take(parameter, twin[name])
                continue
            _call(module, owner, recorder)
            if key is not None:
                seen[key] = {n: recorder.so_far(p) for n, p in module._parameters.items() if p is not None}


@contextlib.contextmanager
def _untied(model: nn.Module) -> Iterator[None]:
    """While each weight that is tied to another one has a tensor of its own: transformers ties when all are initialised, and what was done to a
    head is lost where it becomes the embedding."""
    kept = []
    for part in model.modules():
        for target, source in (getattr(part, "all_tied_weights_keys", None) or {}).items():
            path, _, name = target.rpartition(".")
            module = part.get_submodule(path)
            parameter = module._parameters.get(name)
            if parameter is not None and parameter is _named(part, source):
                kept.append((module, name, parameter))
                module._parameters[name] = nn.Parameter(torch.empty_like(parameter), parameter.requires_grad)
    try:
        yield
    finally:
        for module, name, parameter in reversed(kept):
            module._parameters[name] = parameter


def _named(model: nn.Module, name: str) -> nn.Parameter | None:
    try:
        return model.get_parameter(name)
    except AttributeError:
        return None


def _calls(module: nn.Module, owner: Any) -> Iterator[tuple[nn.Module, Any, Any]]:
    """Every module with the model whose `_init_weights` it goes to, and with what decides its law; None where it must be run."""
    from transformers import PreTrainedModel

    for child in module.children():
        yield from _calls(child, child if isinstance(child, PreTrainedModel) else owner)
    own = tuple((n, p.shape) for n, p in module._parameters.items() if p is not None)
    stored = any(b is not None for b in module._buffers.values())
    yield module, owner, _key(module, owner, own) if own and not stored else None


def _call(module: nn.Module, owner: Any, recorder: Recorder) -> None:
    try:
        owner._init_weights(module)
    except Exception:  # it reads values that meta does not have: nothing is known of these weights
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None:
                recorder.forget(tensor)


def _key(module: nn.Module, owner: Any, own: tuple[Any, ...]) -> Any:
    """What decides the law: classes, shapes, plain attributes."""
    plain = tuple((k, v) for k, v in vars(module).items() if type(v) not in _OTHERS and isinstance(v, _PLAIN))
    return type(owner), type(module), own, plain


__all__ = ["import_for", "is_imported", "started"]
