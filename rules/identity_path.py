"""A path of adds and identity-like ops leads from the start of each stream to its end.

Why: with an identity path the gradient of the loss reaches the first block with a term that no weight multiplies. Without one (the
norm stands on the stream, as in post-norm) every path crosses one norm Jacobian per normalised sum, and what arrives depends on the
initialisation: tokens become alike with depth (mean cosine 0.73 after 6 post blocks at 1/fan-in, 1.000 after 64), and warm-up, a lower
learning rate, or scales on stream and branch (DeepNorm) have to compensate. In a loss curve: a plateau near the start of training, or
divergence when warm-up is shortened.
Assumes: dropout and stochastic depth are off. A gain other than 1 is reported, not judged, here.
Cannot tell: when an op without a row, or a guessed branch, lies on the stream.
Source: Xiong et al. 2020, theorem 1; Wang et al. 2022 (DeepNet).
"""

from __future__ import annotations

import math
from dataclasses import replace

from screen.facts.lipschitz_product import block_stretch, scale_of
from screen.facts.queries import CANCELS, gain_of, is_straight_back, measured_gain, mixes_copies
from screen.rule import Example, Facts, Number, Outcome, Rule, Stream, Unknown, at, blame, or_not_applicable

RULE = Rule("D101", "identity-path", "backward", "D", "note", ("streams.identity", "claims"), "Xiong et al. 2020, theorem 1")

SAME = 1e-3
"""Relative difference of two gains that are one (rounding)."""
MOST_KINDS = 3
"""Kinds of blocks whose factors are written out; nobody reads more."""

HOLDS = (
    Example(
        "pre-norm: the stream is only added to",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))
""",
    ),
)
VIOLATES = (
    Example(
        "post-norm: every sum is normalised and carried on",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return self.norm(x + self.down(F.gelu(self.up(x))))
""",
    ),
)
CANNOT_TELL = (
    Example(
        "an op without a row stands on the stream",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return torch.special.bessel_j0(x + self.down(F.gelu(self.up(self.norm(x)))))
""",
    ),
)

POST = "Xiong et al. 2020, theorem 1: at the same initialisation the last block's gradient does not fall with depth"
"""Of norms on the sum; of what else ends an identity path it says nothing."""


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream."""
    return or_not_applicable([_with_stretch(facts, s, _judge(facts, s)) for s in facts.streams], "there is no stream.")


def _with_stretch(facts: Facts, stream: Stream, outcome: Outcome) -> Outcome:
    """Emadi, theorems 5.2 and 5.3, for the blocks at hand: how much one and all of them stretch a change of their input, at most."""
    blocks = [block_stretch(facts, k) for k in stream.kinds]
    if stream.long_skips or not blocks or any(b is None for b in blocks) or not _is_carried_by_its_scales(facts, stream):
        return outcome
    each = [f"{b} (`{k.id}`)" if len(blocks) > 1 else f"{b}" for b, k in zip(blocks, stream.kinds, strict=True)]
    if len(each) > MOST_KINDS:
        return outcome
    depth = facts.depth(stream)
    whole = "" if depth == 1 else f", and {depth} blocks by the product of theirs"
    said = f"one block stretches a change of its input, per token, at most by {' or '.join(each)}{whole}"
    means = "L of the table, globally or at a point" + ("; σ the divisor of the norm on the sum" if "σ" in said else "")
    return replace(outcome, numbers=(*outcome.numbers, ("Emadi, theorems 5.2 and 5.3", f"{said} ({means}).")))


def _is_carried_by_its_scales(facts: Facts, stream: Stream) -> bool:
    """Whether nothing but the skips of its sums carries the stream, as those theorems have it: a map between two blocks, a change of basis and back,
    or a mean of several sums, carries other than the scales of the single skips say."""
    if isinstance(stream.identity.exists, Unknown) or stream.identity.breaks or stream.cuts:
        return False
    gain = gain_of(facts, stream)
    if stream.identity.exists is False or isinstance(gain, Unknown):
        return True  # norms stand on the sums
    carried = math.prod(scale_of(kind) ** facts.passes(stream, kind) for kind in stream.kinds)
    return math.isclose(carried, gain, rel_tol=SAME)


def _judge(facts: Facts, stream: Stream) -> Outcome:
    site, path = at(stream), stream.identity
    gain = measured_gain(facts, stream)
    if isinstance(path.exists, Unknown) and gain is not None:
        what = f"What `{stream.name}` carries on has the gain {gain:.4g} over its depth, as measured at the start, and it is not derived"
        numbers: tuple[tuple[str, Number], ...] = (("gain", float(f"{gain:.3g}")), ("depth", facts.depth(stream)))
        return Outcome("conditional", f"{what}: {path.exists.reason}.", blame(facts, site, path.exists.nodes), "measured", numbers=numbers)
    if isinstance(path.exists, Unknown):
        reason = f"Whether an identity path runs through `{stream.name}` is unknown: {path.exists.reason}."
        return Outcome("cannot_tell", reason, blame(facts, site, path.exists.nodes))
    if path.exists and (path.gain in ("1", None) or is_straight_back(stream)):
        return Outcome("holds", f"an identity path of gain 1 runs through all {facts.depth(stream)} blocks of `{stream.name}`.", site)
    if path.exists and gain is not None:  # a range is derived, and one number of it was measured
        what = f"An identity path runs through `{stream.name}` with the gain {gain:.4g} over its depth, as measured at the start"
        numbers = (("gain", float(f"{gain:.3g}")), ("depth", facts.depth(stream)))
        why = f"{what} (derived: {path.gain}): it holds as far as that stays near 1."
        return Outcome("conditional", why, site, "measured", numbers=numbers)
    if path.exists:
        return Outcome(
            "conditional",
            f"An identity path runs through `{stream.name}` with the gain {path.gain}, not 1: it holds as far as that product is near 1.",
            site,
            numbers=(("gain", path.gain or "?"), ("depth", facts.depth(stream))),
        )
    return _mixed(facts, stream) if mixes_copies(facts, stream) else _broken(stream, facts.depth(stream))


def _mixed(facts: Facts, stream: Stream) -> Outcome:
    """Hyper-connections: what hands gradients on is a product of trained matrices."""
    first = stream.identity.breaks[0]
    kept = isinstance(facts.claims.of("identity_gain", "start", stream.name).known, float)  # measured: they hand the stream on as they start
    what = f"passes trained matrices that mix its copies, first at {first.words}: gradients arrive as these leave them"
    return Outcome(
        "violated",
        f"No identity path runs through `{stream.name}`: it {what}. D201 judges what they start as.",
        at(stream, place=first),
        numbers=(("norms_crossed", 0), ("depth", stream.depth)),
        plain=f"Every skip of `{stream.name}` {what}. D201 judges what they start as.",
        remedy="keep these matrices near what they start as" if kept else "start these matrices at the identity, or near it",
    )


def _broken(stream: Stream, depth: int) -> Outcome:
    crossed, breaks = stream.identity.norms_crossed, stream.identity.breaks
    if breaks:
        what = f"it breaks at {breaks[0].words}" + (f" and crosses {crossed} norm{'' if crossed == 1 else 's'}" if crossed else "")
    elif not crossed:
        what = CANCELS
    else:
        what = f"every path crosses {crossed} norm{'' if crossed == 1 else 's'} in {depth} block{'' if depth == 1 else 's'}"
    last = next((s.place for k in stream.kinds for s in k.sublayers if "C" in s.positions), None)
    return Outcome(
        "violated",
        f"No identity path runs through `{stream.name}`: {what}. D201 judges whether scales or initialisation make up for it.",
        at(stream, place=breaks[0] if breaks else last),
        theorem=POST if crossed else "",
        numbers=(("norms_crossed", crossed), ("depth", depth)),
        plain=f"No skip of `{stream.name}` hands gradients on as they are: {what}. D201 judges whether scales or initialisation make up for it.",
        remedy=_remedy(stream),
    )


def _remedy(stream: Stream) -> str:
    """Norms on the sums go into the branches, and DeepNorm's scales are proposed where none stand; past anything else a skip is led."""
    normed = [s for k in stream.kinds for s in k.sublayers if "C" in s.positions]
    if stream.identity.norms_crossed and normed and all(s.alpha.kind == "constant" and (s.alpha.value or 1.0) > 1.0 for s in normed):
        return "move the norm into the branch (pre or peri); the scale on the stream stands already, and D102 judges the weights that belong to it"
    if stream.identity.norms_crossed:
        return "move the norm into the branch (pre or peri), or scale stream and branch as DeepNorm does; else warm up and lower the rate"
    where = stream.identity.breaks[0].words if stream.identity.breaks else "what breaks it"
    return f"a skip past {where}, `x = x + f(norm(x))`, with what stands there inside f; else warm up and lower the rate"
