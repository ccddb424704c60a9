"""How everything that a block hands on grows, where one of these values stands on no stream: a total of states, a memory beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from screen.facts.claims.claim import Claim
from screen.facts.operator import StreamOperator
from screen.facts.operator.carried import EVEN, Total
from screen.facts.operator.whole import Whole
from screen.facts.record import Facts
from screen.structure.norms.find import place_of
from screen.structure.types import Unknown

LAWS = ("bounded", "linear", "polynomial", "exponential")
"""Laws of growth, the slowest first."""


def growth_with_totals(facts: Facts, found: Iterable[Claim]) -> Iterator[Claim]:
    """At most one claim about the model. `found`: the claims about its streams."""
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
        return Unknown("what its blocks hand on beside the streams is not followed")
    if (unknown := next((c for c in own if c.status == "unknown"), None)) is not None:
        return Unknown(unknown.reason or "how its streams grow is not known")
    if abs(total.ratio) > 1 + EVEN:
        return "exponential"
    law = LAWS.index(max((str(c.value) for c in own), key=LAWS.index))
    return LAWS[law] if abs(total.ratio) < 1 - EVEN or law > 1 else LAWS[law + 1]


__all__ = ["growth_with_totals"]
