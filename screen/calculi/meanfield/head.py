"""What a model of words says at the start: the loss that its head begins with, from the moments of the stream's last state.

The model's first output is read from the last state of the stream as one program; its last weight is the head. Of a head that is the embedding
table itself the coefficient c is followed with which a token's own row is still in what the head reads: through the way into the stream, the
identity operands, factors and norms of all blocks, and the way out (`forms`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from screen.calculi.meanfield import forms
from screen.calculi.meanfield.blocks import Blocks
from screen.calculi.meanfield.cross_entropy import mean_cross_entropy
from screen.calculi.meanfield.lower.lower import Reader
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import Add, Forward, Stack
from screen.calculi.meanfield.stack_of_stream import Builder
from screen.calculi.meanfield.start import Start
from screen.calculi.meanfield.transfer import Begin, Entrywise, Linear, Shift, Slots, Stretch
from screen.graph import Node, Ref
from screen.structure.types import Unknown

LARGEST = 1e4
"""Deviation of the logits beyond which the loss is not integrated: it is about s·√(2 ln V)."""


@dataclass(frozen=True)
class Ended:
    """What the head reads where that is the sum of a stream's end and of r times what a second stream carries from the same start."""

    node: int
    moments: Moments
    factor: float
    """r."""


def start_of_words(builder: Builder, stack: Stack, run: Forward, ended: Ended | None = None) -> Start | Unknown:
    """The loss at the start; `Unknown` where the model has no head over words, or what it makes is not known."""
    table = _table(builder)
    if isinstance(table, Unknown):
        return table
    output = builder.graph.outputs[0]
    words = (builder.graph.nodes[output].shape or (0,))[-1]
    if len(run.states) < len(stack.blocks):
        return Unknown("the stream leaves the range of floats")
    program = _way_out(builder, output, ended)
    if isinstance(program, Unknown):
        return program
    slots = program.forward(run.states[-1] if ended is None else ended.moments)
    head = program.last
    if head is None or head.source == program.output or words != (builder.graph.nodes[output].shape or (0,))[-1]:
        return Unknown("the first output is not made by a head", (output,))
    spread = math.sqrt(slots[program.output].power)
    own: float | None = None
    if head.weights == (table.name,):
        kept = _coefficient(builder, stack, run, table, 0.0 if ended is None else ended.factor) * _own(program, slots, head.source, 0, stack.tokens)
        own = _after(program, head, kept * head.forward_gain)  # σ²·d
        if own is None:
            return Unknown("what stands behind a head that is the embedding table is no function of one logit", (output,))
    if not spread < LARGEST or not abs(own or 0.0) < LARGEST:
        return Unknown("the logits are too large")
    return Start(mean_cross_entropy(words, spread, own), words, spread, own)


def _table(builder: Builder) -> Node | Unknown:
    """The table that words are looked up in, as many as the first output has entries."""
    graph = builder.graph
    if not graph.outputs:
        return Unknown("the model has no output")
    words = (graph.nodes[graph.outputs[0]].shape or (0,))[-1]
    for node in graph.nodes:
        if node.op == "embedding":
            tables = [p for i in node.inputs if (p := builder.weights.parameter(i)) is not None]
            if tables and (graph.nodes[tables[0]].shape or (0,))[0] == words > 1:
                return graph.nodes[tables[0]]
    return Unknown("the model has no head over the words that it reads", graph.outputs[:1])


def _way_out(builder: Builder, output: int, ended: Ended | None) -> Program | Unknown:
    """From the state behind the last block to the first output."""
    if ended is not None:
        leaves = {ended.node: builder.layouts[builder.stream.states[-1]]}
        return Reader(builder.graph, builder.weights, builder.norms, leaves, builder.tokens, set(), linked=True).program(output)
    end, _ = builder.cuts.last_end()
    if len(builder.stream.traced) == 1:
        last = builder.stream.kinds[-1].sublayers[-1]
        closing = Blocks(builder, builder.stream.kinds[-1]).closing(last)
        end = end if closing is None else closing.node
    layout = builder.layouts.get(end) or builder.layouts[builder.stream.traced[-1].branches[-1][0]]
    plain = builder.walk.plain(end)
    leaves = {end: layout, **{n: known for n, known in builder.layouts.items() if builder.walk.plain(n) == plain}}
    earlier = frozenset(n for n in builder.layouts if n < end and n not in leaves)
    reader = Reader(builder.graph, builder.weights, builder.norms, leaves, builder.tokens, set(), linked=True, earlier=earlier)
    return reader.program(output)


def _after(program: Program, head: Linear, value: float) -> float | None:
    """What factors, functions and a bias of zero behind the head make of one logit; None where anything else stands there."""
    slot = head.target
    for step in program.steps[program.steps.index(head) + 1 :]:
        if isinstance(step, Shift) and step.source == slot and step.square == 0:
            slot = step.target
            continue
        if not isinstance(step, Stretch | Entrywise) or step.source != slot:
            return None
        slot, value = step.target, value * step.factor if isinstance(step, Stretch) else float(step.kernel.function(np.array([value]))[0])
    return value


def _own(program: Program, slots: Slots, slot: int, atom: int, tokens: int) -> float:
    """The coefficient of a token's own part of an atom in a value: b + (a − b)/n."""
    found: forms.Forms = {}
    for step in program.steps:
        if isinstance(step, forms.LINEAR):
            found[step.target] = forms.extended(found, step, slots)
    a, b = found.get(slot, {slot: (1.0, 1.0)}).get(atom, (0.0, 0.0))
    return b + (a - b) / tokens


def _coefficient(builder: Builder, stack: Stack, run: Forward, table: Node, beside: float) -> float:
    """Of a token's own row of the table in the last state, and in `beside` times the first one."""
    if not isinstance(builder.begun, Program):
        return 0.0
    slots = builder.begun.forward(Moments(1.0, 1.0))
    begins = [s for s in builder.begun.steps if isinstance(s, Begin) and s.node >= 0 and _is_row(builder, builder.graph.nodes[s.node], table)]
    first = math.fsum(_own(builder.begun, slots, builder.begun.output, s.target, stack.tokens) for s in begins)
    passed = [_passed(add, found, total, stack.tokens) for add, found, total in zip(run.adds, run.slots, run.sums, strict=True)]
    return first * (math.prod(passed) + beside)


def _is_row(builder: Builder, node: Node, table: Node) -> bool:
    return node.op == "embedding" and any(isinstance(a, Ref) and builder.weights.parameter(a.node) == table.index for a in node.args)


def _passed(add: Add, slots: Sequence[Slots], total: Moments, tokens: int) -> float:
    """What one add, or one whole block, multiplies a token's own part of the state by."""
    norm = 1.0 if add.close is None else math.sqrt(add.close.factor([total]))
    pairs = [(inlet.program, found) for inlet, found in zip(add.inlets, slots, strict=True) if inlet.program.tokens]
    whole = [_own(program, found, program.output, 0, tokens) for program, found in pairs]
    return (math.sqrt(add.identity) + math.fsum(whole)) * norm


__all__ = ["Ended", "start_of_words"]
