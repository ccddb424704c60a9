"""What the spot check is asked to look at, and what it found: plain data that cross the pipe."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from screen.graph import Graph, ops_digest

FACTORS = (1e4, 1e8)
"""By which the stream's first state is multiplied, both beyond the ε of every norm."""
HEAVY = 1e6
"""By which free weights are multiplied."""
OTHER = "a second trace gave another program"
"""The reason of what found nothing since the model is not the one that the plan was made of."""
FILLS = (30.0, -30.0, 1e6, -1e6)
"""Numbers that all free vectors are filled with where a branch is neither proved to be bounded nor seen to grow: entries that are alike, a divisor
at its floor, a temperature near 0."""
STILL = 2.0
"""How many times larger what is said to be unbounded may be and still not count as grown."""


def too_large(weights: int) -> str:
    """Why not all of a program is run."""
    return f"too large for a spot check: {weights:,} weights"


@dataclass(frozen=True)
class SpotBranch:
    """One residual branch of one block."""

    kind: str
    sublayer: str
    output: int
    parameters: tuple[str, ...]
    """All that it reads."""
    free: tuple[str, ...]
    """Of these the maps, biases and tables, without gains."""
    alone: str | None = None
    """The weight that scales the output by itself, as derived; the last free one where none is."""
    softmaxes: tuple[int, ...] = ()
    shifts: tuple[tuple[int, int], ...] = ()
    """(softmax, the logits that the largest of a row was taken off before it), where that is written out."""
    unsure: bool = False
    """Whether it is not derived if its output, or its logits, are bounded."""
    driven: bool = False
    """It multiplies by what forward is given and nobody knows (tables of cosines that are arguments): the start of its logits is not measured."""
    carries: bool = False
    """It has no weights and carries part of the stream: it belongs to the linear part."""


@dataclass(frozen=True)
class SpotGain:
    """Two values of one stream, between which it may be linear."""

    begin: int
    end: int
    held: tuple[int, ...]
    """What branches add, and carries nothing of the stream."""


@dataclass(frozen=True)
class SpotCone:
    """Three states of one stream, and what they are linear in."""

    begin: int
    middle: int
    late: int
    """The last one that is made as the middle one is."""
    end: int
    added: tuple[int, ...]
    """What a function of the stream, a norm or a map makes, in order: between these and the end there are sums and numbers alone."""
    first: int = 1
    """How many of them the first block adds."""


@dataclass(frozen=True)
class SpotStream:
    """One stream: where its states stand, in order, and what is added to it."""

    stream: str
    states: tuple[int, ...]
    """The state that the first block reads, every later one, and the end."""
    axis: int
    """Of features."""
    branches: tuple[SpotBranch, ...]
    first: int
    """Branches of the first block."""
    last: int
    """Branches of the last block."""
    linear: bool
    """Whether the states are claimed to be linear in the first one where nothing is added."""
    mixed: SpotGain | None = None
    """Where its gain is not derived, and it is not claimed to be linear: weights may mix its copies, or an op without a row carries it."""
    cone: SpotCone | None = None
    """Where its growth is not derived: what its end is made of by sums and numbers."""
    part: tuple[int, ...] = ()
    """Where its growth is not derived: states of some of its blocks, made of the first of them and of nothing else that blocks before it gave, so
    that they may follow each other again and again."""


def first_of_each(stream: SpotStream) -> tuple[SpotBranch, ...]:
    """The first branch of each sublayer of each kind of blocks."""
    return tuple({(b.kind, b.sublayer): b for b in reversed(stream.branches)}.values())


@dataclass(frozen=True)
class SpotWhole:
    """Several streams of one beginning, up to the value in which they are summed."""

    begin: int
    end: int
    held: tuple[int, ...]
    """What is set to nothing: what branches add, and first states of other streams."""


@dataclass(frozen=True)
class SpotPlan:
    """Everything that the spot check looks at in one model."""

    nodes: int
    ops: str
    """Digest of the ops of the graph that the plan was made from."""
    streams: tuple[SpotStream, ...]
    seed: int = 0
    logits: int | None = None
    """The model's output over a vocabulary."""
    loop: bool = False
    """It was made of the loop of a block; else what looks like a block is a whole model."""
    whole: SpotWhole | None = None
    deeper: bool = False
    """Whether a law of depth is asked for that nothing derived: the loop is run at two depths."""
    own: int = 0
    """Blocks of a loop of which a part was traced, where a number at its start is asked for that nothing derived: all of them are run; 0: it is not
    asked."""
    traced: int = 1
    """Of these, how many were traced."""
    weights: tuple[str, ...] = ()
    """Names of those that are drawn by them for a plain run of the module (`screen.probe.second`); none: there is no such run."""
    only: str = ""
    """Why nothing but that run is made; empty: everything is."""
    parts: str = ""
    """Why one block of each kind is looked at in the place of all; empty: it depends on what all of it takes."""

    def is_of(self, graph: Graph) -> bool:
        """Whether it was made from a graph."""
        return len(graph.nodes) == self.nodes and ops_digest(graph) == self.ops


@dataclass(frozen=True)
class FoundBranch:
    """Sizes of what one branch adds: the largest token's rms, over all runs."""

    kind: str
    sublayer: str
    place: int
    """Position among the branches of its stream."""
    base: float | None = None
    inputs: tuple[float | None, ...] = ()
    """At the first state times each of `FACTORS`."""
    weights: float | None = None
    """At free weights times `HEAVY`."""
    both: float | None = None
    """At free weights and the first state multiplied."""
    alone: float | None = None
    """At `SpotBranch.alone` times `HEAVY`, where the others did not show the branch growing: gates close where all are multiplied."""
    logits: float | None = None
    """Largest |logit|, before masks."""
    logit_rms: float | None = None
    logits_felt: float | None = None
    """The deviation of independent Gaussian logits whose softmax rests on as few keys."""
    heavy_logits: float | None = None
    """Largest |logit| at free weights times `HEAVY`."""
    filled: float | None = None
    """Largest size at free vectors filled with each of `FILLS`, of those that are finite."""
    filled_logits: float | None = None


@dataclass(frozen=True)
class FoundStream:
    """One stream, measured."""

    stream: str
    rms: tuple[float | None, ...] = ()
    """Of each state: √(mean of squares)."""
    apart: tuple[float | None, ...] = ()
    """Of each state 1 − cos, mean over pairs of tokens of a sequence."""
    gradients: tuple[float | None, ...] = ()
    """For each branch ‖∂L/∂θ‖ over all its parameters, L a random linear function of what the model returns."""
    whole_gradients: bool = False
    """They are those of the module itself, members that were not traced included."""
    moved: tuple[float | None, ...] = ()
    """How far the end is from the linear part of the stream, in rms of the largest token: at the first state as it is, times each of `FACTORS`."""
    heavy: float | None = None
    """The same at free weights times `HEAVY`."""
    gain: float | None = None
    """Of the linear part over its depth: largest found ‖A·v‖/‖v‖ where nothing is added."""
    is_linear: bool | None = None
    """Whether the end is linear in the first state where nothing is added."""
    lasts: float | None = None
    """Of a linear part that grows: its growth, in logarithms, when it has been repeated many times over that at first."""
    mixed: tuple[float, ...] = ()
    """Where no linear part was claimed: the gain of the one that there is, at each of two draws of all weights."""
    carried: tuple[tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]], ...] = ()
    """At each of two draws how far the first state, and then all that is added to it, is carried to a middle state, to a late one and to the end: the
    largest found ‖Rᵀg‖/‖g‖. Nothing where these are not linear in them, or where one of them grows with the stream."""
    repeated: tuple[tuple[float | None, ...], ...] = ()
    """Sizes of the states of some blocks that are repeated, from each of some states that are much larger than what has a size of its own."""
    awake: tuple[tuple[float | None, ...], ...] = ()
    """The same where free weights that are zero at the start are drawn; nothing where there are none."""
    period: int = 1
    """How many of them a repetition has."""
    repeats: bool = False
    """Whether the end depends on the first state by way of one later state alone, in a loop of equal blocks: repeated, it is a deeper loop."""
    branches: tuple[FoundBranch, ...] = ()


@dataclass(frozen=True)
class FoundDepth:
    """A loop of some depth, run plainly."""

    blocks: int
    rms: tuple[float | None, ...]
    """Of what enters each block, and of what the last one returns."""
    gradients: tuple[float | None, ...]
    """For each block ‖∂L/∂θ‖ over all its parameters, L a random linear function of what the last one returns."""
    apart: tuple[float | None, ...] = ()
    """1 − cos between tokens, a mean over pairs: of what enters the first block, and of what the last one returns."""


@dataclass(frozen=True)
class Leaf:
    """The value of a node that is no weight and no call."""

    node: int
    dtype: str
    shape: tuple[int, ...]
    data: str
    """Its bytes, compressed, as text."""


@dataclass(frozen=True)
class Sample:
    """An output: some of its entries."""

    shape: tuple[int, ...]
    top: float | None
    """The largest of all; None where one is no finite number."""
    values: tuple[float, ...]


@dataclass(frozen=True)
class Plain:
    """What a module gave when it was run before anything was traced in its process; or why there is nothing to compare."""

    reason: str = ""
    output: Sample | None = None
    keys: tuple[tuple[str, str], ...] = ()
    """Weight -> the name that it is drawn by, where that is another one."""
    leaves: tuple[Leaf, ...] = ()
    later: bool = False
    """Whether a later call gave something else than the first, which is what was judged."""
    still: bool = True
    """Whether no buffer was another one after all calls."""
    last: Sample | None = None
    """What one more call gave, where a later one gave something else and buffers were other ones."""
    late: tuple[Leaf, ...] = ()
    """Buffers as they were before that call."""
    order: dict[str, Any] | None = None
    """What makes and runs it (`screen.child.order`), for an interpreter of its own."""
    unsaid: str = ""
    """Why there is no order."""


@dataclass(frozen=True)
class Outside:
    """What a module gave in an interpreter without us."""

    stage: Literal["load", "run", "training", ""] = "load"
    """Where it ended; empty: it did all that it was to do."""
    reason: str = ""
    """What it raised."""
    output: Sample | None = None
    later: tuple[Sample, ...] = ()
    """What later calls gave."""
    training: tuple[Sample, ...] = ()
    """What it gives in training where nothing is left out at random: twice, and once more after a backward pass and a step of nothing."""
    keys: tuple[tuple[str, str], ...] = ()
    still: bool = True
    """Whether no buffer was another one after all calls in evaluation."""
    buffers: tuple[tuple[str, str, tuple[int, ...], str], ...] = ()
    """Name, dtype, shape and bytes of each, before the first run."""
    last: Sample | None = None
    """What one more call gave, where buffers were other ones."""
    late: tuple[tuple[str, str, tuple[int, ...], str], ...] = ()
    """Buffers before that call."""


@dataclass(frozen=True)
class Again:
    """What a graph gave in a process that never ran user code, against what its module gave."""

    agrees: bool | None = None
    """None: no opinion, for the reason given."""
    difference: float | None = None
    """Relative to the largest entry; None where the shapes differ, or nothing was compared."""
    reason: str = ""
    later: bool | None = None
    """The same of a later call, on the buffers that the module had then; None where that was not asked, or is not known."""


@dataclass(frozen=True)
class Found:
    """One model, measured; or why not."""

    reason: str = ""
    """Why nothing, or not all, was measured."""
    replayed: bool | None = None
    """Whether the traced program gives what the module gives when it is run plainly."""
    forward: float | None = None
    """Largest relative difference of the two."""
    backward: float | None = None
    """The same of their gradients, over parameters."""
    loss: float | None = None
    """Cross-entropy of the output over the vocabulary against labels that are independent of the input, in nats."""
    streams: tuple[FoundStream, ...] = ()
    gain: float | None = None
    """Of all streams of one beginning together: largest found ‖A·v‖/‖v‖ where nothing is added."""
    weights: tuple[tuple[str, str], ...] = field(default_factory=tuple)
    """Parameters that start as something that no training recovers from -> what (`nan`, `inf`, `huge`, `zero`)."""
    depths: tuple[FoundDepth, ...] = ()
    """Of a loop, where a law was asked for: at its depth, and at a larger one."""
    plain: Plain | None = None
    """What the module gave before anything was traced; None where that was not asked."""


def to_json(plan: SpotPlan) -> dict[str, Any]:
    """A plan as plain data."""
    return asdict(plan)


def plan_from_json(data: dict[str, Any]) -> SpotPlan:
    """What `to_json` gave, read back from JSON."""
    from pydantic import TypeAdapter

    return TypeAdapter(SpotPlan).validate_python(data)


def found_from_json(data: dict[str, Any]) -> Found:
    """What the child sent, checked. Raises `pydantic.ValidationError`."""
    from pydantic import TypeAdapter

    return TypeAdapter(Found).validate_python(data)


def plain_from_json(data: dict[str, Any]) -> Plain:
    """What a module gave, checked. Raises `pydantic.ValidationError`."""
    from pydantic import TypeAdapter

    return TypeAdapter(Plain).validate_python(data)


def outside_from_json(data: dict[str, Any]) -> Outside:
    """What a module gave without us, checked. Raises `pydantic.ValidationError`."""
    from pydantic import TypeAdapter

    return TypeAdapter(Outside).validate_python(data)


def again_from_json(data: dict[str, Any]) -> Again:
    """What a graph gave, checked. Raises `pydantic.ValidationError`."""
    from pydantic import TypeAdapter

    return TypeAdapter(Again).validate_python(data)


__all__ = [
    "FACTORS", "FILLS", "HEAVY", "STILL", "Again", "Found", "FoundBranch", "FoundDepth", "FoundStream", "Leaf", "Outside", "Plain", "Sample",
    "SpotBranch", "SpotCone", "SpotGain", "SpotPlan", "SpotStream", "SpotWhole", "again_from_json", "found_from_json", "outside_from_json",
    "first_of_each", "plain_from_json", "plan_from_json", "to_json", "too_large",
]  # fmt: skip
