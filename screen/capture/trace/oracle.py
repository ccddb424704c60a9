"""Reads of values on the meta device: the true value where it is known, else a recorded guess.

A value is known where a tensor depends only on factories, on integers of the program and on ids and masks that were chosen, and is small: every
such op is run a second time on real CPU tensors (views stay views there, so writes reach them). What else is read is guessed; the
guess is recorded with file and line, and can be answered otherwise in a second run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from screen.capture.trace.recorder import tensors
from screen.capture.trace.source_lines import no_modes
from screen.capture.trace.supposed import Supposed

SMALL = 1 << 20
"""Largest number of elements that is computed a second time."""

GENERIC = {"isnan": False, "isinf": False, "isposinf": False, "isneginf": False, "isfinite": True, "any": True, "all": True, "eq": False, "ne": True}
"""What these say of unknown floats (`eq` and `ne` against a number) that are finite and not zero."""

RANDOM = {"rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "normal", "uniform", "empty", "empty_like", "rand_like",
          "randn_like", "new_empty", "empty_strided", "randint_like", "normal_", "uniform_", "bernoulli_", "exponential_", "native_dropout",
          "new_empty_strided", "empty_permuted", "random_", "cauchy_", "log_normal_", "geometric_", "set_"}


PICKS = {"index", "index_select", "gather", "take"}
"""Ops whose result holds entries of their first argument only, whatever the indices."""

LITERAL = {"tensor": 0, "as_tensor": 0, "asarray": 0, "new_tensor": 1}
"""Calls that make a tensor of numbers of the program, and which argument holds them. On meta torch forgets the numbers, below the aten level."""


Site = tuple[str, int, str]
"""File and line that ask for a value, and what they ask for."""


@dataclass(frozen=True)
class Asked:
    """One guess."""

    answer: Any
    what: str
    site: Site


@dataclass
class Oracle:
    """Known values by tensor, and the guesses of one run."""

    answers: dict[Site, Any] = field(default_factory=dict)
    """Line that asks -> what to answer instead of the default, each time it asks."""
    known: dict[int, Tensor] = field(default_factory=dict)
    keep: list[Tensor] = field(default_factory=list)
    assumed: set[int] = field(default_factory=set)
    """Tensors whose value rests on unknown floats being finite and not zero."""
    guesses: list[Asked] = field(default_factory=list)
    """In order."""
    largest: int = SMALL
    """Entries of a tensor whose value is computed."""
    drawn: set[int] | None = None
    """Where weights and float arguments have values: those, and the tensors made of them. What is read of one is a guess as good as its draw."""
    supposed: Supposed = field(default_factory=Supposed)
    """How integers and truth values were made, so that guesses about them agree."""

    def learn(self, meta: Tensor, real: Tensor) -> None:
        """From now on `meta` has the value `real`."""
        self.known[id(meta)] = real
        self.keep.append(meta)

    def value(self, tensor: Tensor) -> Tensor | None:
        """The value of a tensor, or None."""
        if tensor.device.type != "meta":
            return tensor
        return self.known.get(id(tensor))

    def literal(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """The value of `torch.tensor([1, 2])`; one made of tensors is known when they are."""
        place = LITERAL.get(getattr(func, "__name__", ""))
        if place is None or not isinstance(result, Tensor) or result.device.type != "meta" or result.numel() > self.largest:
            return
        data = args[place] if len(args) > place else kwargs.get("data", kwargs.get("obj"))
        if data is None or isinstance(data, Tensor) or any(self.value(t) is None for t in tensors(data)):
            return
        with no_modes():
            real = torch.tensor(tree_map(self._real, data), dtype=result.dtype, device="cpu")
        if real.shape == result.shape:
            self.learn(result, real)

    def generic(self, func: Callable[..., Any], args: Any, result: Any) -> bool:
        """What holds of unknown floats unless something went wrong: they are finite, and not zero. Learned as such, and marked as assumed."""
        name = func.__name__.split(".")[0]
        operand = args[0] if args else None
        if name not in GENERIC or not isinstance(operand, Tensor) or not isinstance(result, Tensor):
            return False
        if not operand.dtype.is_floating_point or self.value(operand) is not None:
            return False
        answer = GENERIC[name]
        if name in ("eq", "ne") and len(args) > 1:
            if args[1] is operand:  # x == x holds of all but NaN
                answer = not answer
            elif not isinstance(args[1], int | float):
                return False
        self.learn(result, torch.full((), answer, dtype=torch.bool, device="cpu").expand(result.shape))
        self.assumed.add(id(result))
        return True

    def follow(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Run `func` once more on values, when all that it reads is known and what it makes is small."""
        results = list(tensors(result))
        if self.generic(func, args, result):
            return
        sources = list(tensors((args, kwargs)))
        if not results or any(t.numel() > self.largest or t.device.type != "meta" for t in results):
            self._forget(func, args, kwargs)
            return
        name = func.__name__.split(".")[0]
        if name in PICKS and self._picked(args[0], results[0]):
            return
        if name in RANDOM or any(self.value(t) is None for t in sources):
            self._forget(func, args, kwargs)
            return
        try:
            real_args, real_kwargs = self._real(args), self._real(kwargs)
            with no_modes():  # `torch.Tensor(…)` comes here past every function, with those that look on
                real = func(*real_args, **real_kwargs)
        except Exception:  # a value that cannot be computed is unknown, whatever the reason
            self._forget(func, args, kwargs)
            return
        assumed = any(id(t) in self.assumed for t in sources)
        drawn = self.of_draws(sources)
        for meta, value in zip(results, tensors(real), strict=False):
            if meta.shape == value.shape:
                self.learn(meta, value)
                if drawn and self.drawn is not None:
                    self.drawn.add(id(meta))
                if assumed:
                    self.assumed.add(id(meta))

    def of_draws(self, values: Iterable[Tensor]) -> bool:
        """Whether one of these was made of values that were drawn."""
        return self.drawn is not None and any(id(t) in self.drawn for t in values)

    def _picked(self, source: Tensor, result: Tensor) -> bool:
        """Whatever is picked out of a tensor whose entries are all equal is that entry."""
        real = self.value(source)
        if real is None or not real.numel() or bool((real != real.flatten()[0]).any()):
            return False
        self.learn(result, real.flatten()[0].expand(result.shape).clone())
        if id(source) in self.assumed:
            self.assumed.add(id(result))
        return True

    def _real(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.value(value)
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if isinstance(value, tuple | list):
            return type(value)(map(self._real, value))
        return {key: self._real(one) for key, one in value.items()} if isinstance(value, dict) else value

    def _forget(self, func: Any, args: Any, kwargs: Any) -> None:
        """A write of something unknown makes its target unknown."""
        if self.known and func._schema.is_mutable:
            for argument, value in zip(func._schema.arguments, args, strict=False):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    for tensor in tensors(value):
                        self._drop_storage(tensor)

    def _drop_storage(self, tensor: Tensor) -> None:
        real = self.known.get(id(tensor))
        if real is not None:
            base = real.untyped_storage().data_ptr()
            self.known = {k: v for k, v in self.known.items() if v.untyped_storage().data_ptr() != base}

    def taken_for(self, tensor: Tensor) -> Tensor:
        """What an unknown tensor of integers or truth values is taken for: ones, and what follows where it was made of other integers."""
        return self.supposed.value(tensor, self.value)

    def guess(self, default: Any, what: str, site: Site) -> Any:
        """Answer a read of an unknown value, and remember that it was a guess."""
        answer = self.answers.get(site, default)
        self.guesses.append(Asked(answer, what, site))
        return answer

    def scalar(self, tensor: Tensor) -> tuple[bool, Any]:
        """(known, value) of a tensor with one element."""
        real = self.value(tensor)
        if real is not None:
            return True, real.item()
        return False, None


def everything(shape: torch.Size) -> Tensor:
    """`nonzero` of an unknown mask of this shape: all is selected."""
    return torch.ones(shape, dtype=torch.bool, device="cpu").nonzero()
