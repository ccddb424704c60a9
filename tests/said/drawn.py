"""Compositions of two to four calls of the tables, and stacks of blocks, drawn at random: what a rule says of what another one gives.

A line that one call comes to may turn on two things at once, and a single call has one. All of it is on record in digests alone."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from screen.graph import Node
from tests.rows.block import SHAPE, Call
from tests.calculi.meanfield.simulation import ACTS, Design
from tests.rows.table import CALLS
from tests.said.blocks import stacked
from tests.said.calls import MORE
from tests.said.plain import chosen
from tests.said.rows import said

Shapes = tuple[tuple[int, ...], ...]
Made = tuple[Callable[..., Tensor], Shapes]
"""A function of x and weights, and their shapes."""


def _over_size(a: Tensor, b: Tensor) -> Tensor:
    return a / (1e-5 + b.norm(dim=-1, keepdim=True))


def _attended(a: Tensor, b: Tensor) -> Tensor:
    return torch.softmax(a @ b.mT, -1) @ b


JOINS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, _over_size, _attended,
    lambda a, b: a * b.sigmoid(), lambda a, b: a / (1 + b.abs()), lambda a, b: torch.where(b > 0, a, b), lambda a, b: torch.cat([a, b], -1),
    lambda a, b: torch.lerp(a, b, 0.3), lambda a, b: a / b, lambda a, b: a * torch.exp(-b.abs()), lambda a, b: torch.stack([a, b], 1).flatten(1, 2),
    lambda a, b: torch.addcmul(a, a, b, value=0.5), lambda a, b: a + 2.0 * b, lambda a, b: a.masked_fill(b > 0, float("-inf")),
    lambda a, b: F.silu(a) * b, lambda a, b: a @ b.mT,
)  # fmt: skip

CHOSEN = """
203 222 234 242 248 265 267 272 293 294 297 299 314 316 318 334 344 346 352 355 366 372 374 377 378 381 382 384 396 406 407 410 411 416 419
425 426 433 434 435 441 443 467 482 494 526 546 549 555 556 560 564 565 566 578 582 610 625 633 634 635 636 637 638 650 658 659 667 678 691
701 716 725 729 731 734 753 768 770 775 783 785 789 803 810 812 824 828 833 837 842 857 858 859 868 872 881 883 884 901 902 905 913 917 925
927 931 935 939 940 948 957 963 982 993 1000 1002 1004 1006 1025 1031 1043 1047 1053 1054 1059 1061 1070 1074 1082 1084 1110 1121 1122 1127
1130 1132 1138 1139 1151 1157 1161 1164 1169 1172 1175 1186 1190 1196 1202 1203 1210 1215 1223 1224 1225 1227 1228 1232 1234 1238 1261 1279
"""
"""Numbers of compositions that take ways between two lines that no earlier one takes."""
NUMBERS = (*range(200), *map(int, CHOSEN.split()))
STACKS = 150


@dataclass(frozen=True)
class Drawn(Call):
    """A composition; all that it calls is looked at."""

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All of them."""
        return self._inside


@cache
def _kept() -> dict[str, Call]:
    """The calls of [2, 3, 4]."""
    return {name: c for name, c in {**{str(c): c for c in CALLS}, **MORE}.items() if c.shape == SHAPE}


def _real(made: Any, rng: random.Random) -> Tensor:
    """A tensor of floats in what a call gives."""
    if isinstance(made, tuple | list):
        made = rng.choice(made)
    if made.is_complex():
        made = made.real
    return made if made.is_floating_point() else made.float()  # type: ignore[no-any-return]


def _tree(rng: random.Random, calls: int) -> Made:
    """So many calls, one after or beside the other."""
    if calls == 1:
        call, number = _kept()[chosen(rng.random(), _kept())], rng.random()
        return lambda x, *w: _real(call.of(x, *w), random.Random(number)), call.weights
    if rng.random() < 0.5:
        (g, second), (f, first) = _tree(rng, 1), _tree(rng, calls - 1)
        return lambda x, *w: g(f(x, *w[: len(first)]), *w[len(first) :]), (*first, *second)
    left = rng.randint(1, calls - 1)
    (f, first), (g, second), join = _tree(rng, left), _tree(rng, calls - left), rng.choice(JOINS)
    return lambda x, *w: join(f(x, *w[: len(first)]), g(x, *w[len(first) :])), (*first, *second)


def composition(number: int) -> Drawn:
    """The first of those drawn with this number that torch runs and that moves with x."""
    rng = random.Random(number)
    while True:
        of, weights = _tree(rng, rng.choice((2, 2, 3, 4)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made = of(torch.ones(SHAPE, requires_grad=True), *(torch.ones(shape) for shape in weights))
            except (RuntimeError, IndexError, TypeError, ValueError, AttributeError):
                continue
        if made.requires_grad and 0 < made.numel() < 200:
            return Drawn("drawn", of, weights, SHAPE, number)


def composed(number: int) -> dict[str, str]:
    """What each calculus says of a composition, all of its nodes together."""
    found: dict[str, str] = {}
    for piece, text in said(composition(number)).items():
        kind = piece.rstrip(" 0123456789")
        found[kind] = f"{found.get(kind, '')}{piece}: {text}; "
    return found


def stack(number: int) -> dict[str, str]:
    """The recursion of a stack with norms, sizes of weights and masks as they are drawn."""
    rng = random.Random(number)
    sizes: dict[str, Any] = {name: rng.choice((0.3, 1.0, 1.0, 2.0)) for name in ("qk", "v", "o", "w1", "w2")}
    told: dict[str, Any] = {name: rng.random() < 0.4 for name in ("a", "b", "c", "qk_norm", "gated", "causal", "uniform")}
    parts: dict[str, Any] = rng.choice(({}, {}, {}, {"attention": False}, {"feed": False}))
    more: dict[str, Any] = {"alpha": rng.choice((1.0, 1.0, 0.7, 2.0)), "act": rng.choice([*ACTS]), "tied": rng.random() < 0.15}
    return stacked(Design(**sizes, **told, **parts, **more, final=rng.random() < 0.7), rng.choice((2, 4, 9)))


SUBJECTS: dict[str, Callable[[], dict[str, str]]] = {
    **{f"call {n}": lambda n=n: composed(n) for n in NUMBERS}, **{f"stack {n}": lambda n=n: stack(n) for n in range(STACKS)},  # type: ignore[misc]
}  # fmt: skip

__all__ = ["Drawn", "SUBJECTS", "composition"]
