"""Norms whose gain is multiplied with the inverse of their statistic before the value is: x · (g · ρ⁻¹) is (x · ρ⁻¹) · g, and x · (g / ρ) is
(x / ρ) · g."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from screen.graph import Graph, Node, Ref
from screen.graph.meant import Folded
from screen.structure.dataflow import Flow
from screen.structure.norms.find import Norms
from screen.structure.norms.statistics import Stat, reading_of, subject_of


def folded_gains(graph: Graph) -> dict[int, Folded]:
    """Products of a value with a gain over its own statistic, by their nodes."""
    candidates = list(_candidates(graph))
    if not candidates:
        return {}
    reads = _Reads(Flow(graph))
    return {node: folded for node, folded in candidates if reads.is_norm(folded)}


def _candidates(graph: Graph) -> Iterator[tuple[int, Folded]]:
    for node in graph.nodes:
        for value, product in _pairs(node) if node.op == "mul" else ():
            inner = graph.nodes[product]
            alone = graph.users[product] == (node.index,) and product not in graph.outputs
            if not alone or value >= product or graph.nodes[value].shape != node.shape:
                continue
            for gain, statistic in _pairs(inner) if inner.op == "mul" else _pairs(inner)[:1] if inner.op == "div" else ():
                alike = {graph.nodes[i].dtype for i in (value, gain, statistic, product, node.index)}
                if len(alike) == 1 and graph.nodes[statistic].shape != node.shape:
                    yield node.index, Folded(product, value, statistic, gain)


def _pairs(node: Node) -> list[tuple[int, int]]:
    """Two operands that are values, both ways round."""
    if len(node.args) != 2 or node.kwargs or not all(isinstance(a, Ref) for a in node.args):
        return []
    return [(node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])]


class _Reads:
    """What the values of a graph are as statistics."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    @cached_property
    def readings(self) -> list[object]:
        return list(Norms(self.flow).readings)

    def is_norm(self, found: Folded) -> bool:
        """Is a value multiplied with a gain that is trained, over its own size?"""
        if self.flow.data[found.gain] or not self.flow.trained[found.gain] or not self.flow.data[found.statistic]:
            return False
        stat = reading_of(self.readings, self.flow, found.statistic)  # type: ignore[arg-type]
        wanted = -1.0 if self.flow.graph.nodes[found.product].op == "mul" else 1.0
        own = subject_of(self.readings, self.flow, found.value)[0]  # type: ignore[arg-type]
        return isinstance(stat, Stat) and abs(stat.degree - wanted) < 1e-9 and stat.source == own


__all__ = ["folded_gains"]
