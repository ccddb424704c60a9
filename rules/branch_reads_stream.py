"""Every residual branch depends on the stream that it is added to.

Why: a branch that reads something else (the input of the first block, a buffer, a tensor that was overwritten) adds a constant: it has
weights that train, but the block computes nothing of its input. It is a wiring fault (a wrong variable name, a cached value) that no
shape error shows. In a loss curve: a model that learns, but no better than one with fewer layers.
Assumes: the traced call; a branch that reads the stream only in another mode is not seen.
Cannot tell: when an op without a row lies between the stream and the branch's output.
Source: such a branch has ∂F/∂x = 0; the block is the identity plus a constant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

from screen.ops import CLASSES
from screen.rule import (
    Example, Facts, Kind, Outcome, Rule, Stream, Sublayer, Unknown, at, blame, describe, each_sublayer, or_not_applicable, place_of,
)

RULE = Rule("G106", "branch-reads-stream", "structure", None, "warning", ("streams.kinds.sublayers",), "∂F/∂x = 0")

REMEDY = "feed the branch from the current state, or remove it"

HOLDS = (
    Example(
        "the branch reads the stream",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))
""",
    ),
    Example(
        "a map of where a token stands is added in each block",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        self.near, self.far = nn.Linear(1, 16), nn.Linear(16, 32)

    def forward(self, x):
        x = x + self.far(F.relu(self.near(torch.linspace(-1, 1, x.shape[1])[:, None])))
        return x + self.down(F.gelu(self.up(self.norm(x))))
""",
    ),
)
VIOLATES = (
    Example(
        "one of two branches reads a learned table and nothing else",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        self.table, self.mix = nn.Parameter(torch.zeros(16, 32)), nn.Linear(32, 32)

    def forward(self, x):
        x = x + self.mix(self.table)
        return x + self.down(F.gelu(self.up(self.norm(x))))
""",
    ),
)
CANNOT_TELL = (
    Example(
        "an op without a row stands between",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(torch.special.bessel_j0(x))))
""",
    ),
)


WEIGHTED = ("weighted", "product")
PLACES = ("arange", "linspace")
"""Ops that count the places of tokens: a map of these, added to each token, tells it where it is."""


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer, then one per other add on a stream, between its blocks, of something with weights."""
    found = [_sublayer(facts, *site) for site in each_sublayer(facts)]
    for stream in facts.streams:
        found += _other_adds(facts, stream)
    return or_not_applicable(found, "there is no residual sublayer.")


def _sublayer(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name, depends = at(stream, kind, sublayer), describe(stream, kind, sublayer), sublayer.depends_on_stream
    if isinstance(depends, Unknown):
        return Outcome("cannot_tell", f"Whether {name} reads its stream is unknown: {depends.reason}.", blame(facts, site, depends.nodes))
    if not depends:
        return Outcome("violated", f"{name} does not depend on the stream that it is added to.", site, remedy=REMEDY)
    reaches, unread = _reads(facts, sublayer.output, frozenset(stream.states) - {sublayer.add})
    if not reaches and unread:
        op = facts.graph.nodes[unread[0]].op
        message = f"{name} reads its stream only through `{op}`, an op without a row, which may return the same for every input."
        return Outcome("cannot_tell", message, blame(facts, site, unread))
    return Outcome("holds", f"{name} reads its stream.", site)


def _other_adds(facts: Facts, stream: Stream) -> list[Outcome]:
    """Adds after the first block's first that are no branches, because what is added does not come from the stream, although it has weights."""
    graph, states, found = facts.graph, frozenset(stream.states), []
    branches = [s.add for kind in stream.kinds for s in kind.sublayers]
    first = min(branches, default=0)
    for before, state in pairwise(stream.states):
        node = graph.nodes[state]
        if node.op not in ("add", "sub") or state in branches or before < first:
            continue
        for other in (i for i in node.inputs if i != before):
            reaches, unread = _reads(facts, other, states)
            if not reaches and not unread and _is_constant(facts, other):
                place = place_of(facts, state)
                message = f"What is added to `{stream.name}` at {place.words} has weights and depends on no input of the model."
                found.append(Outcome("violated", message, at(stream, place=place), remedy=REMEDY))
    return found


def _reads(facts: Facts, node: int, states: frozenset[int]) -> tuple[bool, tuple[int, ...]]:
    """Whether a path leads back to one of the states without an op that has no row, and those ops that were met."""
    unmodelled = {u.op for u in facts.coverage.unmodelled}
    unread: list[int] = []
    for here in _back(facts, node, states, unmodelled):
        if here in states:
            return True, ()
        if facts.graph.nodes[here].op in unmodelled:
            unread.append(here)
    return False, tuple(sorted(unread))


def _is_constant(facts: Facts, node: int) -> bool:
    """Whether a value has a weighted op above it and no input of the model, nor numbers that count places: these a position encoding is made of."""
    above = [facts.graph.nodes[i] for i in _back(facts, node, frozenset(), frozenset())]
    return any(CLASSES.get(n.op) in WEIGHTED for n in above) and not any(n.op == "input" or n.op in PLACES for n in above)


def _back(facts: Facts, node: int, states: frozenset[int], stops: Collection[str]) -> Iterator[int]:
    """The node and what it depends on, not beyond the states nor beyond ops that stop; nothing before the first state leads back to one."""
    seen, todo, first = {node}, [node], min(states, default=0)
    while todo:
        here = todo.pop()
        yield here
        if here in states or facts.graph.nodes[here].op in stops:
            continue
        fresh = [i for i in facts.graph.nodes[here].inputs if i not in seen and i >= first]
        seen.update(fresh)
        todo.extend(fresh)
