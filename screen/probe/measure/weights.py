"""Weights as the model's own code would draw them: the recorded in-place calls, replayed with a generator of our own.

Nothing here touches the global random state. What a record cannot say is told in a note, never passed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from screen.graph import Initialiser

Draw = Callable[[Tensor, tuple[float, ...], torch.Generator], object]


def _sparse(t: Tensor, sparsity: float, std: float, generator: torch.Generator) -> None:
    """As `nn.init.sparse_`, which permutes rows with the global random state whatever generator it is given."""
    t.normal_(0.0, std, generator=generator)
    zeros = math.ceil(sparsity * t.shape[0])
    for column in range(t.shape[1]):
        t[torch.randperm(t.shape[0], generator=generator)[:zeros], column] = 0


_DRAWS: dict[str, Draw] = {
    "normal_": lambda t, a, g: t.normal_(a[0], a[1], generator=g),
    "uniform_": lambda t, a, g: t.uniform_(a[0], a[1], generator=g),
    "sample_": lambda t, a, g: t.normal_(0.0, a[0], generator=g),
    "exponential_": lambda t, a, g: t.exponential_(a[0], generator=g),
    "cauchy_": lambda t, a, g: t.cauchy_(a[0], a[1], generator=g),
    "log_normal_": lambda t, a, g: t.log_normal_(a[0], a[1], generator=g),
    "bernoulli_": lambda t, a, g: t.bernoulli_(a[0], generator=g),
    "trunc_normal_": lambda t, a, g: nn.init.trunc_normal_(t, a[0], a[1], a[2], a[3], generator=g),
    "orthogonal_": lambda t, a, g: nn.init.orthogonal_(t, a[0] if a else 1.0, generator=g),
    "xavier_uniform_": lambda t, a, g: nn.init.xavier_uniform_(t, a[0] if a else 1.0, generator=g),
    "xavier_normal_": lambda t, a, g: nn.init.xavier_normal_(t, a[0] if a else 1.0, generator=g),
    "sparse_": lambda t, a, g: _sparse(t, a[0], a[1] if len(a) > 1 else 0.01, g),
}
"""Calls that draw."""
_FIXED: dict[str, Draw] = {
    "zero_": lambda t, a, g: t.zero_(),
    "zeros_": lambda t, a, g: t.zero_(),
    "one_": lambda t, a, g: t.fill_(1.0),
    "ones_": lambda t, a, g: t.fill_(1.0),
    "fill_": lambda t, a, g: t.fill_(a[0]),
    "constant_": lambda t, a, g: t.fill_(a[0]),
    "values_": lambda t, a, g: t.copy_(torch.tensor(a).view(t.shape)),
    "dirac_": lambda t, a, g: nn.init.dirac_(t),
}
"""Calls that set every entry to a number of their own."""
_STEPS: dict[str, Draw] = {
    "mul_": lambda t, a, g: t.mul_(a[0]),
    "div_": lambda t, a, g: t.div_(a[0]),
    "add_": lambda t, a, g: t.add_(a[0]),
    "sub_": lambda t, a, g: t.sub_(a[0]),
    "clamp_": lambda t, a, g: t.clamp_(*a[:2]),
    "erfinv_": lambda t, a, g: t.erfinv_(),
}
"""Calls that build on what is there."""


def drawn(shape: tuple[int, ...], history: tuple[Initialiser, ...], generator: torch.Generator) -> tuple[Tensor, str]:
    """A parameter in float32 after all recorded calls, and what the record could not say (empty when it said all)."""
    value = torch.empty(shape, dtype=torch.float32)
    note = ""
    history = history[_last_whole(history) :]
    with torch.no_grad():
        for place, call in enumerate(history):
            rule = _DRAWS.get(call.op) or _FIXED.get(call.op)
            if rule is None and place == 0:
                return unknown(shape, generator), f"the law of `{call.op}` is not known: N(0, 1/fan_in) in its place"
            rule = rule or _STEPS.get(call.op)
            if rule is None or (place and not call.whole):
                note = f"`{call.op}` changed some of the entries, and which is not recorded: left out"
                continue
            try:
                rule(value, _numbers(call), generator)
            except (TypeError, ValueError, IndexError, RuntimeError) as error:
                return unknown(shape, generator), f"`{call.op}{call.args}` cannot be replayed ({type(error).__name__}): N(0, 1/fan_in) in its place"
    return (value, note) if history else (unknown(shape, generator), "no initialiser was recorded: N(0, 1/fan_in) in its place")


def _last_whole(history: tuple[Initialiser, ...]) -> int:
    """The last call that sets every entry anew, to a law that is known or not (`copy_`): what went before left nothing."""
    return max((i for i, c in enumerate(history) if c.whole and c.op not in _STEPS), default=0)


def _numbers(call: Initialiser) -> tuple[float, ...]:
    if any(isinstance(a, str) for a in call.args):
        raise ValueError("an argument is no number")
    return tuple(a for a in call.args if isinstance(a, int | float))


def unknown(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """N(0, 1/fan_in), fan_in the number of entries in a row; of a vector its length."""
    fan = math.prod(shape[1:]) if len(shape) > 1 else (shape[0] if shape else 1)
    return torch.empty(shape, dtype=torch.float32).normal_(0.0, 1 / math.sqrt(max(fan, 1)), generator=generator)


__all__ = ["drawn", "unknown"]
