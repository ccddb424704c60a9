"""The identity path of a stream in the words of the report: whether there is one, its gain, and what it crosses or breaks at."""

from __future__ import annotations

import math

from screen.facts.operator.forms import DETACHED
from screen.facts.operator.polynomial import Range
from screen.facts.operator.recurrence import StreamOperator
from screen.structure.norms.find import place_of
from screen.structure.streams.reader import Reader
from screen.structure.types import IdentityPath, Place, Unknown


def identity_of(reader: Reader, operator: StreamOperator | Unknown, back: StreamOperator | Unknown | None) -> IdentityPath:
    """As the linear operator says, and where values are detached the one that gradients see (`back`). `norms_crossed` counts norms on the stream
    between its first and its last state."""
    if isinstance(operator, Unknown):
        return IdentityPath(operator, None, 0, ())
    graph = reader.flow.graph
    last = operator.states[-1].node if operator.states else operator.begin
    between = [e for e in (*reader.chain.edges, *reader.segments[-1].edges) if operator.begin < e.node <= last]
    cut = tuple(place_of(graph, e.node) for e in between if graph.nodes[e.node].op in DETACHED)
    crossed = sum(graph.times_of(graph.nodes[n].call) for n in {e.node for e in between if e.kind == "norm"})
    seen = back.start if isinstance(back, StreamOperator) and not back.breaks else None
    held = isinstance(seen, Range) and seen.high > 0
    if operator.breaks and not held:
        norms = reader.chains.edges.norms.by_node
        breaks = tuple(place_of(graph, n) for n in operator.breaks if n not in norms and not _is_norm(reader, n))
        return IdentityPath(False, None, crossed, breaks + cut)
    gain = operator.start
    if cut and not held:
        return IdentityPath(False, None, crossed, cut)
    if isinstance(seen, Range) and (operator.breaks or isinstance(gain, Unknown) or gain_text(seen) != gain_text(gain)):
        return IdentityPath(held, f"{gain_text(seen)} for gradients" if held else None, 0, ())
    if isinstance(gain, Unknown):
        return IdentityPath(gain, None, 0, ())
    if gain.high == 0:
        return IdentityPath(False, None, crossed, _ends_at(reader, operator))
    return IdentityPath(True, gain_text(gain), 0, ())


def _ends_at(reader: Reader, operator: StreamOperator) -> tuple[Place, ...]:
    """The first state that holds nothing of those before it: what is added there takes the stream off again."""
    before = {operator.begin}
    for state in operator.states:
        if before.isdisjoint(state.terms):
            return (place_of(reader.flow.graph, state.node),)
        before.add(state.node)
    return ()


def _is_norm(reader: Reader, node: int) -> bool:
    """Whether a node is a norm's own gain or bias, or the number that it is multiplied by, `normalize(x) * √n * g`."""
    norms, flow, here = reader.chains.edges.norms.by_node, reader.flow, node
    for _ in range(5):
        if here in norms:
            return True
        data = [i for i in flow.graph.nodes[here].inputs if flow.data[i]]
        others = [i for i in flow.graph.nodes[here].inputs if i not in data]
        number = flow.graph.nodes[here].op in ("mul", "div") and not any(flow.from_input[i] for i in others)
        own = number or any(flow.trained[i] for i in others)
        if len(data) != 1 or not (own or flow.classes[here] == "view"):
            return False
        here = data[0]
    return False


def gain_text(gain: Range) -> str:
    """`1`, `0.00636`, `0 to 1`."""
    if gain.number is not None:
        return f"{gain.number:.4g}"
    return f"{gain.low:.4g} to {gain.high:.4g}" if math.isfinite(gain.high) else "product of factors without a known bound"


__all__ = ["gain_text", "identity_of"]
