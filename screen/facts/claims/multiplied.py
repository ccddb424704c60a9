"""Streams that weights multiply on their own way, past every branch: one draw of the weights is no measure of how they grow at fixed ones."""

from __future__ import annotations

from screen.facts.operator import StreamOperator
from screen.facts.record import Facts
from screen.structure.dataflow import Flow
from screen.structure.types import Stream, Unknown


def multiplied_by_weights(facts: Facts, stream: Stream) -> Unknown | None:
    """Why a growth that was seen is no law at fixed weights: trained values multiply the stream itself, and nothing that is derived keeps them at 1
    or below. Blocks that are drawn independently may shrink a stream that blocks alike make grow exponentially: a spectrum has one largest length,
    and those of many are not in one place. None where no weight is met, or where each starts at a number that is known."""
    operator = facts.operator(stream)
    if not isinstance(operator, StreamOperator) or not facts.readers:
        return None
    flow = facts.readers[0].flow
    if operator.lost is not None:
        at = _met(flow, stream, operator)
    else:
        at = next((a.node for a in operator.atoms if a.node >= 0 and flow.of_weights[a.node] and a.start is None and a.high > 1.0), None)
    if at is None:
        return None
    op = flow.graph.nodes[at].op
    return Unknown(f"the stream itself is multiplied by weights at `{op}`, by no number that is known, and one draw of them shows no law", (at,))


def _met(flow: Flow, stream: Stream, operator: StreamOperator) -> int | None:
    """An op that joins the stream and a trained value, between a state and the op that carries it in a way that is not known."""
    assert operator.lost is not None
    ends, states = {operator.begin, *(s.node for s in operator.states), *operator.through} - {operator.lost}, set(stream.states)
    todo, seen = [operator.lost], set[int]()
    while todo:
        node = todo.pop()
        if node in seen or node in ends:
            continue
        seen.add(node)
        sources = flow.counting[node]
        if any(flow.of_weights[i] for i in sources) and any(flow.data[i] or flow.from_input[i] for i in sources):
            return node
        todo += [i for i in sources if flow.from_input[i] and (i in states or node not in states)]  # not into a branch
    return None


__all__ = ["multiplied_by_weights"]
