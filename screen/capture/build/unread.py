"""Weights that a file asks for and that are never downloaded: a model is built without them where that is possible.

Where a constructor reads them under an argument of its own (`if load_backbone:`, `pretrained=imagenet`) that argument is false. Where a library
fetches them for a model that is built all the same (`torchvision.models.resnet50(pretrained=True)`), nothing is fetched, and nothing is put into it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from screen.capture.inputs.missing import condition, frames, statement
from screen.capture.makeshift import Makeshift

_READERS = {"from_pretrained", "load_state_dict_from_url", "load_pretrained", "hf_hub_download", "snapshot_download", "cached_download"}
"""Functions that read weights, of torch.hub, timm, transformers and huggingface_hub."""
_COMPILER = os.path.join(os.path.dirname(torch.__file__), "utils", "cpp_extension.py")
_PLAIN = torch.hub.load_state_dict_from_url


class Unread(dict[Any, Any]):
    """What is there in the place of weights: whatever is asked of it, it is that again."""

    def __missing__(self, key: Any) -> Unread:
        return self


def asks_for_weights(error: BaseException) -> bool:
    """Did it fail where weights are read?"""
    codes = [frame.f_code for frame, _ in frames(error)]
    return any(c.co_name in _READERS or (c.co_name == "load" and c.co_filename == torch.serialization.__file__) for c in codes)


def switches(error: BaseException, entry: Any, given: Mapping[str, Any]) -> dict[str, bool]:
    """The arguments of `entry` that are true and under which its own code reads weights where it failed, as they are to be: false."""
    if not asks_for_weights(error):
        return {}
    code = getattr(vars(entry).get("__init__") if isinstance(entry, type) else entry, "__code__", None)
    frame, line = next(((f, n) for f, n in frames(error) if f.f_code is code), (None, 0))
    if frame is None:
        return {}
    file = frame.f_code.co_filename
    said, above = statement(file, line), condition(file, line)
    calls = [n for n in ast.walk(said) if isinstance(n, ast.Call)] if said is not None else []
    asked = [k.value for call in calls for k in call.keywords if "pretrain" in (k.arg or "")]
    if isinstance(above, ast.If) and any(n.lineno <= line <= (n.end_lineno or n.lineno) for n in above.body):
        asked.append(above.test)
    names = [n.id for n in asked if isinstance(n, ast.Name)]
    return {name: False for name in names if frame.f_locals.get(name) is True and given.get(name) is not True}


def compiled(error: BaseException, given: Mapping[str, Any]) -> dict[str, bool]:
    """The settings that are true and under which a constructor compiles kernels of its own where it failed, as they are to be: false; by their dotted
    names, of the arguments and configurations `given`."""
    trail = list(frames(error))
    if not any(frame.f_code.co_filename == _COMPILER for frame, _ in trail):
        return {}
    for frame, line in reversed(trail):
        above = condition(frame.f_code.co_filename, line)
        if not isinstance(above, ast.If) or not any(n.lineno <= line <= (n.end_lineno or n.lineno) for n in above.body):
            continue
        if isinstance(above.test, ast.Name) and given.get(above.test.id) is True:
            return {above.test.id: False}
        if isinstance(above.test, ast.Attribute):
            held = [name for name, value in given.items() if getattr(value, above.test.attr, None) is True]
            if held:
                return {f"{held[0]}.{above.test.attr}": False}
    return {}


def left_out(error: BaseException, made: Makeshift) -> bool:
    """Let what torch fetches for a model stay where it is; False where it is another error, or is so already."""
    if not any(frame.f_code is _PLAIN.__code__ for frame, _ in frames(error)):
        return False

    def fetch(url: Any, *_: Any, **__: Any) -> Unread:
        made.tell(f"the weights of `{str(url).rpartition('/')[2]}` are not downloaded: those are judged that its constructor gives")
        return Unread()

    for module in [m for m in list(sys.modules.values()) if vars(m).get(_PLAIN.__name__) is _PLAIN]:
        setattr(module, _PLAIN.__name__, fetch)
        made.undone_by(functools.partial(setattr, module, _PLAIN.__name__, _PLAIN))
    plain = nn.Module.load_state_dict

    def load(self: nn.Module, state: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(self, {}, strict=False) if isinstance(state, Unread) or not state else plain(self, state, *args, **kwargs)

    nn.Module.load_state_dict = load  # type: ignore[assignment, method-assign]
    made.undone_by(functools.partial(setattr, nn.Module, "load_state_dict", plain))
    return True


def unpretrained(function: Any, made: Makeshift) -> Callable[..., Any] | None:
    """A function of a library that builds a model and reads its weights where `pretrained` says so, with that argument as it is by default; None
    where it has none or reads them by default."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    word = signature.parameters.get("pretrained")
    if word is None or word.default not in (False, None, ""):
        return None

    def without(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        if given.arguments.pop("pretrained", None):
            made.tell(f"weights that `{function.__name__}` reads are not downloaded: those are judged that its constructor gives")
        return function(*given.args, **given.kwargs)

    return without


__all__ = ["asks_for_weights", "compiled", "left_out", "switches", "unpretrained"]
