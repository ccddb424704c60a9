"""A block that carries several values, `x, total = block(x, total)`, over its depth: what they are of what the first copy gets.

Each value that a copy hands to the next one is a sum of what earlier copies handed on, with numbers as coefficients, of what branches add, and of a
rest. So what the last copy gives is a matrix times what the first one gets, and the gain of all identity paths together is that matrix' largest
singular value. A **total** is a value that is handed on and stands on no stream: it sums the states of streams, or what no norm and no weight of it
was followed through. Of states whose coefficients make the series 1, a, a², … it grows like them where |a| < 1, and like their sum where |a| = 1.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from screen.facts.operator.forms import Forms
from screen.facts.operator.recurrence import State, resolved
from screen.structure.dataflow import Flow, strip
from screen.structure.norms.find import Norms

EVEN = 1e-6
"""Relative difference up to which two ratios are one."""
SUMS, PRODUCTS = frozenset({"add", "sub", "rsub"}), frozenset({"mul", "div", "true_divide", "neg"})
"""Ops that a total is made by."""


@dataclass(frozen=True)
class Total:
    """A value that is handed from copy to copy and stands on no stream."""

    node: int
    states: frozenset[int]
    """The states of streams that it sums; none where something else is added, too."""
    ratio: float
    """What each block multiplies it by: of the coefficients of two states that follow each other, the earlier one's over the later one's."""
    added: tuple[int, ...] = ()
    """Where it sums no states: what the last copy adds to a multiple of what the one before handed on; none where it makes something else of it."""


@dataclass(frozen=True)
class Carried:
    """What the copies of a block hand on."""

    flow: Flow
    begins: tuple[int, ...]
    """Arguments of the first copy."""
    ends: tuple[int, ...]
    """What the last copy gives, in their order."""
    table: Mapping[int, State]
    """Each value that is handed on, as a sum of such values."""
    period: int
    """Nodes of one copy: a value of the last copy stands so far behind that of the one before it."""

    @property
    def gain(self) -> float | None:
        """Of all identity paths together; None where a coefficient is no number, or how something is carried is not known."""
        values = [self._expanded(end, frozenset(self.begins)) for end in self.ends]
        if any(v is None for v in values):
            return None
        return _largest([[v.get(begin, 0.0) for begin in self.begins] for v in values if v is not None])

    def totals(self, on_streams: frozenset[int], states: Collection[int]) -> tuple[Total, ...]:
        """`on_streams`: all nodes of streams; `states`: those that branches read or that end a stream, in data-flow order."""
        found = []
        for begin, end in zip(self.begins, self.ends, strict=True):
            whole = self._expanded(end, frozenset(self.begins))
            if on_streams & {end, end - self.period} or end == begin or (whole is not None and not whole.get(begin)):
                continue  # of a stream in this copy or in the one before it, a condition, or made anew in each copy
            summed = self._expanded(end, frozenset((*self.begins, *states)), alone=True) or {}
            of_states = {node: c for node, c in summed.items() if node in states and c}
            steps = [of_states[a] / of_states[b] for a, b in pairwise(sorted(of_states))]
            even = bool(steps) and all(math.isclose(s, steps[0], rel_tol=EVEN) for s in steps) and steps[0] != 0.0
            found.append(Total(end, frozenset(of_states), steps[0]) if even else self._added_to(end))
        return tuple(found)

    def _added_to(self, end: int) -> Total:
        """A total of what is no state, where that is all that is added to what was handed on before."""
        terms, before = self.table[end].terms, end - self.period
        ratio = terms[before].at_start().number if set(terms) == {before} and self.table[end].lost is None else None
        return Total(end, frozenset(), math.nan) if ratio is None else Total(end, frozenset(), ratio, self._summands(end, before))

    def _summands(self, end: int, before: int) -> tuple[int, ...]:
        """What a sum is made of besides one value of it, by sums and products with numbers alone."""
        flow, found, stack, seen = self.flow, list[int](), [end], {strip(self.flow, before)}
        while stack:
            node = flow.graph.nodes[strip(flow, stack.pop())]
            if node.index in seen:
                continue
            seen.add(node.index)
            data = [i for i in node.inputs if flow.data[i]]
            if node.op in SUMS or (node.op in PRODUCTS and len(data) == 1):
                stack += data
            else:
                found.append(node.index)
        return tuple(sorted(found))

    def _expanded(self, node: int, sources: frozenset[int], alone: bool = False) -> dict[int, float] | None:
        """A value as a sum of some others; `alone`: and of nothing else."""
        values: dict[int, dict[int, float]] = {}
        for handed, state in sorted(self.table.items()):
            if handed in sources and handed != node:
                continue
            factors = {source: p.at_start().number for source, p in state.terms.items()}
            missing = any(source not in sources and source not in values for source in factors)
            if state.lost is not None or missing or None in factors.values() or (alone and state.rest is not None):
                continue
            values[handed] = {}
            for source, factor in factors.items():
                for begin, number in ({source: 1.0} if source in sources else values[source]).items():
                    values[handed][begin] = values[handed].get(begin, 0.0) + (factor or 0.0) * number
        return values.get(node)


def carried(flow: Flow, norms: Norms, states: Sequence[int]) -> Carried | None:
    """What a block target hands on, where that are two values or more; None of others, and where not all copies ran. `states`: of its streams."""
    graph, loop = flow.graph, flow.graph.loop
    if loop is None or len(graph.outputs) < 2 or loop.count < 3 or max(graph.times.values(), default=1) > 1:
        return None
    own = _members(flow, loop.copies)
    read = [frozenset(i for n in nodes for i in graph.nodes[n].inputs if i < nodes[0]) for nodes in own]
    given = (n.index for n in graph.nodes if n.op == "input" and flow.data[n.index])
    begins = tuple(n for n in given if read and n in read[0] and n not in read[-1])
    ends = graph.outputs[: len(begins)]
    if not 1 < len(begins) == len(ends) or len(own) < 2:
        return None
    whole = {graph.nodes[n].shape for n in (*begins, *ends)}
    handed = frozenset((*begins, *ends, *(n for n in states if graph.nodes[n].shape in whole))).union(*read)
    forms = Forms(flow, norms, handed)
    inner = (n for n in sorted(handed) if graph.nodes[n].op != "input")
    table = {n: resolved(n, forms) for n in inner}
    table |= {n: State(n, {}, None, None, False) for n in handed if graph.nodes[n].op == "input" and n not in begins}
    return Carried(flow, begins, ends, table, own[-1][0] - own[-2][0])


def _members(flow: Flow, copies: tuple[int, ...]) -> list[list[int]]:
    """The nodes of each copy."""
    graph = flow.graph
    own: dict[int, list[int]] = {c: [] for c in copies}
    for node in graph.nodes:
        for copy in own.keys() & graph.call_path(node.call):
            own[copy].append(node.index)
    return [own[c] for c in copies if own[c]]


def _largest(matrix: list[list[float]]) -> float:
    """The largest singular value."""
    import numpy as np

    return float(np.linalg.norm(np.array(matrix), 2))


__all__ = ["Carried", "Total", "carried"]
