"""Branches that divide by what they make from their own input: they need not grow with the stream, and no constant 1 + L is theirs."""

from __future__ import annotations

from collections.abc import Sequence

from screen.facts.claims.derive import weighing
from screen.facts.record import Facts
from screen.graph import Ref
from screen.ops import CLASSES
from screen.structure.softmaxes import FUSED
from screen.structure.types import Stream, Sublayer, Unknown

_MAPS = ("weighted", "product", "mixing")


def divides(facts: Facts, stream: Stream, sublayer: Sublayer) -> bool:
    """Whether the branch divides by a function of what it reads before its first map, or of its own value behind its last one: it then need not grow
    with the stream."""
    graph, inside = facts.graph, cone(facts, [sublayer.output], set(stream.states))
    raw, made = _read_and_made(facts, stream, inside)
    behind, todo = set[int](), [sublayer.output]
    while todo:
        index = todo.pop()
        if index not in made and index in inside and index not in behind:
            behind.add(index)
            todo.extend(graph.nodes[index].inputs)
    return any(_is_quotient(facts, i, raw | made | behind) for i in raw | behind)


def divides_before_logits(facts: Facts, stream: Stream, sublayer: Sublayer) -> bool:
    """Whether the branch divides by a function of what it reads before the first map on the way to logits that are not known to be bounded."""
    analysis = facts.analysis(sublayer)
    free = [] if isinstance(analysis, Unknown) else [s.node for s in weighing(analysis.bounds) if s.bounded is not True]
    compared = [facts.graph.nodes[n].inputs[: 2 if facts.graph.nodes[n].op in FUSED else None] for n in free]
    raw, _ = _read_and_made(facts, stream, cone(facts, [i for inputs in compared for i in inputs if i not in stream.states], set(stream.states)))
    return any(_is_quotient(facts, i, raw) for i in raw)


def _read_and_made(facts: Facts, stream: Stream, inside: Sequence[int]) -> tuple[set[int], set[int]]:
    """Of some nodes those that are made of the stream before the first map, and the maps."""
    raw, states = set[int](), set(stream.states)
    made = {i for i in inside if CLASSES.get(facts.graph.nodes[i].op) in _MAPS}
    for index in inside:
        if any(i in states or i in raw for i in facts.graph.nodes[index].inputs) and index not in made:
            raw.add(index)
    return raw, made


def _is_quotient(facts: Facts, index: int, data: set[int]) -> bool:
    node = facts.graph.nodes[index]
    if node.op == "div":
        return len(node.args) > 1 and isinstance(node.args[1], Ref) and node.args[1].node in data
    exponent = node.args[1] if node.op == "pow" and len(node.args) > 1 else None
    return node.op in ("rsqrt", "reciprocal") or (isinstance(exponent, int | float) and exponent < 0)


def cone(facts: Facts, ends: Sequence[int], states: set[int]) -> list[int]:
    """The nodes between the stream's states and some ends, in order."""
    found, todo = set(ends), list(ends)
    while todo:
        for i in facts.graph.nodes[todo.pop()].inputs:
            if i not in found and i not in states:
                found.add(i)
                todo.append(i)
    return sorted(found)


__all__ = ["cone", "divides", "divides_before_logits"]
