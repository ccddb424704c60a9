"""The gradient of the first block over that of the last grows at most like a power of depth.

Why: where every branch reads a bounded input, the squared gradient of a block is inverse to the squared size of the stream there, so that first
over last is rms_N/rms_1, a power of depth. Where attention reads the growing stream itself and only its output is normed, its logits grow with
the square of the stream, and the ratio becomes exponential at an ordinary initialisation of Q and K (1e5 at 64 blocks, 6 with QK-norm): the
first blocks get all of the update. A feed-forward with a norm on its output alone follows a power where it is homogeneous, as the norm takes its size
away: N(W sin(V x)) is not, and stays as steep however large x is. A branch without weights (pooling minus identity) may pull against the stream and
hold it small, while the others go on multiplying gradients. A bounded map in place of an input norm (tanh) levels off, by no power of depth.
Assumes: independent random weights at the recorded initialisation for numbers; outputs that their own norm divides do not collapse. The ratio is
that of the stream for branches of degree 1 in what they read, and a higher power of depth for others (a product with the branch's own input).
Cannot tell: when attention reads a stream that no norm bounds and its initialisation was not recorded; when the data scale the stream.
Source: docs/theory.md, gradient ratio; Kim et al. 2025, table 5; Groeneveld et al. 2024 (OLMo 2).
"""

from __future__ import annotations

from dataclasses import replace

from screen.facts.last_map import last_map
from screen.facts.questions import (
    EXPLOSIVE,
    are_logits_bounded,
    constant_gain,
    does_slope_fall,
    has_softmax,
    is_input_bounded,
    is_renormalised,
    is_scale_free,
    starts_at_zero,
)
from screen.facts.questions import MODEST as MODEST_GAIN
from screen.facts.recursion import Recursion
from screen.rule import Example, Facts, Number, Outcome, Rule, Stream, Sublayer, Unknown, at, blame, or_not_applicable, scaled
from screen.theorems.in_words import last_gradient

RULE = Rule("D202", "gradient-ratio", "backward", "D", "error", ("streams", "recursions"), "docs/theory.md, gradient ratio")

MODEST = 3.0
"""First-over-last gradient ratio over rms_N/rms_1 up to which a stack too shallow for a law counts as following the stream (docs/theory.md)."""
FEW = 2
"""Branches without a norm, over the whole depth, that make no law of depth (a convolution for positions before the first block)."""
Numbers = tuple[tuple[str, Number], ...]

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.qn, self.kn = (nn.RMSNorm(64) for _ in range(4))
        self.q, self.k, self.v, self.o = (nn.Linear(64, 64, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(64, 256, bias=False), nn.Linear(256, 64, bias=False)
        for linear in (self.q, self.k, self.v, self.o, self.up, self.down):
            INIT

    def forward(self, x):
        x = x + self.n1(self.o(F.scaled_dot_product_attention(QN(self.q(x)), KN(self.k(x)), self.v(x))))
        return x + self.n2(self.down(F.gelu(self.up(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(100, 64), nn.RMSNorm(64)
        nn.init.normal_(self.embed.weight)
        self.blocks = nn.ModuleList(Block() for _ in range(64))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
"""
FAN_IN = "nn.init.normal_(linear.weight, std=linear.in_features**-0.5)"


def _example(title: str, norms: tuple[str, str], init: str = FAN_IN) -> Example:
    return Example(title, BLOCK.replace("QN(", norms[0] + "(").replace("KN(", norms[1] + "(").replace("INIT", init), ("ids=int64[2,16]",))


HOLDS = (_example("norms on outputs, queries and keys", ("self.qn", "self.kn")),)
VIOLATES = (_example("norms on outputs alone, weights of variance 1/fan_in", ("", "")),)
UNFILLED = "linear.weight = nn.Parameter(torch.empty(linear.weight.shape))"
CANNOT_TELL = (_example("norms on outputs alone, weights that no initialiser fills", ("", ""), UNFILLED),)

LAW = "in mean square over random weights, gradients follow a power of depth"
THEOREM = "E‖∂L/∂x_l‖² / E‖∂L/∂x_N‖² = ‖x_N‖²/‖x_l‖² where the branches read bounded inputs"


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream with an identity path."""
    streams = [s for s in facts.streams if s.identity.exists is True and any(k.sublayers for k in s.kinds)]
    return or_not_applicable([_with_last_map(facts, s, _judge(facts, s)) for s in streams], "no stream has an identity path.")


def _with_last_map(facts: Facts, stream: Stream, outcome: Outcome) -> Outcome:
    """Kim et al., proposition 3.1, beside it, where the stream ends in a map."""
    found = last_map(facts, stream)
    lines = () if found is None else last_gradient(found.branch, found.scaled, found.norms)
    return replace(outcome, numbers=(*outcome.numbers, *lines))


def _judge(facts: Facts, stream: Stream) -> Outcome:
    placed = [(facts.passes(stream, k), s) for k in stream.kinds for s in k.sublayers if not is_renormalised(s) and not starts_at_zero(s)]
    for _, sub in placed:
        if sub.placement == "unknown":
            return Outcome("cannot_tell", f"`{stream.name}`: the placement of `{sub.name}` is unknown.", at(stream, None, sub))
    raw = [(n, s) for n, s in placed if not does_slope_fall(facts, s)]
    fed = [s for _, s in raw if "B" in s.positions and has_softmax(facts, s) is True and are_logits_bounded(facts, s) is not True]
    bare = [s for _, s in raw if "B" not in s.positions]
    if not fed and not bare:
        gated = next((s for _, s in placed if s.alpha.kind in ("learned", "data")), None)
        if gated is not None:
            return scaled(stream, gated, "gradients change over depth with their product", THEOREM)
        if raw:
            return _steep(stream, raw[0][1])
        if fixed := [s for _, s in placed if s.m.maps == 0]:
            message = f"`{fixed[0].name}` has no weights: what it adds to `{stream.name}` is not independent of it, and no law of depth is derived."
            return Outcome("conditional", message, at(stream, None, fixed[0]), theorem=THEOREM, condition="small-gain")
        gain = constant_gain(facts, stream)
        return _polynomial(facts, stream) if gain <= MODEST_GAIN else _multiplied(stream, gain)
    times = sum(n for n, s in raw if s in bare)
    if not fed and times <= FEW:
        often = "once" if times == 1 else f"{times} times"
        message = f"`{bare[0].name}` multiplies `{stream.name}`, which no norm bounds for it, {often} over the whole depth."
        return Outcome("conditional", message, at(stream, None, bare[0]), condition="small-gain")
    if fed:
        return _measured(facts, stream, fed[0], f"The logits of `{fed[0].name}` grow with `{stream.name}`", grows=False)
    return _measured(facts, stream, bare[0], f"`{bare[0].name}` multiplies `{stream.name}`, which no norm bounds for it", grows=True)


def _steep(stream: Stream, sub: Sublayer) -> Outcome:
    """A norm on the output of a branch that reads the stream as it is, and is not known to be homogeneous in it."""
    message = (
        f"`{sub.name}` reads `{stream.name}` as it is, and the graph does not show that its slope falls as that grows (a gate that saturates, "
        "a router, `sin`, a product with the stream itself): it has a norm on its output alone, and no law of depth is derived."
    )
    return Outcome("conditional", message, at(stream, None, sub), theorem=THEOREM, condition="small-gain")


def _multiplied(stream: Stream, gain: float) -> Outcome:
    """The ratio is the stream's own, which constants alone make large; R301 says whether that opens a channel."""
    message = f"`{stream.name}` is multiplied by {gain:.3g} over its depth by the constants on its adds alone, and so are gradients on the way back."
    return Outcome("conditional", message, at(stream), theorem=THEOREM, numbers=(("product_of_alpha", gain),), condition="stream-gain")


def _polynomial(facts: Facts, stream: Stream) -> Outcome:
    found = facts.recursion(stream)
    numbers: Numbers = () if isinstance(found, Unknown) else (("rms_last_over_first", found.predicted_ratio),)
    if not isinstance(found, Unknown) and not isinstance(found.gradient_ratio, Unknown):
        numbers = (*numbers, ("gradient_first_over_last", found.gradient_ratio))
    subs = [s for k in stream.kinds for s in k.sublayers]
    idle = [s for s in subs if starts_at_zero(s) and is_input_bounded(facts, s) is not True]
    flat = [s for s in subs if not {"A", "B"} & set(s.positions) and not is_renormalised(s) and not is_scale_free(facts, s)]
    if idle:
        message = f"`{stream.name}`: `{idle[0].name}` is multiplied by a learned scale that is zero at the start, when all depths get one gradient."
    elif flat:
        message = (
            f"`{stream.name}`: `{flat[0].name}` has a bounded map in place of a norm, which levels off as the stream grows: gradients change "
            "less and less from block to block, by no power that is derived."
        )
    else:
        message = f"`{stream.name}`: every branch has a norm on its input, or on its output with logits that stay or none: {LAW}."
    assumes = ("weights are random and independent over depth; in the worst case the product is Π(1 + s·γ·L/σ_l)",)
    return Outcome("holds", message, at(stream), theorem=THEOREM, assumptions=assumes, numbers=numbers)


def _measured(facts: Facts, stream: Stream, sub: Sublayer, what: str, grows: bool) -> Outcome:
    """Decided by the recursion at the recorded initialisation. `grows`: a branch without norms multiplies the stream."""
    site, depth, found = at(stream, None, sub), facts.depth(stream), facts.recursion(stream)
    law: str | Unknown = found if isinstance(found, Unknown) else _law(found)
    if isinstance(found, Unknown) or isinstance(law, Unknown):
        why = law if isinstance(law, Unknown) else Unknown("not derived")
        message = f"{what}, and how gradients change over depth is unknown: {why.reason}."
        return Outcome("cannot_tell", message, blame(facts, site, why.nodes))
    numbers: Numbers = (("rms_last_over_first", found.predicted_ratio), ("depth", depth))
    if grows and found.rms[-1] > EXPLOSIVE * found.rms[0]:
        message = f"{what}: at the recorded initialisation it grows {found.predicted_ratio:.3g} times over {depth} blocks, and so do gradients."
        return Outcome("violated", message, site, "declared", THEOREM, numbers=numbers, remedy="a norm on the branch's input or output")
    shown = "the ratio is not known"
    if not isinstance(found.gradient_ratio, Unknown):
        numbers = (("gradient_first_over_last", found.gradient_ratio), *numbers)
        shown = f"first over last gradient {found.gradient_ratio:.3g} at {depth} blocks"
    if law == "exponential":
        alone = f"the stream's growth alone gives {found.predicted_ratio:.3g}"
        message = f"{what}: at the recorded initialisation gradients are exponential in depth, {shown}, where {alone}."
        remedy = "a norm on queries and keys, or on the branch's input; or smaller initial Q and K"
        return Outcome("violated", message, site, "declared", THEOREM, numbers=numbers, remedy=remedy)
    if grows:
        tail = "which depth and larger weights multiply"
    else:
        shape = "no more than the stream's own growth" if isinstance(found.ratio_law, Unknown) else "a power of depth"
        tail = f"{shape}, which larger weights would change"
    message = f"{what}; at the recorded initialisation {shown}, {tail}."
    return Outcome("conditional", message, site, "declared", THEOREM, numbers=numbers, condition="small-gain" if grows else "bounded-logits")


def _law(found: Recursion) -> str | Unknown:
    """The law of depth; of a stack too shallow for one, whether the ratio itself follows the stream."""
    if isinstance(found.ratio_law, Unknown) and not isinstance(found.gradient_ratio, Unknown):
        return "polynomial" if found.gradient_ratio <= MODEST * max(found.predicted_ratio, 1.0) else found.ratio_law
    return found.ratio_law
