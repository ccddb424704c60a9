"""At which size the whole model is measured: its own, or the largest narrower one of the same depth of which the budget affords the least.

Counted work, before anything is built: a forward takes 2 operations for a weight and a token and a third of what values take; a backward pass twice
as many; `CALL` for each call and pass. Arithmetic on all weights waits for memory and is counted by `TOUCH`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from screen.probe.budget.budget import CALL, FASTER, RATES, load_of
from screen.probe.measure.leaves import Missing
from screen.probe.measure.session import Session
from screen.probe.plan.types import ProbePlan
from screen.probe.stress.smaller import smaller
from screen.probe.stress.sweep import Make, stacked

TOUCH = 40.0
"""Operations for one weight in one pass over all of them: 1 ns."""
Form = TypeVar("Form")


@dataclass(frozen=True)
class Size:
    """One model that could be measured."""

    session: Session
    build: Callable[[], nn.Module]
    weights: int
    row: float
    """Operations of a forward of one row of a batch."""
    calls: int
    words: str = ""
    """What of it is smaller; empty for the model itself."""

    def seconds(self, rows: float, touches: float, passes: float) -> float:
        """Counted work of forwards of so many rows in all, in so many passes, and of so many passes over the weights."""
        rate = RATES[self.session.budget.device] * FASTER[torch.float32]
        return (rows * self.row + touches * TOUCH * self.weights) / rate + CALL * self.calls * passes


def fullest(sizes: Iterator[Size], forms: Sequence[Form], cost: Callable[[Size, Form], float], seconds: float, bytes_each: int) -> tuple[Size, Form]:
    """The largest size that fits with `bytes_each` for a weight, in the fullest form that is affordable. Raises `Missing`."""
    lost = ""
    for size in sizes:
        device, need = size.session.budget.device, size.weights * bytes_each
        there = torch.cuda.get_device_properties(0).total_memory if device == "cuda" else size.session.options.memory
        if there and need > there // 2:
            lost = f"its {size.weights:,} weights need {need / 2**30:.3g} GiB, of {there / 2**31:.3g} GiB"
            continue
        costs = [cost(size, form) for form in forms]
        if (found := next((form for form, c in zip(forms, costs, strict=True) if c <= seconds), None)) is not None:
            return size, found
        lost = f"it takes {costs[-1]:.2g} s of counted work, and `--probe-seconds` leaves {seconds:.2g} s for it"
    raise Missing(f"{lost}: make it smaller with `--width` (a config) or `--set`")


def sizes_of(plan: ProbePlan, session: Session, make: Make) -> Iterator[Size]:
    """The model itself, then smaller ones of the same depth, each found once for the session."""
    found, more = session.kept.setdefault("sizes", ([], _sizes(plan, session, make)))
    yield from found
    for size in more:
        found.append(size)
        yield size


def _sizes(plan: ProbePlan, session: Session, make: Make) -> Iterator[Size]:
    is_block, is_live = session.built.info.block and plan.loop, session.built.original is not None
    copies = max((b.depth for b in plan.blocks), default=1) if is_block and not is_live else 1
    words = "" if not is_block else "of one block" if is_live else f"{copies} blocks stacked"
    yield _size(plan, session, make, copies, words)
    for other in smaller(plan, session, depth=False):
        yield _size(plan, other.session, partial(make, more=other.settings), copies, "; ".join(w for w in (words, other.words) if w))


def _size(plan: ProbePlan, session: Session, make: Callable[[int], nn.Module], copies: int, words: str) -> Size:
    graph, seed = session.trace.graph, session.options.seed
    output = next((i for i in graph.outputs if graph.nodes[i].shape), None)
    if output is None:
        raise Missing("its output holds no tensor")
    load = load_of(graph, [output], [])
    rows = next((t.shape[0] for t in tree_leaves((session.built.args, session.built.kwargs)) if isinstance(t, torch.Tensor) and t.dim()), 1)
    weights = session.built.info.parameters * copies
    layers = max(weights / max(load.weights, 1), 1.0)  # of a deep stack not every layer is in the trace
    tokens = max(load.tokens, *(_tokens(graph.nodes[b.entry].shape) for b in plan.blocks)) if plan.blocks else load.tokens
    each = 2.0 * weights * tokens + layers * load.values / 3.0
    build = partial(stacked, make, seed, copies) if copies > 1 else partial(make, seed)
    return Size(session, build, weights, each / max(rows, 1), round(load.calls * layers), words)


def _tokens(shape: tuple[int, ...] | None) -> int:
    """Of a state, whose features are one axis of several."""
    found = 1
    for n in (shape or ())[:-1]:
        found *= n
    return found


__all__ = ["Size", "fullest", "sizes_of"]
