"""Models without a `forward` that have others, `forward_loss(ids, targets)` and `forward_inference(ids, start)`: one of them is run."""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any

from screen.capture.build import python_file
from screen.capture.build.piecewise import Reading
from screen.capture.makeshift import Makeshift

_NAMED = "forward_"
_made = Makeshift()
taken_back = _made.taken_back


def supply(module: ModuleType, reading: Reading) -> None:
    """Give each class of a file that holds others of it, and that nothing is derived from, the method that asks for least as its forward; a line of
    the `reading` says so."""
    own = python_file.own_classes(module)
    bases = {base for cls in own.values() for base in cls.__mro__[1:]}
    running = python_file.defined_classes(module)
    names = python_file.references(module)
    for name, cls in own.items():
        if name in running or cls in bases or not names.get(name, set()) & running.keys():
            continue
        methods = [one for key, one in vars(cls).items() if key.startswith(_NAMED) and inspect.isfunction(one)]
        if methods:
            chosen, before = min(methods, key=_asked), vars(cls).get("forward")
            cls.forward = chosen
            _made.undone_by(functools.partial(setattr, cls, "forward", before) if before else functools.partial(delattr, cls, "forward"))
            line = f"`{name}` has no `forward`: its `{chosen.__name__}` is run"
            reading.lines.extend([line] if line not in reading.lines else [])


def _asked(method: Any) -> int:
    """How many arguments must be given."""
    return sum(p.default is p.empty for p in inspect.signature(method).parameters.values())


__all__ = ["supply", "taken_back"]
