"""A distinct block as a map of the stream: where it begins and ends, what stands behind the last one, what the covariance recursion says of it."""

from __future__ import annotations

import math
from typing import Any

from screen.calculi.meanfield import recursion_of
from screen.calculi.meanfield.stack_of_stream import Builder
from screen.calculi.meanfield.values import Stop
from screen.facts.record import Facts
from screen.probe.plan.types import BlockPlan
from screen.structure.branches.attention import Attention
from screen.structure.branches.branch import Branch
from screen.structure.dataflow import strip
from screen.structure.streams.reader import Reader
from screen.structure.types import Kind, Stream, Unknown


def cuts_of(branch: Branch) -> dict[int, str]:
    """Nodes at which the branch ends -> `own`, `memory` or `earlier`. Of several states the one that it is added to is its own."""
    primary = strip(branch.flow, branch.state)
    inside = branch.members
    kinds: dict[int, str] = {}
    for node in [branch.output, *branch.region]:
        for i in branch.flow.counting[node]:
            border = branch.border(i)
            if border in ("raw", "memory", "earlier"):
                kinds[i] = border
    raw = [i for i, k in kinds.items() if k == "raw"]
    direct = {i for i in raw if strip(branch.flow, i) == primary}
    own = direct or set(raw)  # α·x is added to, and x is read
    others = {i for i in (*branch.states, *branch.chains.main_nodes) if i not in inside and i not in kinds and i < branch.output}
    return {i: "own" if i in own else "earlier" if k == "raw" else k for i, k in kinds.items()} | dict.fromkeys(others, "earlier")


def block_plan(facts: Facts, stream: Stream, kind: Kind, reader: Reader, branches: list[Branch]) -> BlockPlan:
    """The block as a map from where its first branch leaves the stream to where the next block's first branch does."""
    adds = reader.chain.adds
    first, last = (adds.index(pick(b.add for b in branches)) for pick in (min, max))
    entry, exit_ = _fork(reader, first), _fork(reader, last + 1)
    behind, tail = [n.node for n in reader.segments[last + 1].norms if n.node <= exit_], [n.node for n in reader.segments[-1].norms]
    closing = last + 1 < len(adds) and 0 < len(behind) <= len(tail)  # norms on the stream that belong to the block
    leaves = tail[len(behind) - 1] if closing else reader.chain.nodes[-1]
    cuts = sorted({i for b in branches for i, _ in cuts_of(b).items() if i < entry or i not in reader.states} - {entry})
    weight = _nearest_weight(branches[-1])
    return BlockPlan(
        stream=stream.name, kind=kind.id, entry=entry, exit=exit_, last=leaves, end=max([leaves, *tail]), cuts=tuple(cuts),
        outputs=tuple(b.output for b in branches), adds=tuple(b.add for b in branches),
        repeats=len(stream.kinds) == 1 and stream.depth > 0, weight=weight, depth=facts.depth(stream), tied=_serves_again(facts, weight, exit_),
        names=tuple(s.name for s, _ in zip(kind.sublayers, branches, strict=False)),
        softmaxes=tuple((s.name, c.node) for s, b in zip(kind.sublayers, branches, strict=False) for c in Attention(b).cores if c.softmax),
        axis=_features(facts, stream, entry), **_predicted(facts, stream, entry),
    )  # fmt: skip


def _fork(reader: Reader, position: int) -> int:
    """The node of the stream that the branches of an add and its identity operand come from (before α, where x is read and α·x is added to); behind
    the last add the end of the stream."""
    adds = reader.chain.adds
    if position >= len(adds):
        return reader.chain.nodes[-1]
    branches = [b for place, b in reader.branches if place == position]
    before = adds[position - 1] if position else -1
    own = [i for b in branches for i, kind in cuts_of(b).items() if kind == "own" and i in reader.states and i >= before]
    return min([*(b.state for b in branches), *own], default=reader.chain.nodes[-1])


def _nearest_weight(branch: Branch) -> str | None:
    """The matrix used last in the branch; one of a single row (a gate) has a gradient that varies far more between networks than others do."""
    graph = branch.flow.graph
    for index in reversed(branch.region):
        if not branch.flow.weighted[index]:
            continue
        for source in graph.nodes[index].inputs:
            root = branch.flow.root(source)
            if graph.nodes[root].op == "parameter" and sum(n > 1 for n in graph.nodes[root].shape or ()) > 1:
                return graph.nodes[root].name
    return None


def _serves_again(facts: Facts, weight: str | None, exit_: int) -> bool:
    """Whether a weight of the block is read behind it."""
    nodes = [n.index for n in facts.graph.nodes if n.op == "parameter" and n.name == weight]
    return any(user > exit_ for node in nodes for user in facts.graph.users[node])


def _features(facts: Facts, stream: Stream, state: int) -> int:
    """The feature axis of a state."""
    shape = facts.graph.nodes[state].shape or ()
    return -1 if not shape or shape[-1] == stream.width else min(1, len(shape) - 1)


def _predicted(facts: Facts, stream: Stream, state: int) -> dict[str, Any]:
    """What the covariance recursion says of the stream with as many tokens as the traced sequence has."""
    shape = list(facts.graph.nodes[state].shape or (1,))
    del shape[_features(facts, stream, state)]
    tokens = math.prod(shape[1:] if len(shape) > 1 else shape)
    if tokens < 2:
        return {"unknown": "the sequence has one token"}
    norms = {n.node: n for n in facts.norms}
    found = recursion_of(stream, facts.graph, facts.depth(stream), tokens=tokens, streams=facts.streams, norms=norms)
    if isinstance(found, Unknown):
        return {"unknown": found.reason}
    ratio, gap = found.last_weight_ratio, found.one_minus_cos
    why = next((v.reason for v in (ratio, gap) if isinstance(v, Unknown)), "")
    return {"rms": found.rms, "ratio": _number(ratio), "gap": _number(gap), "begun": _begun(facts, stream, tokens), "unknown": why}


def _begun(facts: Facts, stream: Stream, tokens: int) -> float | None:
    """1 − cosine of two tokens that the recursion starts from."""
    try:
        others = tuple(s for s in facts.streams if s is not stream and s.states)
        start = Builder(stream, facts.graph, tokens, others=others, norms={n.node: n for n in facts.norms}).stack(1).start
    except Stop:
        return None
    return start.gap / start.power if start.power else None


def _number(value: float | Unknown) -> float | None:
    return None if isinstance(value, Unknown) else value


__all__ = ["block_plan", "cuts_of"]
