"""A target that looked like one block from the outside, and holds several: a loop over stacked parameters, branches in two lists, a recursion.

One copy of it is read as the residual branches that it adds to its stream. Where their adds repeat, with what they add and the line that they stand
in, they are blocks of a whole model. Branches that read one state and are added one by one (experts) are one.
"""

from __future__ import annotations

from screen.facts.record import Facts
from screen.graph import SOURCES, Graph
from screen.graph.repetition import stacked
from screen.structure.types import Stream, Sublayer


def blocks_in_one(facts: Facts) -> int:
    """How many blocks one copy of a loop holds; 0 where it is one."""
    return max((_blocks(facts, s) for s in facts.streams if s.role != "inner"), default=0) if facts.is_loop else 0


def _blocks(facts: Facts, stream: Stream) -> int:
    subs = [s for kind in stream.kinds for s in kind.sublayers]
    states = {n for other in facts.streams for n in other.states}
    members = [
        (s.role, s.place.file, s.place.line, _ops(facts.graph, s, states)) for n, s in enumerate(subs) if not n or not _is_beside(s, subs[n - 1])
    ]  # fmt: skip
    return stacked(members, [False] * len(members))


def _ops(graph: Graph, sublayer: Sublayer, states: set[int]) -> tuple[object, ...]:
    """What its branch calls on its way from the streams."""
    seen, todo = set[int](), [sublayer.output]
    while todo:
        here = todo.pop()
        if here in seen or here in states or graph.nodes[here].op in SOURCES:
            continue
        seen.add(here)
        todo += graph.nodes[here].inputs
    return tuple((graph.nodes[i].op, graph.nodes[i].shape) for i in sorted(seen))


def _is_beside(one: Sublayer, other: Sublayer) -> bool:
    return one.parallel_group is not None and one.parallel_group == other.parallel_group


__all__ = ["blocks_in_one"]
