"""How everything that a block hands on grows, where one of these values stands on no stream: a total of states, a memory beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from screen.calculi.analysis import sure
from screen.calculi.bounds import BranchBounds, bounds_of
from screen.calculi.bounds.boundedness import INPUTS, survives
from screen.facts.claims.claim import Claim, Status
from screen.facts.operator import StreamOperator
from screen.facts.operator.carried import EVEN, Total
from screen.facts.operator.whole import Whole
from screen.facts.record import Facts
from screen.structure.branches.branch import Branch
from screen.structure.norms.find import place_of
from screen.structure.types import Stream, Tri, Unknown

LAWS = ("bounded", "linear", "polynomial", "exponential")
"""Laws of growth, the slowest first."""


def growth_with_totals(facts: Facts, found: Iterable[Claim]) -> Iterator[Claim]:
    """Of each stream whether what is summed up beside it is bounded; at most one claim about the model. `found`: the claims about its streams."""
    yield from _summands(facts)
    totals = facts.whole.totals if isinstance(facts.whole, Whole) else ()
    if not totals:
        return
    laws = {c.stream: c for c in found if c.claim == "growth" and c.weights == "fixed"}
    known = [str(c.value) for c in laws.values() if c.status != "unknown"]
    for total in totals:
        law = _law(facts, total, laws)
        if isinstance(law, Unknown):
            place = place_of(facts.graph, total.node)
            yield Claim("growth", "fixed", "unknown", reason=law.reason, node=place, nodes=(total.node,))
            return
        known.append(law)
    if len(known) == len(laws) + len(totals):
        yield Claim("growth", "fixed", "proved", max(known, key=LAWS.index))


def _law(facts: Facts, total: Total, laws: Mapping[str | None, Claim]) -> str | Unknown:
    """Of one total, by the laws of the streams whose states it sums."""
    operators = ((s, o) for s, o in zip(facts.streams, facts.operators, strict=True) if isinstance(o, StreamOperator))
    own = [laws[s.name] for s, o in operators if s.name in laws and any(state.node in total.states for state in o.states)]
    if not own:
        level = frozenset(str(name) for name, c in laws.items() if c.value == "bounded" and c.status != "unknown")
        return _of_summands(facts, total, level)
    if (unknown := next((c for c in own if c.status == "unknown"), None)) is not None:
        return Unknown(unknown.reason or "how its streams grow is not known")
    if abs(total.ratio) > 1 + EVEN:
        return "exponential"
    law = LAWS.index(max((str(c.value) for c in own), key=LAWS.index))
    return LAWS[law] if abs(total.ratio) < 1 - EVEN or law > 1 else LAWS[law + 1]


def _of_summands(facts: Facts, total: Total, level: frozenset[str]) -> str | Unknown:
    """Of a total of what is no state, by whether what each block adds to it stays bounded at fixed weights however large the streams are that are not
    `level`."""
    if not total.added:
        return Unknown("what its blocks hand on beside the streams is not followed")
    if (loose := next((a for a in total.added if not _is_held(facts, a, level)), None)) is not None:
        return Unknown("what its blocks add to what they hand on beside the streams is not shown to stay bounded", (loose,))
    return "exponential" if abs(total.ratio) > 1 + EVEN else "bounded" if abs(total.ratio) < 1 - EVEN else "linear"


def _is_held(facts: Facts, node: int, level: frozenset[str]) -> bool:
    """Whether a value stays bounded at fixed weights: as a branch of a stream that it is made of."""
    stream, bounds = _bounds(facts, node)
    if stream is None or isinstance(bounds, Unknown) or isinstance(bounds.magnitude, Unknown):
        return False
    return survives(bounds.magnitude, INPUTS - {"B"} if stream.name in level else INPUTS)


def _bounds(facts: Facts, node: int) -> tuple[Stream | None, BranchBounds | Unknown]:
    """The stream that a value is made of, and its bounds as a branch of it."""
    read = ((s, r) for s, r in zip(facts.streams, facts.readers, strict=False) if any(r.flow.depends(node, state) for state in r.chain.nodes))
    stream, reader = next(read, (None, None))
    if stream is None or reader is None:
        return None, Unknown("it is made of no stream", (node,))
    chain = reader.chain
    state = max(n for n in chain.nodes if n == node or reader.flow.depends(node, n))
    return stream, sure(bounds_of, Branch(reader.chains, chain, frozenset(chain.nodes), node, state, node))


def _summands(facts: Facts) -> Iterator[Claim]:
    """Of each stream whether what the last block makes of it for values beside it, and is no branch of a stream, is bounded over all weights."""
    totals = facts.whole.totals if isinstance(facts.whole, Whole) else ()
    branches = {b.output for r in facts.readers for _, b in r.branches}
    answers: dict[str, list[tuple[int, Tri]]] = {}
    for node in (n for t in totals for n in t.added if n not in branches):
        stream, bounds = _bounds(facts, node)
        if stream is not None:
            answers.setdefault(stream.name, []).append((node, bounds if isinstance(bounds, Unknown) else bounds.bounded))
    for name, found in answers.items():
        node, answer = min(found, key=lambda one: (one[1] is not False, one[1] is True))
        why = answer if isinstance(answer, Unknown) else Unknown("")
        status: Status = "unknown" if isinstance(answer, Unknown) else "proved"
        value = None if isinstance(answer, Unknown) else answer
        nodes = why.nodes or (node,)
        yield Claim("output_bounded", "all", status, value, name, reason=why.reason, node=place_of(facts.graph, nodes[0]), nodes=nodes)


__all__ = ["growth_with_totals"]
