"""Whether the end of a stream is averaged over its places before it is normalised: the head of image classifiers without a class token.

The norm of a mean hides how large the stream has grown as well as the mean of norms does, norm(mean(c·x)) = norm(mean(x)) up to ε, but it is another
function, and the places are not normalised one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

from screen.graph import Graph
from screen.ops import CLASSES
from screen.structure.types import Norm


def is_pooled_and_normed(graph: Graph, norms: Iterable[Norm], end: int) -> bool:
    """Whether all that reads node `end` reads it behind a mean and a norm over features."""
    behind = {n.source: n.node for n in norms if not n.across}
    todo, seen, found = [(end, False)], {end}, False
    while todo:
        here, pooled = todo.pop()
        if here in graph.outputs or (here in behind and not pooled):
            return False
        found = found or here in behind
        for user in graph.users[here]:
            node = graph.nodes[user]
            if here in behind and user <= behind[here]:
                continue
            averages = node.op == "mean" or "avg_pool" in node.op
            if here in behind or not (averages or CLASSES.get(node.op) in ("view", "part")):
                return False
            if user not in seen:
                seen.add(user)
                todo.append((user, pooled or averages))
    return found


__all__ = ["is_pooled_and_normed"]
