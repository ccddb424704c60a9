"""A graph on the values that the module had, against what it gave."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from screen.graph import Graph, numel
from screen.graph import io as graphio
from screen.probe.measure.determinism import settled
from screen.probe.measure.rounding import SHARP, explains, shaken
from screen.probe.plan.spot_types import Again, Leaf, Plain, Sample, plain_from_json
from screen.probe.second.interpreter import Absent, Unread, run
from screen.probe.second.values import SAME, apart, sample, unpacked, weight

LARGEST = 1 << 28
"""Entries of all weights together, at most."""


def again(text: str, said: dict[str, Any], seed: int) -> Again:
    """Whether a graph gives what the module gave; no opinion where it does not say what it gives."""
    graph, plain = graphio.loads(text.encode("utf-8", "surrogatepass")), plain_from_json(said)
    if plain.output is None:
        return Again(reason=plain.reason)
    with settled("cpu", seed), torch.no_grad():
        try:
            return _compared(graph, plain, seed)
        except Absent as error:
            return Again(False, reason=f"the module has no value for `{error}`")
        except (Unread, ValueError) as error:
            return Again(reason=str(error))


def _compared(graph: Graph, plain: Plain, seed: int) -> Again:
    assert plain.output is not None
    keys, weights = dict(plain.keys), {n.index: n for n in graph.nodes if n.op == "parameter"}
    if sum(numel(n.shape) for n in weights.values()) > LARGEST:
        raise Unread("its weights are too large")
    output = next((i for i in graph.outputs if (graph.nodes[i].dtype or "").startswith(("float", "bfloat"))), None)
    if output is None:
        raise Unread("it returns no float tensor")
    drawn = {name: weight(name, shape, seed) for name, shape in {keys.get(n.name, n.name): n.shape or () for n in weights.values()}.items()}
    own = {i: drawn[keys.get(n.name, n.name)] for i, n in weights.items()}

    def given(leaves: Iterable[Leaf], weights: Mapping[int, Tensor] = own) -> Sample:
        return sample(run(graph, output, {**{leaf.node: unpacked(leaf) for leaf in leaves}, **weights}))

    found = given(plain.leaves)
    if found.top is None and plain.output.top is None:
        raise Unread("its output is no finite number")
    difference = apart(found, plain.output)
    if difference > SAME and explains((apart(found, given(plain.leaves, one)) for one in shaken(own, seed)), difference, SAME):
        raise Unread(SHARP)
    later = None
    if difference <= SAME and plain.last is not None and plain.last.top is not None:
        later = apart(given([*plain.leaves, *plain.late]), plain.last) <= SAME
    return Again(difference <= SAME, difference if math.isfinite(difference) else None, later=later)


__all__ = ["again"]
