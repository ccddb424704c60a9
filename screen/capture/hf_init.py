"""What transformers would do to the weights: its `_init_weights`, which it skips on meta, run for the record.

It draws nothing on meta and is only looked at. Modules of one class with equal shapes and equal plain attributes get equal laws, so that one of
them is run and the others take its record: 1,000 layers cost little more than one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from screen.capture.initialisers import Recorder


def initialise(model: nn.Module, recorder: Recorder) -> None:
    """Add to `recorder` what `_init_weights` of `model` and of the models in it does, children first, as transformers does."""
    from transformers import initialization

    seen: dict[Any, dict[str, nn.Parameter]] = {}
    with torch.no_grad(), torch.device("meta"), initialization.guard_torch_init_functions(), recorder.patched():
        _walk(model, model, recorder, seen)


def _walk(module: nn.Module, owner: Any, recorder: Recorder, seen: dict[Any, dict[str, nn.Parameter]]) -> None:
    for child in module.children():
        _walk(child, child if hasattr(child, "_init_weights") else owner, recorder, seen)
    own = {n: p for n, p in module._parameters.items() if p is not None}
    stored = [b for b in module._buffers.values() if b is not None]
    key = _key(module, owner, own) if own and not stored else None
    if key is not None and (twin := seen.get(key)) is not None:
        for name, parameter in own.items():
            recorder.take(parameter, twin[name])
        return
    try:
        with recorder:
            owner._init_weights(module)
    except Exception:  # it reads values that meta does not have: nothing is known of these weights
        for tensor in [*own.values(), *stored]:
            recorder.forget(tensor)
    if key is not None:
        seen[key] = own


def _key(module: nn.Module, owner: Any, own: dict[str, nn.Parameter]) -> Any:
    """What decides the law: classes, shapes, plain attributes."""
    plain = tuple((k, v) for k, v in vars(module).items() if isinstance(v, bool | int | float | str))
    return type(owner), type(module), tuple((n, p.shape) for n, p in own.items()), plain


__all__ = ["initialise"]
