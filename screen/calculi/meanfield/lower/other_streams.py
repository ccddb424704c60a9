"""What a branch reads besides its own stream: the last state of another stream, or a float argument of forward.

The other stream's last state has the moments (q, δ, m) that its own recursion ends with; norms after it are steps of the branch that reads it.
Its weights are independent of those of the reading branch, so that cross-attention has the law of attention with the keys' and values'
moments taken there: q_o = q_v − δ_v(1 − P), δ_o = δ_v(P − R). Both streams are taken to have the same number of tokens. No gradient is
followed into the other stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from screen import ops
from screen.calculi.meanfield.lower.axes import Layout, stream_layout
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.values import Stop
from screen.graph import Graph, Node
from screen.structure.types import Stream

ARGUMENT = "a float argument of forward has entries of mean square one, independent between tokens"


@dataclass(frozen=True)
class Foreign:
    """States of other streams."""

    ends: Mapping[int, Callable[[], Moments]]
    """Last state of a stream -> its moments (raises `Stop` where they are not known)."""
    inner: frozenset[int]
    """Their other states."""
    layouts: Mapping[int, Layout]
    """Of their last states."""

    def holds(self, node: int) -> bool:
        """Whether a walk up from a branch ends here."""
        return node in self.ends or node in self.inner

    def moments(self, node: int) -> Moments:
        """Of the last state of another stream."""
        if node not in self.ends:
            raise Stop("it reads an inner state of another stream", node)
        return self.ends[node]()


NOTHING = Foreign({}, frozenset(), {})


def beside(graph: Graph, stream: Stream, others: Iterable[Stream]) -> tuple[Stream, ...]:
    """The streams that do not begin inside a branch of this one: those that its states do not lead to."""
    start = min(stream.states, default=0)
    below = {start}
    for node in graph.nodes[start + 1 :]:
        if not below.isdisjoint(node.inputs):
            below.add(node.index)
    return tuple(other for other in others if other.states[0] not in below)


def argument_layout(graph: Graph, node: Node) -> Layout | None:
    """The layout of a float argument that a weight reads (no mask is read by one); None for anything else."""
    if node.op != "input" or len(node.shape or ()) < 2 or not (node.dtype or "").startswith(("float", "bfloat")):
        return None
    stack, seen = [node.index], set[int]()
    while stack:
        here = stack.pop()
        seen.add(here)
        for user in graph.users[here]:
            reader = graph.nodes[user]
            if reader.op == "linear" and reader.inputs[0] == here:
                return stream_layout(node.shape or (1,), -1)
            if ops.CLASSES.get(reader.op) in ("view", "alias") and user not in seen:
                stack.append(user)
    return None


__all__ = ["ARGUMENT", "NOTHING", "Foreign", "argument_layout", "beside"]
