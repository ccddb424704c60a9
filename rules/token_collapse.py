"""Tokens stay apart over the depth of a stream that is normalised after each sum, or its scales compensate for depth.

Why: where every path crosses norms there is no identity path. At a large initialisation one block multiplies 1 − cos between tokens by
1/(1 + v), v the mean-square gain of V and O, so that after a few dozen blocks tokens are nearly the same and no gradient tells them apart: the
loss stays at its first value. With smaller weights, or a stream multiplied by α, the collapse is slow: 2N(v² + w²)/α² at most about 1 is
DeepNorm's condition. Tokens may stay apart where gradients do not stay alike: a gated net of a stream that is normed again in each block multiplies
them in each. A first-over-last ratio above 1e3, or below 1e-3, opens the channel.
Assumes: independent random weights at the recorded initialisation, tokens that are exchangeable; the thresholds on 1 − cos are provisional: from
4e-4 to 0.0176 the runs that are known train, but few they are, and the condition is warm-up and a lower learning rate, as above.
Cannot tell: when the initialisation was not recorded, or a branch is none that the recursion covers; when tokens collapse in blocks whose weights
serve at several depths, since the thresholds were set on blocks with weights of their own.
Source: the token covariance recursion in docs/theory.md; Wang et al. 2022 (DeepNet), section 4; Xiong et al. 2020, theorem 1.
"""

from __future__ import annotations

from dataclasses import replace

from screen.facts.advice import deepnorm_code, smaller_helps
from screen.facts.output_map import last_map
from screen.facts.queries import (
    CANCELS, COLLAPSED, EXPLOSIVE, FEWER, STARVED, UPDATE_LIMIT, basis_of, has_identity_path, mixes_copies, number_of, program_doubt, shares_weights,
    twins, when_deeper,
)  # fmt: skip
from screen.facts.weight_gains import through_decoder
from screen.rule import Example, Facts, Outcome, Place, Rule, Site, Stream, Sublayer, Unknown, at, blame, or_not_applicable
from screen.theorems.depth_scale import deepnorm
from screen.theorems.in_words import last_gradient

RULE = Rule("D201", "token-collapse", "backward", "D", "error", ("streams.identity", "recursions"), "docs/theory.md, token covariance")

APART = 0.1
"""1 − cos at the last block above which a stream is trained with warm-up as usual (provisional, set on published outcomes)."""
UPDATE = "2N(v² + w²)/α² ≤ about 1, with 2N the number of branches"

BAND = 0.0176
"""1 − cos from which up streams are known to train: post-norm at 6+6 with fairseq's gains. Down to `COLLAPSED` it is a guess which recipe was run."""
BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(64), nn.LayerNorm(64)
        self.q, self.k, self.v, self.o = (nn.Linear(64, 64) for _ in range(4))
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
        for linear in (self.q, self.k, self.v, self.o, self.up, self.down):
            INIT
            nn.init.zeros_(linear.bias)

    def forward(self, x):
        y = F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))
        x = self.n1(ALPHA * x + self.o(y))
        return self.n2(ALPHA * x + self.down(F.relu(self.up(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(48))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""
FAN_IN = "nn.init.normal_(linear.weight, std=linear.in_features**-0.5)"


def _example(title: str, init: str, alpha: str) -> Example:
    return Example(title, BLOCK.replace("INIT", init).replace("ALPHA", alpha), ("x=float32[2,16,64]",))


HOLDS = (_example("DeepNorm at 48 blocks", "nn.init.xavier_normal_(linear.weight, gain=0.226)", "3.1302"),)
VIOLATES = (_example("post-norm at 48 blocks, weights of variance 1/fan_in", FAN_IN, "1.0"),)
CANNOT_TELL = (_example("weights that no initialiser fills", "linear.weight = nn.Parameter(torch.empty(linear.weight.shape))", "1.0"),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream without an identity path."""
    streams = [s for s in facts.streams if has_identity_path(facts, s) is not True and any(k.sublayers for k in s.kinds)]
    outcomes = [_in_words(facts, s, _with_last_map(facts, s, _judge(facts, s))) for s in streams]
    return or_not_applicable(outcomes, "every stream has an identity path.")


def _in_words(facts: Facts, stream: Stream, outcome: Outcome) -> Outcome:
    """The message in plain words, and what to write, where the recursion decided."""
    apart, crossed = (dict(outcome.numbers).get(name) for name in ("one_minus_cos", "norms_crossed"))
    if outcome.result not in ("violated", "conditional") or not isinstance(apart, float) or not crossed:
        return outcome
    skip = f"Every skip of `{stream.name}` passes through a norm ({crossed} on the way)"
    depth = facts.depth(stream)
    size = f"1 − cos between tokens is {apart:.2g} after {depth} blocks at the start (0: all alike)"
    last = "warm-up and a lower learning rate have to make up for that" if outcome.condition == "warm-up" else "there is little left to learn from"
    plain = f"{skip}, and {size}: {last}."
    if apart > APART:
        still = f"at the start tokens stay apart (1 − cos {apart:.2g} after {depth} blocks, 0: all alike)"
        plain = f"{skip}, so that no gradient arrives as it left: {last}; {still}."
    constants = deepnorm_code(facts, stream) if _deepnorm_helps(facts, stream) else None
    options = ["norms inside the branches, `x = x + f(norm(x))`, and one behind the last block"]
    if constants is not None:
        options.append(f"`x = norm(α * x + f(x))` with α = {constants[0]}, and V, O and both maps of the FFN × {constants[1]} (DeepNorm)")
    return replace(outcome, plain=plain, remedy=outcome.remedy or "; or ".join(options))


def _deepnorm_helps(facts: Facts, stream: Stream) -> bool:
    """Whether DeepNorm's α and β on the recorded weights would meet its condition: not where these start larger than it takes for granted."""
    found, (alpha, beta) = facts.recursion(stream), deepnorm(facts.depth(stream))
    if any(s.alpha.kind != "none" for k in stream.kinds for s in k.sublayers) or isinstance(found, Unknown):
        return False
    return isinstance(found.deepnorm_number, float) and found.deepnorm_number * (beta / alpha) ** 2 <= UPDATE_LIMIT


def _with_last_map(facts: Facts, stream: Stream, outcome: Outcome) -> Outcome:
    """Kim et al., proposition B.1, beside it, where the stream ends in a map."""
    found = last_map(facts, stream)
    lines = () if found is None else last_gradient(found.branch, found.scaled, found.norms)
    return replace(outcome, numbers=(*outcome.numbers, *lines))


def _judge(facts: Facts, stream: Stream) -> Outcome:
    path, name = stream.identity, f"`{stream.name}`"
    if doubt := program_doubt(facts):
        return Outcome("cannot_tell", f"{name}: {doubt}.", at(stream), "measured")
    apart = number_of(facts, stream, "one_minus_cos")
    if isinstance(path.exists, Unknown):
        return _underived(facts, stream, path.exists, apart)
    if mixes_copies(facts, stream) and (mixed := _mixed(facts, stream, apart)) is not None:
        return mixed
    ratio = number_of(facts, stream, "gradient_ratio")
    most = EXPLOSIVE if facts.claims.of("gradient_law", "start", stream.name).known == "exponential" else STARVED
    if isinstance(ratio, float) and not 1 / most <= ratio <= most and not shares_weights(facts, stream):
        return _starved(facts, stream, ratio)
    found = facts.recursion(stream)
    tied = shares_weights(facts, stream) if isinstance(found, Unknown) else found.tied
    if path.breaks and not (isinstance(apart, float) and apart < COLLAPSED):
        return _broken(facts, stream, path.breaks[0], ratio, apart)
    if path.breaks:
        return _collapse(facts, stream, apart, tied)
    scaled = [s for k in stream.kinds for s in k.sublayers if s.alpha.kind != "none" and s.alpha.value != 1.0]
    if scaled and all(s.alpha.kind == "learned" and s.alpha.init is not None for s in scaled):
        start = f"{scaled[0].alpha.init:.3g} at the start"
        message = f"{name} is multiplied by a learned scale, {start}: what {facts.depth(stream)} blocks make of it is up to training."
        return Outcome("conditional", message, at(stream, place=scaled[0].place), condition="stream-gain", theorem=UPDATE)
    if any(s.alpha.kind in ("learned", "data") or s.alpha.value is None for s in scaled):
        message = f"{name} is multiplied by a scale that is known only when the model runs; {facts.depth(stream)} blocks depend on it."
        return Outcome("conditional", message, at(stream, place=_last(stream).place), condition="run-time-scale", theorem=UPDATE)
    if isinstance(found, Unknown) and isinstance(apart, Unknown):
        return _untold(facts, stream, f"{name} has no identity path, and how fast its tokens grow alike is not known:", found)
    if scaled and not isinstance(found, Unknown):
        return _compensated(facts, stream, found.deepnorm_number, apart, found.tied)
    return _collapse(facts, stream, apart, tied)


def _underived(facts: Facts, stream: Stream, why: Unknown, apart: float | Unknown) -> Outcome:
    """Whether an identity path is there is not derived: the numbers at the start say where training begins, where they are moderate."""
    ratio = number_of(facts, stream, "gradient_ratio")
    if not isinstance(ratio, float) or not isinstance(apart, float) or not 1 / STARVED < ratio < STARVED or apart < COLLAPSED:
        return _untold(facts, stream, f"`{stream.name}`:", why)
    message = f"`{stream.name}`: whether an identity path runs through it is not derived ({why.reason})"
    return _as_it_starts(facts, stream, message, blame(facts, at(stream, place=_last(stream).place), why.nodes), ratio, apart)


def _starved(facts: Facts, stream: Stream, ratio: float) -> Outcome:
    """Gradients that are too unlike at the start, whatever tokens do."""
    message = f"`{stream.name}`: at the start the first block gets {ratio:.3g} times the gradient of the last one, over {facts.depth(stream)} blocks"
    deeper = f"; {sentence}" if (sentence := when_deeper(facts, stream)) else ""
    remedy = "norms inside the branches, `x = x + f(norm(x))`, and one behind the last block"
    remedy += "; or smaller initial weights" if smaller_helps(facts, stream) else ""
    site, numbers = at(stream, place=_last(stream).place), (("gradient_ratio", float(f"{ratio:.2g}")), ("depth", facts.depth(stream)))
    return Outcome("violated", f"{message}{deeper}.", site, basis_of(facts, stream, "gradient_ratio"), numbers=numbers, remedy=remedy)


def _mixed(facts: Facts, stream: Stream, apart: float | Unknown) -> Outcome | None:
    """Hyper-connections: what their matrices make of the stream over its depth is theirs; where they start is what the numbers at the start say."""
    ratio, depth = number_of(facts, stream, "gradient_ratio"), facts.depth(stream)
    if not isinstance(apart, float) or apart < COLLAPSED or not isinstance(ratio, float) or not 1 / STARVED < ratio < STARVED:
        return None
    start = f"at the recorded start first over last gradient is {ratio:.3g} and 1 − cos between tokens {apart:.2g} after {depth} blocks"
    message = f"`{stream.name}` is copies that trained matrices mix on the skip: {start}, and how that goes on is up to these matrices."
    numbers = (("gradient_ratio", ratio), ("one_minus_cos", apart), ("depth", depth))
    basis = basis_of(facts, stream, "gradient_ratio")
    return Outcome("conditional", message, at(stream, place=stream.identity.breaks[0]), basis, numbers=numbers, condition="stream-gain")


def _broken(facts: Facts, stream: Stream, first: Place, ratio: float | Unknown, apart: float | Unknown) -> Outcome:
    """What stands on the stream is no norm: what a block does to gradients is not derived, and the numbers at the start say where training begins."""
    site = at(stream, place=first)
    message = f"`{stream.name}` passes through {first.words} on its way: what that does to gradients over depth is not derived"
    if not isinstance(ratio, float) or not isinstance(apart, float):
        return Outcome("cannot_tell", f"{message}.", site)
    return _as_it_starts(facts, stream, message, site, ratio, apart)


def _as_it_starts(facts: Facts, stream: Stream, message: str, site: Site, ratio: float, apart: float) -> Outcome:
    """With the numbers at the start, and no law of depth."""
    depth = facts.depth(stream)
    start = f"at the start first over last gradient is {ratio:.3g} over {depth} blocks, and 1 − cos between tokens {apart:.2g} behind the last one"
    law = facts.claims.of("gradient_law", "start", stream.name).known
    deeper = "; where it is deeper each block multiplies them" if law == "exponential" else ""
    numbers = (("gradient_ratio", float(f"{ratio:.2g}")), ("one_minus_cos", float(f"{apart:.2g}")), ("depth", depth))
    basis = basis_of(facts, stream, "gradient_ratio")
    return Outcome("conditional", f"{message}; {start}{deeper}.", site, basis, numbers=numbers, condition="stream-gain")


def _untold(facts: Facts, stream: Stream, what: str, why: Unknown) -> Outcome:
    return Outcome("cannot_tell", f"{what} {why.reason}.", blame(facts, at(stream, place=_last(stream).place), why.nodes))


def _compensated(facts: Facts, stream: Stream, number: float | Unknown, apart: float | Unknown, tied: bool) -> Outcome:
    site, depth, name = at(stream, place=_last(stream).place), facts.depth(stream), f"`{stream.name}`"
    if isinstance(number, Unknown):
        if isinstance(apart, float):  # what a norm behind the branch makes of it is as large whatever its weights are
            return _collapse(facts, stream, apart, tied)
        return _untold(facts, stream, f"{name} is multiplied by α, and whether its weights fit is unknown:", number)
    onward = through_decoder(facts, stream)
    number, what = number * onward, "Σ(v² + w²)/α²" + (f" · {onward:.3g} (Σ v·w/α of the cross-attentions that read it)" if onward != 1.0 else "")
    numbers = (("update", number), ("depth", depth))
    if number <= UPDATE_LIMIT:
        message = f"{name}: α and the recorded weights compensate for {depth} blocks: {what} = {number:.3g}."
        return Outcome("holds", message, site, "declared", UPDATE, numbers=numbers)
    if isinstance(apart, float) and apart < COLLAPSED:  # an α that is too small for these weights, below 1 for one
        return _collapse(facts, stream, apart, tied)
    message = f"{name} is multiplied by α without weights that start smaller: {what} = {number:.3g} over {depth} blocks, not about 1."
    constants = deepnorm_code(facts, stream)
    remedy = f"scale V and O, and both maps of the FFN, by β = {constants[1] if constants else '(8N)^(-1/4)'}"
    if number * deepnorm(depth)[1] ** 2 > UPDATE_LIMIT:
        remedy = f"α = {constants[0] if constants else '(2N)^(1/4)'} on the stream; and {remedy}"
    return Outcome("conditional", message, site, "declared", UPDATE, numbers=numbers, condition="warm-up", remedy=remedy)


def _collapse(facts: Facts, stream: Stream, apart: float | Unknown, tied: bool) -> Outcome:
    site, depth = at(stream, place=_last(stream).place), facts.depth(stream)
    crossed = stream.identity.norms_crossed
    basis = basis_of(facts, stream, "one_minus_cos")
    if isinstance(apart, Unknown):
        return _untold(facts, stream, f"`{stream.name}` has no identity path, and 1 − cos between its tokens is unknown:", apart)
    numbers = (("one_minus_cos", apart), ("depth", depth), ("norms_crossed", crossed))
    breaks = f"it breaks at {stream.identity.breaks[0].words}" if stream.identity.breaks else CANCELS
    why = f"every path crosses {crossed} norm{'' if crossed == 1 else 's'}" if crossed else breaks
    where = f"no identity path runs through `{stream.name}` ({why})"
    size = f"1 − cos between tokens is {apart:.2g} after {depth} blocks"
    theorem = "one block multiplies 1 − cos by about 1/(1 + v), v the gain of V and O" if crossed else ""
    if apart < COLLAPSED and tied:
        message = f"{where[0].upper()}{where[1:]}, and {size}; what that does where the same weights serve at several depths was not measured."
        return Outcome("cannot_tell", message, site, numbers=numbers)
    if apart < COLLAPSED / FEWER and (beside := _beside(facts, stream)):
        more = f"its branches are added to `{beside}` as well, which has an identity path"
        message = f"At the recorded initialisation {where}, and {size}: tokens are nearly the same; {more}."
        return Outcome("conditional", message, site, basis, theorem, numbers=numbers, condition="warm-up")
    if apart < COLLAPSED / FEWER:
        message = f"At the recorded initialisation {where}, and {size}: tokens are nearly the same."
        smaller = "smaller initial weights, " if smaller_helps(facts, stream, "tokens") else ""
        remedy = f"{smaller}α on the stream with β on the weights (DeepNorm), or norms inside the branches and none on the sums"
        remedy = remedy if crossed else "a skip past what stands on the stream, with that in a branch"
        return Outcome("violated", message, site, basis, theorem, numbers=numbers, remedy=remedy)
    middle = "" if apart > APART else ", which is little" if apart >= BAND else f", so little (below {BAND}) that hardly a run says if it trains"
    told = facts.claims.of("gradient_law", "start", stream.name).known == "exponential" and when_deeper(facts, stream)
    deeper = f" {told[0].upper()}{told[1:]}." if told else ""
    message = f"At the recorded initialisation {where}, and {size}{middle}: it needs warm-up and a lower learning rate.{deeper}"
    return Outcome("conditional", message, site, basis, theorem, numbers=numbers, condition="warm-up")


def _beside(facts: Facts, stream: Stream) -> str:
    """A stream with an identity path to which all branches of this one are added too (ResiDual)."""
    return next((o.name for o in twins(facts, stream) if o.identity.exists is True), "")


def _last(stream: Stream) -> Sublayer:
    return stream.kinds[-1].sublayers[-1]
