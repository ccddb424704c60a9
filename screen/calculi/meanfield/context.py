"""What the blocks of one stream are read with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from screen.calculi.meanfield.cuts import Cuts
from screen.calculi.meanfield.lower.axes import Layout
from screen.calculi.meanfield.lower.other_streams import Foreign
from screen.calculi.meanfield.walk import Walk
from screen.calculi.meanfield.weights import Weights
from screen.graph import Graph
from screen.structure.types import Norm, Stream


@dataclass(repr=False)
class Context:
    """One stream in its graph, and what reading it has come to know."""

    stream: Stream
    graph: Graph
    tokens: int
    assumptions: set[str] = field(default_factory=set)
    used: set[tuple[int, int | None]] = field(default_factory=set)
    """Weights of all branches: one that serves twice makes them dependent."""
    others: tuple[Stream, ...] = ()
    """Streams that a branch may read."""
    norms: Mapping[int, Norm] = field(default_factory=dict)
    """All norms of the graph, by node."""
    weights: Weights = field(init=False)
    layouts: dict[int, Layout] = field(init=False)
    """Of each state of the stream."""
    foreign: Foreign = field(init=False)
    """What ends of other streams are."""
    walk: Walk = field(init=False)
    cuts: Cuts = field(init=False)
