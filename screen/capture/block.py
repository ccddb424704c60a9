"""Is a target one residual block, to be stacked, or a whole model?

A first answer from the outside: a block takes a float sequence [b, n, d] and returns the same shape, embeds nothing, and is no chain of blocks.
A chain is a container of modules of one class, with children, each of which is called with what the one before it returned (experts, called
side by side, are none). Facts may know better: a loop over two lists side by side is no chain for this test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture import trial
from screen.capture.copying import on_meta


def is_block(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Does it look like one block from the outside?"""
    main = next((v for v in [*args, *kwargs.values()] if isinstance(v, Tensor)), None)
    if main is None or main.dim() != 3 or not main.dtype.is_floating_point or any(isinstance(m, nn.Embedding) for m in model.modules()):
        return False
    outcome = _run(model, args, kwargs)
    if outcome is None:  # it reads values: the structure has to do
        return not any(_has_norm(members[0]) for members in repeated(model))
    output, depth = outcome
    return isinstance(output, Tensor) and output.shape == main.shape and depth < 2


def repeated(model: nn.Module) -> Iterator[list[nn.Module]]:
    """The members of each container that holds two or more modules of one class with children."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList | nn.Sequential | nn.ModuleDict):
            members = [m for m in module.children() if next(m.children(), None) is not None]
            if len(members) > 1 and len({type(m) for m in members}) == 1:
                yield members


def largest_stack(model: nn.Module) -> int:
    """Members of the largest repeated container; 0 when there is none."""
    return max((len(members) for members in repeated(model)), default=0)


def _has_norm(module: nn.Module) -> bool:
    return any("norm" in type(m).__name__.casefold() for m in module.modules())


def _run(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, int] | None:
    """First output, and the length of the longest chain; None when the forward does not run on plain meta tensors."""
    twin = on_meta(model)
    position = {id(m): (number, place) for number, members in enumerate(repeated(twin)) for place, m in enumerate(members)}
    made: dict[int, tuple[int, Tensor]] = {}
    longest = [0]
    chains: dict[int, int] = {}

    def after(module: nn.Module, inputs: Any, named: Any, output: Any) -> None:
        source = next((v for v in [*inputs, *named.values()] if isinstance(v, Tensor)), None)
        before = made.get(id(source)) if source is not None else None
        number = position[id(module)][0]
        length = chains[id(source)] + 1 if before is not None and before[0] == number else 1
        result = trial.first_tensor(output)
        if result is not None:
            made[id(result)] = (number, result)
            chains[id(result)] = length
            longest[0] = max(longest[0], length)

    hooks = [m.register_forward_hook(after, with_kwargs=True) for m in twin.modules() if id(m) in position]
    try:
        with torch.device("meta"), torch.no_grad():
            output = twin(*trial.on_meta(args), **trial.on_meta(kwargs))
    except (Exception, SystemExit):  # values are read, or it fails: both are told when it is traced
        return None
    finally:
        for hook in hooks:
            hook.remove()
    return trial.first_tensor(output), longest[0]


__all__ = ["is_block", "largest_stack", "repeated"]
