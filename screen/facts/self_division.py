"""Branches that divide by what they make from their own input: they need not grow with the stream, and no constant 1 + L is theirs."""

from __future__ import annotations

from screen.facts.record import Facts
from screen.graph import Ref
from screen.ops import CLASSES
from screen.structure.types import Stream, Sublayer

_MAPS = ("weighted", "product", "mixing")


def divides(facts: Facts, stream: Stream, sublayer: Sublayer, *, at_end: bool = True) -> bool:
    """Whether the branch divides by a function of what it reads before its first map, or (`at_end`) of its own value behind its last one: it then
    need not grow with the stream."""
    graph, states = facts.graph, set(stream.states)
    inside = cone(facts, sublayer.output, states)
    raw: set[int] = set()
    made = {i for i in inside if CLASSES.get(graph.nodes[i].op) in _MAPS}
    for index in inside:
        if any(i in states or i in raw for i in graph.nodes[index].inputs) and index not in made:
            raw.add(index)
    behind, todo = set[int](), [sublayer.output] if at_end else []
    while todo:
        index = todo.pop()
        if index not in made and index in inside and index not in behind:
            behind.add(index)
            todo.extend(graph.nodes[index].inputs)
    return any(_is_quotient(facts, i, raw | made | behind if at_end else raw) for i in raw | behind)


def _is_quotient(facts: Facts, index: int, data: set[int]) -> bool:
    node = facts.graph.nodes[index]
    if node.op == "div":
        return len(node.args) > 1 and isinstance(node.args[1], Ref) and node.args[1].node in data
    exponent = node.args[1] if node.op == "pow" and len(node.args) > 1 else None
    return node.op in ("rsqrt", "reciprocal") or (isinstance(exponent, int | float) and exponent < 0)


def cone(facts: Facts, end: int, states: set[int]) -> list[int]:
    """The nodes between the stream's states and `end`, in order."""
    found, todo = {end}, [end]
    while todo:
        for i in facts.graph.nodes[todo.pop()].inputs:
            if i not in found and i not in states:
                found.add(i)
                todo.append(i)
    return sorted(found)


__all__ = ["cone", "divides"]
