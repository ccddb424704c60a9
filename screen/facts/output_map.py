"""The last map of a stream: the weight whose gradient Kim et al. (proposition 3.1) bound, and the norms that stand behind it.

A branch ends in a map where its output is h W (+ b), with nothing behind W but views, biases, constant or learned factors and its output norm.
"""

from __future__ import annotations

from dataclasses import dataclass

from screen.facts.queries import is_renormalised, is_unit
from screen.facts.record import Facts
from screen.ops import CLASSES
from screen.structure.types import Norm, Stream, Sublayer

_MAPS = frozenset({"linear", "addmm", "matmul"})
_AFFINE = frozenset({"add", "sub", "mul", "div"})
_WEIGHTS = frozenset({"parameter", "buffer", "constant"})
_LONGEST = 32
"""Ops between a map and the add of its branch; more are no plain end."""


@dataclass(frozen=True)
class LastMap:
    """What stands behind the output map W of the last branch, a = h W."""

    branch: str
    scaled: bool
    """Whether the branch is multiplied by a factor s."""
    norms: tuple[str, ...]
    """Of `output` (B), `sum` (C), `final`: layer or rms norms over the features."""


def last_map(facts: Facts, stream: Stream) -> LastMap | None:
    """The last branch's output map; None where the branch does not end in one, or where what stands behind it is not known."""
    last = max((k for k in stream.kinds if k.sublayers), key=lambda k: k.layers[-1][-1], default=None)
    if last is None or stream.role in ("inner", "encoder") or not isinstance(stream.final_norm, bool):
        return None
    sub = last.sublayers[-1]
    ends = [n for position, n in sub.norms if position == "B"]
    found = [*(("output", n) for n in ends), *(("sum", n) for position, n in sub.norms if position == "C")]
    if stream.final_norm:
        if stream.end_norm is None:
            return None
        found.append(("final", stream.end_norm))
    plain = sub.branch.kind in ("none", "constant", "learned") and not sub.gated_output and not (sub.normed_skip or sub.norm_on_skip)
    known = all(is_unit(n) for _, n in found) and ("C" in sub.positions or not is_renormalised(sub))
    if _is_normed_later(facts, stream):  # the head is not linear
        return None
    if not plain or not known or len(ends) > 1 or not _ends_in_map(facts, sub, {n.node: n for n in ends}):
        return None
    return LastMap(sub.name, sub.branch.kind != "none", tuple(name for name, _ in found))


def _is_normed_later(facts: Facts, stream: Stream) -> bool:
    """Whether another norm than the one at its end stands behind the stream: behind a mean over tokens, in the head."""
    sources: dict[int, list[int]] = {}
    for norm in facts.norms:
        sources.setdefault(norm.source, []).append(norm.node)
    todo, seen = [stream.states[-1]], {stream.states[-1]}
    while todo:
        here = todo.pop()
        if any(stream.end_norm is None or n != stream.end_norm.node for n in sources.get(here, ())):
            return True
        fresh = [u for u in facts.graph.users[here] if u not in seen]
        seen.update(fresh)
        todo.extend(fresh)
    return False


def _ends_in_map(facts: Facts, sublayer: Sublayer, norms: dict[int, Norm]) -> bool:
    nodes, node = facts.graph.nodes, sublayer.output
    for _ in range(_LONGEST):
        here = nodes[node]
        if node in norms:
            node = norms[node].source
            continue
        rest = [i for i in here.inputs if not _is_weight(facts, i)]
        if here.op in _MAPS:
            return len(rest) == 1 and len(here.inputs) > 1
        if len(rest) != 1 or not (here.op in _AFFINE or CLASSES.get(here.op) == "view"):
            return False
        node = rest[0]
    return False


def _is_weight(facts: Facts, node: int) -> bool:
    """Made of parameters, buffers and constants alone (a weight that is turned, a gain 1 + w)."""
    stack, seen = [node], set[int]()
    while stack:
        here = facts.graph.nodes[stack.pop()]
        if here.index in seen or here.op in _WEIGHTS:
            continue
        if not here.inputs:
            return False
        seen.add(here.index)
        stack.extend(here.inputs)
    return True


__all__ = ["LastMap", "last_map"]
