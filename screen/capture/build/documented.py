"""What is given to a module in the examples of a docstring (`>>> …`).

Examples are run on meta, statement by statement, as far as they run; numbers that they draw are on the CPU, since lengths and places are read.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from screen.capture.build.construct import workshop
from screen.capture.build.examples import documented
from screen.capture.inputs.explicit import Inputs

_NUMBERS = frozenset({"arange", "randint", "randperm", "tensor", "LongTensor"})


def arriving(part: type[nn.Module], cls: type[nn.Module]) -> Inputs | None:
    """What arrives first at an instance of `part` when the examples of `cls` are run; None where nothing does. Nothing that they raise gets out."""
    names: dict[str, Any] = {**vars(sys.modules[cls.__module__]), "torch": torch, "nn": nn}
    found: list[Inputs] = []
    hooks: dict[int, RemovableHandle] = {}

    def arrived(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        found.append((args, kwargs))

    with contextlib.suppress(Exception, SystemExit), torch.no_grad(), workshop(), _Numbers():
        for statement in documented(cls):  # what comes behind the call that is looked for (saving, training) is not run
            exec(compile(ast.Module([statement], []), "<example>", "exec"), names)
            for module in _modules(names, part):
                if id(module) not in hooks:
                    hooks[id(module)] = module.register_forward_pre_hook(arrived, with_kwargs=True)
            if found:
                break
    for hook in hooks.values():
        hook.remove()
    return found[0] if found else None


def _modules(names: dict[str, Any], part: type[nn.Module]) -> Iterator[nn.Module]:
    for value in list(names.values()):
        if isinstance(value, nn.Module):
            yield from (m for m in value.modules() if type(m) is part)


class _Numbers(TorchFunctionMode):
    """Whole numbers are made on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") in _NUMBERS and "device" not in kwargs:
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


__all__ = ["arriving"]
