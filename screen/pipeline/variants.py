"""A model that is another one at a later call, at another size of its inputs, in other numbers, or behind its own `train`
(`screen.child.variants`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from screen.graph import SOURCES, Graph, Node, Ref

WHERE = {
    "call": "at its second call",
    "late": "at a call far ahead",
    "size": "at another size of its inputs",
    "length": "beyond a length that its code compares with",
    "card": "where torch says that there is a graphics card",
    "numbers": "in bfloat16",
    "train": "behind its own `train`",
}
ATTENTION, DROPPED = "scaled_dot_product_attention", "dropout_p"
"""A call that is told how much it leaves out, as its fifth argument or by this name."""


def same(one: Graph, other: Graph, where: str) -> bool:
    """Whether two graphs are one program: the same calls of the same values with the same numbers, but for those that say what differs anyway."""
    if len(one.nodes) != len(other.nodes) or one.outputs != other.outputs:
        return False
    return all(a.op == b.op and _told(a, where) == _told(b, where) for a, b in zip(one.nodes, other.nodes, strict=True))


def _told(node: Node, where: str) -> object:
    if node.op in SOURCES:
        return node.name, len(node.shape or ())
    values = (node.args, tuple(sorted(node.kwargs)))
    if where in ("size", "length"):
        return _without(values, lambda value: type(value) is int)
    if where in ("numbers", "card"):  # types of numbers, and devices
        return _without(values, lambda value: isinstance(value, str))
    if where != "training":
        return values
    if node.op == ATTENTION:
        values = (*node.args[:4], *node.args[5:]), tuple(sorted((key, value) for key, value in node.kwargs if key != DROPPED))
    return _without(values, lambda value: isinstance(value, bool | float)) if "dropout" in node.op else values


def _without(value: object, left_out: Callable[[object], bool]) -> object:
    if isinstance(value, tuple):
        return tuple(_without(part, left_out) for part in value)
    return None if left_out(value) and not isinstance(value, Ref) else value


@dataclass(frozen=True)
class Elsewhere:
    """A model beside what it is elsewhere."""

    differs: str = ""
    """How it is another one; empty where it is not."""
    one: frozenset[str] = frozenset()
    """Where it is the same program."""
    doubt: str = ""
    """Why that is not known of all."""


def others(graph: Graph, variants: Mapping[str, Graph], violated: Callable[[Graph], Mapping[str, str]]) -> Elsewhere:
    """What a model is elsewhere. `violated`: code -> what is said of it, for a graph."""
    known: Mapping[str, str] | None = None
    one, doubt = set[str](), ""
    for where, other in variants.items():
        if same(graph, other, where):
            one.add(where)
        if where in one or where not in WHERE:  # what it is in training is judged already (`screen.child.training`)
            continue
        try:
            known = violated(graph) if known is None else known
            more = {code: said for code, said in violated(other).items() if code not in known}
        except Exception:  # whatever an analysis raises of a graph that nobody asked for
            doubt = doubt or f"{WHERE[where]} it is another program, which cannot be analysed"
            continue
        if more:
            code, said = next(iter(more.items()))
            return Elsewhere(f"{WHERE[where]} it is another program, which violates {code}: {said.rstrip('.')}", frozenset(one), doubt)
    return Elsewhere("", frozenset(one), doubt)


__all__ = ["Elsewhere", "others", "same"]
