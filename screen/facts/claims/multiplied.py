"""Streams that weights multiply on their own way, past every branch: one draw of the weights is no measure of how they grow at fixed ones."""

from __future__ import annotations

from screen.facts.operator import StreamOperator
from screen.facts.record import Facts
from screen.graph import Node
from screen.structure.dataflow import Flow, number, strip
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
        free = (a.node for a in operator.atoms if a.node >= 0 and flow.of_weights[a.node] and a.start is None and a.high > 1.0)
        at = next((node for node in free if not _is_held(flow, node)), None)
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
        trained = [i for i in sources if flow.of_weights[i]]
        joined = trained and any(flow.data[i] or flow.from_input[i] for i in sources)
        held = _is_held(flow, node) or (flow.graph.nodes[node].op == "mul" and all(_is_held(flow, i) for i in trained))
        if joined and not held:
            return node
        todo += [i for i in sources if flow.from_input[i] and (i in states or node not in states)]  # not into a branch
    return None


def _is_held(flow: Flow, index: int) -> bool:
    """Whether the sizes of what weights make are no more than one, or no matter of weights: shares, cosines, z/|z|, a turn by angles."""
    node = flow.graph.nodes[flow.root(index)]
    if node.op in ("sigmoid", "tanh", "softmax", "sin", "cos", "sgn", "sign"):
        return True
    if node.op == "polar":
        return not any(flow.of_weights[i] and flow.graph.nodes[flow.root(i)].op not in _FILLED for i in node.inputs[:1])
    if node.op not in ("div", "true_divide") or len(node.inputs) != 2:
        return False
    size = flow.graph.nodes[strip(flow, node.inputs[1])]
    while size.op in ("clamp_min", "clamp", "add") and len(size.inputs) == 1 and _is_raised(flow, size):
        size = flow.graph.nodes[strip(flow, size.inputs[0])]
    return size.op == "abs" and strip(flow, size.inputs[0]) == strip(flow, node.inputs[0])


def _is_raised(flow: Flow, node: Node) -> bool:
    """A value that is kept from falling below a number, or that a number is added to."""
    least, most = number(flow.operand(node, 1, "other", "min")), flow.operand(node, 2, "max")
    return least is not None and least >= 0 and most is None and node.kwarg("alpha") in (None, 1)


_FILLED = ("full_like", "ones_like", "full", "ones", "new_full", "new_ones")
"""Sources whose entries are one number, whatever they are like."""

__all__ = ["multiplied_by_weights"]
