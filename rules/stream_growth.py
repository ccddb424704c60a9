"""The stream grows at most linearly with depth, and how fast is known.

Why: each residual branch adds at most its own bound to the stream, so that a bounded branch gives linear growth whatever the weights, a branch with
a norm on its input alone linear growth with a slope that the weights set, and a norm on the sum none. A multiplier above 1 on the stream
makes the growth exponential: α = 1.05 over 128 sublayers multiplies the stream by 500. Activations that leave the range of the dtype end a run.
Assumes: evaluation without dropout (in training a factor 1/(1 − p) on each branch); gains are fixed; per token, in rms; no bound over weights is
claimed for branches that read the stream through their own weights.
Cannot tell: when the multiplier on the stream depends on the data, when an op on the stream is not known, or when a measurement refutes what was
derived. Nothing that bounds a branch is a condition, unless the stream was measured to grow exponentially.
Source: docs/theory.md, growth; Kan et al., theorems 3 to 5; Kim et al. 2025, eq. 4.
"""

from __future__ import annotations

from collections.abc import Iterator

from screen.facts.advice import steadier, unnormed
from screen.facts.queries import (
    MODEST, gain_of, growth_of, is_input_bounded, is_output_bounded, measured_gain, multiplies_large_states, normed_total, number_of,
    reads_grown_state, so_many_times, starts_asleep, unproven,
)  # fmt: skip
from screen.rule import Example, Facts, Number, Outcome, Result, Rule, Stream, Sublayer, Unknown, at, blame, or_not_applicable, scaled
from screen.theorems.in_words import growth, growth_of_kan, growth_of_kan_pre

RULE = Rule("R301", "stream-growth", "forward", "R", "error", ("streams", "claims"), "docs/theory.md, growth")

EXPONENTIAL = 100.0
"""Product of the multipliers on the stream from which its growth is called exponential; up to 2 it is a constant factor (conventions)."""

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return ALPHA x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(30)), nn.LayerNorm(32)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
"""
HOLDS = (Example("pre-norm: linear, with a slope that the weights set", BLOCK.replace("ALPHA", "")),)
VIOLATES = (Example("a multiplier of 1.2 on the stream, 30 times", BLOCK.replace("ALPHA", "1.2 *")),)
CANNOT_TELL = (Example("a gate from the data on the stream", BLOCK.replace("ALPHA", "torch.exp(self.up(x).mean(-1, keepdim=True)) *")),)


HELD = ("bounded", "linear")
"""Laws of a stream whose branches are bounded."""


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream, and one of what stands beside them."""
    streams = [s for s in facts.streams if any(k.sublayers for k in s.kinds)]
    return or_not_applicable([*(_judge(facts, s) for s in streams), *_with_totals(facts)], "there is no stream.")


def _with_totals(facts: Facts) -> Iterator[Outcome]:
    """Of what blocks hand on beside the streams, where that grows faster than at most linearly."""
    law = facts.claims.of("growth", "fixed").known
    if isinstance(law, Unknown) or law in HELD or any(growth_of(facts, s, "fixed") not in HELD for s in facts.streams):
        return
    how = "as a power, faster than linearly" if law == "polynomial" else "exponentially"
    message = f"What the blocks hand on beside `{facts.streams[0].name}` sums its states from block to block: it grows with depth {how}."
    yield Outcome("conditional", message, at(facts.streams[0]), theorem="‖t_N‖ ≤ Σ |a|^(N−l)·‖x_l‖", condition="stream-gain")


def _judge(facts: Facts, stream: Stream) -> Outcome:
    site = at(stream, None, stream.kinds[0].sublayers[0])
    claim = facts.claims.of("growth", "fixed", stream.name)
    law = growth_of(facts, stream, "fixed")
    if claim.is_refuted and isinstance(law, Unknown):
        message = f"`{stream.name}` was derived to be {_words(str(claim.value))}, and {law.reason}: what bounds it is not known."
        return Outcome("cannot_tell", message, site, "measured")
    if claim.status == "measured" and law == "exponential":
        return _measured(facts, stream)
    if claim.status == "measured" and claim.value == "linear":
        message = (
            f"`{stream.name}` was seen to gain no more from an input of 1e4 and 1e8 times the size, so that it grows at most linearly there: "
            f"nothing that is derived bounds it, as {claim.reason}."
        )
        return Outcome("conditional", message, site, "measured", condition="small-gain")
    gain = gain_of(facts, stream)
    numbers: tuple[tuple[str, Number], ...] = (("gain", gain), ("depth", facts.depth(stream))) if isinstance(gain, float) else ()
    if isinstance(law, Unknown):
        return _unknown(facts, stream, law)
    if law == "exponential" and isinstance(gain, float) and gain > MODEST:
        word = "exponential" if gain > EXPONENTIAL else "by that factor"
        message = (
            f"`{stream.name}` is multiplied by {gain:.3g} over its {facts.depth(stream)} blocks on the way that no branch touches: it grows {word}."
        )
        result: Result = "violated" if gain > EXPONENTIAL else "conditional"
        theorem = "‖x_{l+1}‖ ≤ α·‖x_l‖ + s·b per token"
        message = message.replace("grows exponential.", "grows exponentially.")
        return Outcome(result, message, site, theorem=theorem, numbers=numbers, remedy="a multiplier of 1", condition="stream-gain")
    if law == "exponential":
        size = f"{gain:.3g}" if isinstance(gain, float) else "a number that is not known"
        depth = facts.depth(stream)
        held = "at fixed weights" if _of_first(facts, stream) is None else "behind a given input"
        message = f"`{stream.name}` grows with its multipliers, by {size} over its {depth} blocks {held}, and linearly beside them."
        kept: Result = "holds" if isinstance(gain, float) else "conditional"
        return Outcome(kept, message, site, theorem="‖x_{l+1}‖ ≤ α·‖x_l‖ + s·b per token", numbers=numbers, condition="stream-gain")
    if law == "polynomial":
        message = f"What a branch adds to `{stream.name}` is carried on more than once: it grows with depth faster than linearly, as a power."
        return Outcome("conditional", message, site, theorem="‖x_N‖ ≤ ‖R_0‖·‖x_0‖ + Σ ‖R_l‖·b_l", numbers=numbers, condition="stream-gain")
    return _kept(facts, stream, law, numbers)


def _of_first(facts: Facts, stream: Stream) -> Sublayer | None:
    """A branch that reads no state without a norm but the first one: it grows with the input, and not over depth."""
    every = ((k, s) for k in stream.kinds for s in k.sublayers)
    return next((s for k, s in every if is_input_bounded(facts, s) is not True and not reads_grown_state(facts, stream, k, s)), None)


def _words(law: str) -> str:
    return {"bounded": "bounded whatever the depth", "linear": "of at most linear growth", "polynomial": "of growth by a power"}.get(law, law)


def _kept(facts: Facts, stream: Stream, law: str, numbers: tuple[tuple[str, Number], ...]) -> Outcome:
    """Bounded or linear, at fixed weights or over all of them."""
    site = at(stream, None, stream.kinds[0].sublayers[0])
    subs = [s for k in stream.kinds for s in k.sublayers]
    rests = list(dict.fromkeys(r for s in subs for r in unproven(facts, s) if is_output_bounded(facts, s) is True))
    whole = growth_of(facts, stream, "all")
    if rests and whole in HELD:
        message = f"`{stream.name}` grows at most linearly with depth where {'; and where '.join(rests)}; the graph does not show that."
        return Outcome("conditional", message, site, theorem="‖x_N‖ ≤ ‖x_0‖ + Σ b_l per token", numbers=numbers, condition="converged-iteration")
    if law == "bounded":
        reach = "whatever the weights but norm gains" if whole == "bounded" else "at fixed weights"
        return Outcome("holds", f"the size of `{stream.name}` does not depend on depth, {reach}.", site, theorem="‖x_l‖ ≤ b per token, in rms")
    if whole in HELD:
        scaled = any(sub.branch.kind == "learned" for kind in stream.kinds for sub in kind.sublayers)
        free = "norm gains and learned scales" if scaled else "norm gains"
        message = f"`{stream.name}` grows at most linearly with depth, whatever the weights but {free}: every branch's output is bounded."
        total = normed_total(facts, stream)
        lines = () if total is None else (*growth(total), *(growth_of_kan(total, stream.width) if stream.width else ()))
        theorem = "‖x_N‖ ≤ ‖x_0‖ + Σ b_l per token" if total is None else "‖x_N‖ ≤ ‖x_0‖ + Σ s·(max|γ| + rms β) per token, in rms"
        return Outcome("holds", message, site, theorem=theorem, numbers=(*numbers, *lines))
    if (first := _of_first(facts, stream)) is not None:
        message = (
            f"`{stream.name}` grows at most linearly with depth behind a given input: what `{first.name}` reads un-normed is its first state, which "
            "is the same for every block."
        )
        return Outcome("holds", message, at(stream, None, first), theorem="‖x_N‖ ≤ ‖x_0‖ + Σ b_l(x_0) per token", numbers=numbers)
    if all(is_input_bounded(facts, s) is True for s in subs):
        because = "every branch reads a bounded input"
    else:
        because = "a block hands on at most what it was given, and what it adds has a size of its own"
    message = f"`{stream.name}` grows at most linearly at fixed weights, with a slope that they set: {because}."
    theorem = "‖x_N‖ ≤ ‖x_0‖ + Σ b_l per token, b_l by docs/theory.md, slope"
    return Outcome("holds", message, site, theorem=theorem, numbers=(*numbers, *growth_of_kan_pre()))


def _measured(facts: Facts, stream: Stream) -> Outcome:
    """No law was derived, and on real tensors the stream exploded."""
    ratio = number_of(facts, stream, "rms_ratio")
    grown = so_many_times(ratio) if isinstance(ratio, float) else "beyond the range of floats"
    blocks = f"{facts.depth(stream)} blocks at its start"
    site = at(stream, None, stream.kinds[0].sublayers[0])
    if multiplies_large_states(facts, stream):
        asleep = "with draws for weights that start at zero, and once it is large," if starts_asleep(facts, stream) else "once it is large,"
        message = f"`{stream.name}` grows {grown} over {blocks}, and its branches grow with it: {asleep} blocks that follow each "
        message += "other again and again make it larger by the same factor every time, and its growth is exponential."
        harmless = isinstance(ratio, float) and ratio <= EXPONENTIAL
        return Outcome("conditional" if harmless else "violated", message, site, "measured", condition="small-gain", remedy=_steadied(facts, stream))
    message = f"`{stream.name}` grows {grown} over {blocks}, no slower in the second half than in the first: exponentially, or faster."
    return Outcome("violated", message, site, "measured", remedy=_steadied(facts, stream))


def _steadied(facts: Facts, stream: Stream) -> str:
    return "a norm on each branch's input or output" if unnormed(facts, stream) else steadier(facts, stream)[0]


def _unknown(facts: Facts, stream: Stream, why: Unknown) -> Outcome:
    """Nothing derived bounds the growth."""
    subs = [s for k in stream.kinds for s in k.sublayers]
    gated = next((s for s in subs if s.alpha.kind in ("data", "learned")), None)
    if isinstance(stream.identity.exists, Unknown):
        doubt = why if set(why.nodes) - set(stream.identity.exists.nodes) else stream.identity.exists  # the closer one
        return Outcome("cannot_tell", f"How `{stream.name}` grows is unknown: {doubt.reason}.", blame(facts, at(stream), doubt.nodes))
    if gated is not None:
        seen = measured_gain(facts, stream)
        start = "" if seen is None else f"; as they start, what is carried on has gain {seen:.3g} over its {facts.depth(stream)} blocks (measured)"
        return scaled(stream, gated, f"its growth over depth depends on them{start}")
    bare = next((s for s in subs if s.output in why.nodes), subs[0])
    site = blame(facts, at(stream, None, bare), why.nodes)
    message = f"Nothing that is derived bounds how `{stream.name}` grows with depth: {why.reason}."
    return Outcome("conditional", message, site, theorem="‖x_N‖ ≤ (1 + L)^N·‖x_0‖", condition="small-gain")
