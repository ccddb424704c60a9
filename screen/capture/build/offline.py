"""What a file asks the network for and a model can do without: a tokenizer, a list of words.

The network is never used. Where a call of a library ends because it cannot be reached, the call gives a name that can be kept and of which nothing
can be asked (`absent`); a report says so. The same is done for a class of the project's own that reads a file which is not there and that a module
only holds. What reads weights is not stood in for: a model is made of it. Settings are where the sizes of the model named are published
(`published`).
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import socket
import sys
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any
from urllib.error import URLError

from torch import nn

from screen.capture.build.absent import absent
from screen.capture.build.published import config_named
from screen.capture.build.unread import left_out, unpretrained
from screen.capture.inputs.missing import frames, parts_of, statement
from screen.capture.makeshift import Makeshift
from screen.capture.trace.source_lines import HERE, TORCH
from screen.errors import chain

_NAMES = {"ConnectionError", "ConnectError", "MaxRetryError", "LocalEntryNotFoundError", "OfflineModeIsEnabled"}
"""Errors of `requests`, `httpx`, `urllib3` and `huggingface_hub` where there is no network."""
_OF_SETTINGS = ("for_model", "to_diff_dict")
"""Methods of classes of `transformers` that read the settings of a model."""
_OF_MODELS = ("from_config", *_OF_SETTINGS)
"""The same, or of those that read weights."""
WHY = "asks the network for it, which is never used"
UNREAD = "reads a file for it, which is not here"
_made = Makeshift()
notes, taken_back = _made.notes, _made.taken_back


def do_without(error: BaseException) -> bool:
    """Make the call of a library that could not reach the network give a name alone; False where it is another error, or makes a part of a model."""
    if left_out(error, _made):
        return True
    if not any(isinstance(e, ConnectionError | socket.gaierror | URLError) or type(e).__name__ in _NAMES for e in chain(error)):
        return False
    trail = list(frames(error))
    own = next((n for n, (frame, _) in reversed([*enumerate(trail)]) if _is_of_project(frame)), None)
    if own is None:
        return False
    frame, line = trail[own]
    if any(_reads_a_model(below, at) for below, at in trail[own:]):
        return True
    if _is_of_a_model(trail[own + 1 :]):
        return False
    for call in _calls(frame, line):
        found = _callee(call.func, frame)
        if found is None:
            continue
        holder, name, function = found
        if not _is_of_library(function):
            continue
        if (plain := unpretrained(function, _made)) is not None:
            _put(holder, name, plain)
            return True
        if any(hasattr(holder, method) for method in _OF_MODELS):
            continue
        if isinstance(holder, type) and issubclass(holder, nn.Module):
            continue
        full = f"{getattr(holder, '__name__', '')}.{name}(…)".removeprefix(".") if not isinstance(holder, dict) else f"{name}(…)"
        _put(holder, name, lambda *_, full=full, **__: absent(full, [], WHY))
        _made.tell(f"`{full}` asks the network, which is never used: what it gives is there by name only")
        return True
    return False


def without_file(error: BaseException) -> bool:
    """Make a class of the project that is no module and reads a file that is not here, a tokenizer, give a name alone where a module holds it; False
    where it is another error."""
    trail = list(frames(error))
    if not trail or not isinstance(error, OSError | AssertionError) or not _speaks_of_a_file(error, *trail[-1]):
        return False
    for (outer, line), (inner, _) in itertools.pairwise(trail):
        made = inner.f_locals.get("self")
        if inner.f_code.co_name != "__init__" or isinstance(made, nn.Module) or not isinstance(outer.f_locals.get("self"), nn.Module):
            continue
        for call in _calls(outer, line):
            found = _callee(call.func, outer)
            if found is not None and found[2] is type(made) and _is_of_project(inner):
                full = type(made).__name__
                _put(found[0], found[1], lambda *_, full=full, **__: absent(f"{full}(…)", [], UNREAD))
                _made.tell(f"`{full}(…)` reads a file that is not here ({error}): what it gives is there by name only")
                return True
    return False


def _speaks_of_a_file(error: BaseException, frame: FrameType, line: int) -> bool:
    """Is a file missing: by the error itself, or by an assertion that asks for it?"""
    if isinstance(error, OSError):
        return isinstance(error, FileNotFoundError) or "No such file" in str(error) or str(error).startswith("Not found")
    said = statement(frame.f_code.co_filename, line)
    asked = [n for n in ast.walk(said.test) if isinstance(n, ast.Attribute)] if isinstance(said, ast.Assert) else []
    return any(n.attr in ("isfile", "exists", "is_file") for n in asked)


def _reads_a_model(frame: FrameType, line: int) -> bool:
    """Whether a line asks for the settings of a model whose sizes are published: it gets those."""
    if frame.f_code.co_name == "from_pretrained":  # of the library that reads them, for what it makes itself
        return False
    for call in _calls(frame, line):
        holder, name, function = _callee(call.func, frame) or (None, "", None)
        if name == "from_pretrained" and any(hasattr(holder, method) for method in _OF_SETTINGS):
            asked = _named(call.args[0], frame) if call.args else None
            if isinstance(asked, str) and config_named(asked) is not None and _sizes_of(holder, function, asked):
                return True
    return False


def _is_of_a_model(trail: list[tuple[FrameType, int]]) -> bool:
    """Whether what could not be reached is a model or its settings, and no tokenizer: the first that reads something published says so."""
    reader = next((frame.f_locals.get("cls") for frame, _ in trail if frame.f_code.co_name == "from_pretrained"), None)
    return any(hasattr(reader, method) for method in _OF_MODELS)


def _sizes_of(holder: Any, function: Any, asked: str) -> bool:
    """Make a class of settings give those of the published models whose sizes are known; False where it is for another kind."""
    from transformers import AutoConfig

    kind, _ = config_named(asked) or ("", {})
    if getattr(function, "__screen_published__", False) or getattr(holder, "model_type", "") not in ("", kind):
        return False

    def given(name: Any, *args: Any, **kwargs: Any) -> Any:
        known = config_named(name)
        if known is None:
            return function(name, *args, **kwargs)
        made = AutoConfig.for_model(known[0], **known[1])
        return (made, {}) if kwargs.get("return_unused_kwargs") else made

    given.__screen_published__ = True  # type: ignore[attr-defined]
    _put(holder, "from_pretrained", given)
    _made.tell(f"`{holder.__name__}.from_pretrained({asked!r})` asks the network, which is never used: its sizes are those that are published")
    return True


def _put(holder: Any, name: str, value: Any) -> None:
    """Put a value under a name of a module, a class or the names of a file, to be taken back."""
    if isinstance(holder, dict):
        _made.undone_by(functools.partial(holder.__setitem__, name, holder[name]))
        holder[name] = value
    else:
        own = name in vars(holder)
        _made.undone_by(functools.partial(setattr, holder, name, vars(holder)[name]) if own else functools.partial(delattr, holder, name))
        setattr(holder, name, staticmethod(value) if isinstance(holder, type) else value)


def _calls(frame: FrameType, line: int) -> Iterator[ast.Call]:
    said = statement(frame.f_code.co_filename, line)
    yield from (node for node in parts_of(said) if isinstance(node, ast.Call)) if said is not None else ()


def _callee(node: ast.expr, frame: FrameType) -> tuple[Any, str, Any] | None:
    """What a call names, `library.make` or `make`: where it is held, under which name, and itself; None for anything else."""
    if isinstance(node, ast.Name) and node.id in frame.f_globals:
        return frame.f_globals, node.id, frame.f_globals[node.id]
    if not isinstance(node, ast.Attribute):
        return None
    holder = _named(node.value, frame)
    if not isinstance(holder, ModuleType | type) or not hasattr(holder, node.attr):
        return None
    return holder, node.attr, getattr(holder, node.attr)


def _named(node: ast.expr, frame: FrameType) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    return getattr(_named(node.value, frame), node.attr, None) if isinstance(node, ast.Attribute) else None


def _is_of_project(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith((TORCH, HERE, "<", *_PATHS)) and "site-packages" not in file


def _is_of_library(function: Any) -> bool:
    """Is it a function of an installed package?"""
    found = sys.modules.get(str(getattr(function, "__module__", "")))
    file = getattr(found, "__file__", None) or ""
    return callable(function) and "site-packages" in file and not file.startswith(TORCH)


_PATHS = (inspect.__file__.rpartition("/")[0] + "/",)
"""The standard library."""

__all__ = ["UNREAD", "WHY", "do_without", "notes", "taken_back", "without_file"]
