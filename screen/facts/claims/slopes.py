"""Whether what a branch adds moves less as its stream grows."""

from __future__ import annotations

from screen.calculi.degrees.laws import LARGE_EPSILON
from screen.facts.claims.states_read import reader_of
from screen.facts.record import Facts
from screen.structure.branches.branch import Branch
from screen.structure.types import Kind, Stream, Sublayer, Unknown


def where(facts: Facts, sublayer: Sublayer) -> tuple[Stream, Kind]:
    """The stream and the kind of block that a sublayer belongs to."""
    return next((stream, kind) for stream in facts.streams for kind in stream.kinds if any(s is sublayer for s in kind.sublayers))


def is_renormalised(sublayer: Sublayer) -> bool:
    """A norm stands on the sum and carries the stream on (C, or a normed skip)."""
    return "C" in sublayer.positions or sublayer.normed_skip


def starts_at_zero(sublayer: Sublayer) -> bool:
    """The branch is multiplied by a learned scale that is zero at the start (ReZero, SkipInit, a zero-initialised gate)."""
    return sublayer.branch.init == 0.0


def is_scale_free(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether F(cx) = F(x), at least for large x: the branch has degree 0 in the stream, and moves as 1/‖x‖ with it."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown) or analysis.degrees.stream is not None:
        return not isinstance(analysis, Unknown) and analysis.degrees.stream == 0.0
    reader = reader_of(facts, where(facts, sublayer)[0])
    branch = next((b for _, b in reader.branches if (b.add, b.output) == (sublayer.add, sublayer.output)), None) if reader is not None else None
    return branch is not None and _reads_norms_alone(branch)


def _reads_norms_alone(branch: Branch) -> bool:
    """Whether all that a branch reads of streams comes out of norms whose statistic is that of the value at hand, whatever it makes of them."""
    norms = branch.input_norms
    plain = all(n.type != "batchnorm" and n.of_tokens and (n.eps or 0.0) <= LARGE_EPSILON for n in norms)
    return bool(norms) and plain and all(ways <= {"normed"} for ways in (branch.way(branch.output), *(e.ways for e in branch.entries)))


def keeps_slope(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether the branch is not known to move less, as 1/‖x‖, as its stream grows: neither shown to be free of its size, nor at zero at the start,
    nor on a stream that a norm carries on."""
    return not (is_renormalised(sublayer) or starts_at_zero(sublayer)) and (not is_scale_free(facts, sublayer) or sublayer.multiplies_stream)


__all__ = ["is_renormalised", "is_scale_free", "keeps_slope", "starts_at_zero", "where"]
