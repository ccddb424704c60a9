"""How many blocks a model runs: those whose sums are a stream, and one more whose sum nothing reads."""

from __future__ import annotations

from screen.facts.claims.states_read import reader_of
from screen.facts.record import Facts
from screen.structure.types import Stream


def blocks_of(facts: Facts) -> int | None:
    """Blocks of the deepest stream, inner ones left out where there are others; None where there is no stream."""
    outer = [s for s in facts.streams if s.role != "inner"] or list(facts.streams)
    return max((s.depth + _has_last(facts, s) for s in outer), default=None)


def _has_last(facts: Facts, stream: Stream) -> bool:
    """Whether the list that the blocks of a stream are members of has one more behind them, made as the last of them is, which reads the state that
    they end with: it adds to that, and what it adds leaves by another way alone, or its sum does not (skips of WaveNet, forecasts of N-BEATS)."""
    graph, reader = facts.graph, reader_of(facts, stream)
    calls = [_member(facts, block.branches[-1][1]) for block in stream.traced if block.branches]
    held = [graph.modules[graph.calls[c].module] for c in calls if c is not None]
    if reader is None or not held or len(held) < len(stream.traced) or len({m.index for m in held}) < len(held) or len({m.parent for m in held}) > 1:
        return False
    behind = [c for c in graph.calls if c.index > (calls[-1] or 0) and graph.modules[c.module].parent == held[-1].parent]
    others = {_member(facts, output) for s in facts.streams if s is not stream for block in s.traced for _, output in block.branches}
    if len(behind) != 1 or behind[0].index in others or graph.trees[behind[0].module] != graph.trees[held[-1].index]:
        return False
    inside = [n.index for n in graph.nodes if behind[0].index in graph.call_path(n.call)]
    return any(reader.flow.depends(n, stream.states[-1]) for n in inside)


def _member(facts: Facts, node: int) -> int | None:
    """The innermost member of a list in which a node was made."""
    path = facts.graph.call_path(facts.graph.nodes[node].call)
    return next((c for c in reversed(path) if c in facts.graph.members), None)


__all__ = ["blocks_of"]
