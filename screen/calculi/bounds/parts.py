"""Parts of parameters, and arrays that are computed from several of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from screen.calculi.bounds.expr import Expr

if TYPE_CHECKING:
    import numpy


class Symbols(Protocol):
    """Names of norms of parts."""

    def symbol(self, part: Part, roles: str, exponential: bool = False) -> str:
        """The symbol of a quantity."""


@dataclass(frozen=True)
class Part:
    """A strided view of a parameter."""

    parameter: str
    whole: tuple[int, ...]
    """Shape of the parameter."""
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    shift: float = 0.0
    """A number added to every entry (`1 + w`)."""
    fold: Made | None = None
    """Where it is a view of an array that is computed from several parameters; `parameter` is the first of them."""

    def read(self, weights: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """Its entries in float64."""
        import numpy as np

        whole = self.fold.array(weights) if self.fold is not None else weights[self.parameter]
        dense = np.ascontiguousarray(np.asarray(whole, dtype=np.float64)).reshape(-1)
        part = np.lib.stride_tricks.as_strided(dense[self.offset :], self.sizes, tuple(s * dense.itemsize for s in self.strides))
        return part + self.shift

    @property
    def last(self) -> int:
        """The place of its last entry in the parameter."""
        return self.offset + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))

    def permuted(self, order: tuple[int, ...]) -> Part:
        """Axes in another order."""
        return replace(self, sizes=tuple(self.sizes[i] for i in order), strides=tuple(self.strides[i] for i in order))

    def sliced(self, axis: int, start: int, stop: int, step: int = 1) -> Part:
        """A range of one axis."""
        axis %= len(self.sizes)
        sizes, strides = list(self.sizes), list(self.strides)
        sizes[axis] = max(0, -(-(stop - start) // step))
        strides[axis] *= step
        return replace(self, offset=self.offset + start * self.strides[axis], sizes=tuple(sizes), strides=tuple(strides))

    def dropped(self, axis: int) -> Part:
        """Without an axis (its index 0)."""
        axis %= len(self.sizes)
        return replace(
            self, sizes=self.sizes[:axis] + self.sizes[axis + 1 :], strides=self.strides[:axis] + self.strides[axis + 1 :]
        )

    def inserted(self, axis: int) -> Part:
        """With a new axis of size 1."""
        return replace(self, sizes=(*self.sizes[:axis], 1, *self.sizes[axis:]), strides=(*self.strides[:axis], 0, *self.strides[axis:]))

    def split(self, axis: int, parts: tuple[int, ...]) -> Part:
        """One axis as several, outer first."""
        strides, step = [], self.strides[axis]
        for n in reversed(parts):
            strides.append(step)
            step *= n
        return replace(
            self,
            sizes=(*self.sizes[:axis], *parts, *self.sizes[axis + 1 :]),
            strides=(*self.strides[:axis], *reversed(strides), *self.strides[axis + 1 :]),
        )

    def viewed(self, shape: tuple[int, ...]) -> Part | None:
        """Another shape, where strides allow it."""
        if math.prod(shape) != math.prod(self.sizes):
            return None
        dense = [(n, s) for n, s in zip(self.sizes, self.strides, strict=True) if n != 1]
        joined: list[tuple[int, int]] = []
        for n, s in dense:
            if joined and joined[-1][1] == n * s:
                joined[-1] = (joined[-1][0] * n, s)
            else:
                joined.append((n, s))
        return self._spread(joined, shape)

    def _spread(self, runs: list[tuple[int, int]], shape: tuple[int, ...]) -> Part | None:
        strides: list[int] = []
        queue = list(runs)
        for n in reversed(shape):
            if n == 1:
                strides.append(0)
                continue
            if not queue or queue[-1][0] % n:
                return None
            left, step = queue.pop()
            strides.append(step)
            if left != n:
                queue.append((left // n, step * n))
        return replace(self, sizes=shape, strides=tuple(reversed(strides)))


@dataclass(frozen=True)
class Made:
    """An array that is computed from parameters before a norm of it is taken."""

    matrix: Part
    """W (v of a weight norm): [out, in, …]."""

    letter = ""
    """What the symbol of W gets at its end."""
    fixed = ""
    """Why its norms stay bounded over all weights, where they do."""
    proven = True
    """Whether the graph shows that; else it is a condition on training."""

    @property
    def told(self) -> str:
        """What it is, after the name of its parameter."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts that it is made of."""
        raise NotImplementedError

    def unfolded(self, part: Part) -> Part:
        """The part of W that gives a part of it its name."""
        return self.matrix

    @property
    def factors(self) -> tuple[Part, ...]:
        """The two parts whose names make its name; else none."""
        return ()

    def array(self, weights: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """Its value."""
        raise NotImplementedError

    def slack(self, weights: Mapping[str, numpy.ndarray]) -> float:
        """The rounding error of `array`, where what cancels can leave less than that."""
        return 0.0

    def plainly(self, part: Part, roles: str, names: Symbols) -> Expr | None:
        """An upper bound of a norm of a part of it in norms of single parameters; None where there is none."""
        raise NotImplementedError


def said(part: Part) -> str:
    """A part in words: the rows of the parameter where it is not all of them, and what is done to them."""
    base = part if part.fold is None else part.fold.matrix
    if len(base.whole) != 2 or base.strides[-1] != 1:
        rows = ""
    else:
        across = 1 if part.fold is not None and len(part.whole) == 1 else base.whole[1]
        count = math.prod(n for n, step in zip(part.sizes, part.strides, strict=True) if step) // across
        first = part.offset // across + (0 if part.fold is None else base.offset // base.whole[1])
        rows = f"[{first}:{first + count}]" if count != base.whole[0] else ""
    return f"{part.parameter}{rows}" + ("" if part.fold is None else f" {part.fold.told}".rstrip())


def dense(matrix: Part, sizes: tuple[int, ...], fold: Made) -> Part:
    """An array of its own, under the name of its first parameter."""
    strides = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
    return replace(matrix, whole=sizes, offset=0, sizes=sizes, strides=strides, shift=0.0, fold=fold)
