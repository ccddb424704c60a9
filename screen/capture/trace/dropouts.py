"""Dropout, turned off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

DROPOUTS = frozenset({
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout, torch.dropout_, torch.alpha_dropout,
    torch.feature_dropout, torch.feature_alpha_dropout,
})  # fmt: skip
"""Functions of torch that draw where their third argument, `training` or `train`, says so."""
OFF = {"training": False, "train": False, "dropout_p": 0.0}
"""Arguments that turn it off."""


def undrawn(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with what says that a dropout draws turned off."""
    if func in DROPOUTS:
        args = (*args[:2], False, *args[3:]) if len(args) > 2 else args
    elif func is F.scaled_dot_product_attention:
        args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
    elif func is not F.multi_head_attention_forward:
        return args, kwargs
    return args, {**kwargs, **{word: off for word, off in OFF.items() if word in kwargs}}


class DropoutsOff(TorchFunctionMode):
    """Every dropout hands on what it is given, whatever its argument says."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = undrawn(func, args, kwargs or {})
        return func(*args, **kwargs)


__all__ = ["DROPOUTS", "DropoutsOff", "undrawn"]
