"""Optional arguments in whose place the stream itself is taken where they are left out: `context = x if context is None else context`.

A model whose blocks hold two layers of one class, of which one is given such an argument, attends to another stream with that one; without the
argument both attend to their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from screen.capture.inputs.context import forward_parameters
from screen.capture.inputs.explicit import Inputs
from screen.capture.inputs.mend import Failed, Watch
from screen.capture.inputs.trial import outcome

Fed = dict[str, frozenset[str]]
"""Module with weights of its own -> the arguments of the model's forward that the first tensor that it got was made from."""
MOST = 4
"""Values of one argument."""


def with_streams(twin: nn.Module, given: Inputs, left_out: list[str], values: Callable[[str], Iterator[Any]]) -> Inputs:
    """The inputs, with arguments in whose place a layer takes the stream that its like take; `values`: those of an argument, likely ones first."""
    before = _fed(twin, given) if left_out and _may_fall_back(twin) else None
    for name in left_out if before is not None else ():
        for value in _sequences(values(name)):
            more = given[0], {**given[1], name: value}
            if before is not None and (after := _fed(twin, more)) is not None and _takes_over(twin, name, before, after):
                given, before = more, after
                break
    return given


def _may_fall_back(twin: nn.Module) -> bool:
    """Whether two parts are of one class that takes an argument that may be left out."""
    parts = [type(m) for m in twin.modules() if not type(m).__module__.startswith("torch.") and next(m.children(), None) is not None]
    twice = {cls for cls in parts if parts.count(cls) > 1}
    return any(p.default is None for m in twin.modules() if type(m) in twice for p in forward_parameters(m).values())


def _sequences(values: Iterator[Any]) -> list[Tensor]:
    """The first few of some values that may be another stream."""
    found = (v for v in values if isinstance(v, Tensor) and v.dim() == 3 and v.dtype.is_floating_point)
    return [v for v, _ in zip(found, range(MOST), strict=False)]


def _fed(twin: nn.Module, given: Inputs) -> Fed | None:
    """What each module with weights of its own is fed; None where the forward fails."""
    values = {**dict(zip(forward_parameters(twin), given[0], strict=False)), **given[1]}
    found, table = Failed(values), dict[str, frozenset[str]]()

    def entered(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensor = next((v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)), None)
        table.setdefault(name, found.origins(tensor) if tensor is not None else frozenset())

    hooks = []
    for name, module in twin.named_modules():
        if next(module.parameters(recurse=False), None) is not None and next(module.children(), None) is None:
            hooks.append(module.register_forward_pre_hook(lambda _, args, kwargs, name=name: entered(name, args, kwargs), with_kwargs=True))
    try:
        with Watch(found):
            failed = outcome(twin, (), values, tracing=False).error is not None
        return None if failed else table
    finally:
        for hook in hooks:
            hook.remove()


def _takes_over(twin: nn.Module, name: str, before: Fed, after: Fed) -> bool:
    """Whether an argument is fed to maps that got something else before, in some of the parts of a class alone."""
    changed = {m.rpartition(".")[0] for m, origins in after.items() if origins == {name} and before.get(m) and name not in before[m]}
    kinds = {type(twin.get_submodule(part)) for part in changed}
    kept = {type(m) for path, m in twin.named_modules() if path not in changed and any(f"{path}." == f"{k.rpartition('.')[0]}." for k in after)}
    return bool(kinds) and kinds <= kept


__all__ = ["with_streams"]
