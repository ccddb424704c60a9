"""Witnesses that a value is not bounded: one parameter (or one value from outside) that makes it as large as one likes (`growth`).

Where none is found, a group of weights of exact positive degree is a witness too: F(cW) = c^k·F(W).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from screen.calculi.bounds.growth import FREE, LOST, Growth, State, state_of
from screen.calculi.bounds.interpreter import PATTERNS, Walk
from screen.structure.dataflow import strip
from screen.structure.softmaxes import shifted

_PEELED = frozenset({"add", "sub", "mul", "div", "true_divide", "masked_fill", "where", "cat", "to", "float", "clone", "contiguous"})
"""Ops past which constants are left out."""
MOST = 48
"""Parameters that are tried, the latest first."""


@dataclass(frozen=True)
class Witness:
    """What grows without limit, and the op by which it enters the value."""

    source: int
    node: int


def witness(walk: Walk, target: int, held: frozenset[str], asked: Callable[[dict[int, State]], State] | None = None) -> Witness | None:
    """What makes a node of the branch as large as one likes: a weight, or a stream that it reads. `held`: parameters that stay as they are.
    `asked`: what is asked for, from the states of all nodes, where it is not the node's value."""
    for source in candidates(walk, target, held):
        states = grown(walk, source, target)
        if isinstance(states.get(target) if asked is None else asked(states), Growth):
            read = [i for i in states if source in walk.graph.nodes[i].inputs and walk.flow.data[i] and i != source]
            first = min((i for i in read if isinstance(states[i], Growth)), default=min(read, default=target))
            return Witness(source, first)
    return None


def reach(walk: Walk, target: int) -> dict[int, int]:
    """What a node is computed from inside of the branch, and from weights alone: node -> the last node that reads it."""
    found = {target: target}
    stack = [target]
    while stack:
        here = stack.pop()
        if here not in walk.branch.members and not walk.flow.of_weights[here] and here != target:
            continue
        for i in walk.flow.counting[here]:
            if i not in found:
                stack.append(i)
            found[i] = max(found.get(i, 0), here)
    return found


def candidates(walk: Walk, target: int, held: frozenset[str]) -> list[int]:
    """Plain parameters that the node depends on, parts of them that have no entry in common, and values from outside, the latest use first."""
    used = reach(walk, target)
    found = []
    for index in used:
        node = walk.graph.nodes[index]
        if node.op == "parameter" and node.name not in held:
            found += _parts(walk, index, used)
        leaf = index != target and walk.branch.border(index) in ("raw", "memory", "earlier") and walk.flow.is_float(node)
        if leaf or (node.op == "parameter" and node.name not in held and walk.flow.is_float(node)):
            found.append(index)
    return sorted(found, key=lambda i: (-used[i], -i))[:MOST]


def _parts(walk: Walk, parameter: int, used: Mapping[int, int]) -> list[int]:
    """The slices by which a parameter is read (experts that are stacked), where each is another one: one may grow and leave the others."""
    readers = [walk.graph.nodes[u] for u in walk.graph.users[parameter] if u in used]
    places = {n.args[1] for n in readers if n.op == "getitem" and len(n.args) == 2 and type(n.args[1]) is int and n.args[1] >= 0}
    return [n.index for n in readers] if len(places) == len(readers) > 1 else []


def grown(walk: Walk, source: int, target: int) -> dict[int, State]:
    """What becomes of every node up to the target when the source grows."""
    border = walk.branch.border(source) in ("raw", "memory", "earlier")
    states: dict[int, State] = {source: FREE}
    for index in sorted(reach(walk, target)):
        if index == source or not walk.flow.depends(index, source):
            continue
        if walk.branch.border(index) in ("raw", "memory", "earlier"):
            if border:
                states[index] = LOST
            continue
        if walk.flow.of_weights[index] or index in walk.branch.members:
            states[index] = state_of(walk, walk.graph.nodes[index], states)
    return states


def of_degree(walk: Walk, target: int, held: frozenset[str], logits: bool = False) -> str | None:
    """A group of weights in which the node (or the `logits` of a fused attention) has an exact positive degree; empty for the stream itself."""
    for node in [target] if logits else _unmasked(walk, target):
        for parameters, degree in PATTERNS.exact_degrees(walk.branch, node, logits):
            if degree > 0 and not held.intersection(parameters):
                return parameters[0] if parameters else ""
    return None


def _unmasked(walk: Walk, target: int) -> Iterator[int]:
    """A value, then what is left of it without the constants that are added to it, numbers that it is multiplied by, and parts that are put beside
    it: as large as that gets, the value does. Of logits that are shifted by their maximum the ones before it."""
    stack, seen = [target], set[int]()
    while stack:
        here = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        yield here
        node = walk.graph.nodes[here]
        if here not in walk.branch.members or node.op not in _PEELED:
            continue
        base = shifted(walk.flow, here)
        read = walk.flow.counting[here]
        moving = [i for i in read if i in walk.branch.members or walk.branch.border(i) != "other" or walk.flow.of_weights[i]]
        if base != strip(walk.flow, here):
            stack.append(base)
        elif len(moving) == 1 or node.op == "cat":
            stack.extend(reversed(moving))


__all__ = ["Witness", "candidates", "grown", "of_degree", "reach", "witness"]
