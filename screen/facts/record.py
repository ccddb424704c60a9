"""The record of all that is known of one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from screen.calculi.analysis import Analysis
from screen.calculi.meanfield import Recursion
from screen.facts.claims.claim import Claims
from screen.facts.operator import StreamOperator, Whole
from screen.facts.operator.steps import StateBound
from screen.graph import Graph
from screen.structure.streams.reader import Reader
from screen.structure.types import Coverage, DoubledNorm, HollowNorm, Kind, Norm, Stream, Sublayer, Tri, Unknown


@dataclass(frozen=True)
class Facts:
    """All that is known of one model."""

    graph: Graph
    streams: tuple[Stream, ...]
    norms: tuple[Norm, ...]
    doubled: tuple[DoubledNorm, ...]
    hollow: tuple[HollowNorm, ...]
    coverage: Coverage
    guessed_nodes: frozenset[int]
    """Nodes whose being there rests on a guessed branch."""
    analyses: Mapping[tuple[int, int], Analysis] = field(default_factory=dict)
    """(add, output) of each distinct sublayer -> its degrees and bounds."""
    recursions: tuple[Recursion | Unknown, ...] = ()
    """For each stream its token covariance over depth at the recorded initialisation."""
    readers: tuple[Reader, ...] = field(default=(), compare=False, repr=False)
    """For each stream what its facts were read with."""
    operators: tuple[StreamOperator | Unknown, ...] = ()
    """For each stream its linear part."""
    whole: Whole | Unknown | None = None
    """The model as one linear operator, where its gain is that of no stream alone."""
    state_bounds: Mapping[tuple[int, ...], StateBound] = field(default_factory=dict)
    """(add, output) of each distinct sublayer of a stream with more on it than sums -> the size of the state behind it; (node,) of its last state."""
    growing: frozenset[str] = frozenset()
    """Streams that read another one, of unbounded size, without a norm."""
    softmax: Tri = field(default_factory=lambda: Unknown("it was not looked for"))
    """Whether values are weighed by a softmax anywhere in the graph."""
    written_softmaxes: Mapping[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    """(add, output) of a sublayer -> quotients in it that may be a softmax written out in a way that is not known."""
    claims: Claims = field(default_factory=Claims)
    """Every statement about the model, derived last, from all of the above."""

    def analysis(self, sublayer: Sublayer) -> Analysis | Unknown:
        """Degrees and bounds of a sublayer."""
        return self.analyses.get((sublayer.add, sublayer.output)) or Unknown("its branch was not analysed", (sublayer.output,))

    @property
    def is_loop(self) -> bool:
        """The target is one block whose end is wired to its start: there is no embedding, and there is no head."""
        return self.graph.loop is not None

    def depth(self, stream: Stream) -> int:
        """Blocks that a value passes on a stream; an inner stream starts anew in every outer block."""
        return stream.depth // stream.copies if stream.role == "inner" else stream.depth

    def passes(self, stream: Stream, kind: Kind) -> int:
        """How many of them are of one kind."""
        return max(kind.count // stream.copies, 1) if stream.role == "inner" else kind.count

    def operator(self, stream: Stream) -> StreamOperator | Unknown:
        """The linear part of a stream."""
        place = next((i for i, s in enumerate(self.streams) if s is stream), -1)
        return self.operators[place] if 0 <= place < len(self.operators) else Unknown("the linear part of the stream was not derived")

    def recursion(self, stream: Stream) -> Recursion | Unknown:
        """The covariance recursion of a stream."""
        found = [r for s, r in zip(self.streams, self.recursions, strict=False) if s is stream]
        return found[0] if found else Unknown("the covariance of the stream was not derived")
