"""What the risk of a stream is judged by: a few numbers and yes / no answers out of the facts, each with its unit.

A number that was not derived is None, and an answer that is not known is None: the risk is then taken for the middle of what is usual, and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from screen.calculi.meanfield import FirstUpdate, first_update_of
from screen.facts.queries import (
    are_logits_bounded, branches, has_identity_path, has_softmax, is_output_bounded, is_sum_normed, number_of, twins, unbounded_softmax,
)  # fmt: skip
from screen.facts.record import Facts
from screen.facts.weight_gains import through_decoder
from screen.structure.initial.laws import deviation, fans, square_gains
from screen.structure.types import Stream, Sublayer, Unknown


@dataclass(frozen=True)
class Features:
    """One stream and its recorded start."""

    stream: str
    depth: int
    """Blocks."""
    branches: int
    """Residual branches that a value passes."""
    width: int
    identity: bool | None
    """Whether an identity path exists: on this stream, or on another one that all its branches are added to as well (ResiDual)."""
    crossed: int
    """Norms that every path from the stream's start to its end crosses."""
    bounded: bool | None
    """Whether every branch's output is bounded over its weights, or the sum is normalised."""
    normed: bool
    """Whether every branch has a norm on its way (before it, in it, behind it or on the sum, of another stream that it is added to as well), or
    what it adds is bounded at fixed weights by other means (DyT)."""
    raw_inputs: bool
    """Whether some branch reads the stream itself, which no norm has just renewed."""
    renewed: bool
    """Whether a norm stands on the way of every branch: what is bounded by other means alone (tanh) is not brought back to its size."""
    scaled: bool
    """Whether every branch is multiplied by a learned scale, which grows by steps of its own wherever it starts (LayerScale, ReZero)."""
    branch_scale: float
    """Largest |s| of x + s·F(x) at the start; 1 where there is none."""
    alpha: float
    """Smallest multiplier of the stream; 1 where there is none."""
    softmax: bool | None
    logits_bounded: bool | None
    """Over all weights, of every branch with a softmax."""
    routed: bool
    """Whether those of its logits that nothing bounds compare no queries with keys: of routers, poolings, trained shares."""
    gain: float | None
    """Largest σ²·√(in·out) of a map of its blocks: 1 keeps sizes."""
    side: float | None
    """√(in·out) of that map."""
    mean_gain: float | None
    """Geometric mean of these gains over all maps that do not start at zero: what one map of a branch does on the way through it."""
    mean_side: float | None
    """Geometric mean of √(in·out) over these maps."""
    rms_first: float | None
    """rms of a token before the first branch, √(E x²)."""
    rms_read: float | None
    """rms of a token before a block, in the geometric mean over the blocks."""
    one_minus_cos: float | None
    """Of two tokens after the last block."""
    gradient_ratio: float | None
    """First block over last."""
    exponential: bool
    """Whether that ratio grows exponentially with depth."""
    update: float | None
    """Σ(v² + w²)/α² over the branches (DeepNet, section 4); what an encoder does passes its decoder too."""
    logit_rms: float | None
    """√(E u²) of attention logits at the start, between the first and the last block in the geometric mean; of several attentions the largest."""
    kappa: float | None
    """κ: rms of the change of what the head reads over η and its own rms, for one step of Adam from the start (docs/theory/first_update.md); of a
    stream that has none that of one to which all its branches are added too, whose sum with it the head reads."""
    dtype: str
    """Number format of the stream."""
    gated: bool
    """Whether some branch multiplies two maps of its input (a gated FFN)."""
    has_final_norm: bool | None
    words: int | None
    """Of a head over words, how many."""


def features_of(facts: Facts) -> tuple[Features, ...]:
    """Those of every stream with branches; of inner streams none, which start anew in every block."""
    return tuple(_of_stream(facts, s) for s in facts.streams if s.role != "inner" and any(k.sublayers for k in s.kinds))


def _of_stream(facts: Facts, stream: Stream) -> Features:
    subs = [s for k in stream.kinds for s in k.sublayers]
    beside = twins(facts, stream)
    found = facts.recursion(stream)
    softmax = [s for s in subs if has_softmax(facts, s) is not False]
    free = [s for s in softmax if are_logits_bounded(facts, s) is not True]
    recursion = None if isinstance(found, Unknown) else found
    updates = [u for s in (stream, *beside) if isinstance(u := first_update_of(facts.recursion(s)), FirstUpdate)]
    maps, words = _gains(facts, stream), None if recursion is None else recursion.words
    gain, side = max(maps, default=(None, None))
    grown = [(g, a) for g, a in maps if g > 0]
    normed = _normed(stream) or any(_normed(t) for t in beside)
    number = None if recursion is None else _number(recursion.deepnorm_number)
    logits = [] if recursion is None else [math.sqrt(u * v) for u, v in recursion.logit_rms.values() if math.isfinite(u * v)]
    return Features(
        stream=stream.name,
        depth=facts.depth(stream),
        branches=max(branches(facts, stream), 1),
        width=stream.width or 1,
        identity=True if any(has_identity_path(facts, t) is True for t in beside) else _answer(has_identity_path(facts, stream)),
        crossed=stream.identity.norms_crossed,
        bounded=_all([True if is_sum_normed(facts, s) else _answer(is_output_bounded(facts, s)) for s in subs]),
        normed=normed or facts.claims.of("growth", "fixed", stream.name).known in ("bounded", "linear"),
        renewed=normed,
        raw_inputs=not _renewed(subs),
        scaled=all(s.branch.kind == "learned" for s in subs),
        branch_scale=max(_size(s.branch.value, s.branch.init) for s in subs),
        alpha=min(_size(s.alpha.value, s.alpha.init) for s in subs),
        softmax=True if any(has_softmax(facts, s) is True for s in subs) else None if softmax else False,
        logits_bounded=_all([_answer(are_logits_bounded(facts, s)) for s in softmax]) if softmax else True,
        routed=bool(free) and all(unbounded_softmax(facts, s) != "attention" for s in free),
        gain=gain,
        side=side,
        mean_gain=_geometric([g for g, _ in grown]),
        mean_side=_geometric([a for _, a in grown]),
        rms_first=_first(facts, stream),
        rms_read=None if recursion is None else _number(recursion.rms_read),
        one_minus_cos=_number(number_of(facts, stream, "one_minus_cos")),
        gradient_ratio=_number(number_of(facts, stream, "gradient_ratio")),
        exponential=facts.claims.of("gradient_law", "start", stream.name).known == "exponential",
        update=None if number is None else number * through_decoder(facts, stream),
        logit_rms=max(logits, default=None),
        kappa=updates[0].kappa if updates else None,
        dtype=stream.dtype,
        gated=any(s.role in ("gated_ffn", "moe") for s in subs),
        has_final_norm=_answer(stream.final_norm) if stream.kinds[-1].sublayers[-1].positions[-1:] != ("C",) else True,
        words=None if words is None or isinstance(words, Unknown) else words.words,
    )


def _normed(stream: Stream) -> bool:
    """Whether every branch has a norm on its way."""
    return all(s.positions or s.normed_skip for k in stream.kinds for s in k.sublayers)


def _renewed(subs: list[Sublayer]) -> bool:
    """Whether every branch reads a value that a norm has just given: its own, or the one on the sum before it."""
    return all("A" in s.positions or "A2" in s.positions or "C" in subs[i - 1].positions for i, s in enumerate(subs))


def _gains(facts: Facts, stream: Stream) -> list[tuple[float, float]]:
    """(gain, √(in·out)) of each map between the first state of the stream and its last add."""
    last = max(s.add for k in stream.kinds for s in k.sublayers)
    nodes = [n for n in facts.graph.nodes[stream.states[0] : last] if n.op == "parameter" and len(n.shape or ()) > 1]
    found = square_gains(facts.graph, tuple(n.name for n in nodes))
    return [(g, math.sqrt(math.prod((n.shape or ())[-2:]))) for n in nodes if not isinstance(g := found[n.name], Unknown)]


def _geometric(values: list[float]) -> float | None:
    return math.exp(math.fsum(math.log(v) for v in values) / len(values)) if values else None


def _first(facts: Facts, stream: Stream) -> float | None:
    """rms of the embedding: 1 behind an embedding norm, else the deviation of the table that the stream begins with, times its factor."""
    if stream.embed_norm is True:
        return 1.0
    for node in reversed(facts.graph.nodes[: stream.states[0] + 1]):
        if node.op == "parameter" and node.shape is not None and len(node.shape) > 1 and node.shape[-1] == stream.width:
            law = deviation(facts.graph.histories.get(node.name, ()), *fans(node.shape))
            return None if isinstance(law, Unknown) or law == 0 else law * (stream.embed_factor or 1.0)
    return None


def _size(value: float | None, start: float | None) -> float:
    number = value if value is not None else start
    return 1.0 if number is None else abs(number)


def _number(value: float | Unknown) -> float | None:
    return None if isinstance(value, Unknown) or not math.isfinite(value) else value


def _answer(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _all(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


__all__ = ["Features", "features_of"]
