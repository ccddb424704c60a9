"""How far apart the stream can carry two inputs, token by token.

Why: the distance between the outputs of two inputs bounds how uncertain a prediction is. Each bounded branch adds at most twice its size, so that
the distance grows at most linearly with depth; a norm on the sum, or after the last block, caps it at twice the norm's gain whatever the depth.
Assumes: evaluation; the gains of norms are fixed; in rms per token.
Cannot tell: when nothing bounds a branch and no norm stands at the end.
Source: Kan et al., theorem 6, with the sharp constant: docs/theory.md, uncertainty.
"""

from __future__ import annotations

from screen.facts.queries import (
    ROUNDING, branches, gain_of, grows_with_stream, growth_of, is_input_bounded, is_output_bounded, is_sum_normed, is_unit, normed_total,
    reads_grown_state,
)  # fmt: skip
from screen.rule import Example, Facts, Outcome, Rule, Stream, Unknown, at, or_not_applicable
from screen.theorems.in_words import distance, generalising

RULE = Rule("R401", "token-distance", "uncertainty", "R", "note", ("streams", "analyses"), "Kan et al., theorem 6")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down, self.after = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32), nn.RMSNorm(32)

    def forward(self, x):
        return x + OUTPUT


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""
HOLDS = (Example("norms on the outputs", BLOCK.replace("OUTPUT", "self.after(self.down(F.relu(self.up(x))))")),)
VIOLATES = (Example("no norm: two inputs part exponentially as a bound", BLOCK.replace("OUTPUT", "self.down(F.relu(self.up(x)))")),)
CANNOT_TELL = (Example("an op without a bound", BLOCK.replace("OUTPUT", "torch.special.bessel_j0(self.norm(x))")),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream."""
    streams = [s for s in facts.streams if any(k.sublayers for k in s.kinds)]
    return or_not_applicable([_judge(facts, s) for s in streams], "there is no stream.")


def _judge(facts: Facts, stream: Stream) -> Outcome:
    subs = [s for k in stream.kinds for s in k.sublayers]
    site, count = at(stream, None, subs[-1]), branches(facts, stream)
    total = normed_total(facts, stream)
    last = stream.end_norm
    normed = last is not None and is_unit(last)
    ends = stream.final_norm is True and normed
    lines = distance(total, stream.width, ends) + generalising(total, stream.width) if total and stream.width else ()
    if last is not None and (stream.final_norm is True or all(is_sum_normed(facts, s) for s in subs)) and last.type != "batchnorm":
        size = "max|γ|" if normed else "b"
        more = "whatever the depth" if normed else "b the largest value of that norm, whatever the depth"
        message = f"Two inputs of `{stream.name}` end at most 2·{size} apart per token, in rms: a norm stands at its end, {more}."
        return Outcome("holds", message, site, theorem=f"‖y − y'‖ ≤ 2·{size} per token after a norm", numbers=(("branches", count), *lines))
    if growth_of(facts, stream, "fixed") == "bounded":
        message = f"Two inputs of `{stream.name}` end at most 2·b apart per token, b the largest size of the stream at these weights."
        return Outcome("holds", message, site, theorem="‖x_N − x_N'‖ ≤ 2·b per token", numbers=(("branches", count),))
    gated = next((s for s in subs if s.alpha.kind == "data"), None)
    if gated is not None:  # g(x)·x − g(x')·x' is more than g·(x − x') where the gate moves, too
        message = f"How far apart two inputs of `{stream.name}` end is not derived: it is multiplied by gates or matrices that are made from it."
        return Outcome("cannot_tell", message, at(stream, None, gated))
    gain = gain_of(facts, stream)
    if isinstance(gain, Unknown) or stream.identity.exists is not True or gain > 1 + ROUNDING:
        message = f"How far apart two inputs of `{stream.name}` end is not derived: its identity path is none, or has a gain of its own."
        return Outcome("cannot_tell", message, site)
    bounded = [is_output_bounded(facts, s) for s in subs]
    if all(b is True for b in bounded):
        reach, one = ("Σ 2·b_l", "Σ 2·b_l") if total is None else (f"{2 * count}·s·max|γ|", "Σ 2·s·max|γ|")
        message = f"Two inputs of `{stream.name}` end at most ‖x − x'‖ + {reach} apart per token, in rms."
        return Outcome("holds", message, site, theorem=f"‖x_N − x_N'‖ ≤ ‖x_0 − x_0'‖ + {one}", numbers=(("branches", count), *lines))
    bare = [s for s, b in zip(subs, bounded, strict=True) if b is not True]
    if bare and _has_bounds(facts, stream):
        first = any(is_input_bounded(facts, s) is not True and not reads_grown_state(facts, stream, k, s) for k in stream.kinds for s in k.sublayers)
        given = ", and its first state where it reads that alone" if first else ""
        message = f"Two inputs of `{stream.name}` end at most ‖x − x'‖ + Σ 2·b_l apart, b_l the bound that the weights of branch l set{given}."
        return Outcome("holds", message, site, theorem="‖x_N − x_N'‖ ≤ ‖x_0 − x_0'‖ + Σ 2·b_l", numbers=(("branches", count),))
    if grown := next((s for s in bare if grows_with_stream(facts, s)), None):
        message = f"Nothing but its weights bounds how far `{stream.name}` carries two inputs apart: `{grown.name}` reads it without a norm."
        return Outcome("violated", message, at(stream, None, grown), theorem="‖x_N − x_N'‖ ≤ (1 + L)^N·‖x_0 − x_0'‖")
    if all(is_input_bounded(facts, s) is True for s in bare):
        message = f"How far apart two inputs of `{stream.name}` end is not derived: how it grows at these weights is not known."
        return Outcome("cannot_tell", message, at(stream, None, bare[0]))
    why = facts.claims.of("growth", "fixed", stream.name).reason or f"whether what `{bare[0].name}` adds is bounded at these weights is unknown"
    message = f"How far apart two inputs of `{stream.name}` end is not derived: {why}."
    return Outcome("cannot_tell", message, at(stream, None, bare[0]))


def _has_bounds(facts: Facts, stream: Stream) -> bool:
    """Whether a bound of every branch at fixed weights is proved, and not only a law of growth seen."""
    claim = facts.claims.of("growth", "fixed", stream.name)
    return claim.status == "proved" and claim.known in ("bounded", "linear", "polynomial")
