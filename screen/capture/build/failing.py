"""What is asked where a forward runs on none of the inputs that were tried: how its author calls it, and what the failure speaks of."""

from __future__ import annotations

import ast
import inspect
import itertools
import os
import re
from typing import Any

import torch
from torch import nn

from screen.capture.build.examples import usage
from screen.capture.build.meta_copy import on_meta
from screen.capture.inputs import explicit
from screen.capture.inputs.missing import frames, parts_of, statement
from screen.capture.inputs.trial import outcome

CALLS = 8
"""Calls of the author's that are tried."""
_DTYPES = {torch.bfloat16: "bfloat16", torch.float16: r"\bhalf\b|\bfloat16", torch.float64: r"\bdouble\b|float64"}
"""Dtypes in the words of torch's errors."""


def said_by_author(model: nn.Module, author: Any) -> tuple[explicit.Inputs, str] | None:
    """The first inputs of the author's with which the forward runs, and their place; a batch of one becomes one of two where that runs too."""
    twin = on_meta(model)
    for args, kwargs, place in itertools.islice(usage(author), CALLS):
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)]
        single = bool(tensors) and all(v.dim() and v.shape[0] == 1 for v in tensors)
        pair = [v.repeat(2, *[1] * (v.dim() - 1)) if isinstance(v, torch.Tensor) else v for v in (*args, *kwargs.values())]
        doubled = tuple(pair[: len(args)]), dict(zip(kwargs, pair[len(args) :], strict=True))
        for given in [doubled, (args, kwargs)] if single else [(args, kwargs)]:
            if outcome(twin, *given).error is None:
                return given, place
    return None


def asked_dtype(model: nn.Module, given: explicit.Inputs, own: torch.dtype) -> torch.dtype | None:
    """The other dtype that a failing forward speaks of: a part of it is written for weights of that dtype (a cache in bfloat16)."""
    error = outcome(on_meta(model), *given).error
    if not isinstance(error, RuntimeError) or "type" not in str(error):
        return None
    return next((dtype for dtype, word in _DTYPES.items() if dtype != own and re.search(word, str(error), re.IGNORECASE)), None)


def left_open(model: nn.Module, given: explicit.Inputs) -> tuple[tuple[str, ...], str]:
    """Arguments of the constructor that are `None`, and that the line where the forward fails asks for, and this line; empty for none."""
    error = outcome(on_meta(model), *given).error
    own = [f for f in frames(error) if isinstance(f[0].f_locals.get("self"), type(model))] if error is not None else []
    said = statement(own[-1][0].f_code.co_filename, own[-1][1]) if own else None
    asked = [n.attr for n in parts_of(said) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "self"] if said is not None else []
    known = inspect.signature(type(model)).parameters
    where = f"{os.path.basename(own[-1][0].f_code.co_filename)}:{own[-1][1]}" if own else ""
    return tuple(name for name in dict.fromkeys(asked) if name in known and getattr(model, name, 0) is None), where


__all__ = ["CALLS", "asked_dtype", "left_open", "said_by_author"]
