"""The gradient of the first block over that of the last stays within bounds at the start, and grows at most like a power of depth.

Why: where every branch reads a bounded input, the squared gradient of a block is inverse to the squared size of the stream there, so that first
over last is rms_N/rms_1, a power of depth. Where attention reads the growing stream itself and only its output is normed, its logits grow with
the square of the stream, and the ratio becomes exponential at an ordinary initialisation of Q and K (1e5 at 64 blocks, 6 with QK-norm): the
first blocks get all of the update. A feed-forward with a norm on its output alone follows a power where it is homogeneous, as the norm takes its size
away: N(W sin(V x)) is not, and stays as steep however large x is; N(W tanh(V x)) becomes less steep with one over the size of x and not with its
square, so that the ratio is the exponential of a root of the depth. A branch without weights (pooling minus identity) may pull against the stream and
hold it small, while the others go on multiplying gradients. Where the stream is scaled down in each block and branches bring it back to its
size, a block multiplies gradients by a steady factor (1.05 for 0.95 x and a gated net of degree two), which looks like a power over a few dozen
blocks: that is told, with what it comes to at four times the depth where blocks are wide. Blocks that start as copies of one another (those of
`nn.TransformerEncoder`) move the stream the same way again and again, and have the ratio that is measured. Whatever the structure, the numbers at
the start decide: a ratio above 1e3 or below 1e-3, or tokens that are nearly the same behind the last block.
Assumes: independent random weights at the recorded initialisation for numbers that are derived; those that are measured are of one draw of the
weights. The gradient of a block is the root of the sum of squares over all its parameters where it is measured.
Cannot tell: when attention reads a stream that no norm bounds and its initialisation was not recorded; when the data scale the stream; when a
measurement refutes what was derived, or the module's own gradients are not those of the traced program.
Source: docs/theory.md, gradient ratio; Kim et al. 2025, table 5; Groeneveld et al. 2024 (OLMo 2).
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace

from screen.facts.advice import condition_on_logits, smaller_helps, steadier, unnormed
from screen.facts.claims.claim import LARGEST, ClaimKind
from screen.facts.operator import StreamOperator
from screen.facts.operator.polynomial import Range
from screen.facts.output_map import last_map
from screen.facts.queries import (
    COLLAPSED,
    EXPLOSIVE,
    FEW,
    MODEST,
    ROUNDING,
    STARVED,
    STEEP,
    are_logits_bounded,
    basis_of,
    factor_of,
    gain_of,
    growth_of,
    has_identity_path,
    has_no_scale,
    has_softmax,
    is_input_bounded,
    is_output_bounded,
    is_renormalised,
    is_straight_back,
    keeps_slope,
    maps_by_weights,
    measured_gain,
    nothing_grows,
    number_of,
    program_doubt,
    shares_weights,
    shows_when_deeper,
    starts_at_zero,
    streams_in_sequence,
    so_many_times,
    untold_factor,
    when_deeper,
)
from screen.rule import Example, Facts, Number, Outcome, Rule, Stream, Sublayer, Unknown, at, blame, or_not_applicable, scaled
from screen.theorems.in_words import last_gradient

RULE = Rule("D202", "gradient-ratio", "backward", "D", "error", ("streams", "claims"), "docs/theory.md, gradient ratio")

DRAWS = 10.0
"""How many times a ratio that one draw of the weights gave may be that of another draw (ten draws of a matrix memory: 200 to 10,524, median 850)."""
STAGES = 8
"""Streams after each other, each of which starts with what the one before became, that still make a stack of stages (pyramids have four or five)."""
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
    streams = [s for s in facts.streams if has_identity_path(facts, s) is True and any(k.sublayers for k in s.kinds)]
    return or_not_applicable([_with_last_map(facts, s, _judge(facts, s)) for s in streams], "no stream has an identity path.")


def _with_last_map(facts: Facts, stream: Stream, outcome: Outcome) -> Outcome:
    """Kim et al., proposition 3.1, beside it, where the stream ends in a map."""
    found = last_map(facts, stream)
    lines = () if found is None else last_gradient(found.branch, found.scaled, found.norms)
    return replace(outcome, numbers=(*outcome.numbers, *lines))


def _judge(facts: Facts, stream: Stream) -> Outcome:
    site = at(stream, None, stream.kinds[0].sublayers[0])
    if doubt := program_doubt(facts):
        return Outcome("cannot_tell", f"`{stream.name}`: {doubt}.", site, "measured")
    found = _by_numbers(facts, stream) or _refuted(facts, stream) or _by_structure(facts, stream)
    return (_multiplies(facts, stream) or found) if found.result == "holds" else found


def _numbers(facts: Facts, stream: Stream) -> Numbers:
    """What is known at the start."""
    shown: tuple[tuple[str, ClaimKind], ...] = (
        ("gradient_first_over_last", "gradient_ratio"),
        ("rms_last_over_first", "rms_ratio"),
        ("one_minus_cos", "one_minus_cos"),
    )
    found: list[tuple[str, Number]] = []
    for name, claim in shown:
        value = number_of(facts, stream, claim)
        digits = 6 if basis_of(facts, stream, claim) == "declared" else 2  # a measurement differs between machines
        found += [] if isinstance(value, Unknown) or value >= LARGEST else [(name, float(f"{value:.{digits}g}"))]
    return tuple(found)


def _by_numbers(facts: Facts, stream: Stream) -> Outcome | None:
    """What opens the channel whatever the path is."""
    site, depth, numbers = at(stream, None, stream.kinds[0].sublayers[0]), facts.depth(stream), _numbers(facts, stream)
    ratio, apart = number_of(facts, stream, "gradient_ratio"), number_of(facts, stream, "one_minus_cos")
    how = basis_of(facts, stream, "gradient_ratio")
    law = facts.claims.of("gradient_law", "start", stream.name).known
    if isinstance(ratio, float) and not 1 / STARVED <= ratio <= STARVED:
        remedy, tries = steadier(facts, stream)
        message = f"`{stream.name}`: at the start the first block gets {ratio:.3g} times the gradient of the last one, over {depth} blocks."
        return Outcome("violated", message, site, how, THEOREM, numbers=numbers, remedy=remedy, tries=tries)
    moderate = None
    if law == "exponential" and isinstance(ratio, float) and 1 / STEEP <= ratio <= STEEP:
        moderate = _multiplies(facts, stream) or _steady(facts, stream, ratio)
    if law == "exponential" and moderate is None:
        remedy, tries = steadier(facts, stream)
        shown = f"first over last gradient {ratio:.3g}" if isinstance(ratio, float) else "the ratio leaves the range of floats"
        message = f"`{stream.name}`: at the recorded initialisation gradients are exponential in depth, {shown} at {depth} blocks."
        return Outcome("violated", message, site, how, THEOREM, numbers=numbers, remedy=remedy, tries=tries)
    if isinstance(apart, float) and apart < COLLAPSED:
        message = f"`{stream.name}`: at the start 1 − cos between tokens is {apart:.2g} after {depth} blocks: tokens are nearly the same."
        return Outcome(
            "violated",
            message,
            site,
            basis_of(facts, stream, "one_minus_cos"),
            THEOREM,
            numbers=numbers,
            remedy=f"{'smaller initial weights, or ' if smaller_helps(facts, stream, 'tokens') else ''}norms inside the branches",
            tries=("norms-before",) if unnormed(facts, stream) else (),
        )
    grown = number_of(facts, stream, "rms_ratio")
    if isinstance(grown, float) and grown > STARVED:
        remedy, tries = steadier(facts, stream)
        message = f"`{stream.name}`: at the start it grows {so_many_times(grown)} over {depth} blocks, and so do gradients on their way back."
        basis = basis_of(facts, stream, "rms_ratio")
        return Outcome("violated", message, site, basis, THEOREM, numbers=numbers, remedy=remedy, tries=tries)
    return moderate


def _steady(facts: Facts, stream: Stream, ratio: float) -> Outcome:
    """Of gradients that are exponential in depth, with little of it at the depth that there is. At which depth it is much is not told: what the
    first blocks do is no measure of it (a raw gated unit: 3.9 at 24 blocks, 456 at 48)."""
    here = f"first over last {ratio:.3g} at its {facts.depth(stream)} blocks"
    message = f"`{stream.name}`: at the start gradients are exponential in depth, {here}; where it is deeper each block multiplies them."
    numbers, basis = _numbers(facts, stream), basis_of(facts, stream, "gradient_ratio")
    remedy, tries = steadier(facts, stream)
    site = at(stream, None, stream.kinds[0].sublayers[0])
    return Outcome("conditional", message, site, basis, THEOREM, numbers=numbers, condition="small-gain", remedy=remedy, tries=tries)


def _multiplies(facts: Facts, stream: Stream) -> Outcome | None:
    """Of a stream whose blocks come to multiply gradients by one factor, and whose ratio is moderate at its own depth."""
    if not (sentence := when_deeper(facts, stream)):
        return None
    numbers = (*_numbers(facts, stream), ("gradient_factor_per_block", float(f"{factor_of(facts, stream):.6g}")))
    site = at(stream, None, stream.kinds[0].sublayers[0])
    if not shows_when_deeper(facts, stream):
        return Outcome("holds", f"`{stream.name}`: {sentence}.", site, "declared", numbers=numbers)
    remedy = "an identity path of gain 1 beside branches that read a norm of the stream, `x + f(norm(x))`"
    return Outcome("conditional", f"`{stream.name}`: {sentence}.", site, "declared", numbers=numbers, condition="small-gain", remedy=remedy)


def _refuted(facts: Facts, stream: Stream) -> Outcome | None:
    """A claim of this channel that a measurement contradicts."""
    names: tuple[ClaimKind, ...] = ("identity_gain", "gradient_law", "gradient_ratio", "one_minus_cos")
    for name in names:
        claim = facts.claims.of(name, "start", stream.name)
        if claim.is_refuted and isinstance(claim.known, Unknown):
            message = f"`{stream.name}`: of {name.replace('_', ' ')} ({claim.id}), {claim.known.reason}."
            return Outcome("cannot_tell", message, blame(facts, at(stream), claim.nodes), "measured")
    return None


def _by_structure(facts: Facts, stream: Stream) -> Outcome:
    """What the path and the branches say, with the numbers beside it."""
    placed = [(facts.passes(stream, k), s) for k in stream.kinds for s in k.sublayers if not is_renormalised(s) and not starts_at_zero(s)]
    for _, sub in placed:
        if sub.placement == "unknown":
            return Outcome("cannot_tell", f"`{stream.name}`: the placement of `{sub.name}` is unknown.", at(stream, None, sub))
    gain = 1.0 if is_straight_back(stream) else gain_of(facts, stream)
    gated = next((s for _, s in placed if s.alpha.kind in ("learned", "data")), None)
    if isinstance(gain, Unknown):
        if gated is not None:
            return _gated(facts, stream, gated)
        return Outcome(
            "cannot_tell", f"`{stream.name}`: the gain of its identity path is not known: {gain.reason}.", blame(facts, at(stream), gain.nodes)
        )
    raw = [(n, s) for n, s in placed if keeps_slope(facts, s)]
    if gain < 1 / MODEST and (kept := _stationary(facts, stream, gain, bool(raw))) is not None:
        return kept
    if not 1 / MODEST <= gain <= MODEST:
        return _multiplied(facts, stream, gain)
    if (product := next((s for _, s in placed if s.multiplies_norm), None)) is not None:
        message = (
            f"`{product.name}` multiplies a norm of `{stream.name}`, entry by entry, by what it makes of it: that is no independent increment, "
            "entries near 0 stay there, and no law of depth is derived."
        )
        return Outcome("conditional", message, at(stream, None, product), theorem=THEOREM, numbers=_numbers(facts, stream), condition="small-gain")
    if not raw:
        bare = [s for _, s in placed if s.m.maps == 0]
        if fixed := [s for s in bare if not _is_told_by_depths(facts, stream, s)]:
            what = f"`{fixed[0].name}` has no matrix of weights: what it adds to `{stream.name}` is not independent of it"
            analysis = facts.analysis(fixed[0])
            told = not isinstance(analysis, Unknown) and not isinstance(analysis.degrees.orders.distinct, Unknown)
            if not told and maps_by_weights(facts, stream, fixed[0]):
                what = f"what `{fixed[0].name}` adds to `{stream.name}` is no product of its weights with it, and not shown to be independent of it"
            message = f"{what}, and no law of depth is derived."
            return Outcome("conditional", message, at(stream, None, fixed[0]), theorem=THEOREM, condition="small-gain")
        if gated is not None:
            return _gated(facts, stream, gated)
        operator = facts.operator(stream)
        if isinstance(operator, StreamOperator) and operator.carried == "decaying" and not operator.is_chain:
            message = f"what a branch adds to `{stream.name}` fades over depth, though the first state does not: gradients of early blocks do too."
            return Outcome("conditional", message, at(stream), theorem=THEOREM, numbers=_numbers(facts, stream), condition="stream-gain")
        if isinstance(operator, StreamOperator) and isinstance(operator.carried, Unknown):
            what = f"how far what a branch adds to `{stream.name}` is carried on is unknown, and so are gradients on that way"
            message = f"{what}: {operator.carried.reason}."
            where = blame(facts, at(stream), operator.carried.nodes)
            return Outcome("conditional", message, where, theorem=THEOREM, numbers=_numbers(facts, stream), condition="stream-gain")
        if isinstance(operator, StreamOperator) and operator.carried not in ("constant", "decaying"):
            if (factor := next((s for _, s in placed if s.alpha.kind != "none" and s.alpha.value is None), None)) is not None:
                message = f"`{stream.name}` is multiplied at `{factor.name}` by numbers that are not known, and so are gradients on the way back."
                site, numbers = at(stream, None, factor), _numbers(facts, stream)
                return Outcome("conditional", message, site, theorem=THEOREM, numbers=numbers, condition="stream-gain")
            message = f"what a branch adds to `{stream.name}` is carried on more than once: gradients of early blocks grow with depth as that does."
            if operator.carried == "exponential" and not operator.grows:  # an upper law
                seen = measured_gain(facts, stream)
                start = "" if seen is None else f"; at the start what is carried on has gain {seen:.3g} over its depth, as measured"
                message = f"how often what a branch adds to `{stream.name}` is carried on is derived as a range alone{start}."
            return Outcome("conditional", message, at(stream), theorem=THEOREM, numbers=_numbers(facts, stream), condition="stream-gain")
        if (number := streams_in_sequence(facts)) > STAGES:
            message = f"{number} streams follow each other with no identity path between them: gradients are multiplied from one to the next."
            return Outcome("conditional", message, at(stream), theorem=THEOREM, numbers=_numbers(facts, stream), condition="small-gain")
        free = [s for _, s in placed if is_output_bounded(facts, s) is not True]
        loose = next(((s, held) for s in free if isinstance(held := is_input_bounded(facts, s), Unknown)), None)
        if loose is not None and isinstance(number_of(facts, stream, "gradient_ratio"), Unknown):
            sub, lost = loose  # the law is one of mean squares, which a quotient by what may be 0 has not
            message = f"`{sub.name}` does not grow with `{stream.name}`, and nothing that is derived bounds what it adds: {lost.reason}."
            return Outcome("conditional", message, blame(facts, at(stream, None, sub), lost.nodes), theorem=THEOREM, condition="small-gain")
        return _by_depths(facts, stream, bare[0]) if bare else _of_one_block(facts, stream) or _polynomial(facts, stream)
    return _raw(facts, stream, raw)


def _is_told_by_depths(facts: Facts, stream: Stream, sublayer: Sublayer) -> bool:
    """Whether a branch has no weights, which training could change, and its stream was measured at two depths to have no exponential of gradients."""
    claim = facts.claims.of("gradient_law", "start", stream.name)
    return has_no_scale(facts, sublayer) and not sublayer.m.path and claim.status == "measured" and claim.value in ("flat", "power")


def _by_depths(facts: Facts, stream: Stream, sublayer: Sublayer) -> Outcome:
    """Of a stream one of whose branches has no weights: what it adds is not independent of the stream, so that the law is the measured one."""
    law, ratio = facts.claims.of("gradient_law", "start", stream.name).value, number_of(facts, stream, "gradient_ratio")
    told = "a power of depth" if law == "power" else "flat over depth"
    at_start = f", first over last {ratio:.3g} at {facts.depth(stream)} blocks" if isinstance(ratio, float) else ""
    message = (
        f"`{stream.name}`: no branch grows with it, and its identity path has gain 1; gradients are {told} "
        f"(measured at two depths{at_start}), and `{sublayer.name}` has no weights by which training could change what it does."
    )
    return Outcome("holds", message, at(stream), "measured", THEOREM, numbers=_numbers(facts, stream))


def _gated(facts: Facts, stream: Stream, sublayer: Sublayer) -> Outcome:
    """Multipliers that are no constants: of those made from the data the ratio at the start tells where training begins, and no more."""
    operator, ratio = facts.operator(stream), number_of(facts, stream, "gradient_ratio")
    kept, grown = operator.start if isinstance(operator, StreamOperator) else None, number_of(facts, stream, "rms_ratio")
    if sublayer.alpha.kind != "data" or not isinstance(ratio, float) or not isinstance(grown, float) or grown > EXPLOSIVE:
        return scaled(stream, sublayer, "gradients change over depth with their product", THEOREM)
    most = "keep at most all of it" if isinstance(kept, Range) and kept.high <= 1 + ROUNDING else "are not shown to keep at most all of it"
    message = (
        f"`{stream.name}` is multiplied at `{sublayer.name}` by gates or matrices made from the data, which {most}, and so are gradients that come "
        f"back past the branches; at the start first over last gradient is {ratio:.3g} over {facts.depth(stream)} blocks, and what training makes of "
        "them is not known."
    )
    basis, numbers = basis_of(facts, stream, "gradient_ratio"), _numbers(facts, stream)
    return Outcome("conditional", message, at(stream, None, sublayer), basis, THEOREM, numbers=numbers, condition="stream-gain")


def _stationary(facts: Facts, stream: Stream, gain: float, raw: bool) -> Outcome | None:
    """A stream that is scaled down in every block while branches keep up: the ratio at the start tells, where its law is known, or where no branch is
    raw, so that it is the ratio of two sizes of a stream that stays bounded."""
    ratio, law = number_of(facts, stream, "gradient_ratio"), facts.claims.of("gradient_law", "start", stream.name).known
    kept = not raw and growth_of(facts, stream, "fixed") == "bounded"
    if isinstance(ratio, Unknown) or (isinstance(law, Unknown) and not _is_polynomial(facts, stream) and not kept):
        return None
    what = f"the identity path of `{stream.name}` has gain {gain:.3g} over its depth, and branches keep gradients up: first over last is {ratio:.3g}"
    basis, numbers = basis_of(facts, stream, "gradient_ratio"), (("gain", gain), *_numbers(facts, stream))
    if gain < 1 / STARVED and not raw:  # what carries a raw branch's stream on may be a norm of it
        message = f"{what} at the start; past the branches next to nothing comes back, and nothing keeps it so in training."
        return Outcome("conditional", message, at(stream), basis, THEOREM, numbers=numbers, condition="stream-gain")
    found = Outcome("holds", f"{what}.", at(stream), basis, THEOREM, numbers=numbers)
    return _of_one_draw(facts, stream, ratio, found)


def _of_one_draw(facts: Facts, stream: Stream, ratio: float, found: Outcome) -> Outcome:
    """What holds by a ratio that was measured on one draw of the weights; where another draw may be beyond the limit, it depends on that."""
    if basis_of(facts, stream, "gradient_ratio") == "declared" or DRAWS / STARVED <= ratio <= STARVED / DRAWS:
        return found
    message = f"`{stream.name}`: in one draw of the weights first over last gradient is {ratio:.3g} over {facts.depth(stream)} blocks at the start"
    return replace(found, result="conditional", message=f"{message}; in another it may be beyond {STARVED:g}.", condition="small-gain")


def _log(value: float) -> float:
    """How many factors of e from 1, in either direction; of nothing as many as floats have."""
    return abs(math.log(max(value, sys.float_info.min)))


def _multiplied(facts: Facts, stream: Stream, gain: float) -> Outcome:
    """The ratio is the stream's own, which its multipliers alone make large or small; R301 says whether growth opens a channel."""
    ratio = number_of(facts, stream, "gradient_ratio")
    back = "and so are gradients that come back by it alone"
    if isinstance(ratio, float) and _log(ratio) < _log(gain) / 2:  # made up for by branches, or by weights that see a larger stream
        back = f"and gradients of weights are not: first over last is {ratio:.3g} at the start"
    message = f"the identity path of `{stream.name}` is multiplied by {gain:.3g} over its depth, {back}."
    operator = facts.operator(stream)
    first = operator.carried_first if isinstance(operator, StreamOperator) else None
    if first is not None and 1 / MODEST <= first.low <= first.high <= MODEST < gain:
        message = (
            f"the first state of `{stream.name}` is added again and reaches its end {gain:.3g} times over, and so do gradients on the way back to "
            "what makes it; what branches add is carried on as it is."
        )
    numbers = (("gain", gain), *_numbers(facts, stream))
    return Outcome("conditional", message, at(stream), theorem=THEOREM, numbers=numbers, condition="stream-gain")


def _of_one_block(facts: Facts, stream: Stream) -> Outcome | None:
    """Of blocks that share weights, or start as copies of one another (`nn.TransformerEncoder`): branches are not independent.
    It is moved the same way again and again and grows with the depth and not with its root (24 pre-norm blocks: first over last 4.7 to 8.5 in place
    of 1.5 to 1.9, and 40 to 73 at 192), and the ratio is measured."""
    found, ratio, numbers = facts.recursion(stream), number_of(facts, stream, "gradient_ratio"), _numbers(facts, stream)
    if not isinstance(found, Unknown) and (found.copies or found.tied):
        same = f"{'' if found.of_one else 'some of '}its blocks {'start as copies of one another' if found.copies else 'have the same weights'}"
    elif isinstance(found, Unknown) and shares_weights(facts, stream):
        same = "some weights serve in several of its branches"
    else:
        return None
    message = f"`{stream.name}`: {same}, so that what one adds is not independent of it, and no law of depth is derived"
    if isinstance(ratio, Unknown):
        return Outcome("conditional", f"{message}.", at(stream), theorem=THEOREM, numbers=numbers, condition="small-gain")
    message = f"{message}; at the start first over last gradient is {ratio:.3g} over {facts.depth(stream)} blocks."
    basis = basis_of(facts, stream, "gradient_ratio")
    return _of_one_draw(facts, stream, ratio, Outcome("holds", message, at(stream), basis, THEOREM, numbers=numbers))


def _polynomial(facts: Facts, stream: Stream) -> Outcome:
    """Every branch has degree 0 in the stream, or starts at zero."""
    numbers = _numbers(facts, stream)
    idle = [s for k in stream.kinds for s in k.sublayers if starts_at_zero(s)]
    if idle:
        message = f"`{stream.name}`: `{idle[0].name}` is multiplied by a learned scale that is zero at the start, when all depths get one gradient."
    else:
        message = f"`{stream.name}`: {nothing_grows(facts, stream)}, and its identity path has gain 1: {LAW}."
    assumes = ("weights are random and independent over depth; in the worst case the product is Π(1 + s·γ·L/σ_l)",)
    return Outcome("holds", message, at(stream), theorem=THEOREM, assumptions=assumes, numbers=numbers)


def _is_polynomial(facts: Facts, stream: Stream) -> bool:
    """Whether the ratio at the start, flat or not, is no exponential of depth."""
    found = facts.recursion(stream)
    return not isinstance(found, Unknown) and found.ratio_law == "polynomial"


def _raw(facts: Facts, stream: Stream, raw: list[tuple[int, Sublayer]]) -> Outcome:
    """Some branch is not known to move less as the stream grows: the numbers at the start decide."""
    numbers = _numbers(facts, stream)
    ratio, law = number_of(facts, stream, "gradient_ratio"), facts.claims.of("gradient_law", "start", stream.name).known
    sub = raw[0][1]
    held = [s for _, s in raw if is_input_bounded(facts, s) is not True]
    if not held and isinstance(ratio, float) and (isinstance(law, str) or _is_polynomial(facts, stream)):
        carried = "what is carried on, as measured," if isinstance(stream.identity.exists, Unknown) else "its identity path"
        message = (
            f"`{stream.name}`: what `{sub.name}` adds is bounded however large it gets, and {carried} has gain 1; at the start first over "
            f"last gradient is {ratio:.3g} over {facts.depth(stream)} blocks"
        )
        if isinstance(law, Unknown) and (factor := untold_factor(facts, stream)) is not None:
            message = f"{message}, and blocks far behind go on multiplying gradients, by {factor:.3g} each, by no law that is told."
            return Outcome("conditional", message, at(stream), "declared", THEOREM, numbers=numbers, condition="small-gain")
        message = f"{message}, not exponential in depth, by no power that is derived."
        return _of_one_draw(facts, stream, ratio, Outcome("holds", message, at(stream), "declared", THEOREM, numbers=numbers))
    sub = held[0] if held else sub
    times = sum(n for n, s in raw if s is sub)
    what = _what(facts, stream, sub)
    condition = condition_on_logits(facts, sub, grow=True) if "B" in sub.positions and has_softmax(facts, sub) is True else "small-gain"
    if times <= FEW:
        often = "once" if times == 1 else f"{times} times"
        return Outcome("conditional", f"{what}, {often} over the whole depth.", at(stream, None, sub), numbers=numbers, condition=condition)
    grown = number_of(facts, stream, "rms_ratio")
    if isinstance(grown, float) and grown > EXPLOSIVE:
        over = f"at the recorded initialisation it grows {so_many_times(grown)} over {facts.depth(stream)} blocks"
        if isinstance(ratio, float) and 1 / STEEP <= ratio <= STEEP and growth_of(facts, stream, "fixed") == "exponential":  # R301 opens for it
            message = f"{what}: {over}, and so do gradients on the way back to its input; those of weights, first over last, are {ratio:.3g}."
            return Outcome("conditional", message, at(stream, None, sub), "declared", THEOREM, numbers=numbers, condition=condition)
        message = f"{what}: {over}, and so do gradients on the way back to its input."
        remedy, tries = steadier(facts, stream)
        return Outcome("violated", message, at(stream, None, sub), "declared", THEOREM, numbers=numbers, remedy=remedy, tries=tries)
    if isinstance(ratio, float):
        message = f"{what}; at the start first over last gradient is {ratio:.3g} at {facts.depth(stream)} blocks, which larger weights would change."
        return Outcome("conditional", message, at(stream, None, sub), "declared", THEOREM, numbers=numbers, condition=condition)
    if isinstance(grown, float):
        message = f"{what}; at the start the stream itself grows {so_many_times(grown)} over {facts.depth(stream)} blocks."
        return Outcome("conditional", message, at(stream, None, sub), "declared", THEOREM, numbers=numbers, condition=condition)
    message = f"{what}, and how gradients change over depth is unknown: {ratio.reason}."
    if _reads_norm(sub):
        return Outcome("conditional", message, blame(facts, at(stream, None, sub), ratio.nodes), theorem=THEOREM, condition="small-gain")
    return Outcome("cannot_tell", message, blame(facts, at(stream, None, sub), ratio.nodes))


def _reads_norm(sub: Sublayer) -> bool:
    """Whether all that a branch makes of the stream is made of a norm of it."""
    return "A" in sub.positions and not sub.multiplies_stream


def _what(facts: Facts, stream: Stream, sub: Sublayer) -> str:
    """How a branch depends on the size of the stream."""
    if "B" in sub.positions and has_softmax(facts, sub) is True and are_logits_bounded(facts, sub) is not True:
        return f"The logits of `{sub.name}` grow with `{stream.name}`"
    if is_input_bounded(facts, sub) is True:
        return f"`{sub.name}` stays of its size as `{stream.name}` grows, and that its slope falls is not shown"
    if _reads_norm(sub):
        return f"`{sub.name}` reads a norm of `{stream.name}`, and nothing that is derived keeps its slope from adding up"
    return f"`{sub.name}` multiplies `{stream.name}`, or reads it as it is: nothing that is derived keeps its slope from adding up"
