"""How far apart the stream can carry two inputs, token by token.

Why: the distance between the outputs of two inputs bounds how uncertain a prediction is. Each bounded branch adds at most twice its size, so that
the distance grows at most linearly with depth; a norm on the sum, or after the last block, caps it at twice the norm's gain whatever the depth.
Assumes: evaluation; the gains of norms are fixed; in rms per token.
Cannot tell: when nothing bounds a branch and no norm stands at the end.
Source: Kan et al., theorem 6, with the sharp constant: docs/theory.md, uncertainty.
"""

from __future__ import annotations

from screen.facts.questions import branches, is_output_bounded, is_renormalised, is_unit, normed_total
from screen.rule import Example, Facts, Outcome, Rule, Site, Stream, Sublayer, Unknown, at, or_not_applicable
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
    if last is not None and (stream.final_norm is True or all(is_renormalised(s) for s in subs)) and last.type != "batchnorm":
        size = "max|γ|" if normed else "b"
        more = "whatever the depth" if normed else "b the largest value of that norm, whatever the depth"
        message = f"Two inputs of `{stream.name}` end at most 2·{size} apart per token, in rms: a norm stands at its end, {more}."
        return Outcome("holds", message, site, theorem=f"‖y − y'‖ ≤ 2·{size} per token after a norm", numbers=(("branches", count), *lines))
    if any(is_renormalised(s) for s in subs):
        return _after_the_last_norm(facts, stream, subs, site)
    scaled = next((s for s in subs if not _keeps_distances(s)), None)
    if scaled is not None:
        message = f"How far apart two inputs of `{stream.name}` end is not derived: the stream is multiplied at `{scaled.name}`."
        return Outcome("cannot_tell", message, at(stream, None, scaled))
    bounded = [is_output_bounded(facts, s) for s in subs if not is_renormalised(s)]
    if all(b is True for b in bounded):
        reach, one = ("Σ 2·b_l", "Σ 2·b_l") if total is None else (f"{2 * count}·s·max|γ|", "Σ 2·s·max|γ|")
        message = f"Two inputs of `{stream.name}` end at most ‖x − x'‖ + {reach} apart per token, in rms."
        return Outcome("holds", message, site, theorem=f"‖x_N − x_N'‖ ≤ ‖x_0 − x_0'‖ + {one}", numbers=(("branches", count), *lines))
    bare = [s for s, b in zip((s for s in subs if not is_renormalised(s)), bounded, strict=True) if b is not True]
    if bare and all("A" in s.positions and _has_bound(facts, s) for s in bare):
        message = f"Two inputs of `{stream.name}` end at most ‖x − x'‖ + Σ 2·b_l apart, b_l the bound that the weights of branch l set."
        return Outcome("holds", message, site, theorem="‖x_N − x_N'‖ ≤ ‖x_0 − x_0'‖ + Σ 2·b_l", numbers=(("branches", count),))
    if any(b is False and "A" not in s.positions for s, b in zip(bare, [b for b in bounded if b is not True], strict=True)):
        message = f"Nothing but its weights bounds how far `{stream.name}` carries two inputs apart: `{bare[0].name}` reads it without a norm."
        return Outcome("violated", message, at(stream, None, bare[0]), theorem="‖x_N − x_N'‖ ≤ (1 + L)^N·‖x_0 − x_0'‖")
    return Outcome("cannot_tell", f"Whether `{bare[0].name}` of `{stream.name}` is bounded is unknown.", at(stream, None, bare[0]))


def _keeps_distances(sublayer: Sublayer) -> bool:
    """The skip itself carries two states no further apart."""
    alpha = sublayer.alpha
    return alpha.kind == "none" or (alpha.kind == "constant" and alpha.value is not None and abs(alpha.value) <= 1)


def _after_the_last_norm(facts: Facts, stream: Stream, subs: list[Sublayer], site: Site) -> Outcome:
    """Two inputs leave a norm on the stream at most twice its size apart, however near they came; only what is added behind it counts."""
    lost = next((s for s in subs if not _has_bound(facts, s) and is_output_bounded(facts, s) is not True), None)
    if lost is not None:
        return Outcome("cannot_tell", f"Whether `{lost.name}` of `{stream.name}` is bounded is unknown.", at(stream, None, lost))
    message = (
        f"Two inputs of `{stream.name}` end at most 2·b₀ + Σ 2·b_l apart per token: b₀ is the largest value of the last norm on it, "
        "b_l the bound of each branch behind that norm."
    )
    return Outcome("holds", message, site, theorem="‖x_N − x_N'‖ ≤ 2·b₀ + Σ 2·b_l per token")


def _has_bound(facts: Facts, sublayer: Sublayer) -> bool:
    analysis = facts.analysis(sublayer)
    return not isinstance(analysis, Unknown) and not isinstance(analysis.bounds.magnitude, Unknown)
