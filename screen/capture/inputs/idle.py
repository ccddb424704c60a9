"""Parts of a model of which nothing runs, asked again and again with one argument more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.jit import ScriptModule
from torch.utils._pytree import tree_flatten

from screen.capture.inputs.trial import outcome
from screen.capture.trace.nested import mapped


class Idle:
    """The parts of a copy of a model that never run. A part that is given the very tensors that it was given before gives back what it gave: an
    encoder of pictures runs once, however many prompts are tried."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._parts = dict(model.named_children())
        self._weighted = {name: {n for n, m in part.named_modules(prefix=name) if next(m.parameters(recurse=False), None) is not None}
                          for name, part in self._parts.items()}  # fmt: skip
        self._given: dict[Any, tuple[Any, Any, set[str]]] = {}
        """Part and what it is given -> the same, kept alive; its output; the modules that ran."""
        self._on_meta: dict[int, tuple[Tensor, Tensor]] = {}
        """By id of an argument: itself, kept alive, and its one twin."""
        self._ran: list[set[str]] = []

    def parts(self, kwargs: dict[str, Any]) -> set[str] | None:
        """Those of the model's own children with weights of which nothing runs with these arguments; None where the forward does not run to its end
        without a value that it reads."""
        self._ran = [set()]
        own = [(n, m) for n, m in self._model.named_modules() if not isinstance(m, ScriptModule)]
        hooks = [m.register_forward_pre_hook(lambda *_, name=name: self._ran[-1].add(name)) for name, m in own]
        wrapped = {name: part for name, part in self._parts.items() if not isinstance(part, ScriptModule) and "forward" not in vars(part)}
        for name, part in wrapped.items():
            part.forward = self._remembered(name, part.forward)
        try:
            found = outcome(self._model, (), mapped(kwargs, self._twin), tracing=False)
        finally:
            for part in wrapped.values():
                del part.forward
            for hook in hooks:
                hook.remove()
        (ran,) = self._ran[:1]
        return None if found.error is not None or found.output is None else {n for n, inside in self._weighted.items() if inside and not inside & ran}

    def _twin(self, _: str, given: Tensor) -> Tensor:
        return self._on_meta.setdefault(id(given), (given, given.to("meta")))[1]

    def _remembered(self, name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(forward)
        def called(*args: Any, **kwargs: Any) -> Any:
            leaves, spec = tree_flatten((args, kwargs))
            key = (name, str(spec), *(id(v) if isinstance(v, Tensor) else (type(v), v) for v in leaves)) if all(map(_is_plain, leaves)) else None
            if key is None or key not in self._given:
                self._ran.append(set())
                try:
                    output = forward(*args, **kwargs)
                finally:
                    inside = self._ran.pop()
                    self._ran[-1] |= inside
                if key is None:
                    return output
                self._given[key] = leaves, output, inside
            _, output, inside = self._given[key]
            self._ran[-1] |= inside
            return output

        return called


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, Tensor | bool | int | float | str)


__all__ = ["Idle"]
