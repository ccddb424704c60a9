"""The program of a model where nobody looked: at its next call, at another size of its inputs, in training, and behind a `train` of its own.

Everything is traced on meta once more, where a larger input costs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from screen.capture.build.built import Built
from screen.capture.trace.dropouts import DropoutsOff
from screen.capture.trace.tracer import trace
from screen.graph import Graph

TOKENS = (16, 17, 19, 23)
"""Lengths of sequences that inputs are given (`screen.capture.inputs`)."""
SEQUENCES = 2
"""How many of them."""
MORE, NEAR = 3, 8
"""Sequences of another input, and tokens that a first one has more, which says whether the program is one for all lengths."""
FAR = (1040, 272, 80)
"""Tokens of another input, the longest first: a table of positions may end before."""
LARGEST = 10_000
"""Nodes of a graph beyond which nothing is traced once more."""


def variants(built: Built, graph: Graph) -> Iterator[tuple[str, Graph]]:
    """(where, the program there) for each that runs to its end; `graph`: the one that is judged, of the call before."""
    if graph.failure is not None or len(graph.nodes) > LARGEST:
        return
    once = _traced(built, built.args, built.kwargs)
    if once is not None:
        yield "call", once
    for length in (None, *FAR):
        given = _resized(built, length)
        other = None if given is None else _traced(built, *given)
        if other is not None and (length is not None or len(other.nodes) != len(graph.nodes)):
            yield "size", other
            break
    states = [(module, module.training) for module in built.model.modules()]
    built.model.train()
    shares: list[tuple[Any, str, float]] = []
    for module in built.model.modules():
        name = "dropout" if isinstance(module, nn.MultiheadAttention) else "p" if isinstance(module, nn.modules.dropout._DropoutNd) else ""
        if name:
            shares.append((module, name, getattr(module, name)))
            setattr(module, name, 0.0)
    try:
        with DropoutsOff():
            trained = _traced(built, built.args, built.kwargs)
    finally:
        for module, state in states:
            module.training = state
        for module, name, share in shares:
            setattr(module, name, share)
    if trained is not None:
        yield "training", trained
    if any(type(module).train is not nn.Module.train for module in built.model.modules()):  # what lines ask for is judged already
        other = _traced(built, built.args, built.kwargs)
        if other is not None:
            yield "train", other


def _traced(built: Built, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Graph | None:
    try:
        found = trace(built.model, args, dict(kwargs), initialisers=built.initialisers)
    except Exception:  # of the user's code: it was not asked for
        return None
    return found if found.failure is None else None


def _resized(built: Built, length: int | None) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments at another number of sequences and tokens; None where these cannot be told. `length`: None for a few tokens more."""
    shapes: list[tuple[int, ...]] = []
    tree_map_only(Tensor, lambda t: shapes.append(tuple(t.shape)), (built.args, built.kwargs))
    tokens = next((n for shape in shapes for n in shape[1:2] if n in TOKENS), None)
    if tokens is None:
        return None

    def other(t: Tensor) -> Tensor:
        for place, n in enumerate(t.shape):
            size = (length or tokens + NEAR) if n == tokens else MORE if place == 0 and n == SEQUENCES else n
            t = t.index_select(place, torch.arange(size, device=t.device) % n) if size != n else t
        return t

    args, kwargs = tree_map_only(Tensor, other, (built.args, built.kwargs))
    return args, kwargs


__all__ = ["variants"]
