"""Ops on the stream between two blocks: the recursion follows them, or says that it does not know; it never passes over one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from screen.calculi.meanfield import recursion_of
from screen.calculi.meanfield.result import Recursion
from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.graph.target import parse
from screen.rule import Example
from screen.structure.types import Unknown
from screen.testing import facts_of
from tests.calculi.meanfield.covariance_odd import INPUTS, ODD, run
from tests.calculi.meanfield.covariance_stacks import geometric

FACTOR = 1.5
"""Between what is said and what two random networks of width 128 show, in rms and in the gradient ratio; its cube in 1 − cos."""
UNTOLD = frozenset({
    "largest of tokens", "mean of features", "running mean", "first token for all", "mean mapped", "near clamp", "clamp that is reached",
    "one-sided clamp", "relu in place", "relu on the sum", "tanh on the sum", "a little tanh", "cubic", "norm, then as large as before",
    "norm, then gate", "a gate on the stream", "highway", "a gate near one", "a gate that starts at one", "rolled and added", "flipped and added",
    "transposed and added", "batch norm", "cut off", "first state again", "first state mapped", "leapfrog", "momentum", "reversible",
    "two that exchange", "dense", "stacked and summed", "a table in every block", "a map on the stream", "halves", "divided by its largest",
    "softmax of itself", "sorted", "times √2", "a branch with the stream in it", "a branch less the stream",
})  # fmt: skip
"""What may be unknown."""


def said_of(source: str) -> list[Recursion | Unknown]:
    """What is said of every stream that is not inside a branch."""
    facts = facts_of(Example("model", source, inputs=INPUTS))
    norms = {n.node: n for n in facts.norms}
    streams = [s for s in facts.streams if s.role != "inner"]
    return [recursion_of(s, facts.graph, tokens=32, streams=facts.streams, norms=norms) for s in streams]


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", ODD)
def test_an_op_on_the_stream_is_followed_or_not_known(name: str) -> None:
    """The graph and the record of its initialisers, against the model itself in float64 with real weights of two seeds."""
    said = [r for r in said_of(ODD[name]) if isinstance(r, Recursion)]
    if name not in UNTOLD:
        assert said
    seen = [run(ODD[name], seed) for seed in range(2)] if said else []
    for found in said:
        assert found.depth == 12
        assert abs(math.log(found.rms[-1] / geometric([s.rms[-1] for s in seen]))) < math.log(FACTOR)
        if not isinstance(found.one_minus_cos, Unknown):
            apart = geometric([max(1 - s.cosine[-1], 1e-18) for s in seen])
            assert abs(math.log(max(found.one_minus_cos, 1e-18) / apart)) < 3 * math.log(FACTOR)
        if not isinstance(found.gradient_ratio, Unknown):
            assert abs(math.log(found.gradient_ratio / geometric([s.ratio for s in seen]))) < math.log(FACTOR)


ENDS = (
    "pre", "twice itself", "twice at the end", "itself by alpha", "mean of tokens", "mean of tokens, expanded", "lerp of norm",
    "the sum times a number", "the sum divided", "a gain behind the norm", "two norms", "near clamp", "relu on the sum",
    "norm, then as large as before", "norm, then gate", "a branch twice", "divided by its largest",
    "reads before the factor", "cut off",
)  # fmt: skip


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", ENDS)
def test_a_block_alone_is_read_from_its_argument_to_its_end(name: str, tmp_path: Path) -> None:
    """The block of the stack by itself, repeated as often, against the stack."""
    file = tmp_path / "block.py"
    file.write_text(ODD[name].split("class Model")[0], encoding="utf-8")
    [built] = build(parse(f"{file}::Block"), set={}, inputs=INPUTS, depth=12)
    graph = trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    facts = derive(graph)
    norms = {n.node: n for n in facts.norms}
    found = recursion_of(facts.streams[0], graph, facts.depth(facts.streams[0]), tokens=32, streams=facts.streams, norms=norms)
    assert isinstance(found, Unknown) == (name in UNTOLD)
    if isinstance(found, Recursion):
        seen = [run(ODD[name], seed) for seed in range(2)]
        assert abs(math.log(found.rms[-1] / geometric([s.rms[-1] for s in seen]))) < math.log(FACTOR)
        assert isinstance(found.gradient_ratio, float)
        assert abs(math.log(found.gradient_ratio / geometric([s.ratio for s in seen]))) < math.log(FACTOR)


def test_blocks_of_one_kind_that_treat_the_stream_differently_are_not_taken_as_one() -> None:
    """A clamp in the fifth block alone, which no sublayer shows."""
    source = ODD["pre"].replace("        return x\n", "        return x.clamp(-1, 1) if self.i == 5 else x\n", 1)
    said = said_of(source)
    assert said
    assert all(isinstance(found, Unknown) and "of one kind" in found.reason for found in said)
