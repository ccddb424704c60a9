"""The stream grows at most linearly with depth, and how fast is known.

Why: each residual branch adds at most its own bound to the stream, so that a bounded branch gives linear growth whatever the weights, a branch with
a norm on its input alone linear growth with a slope that the weights set, and a norm on the sum none. A multiplier above 1 on the stream
makes the growth exponential: α = 1.05 over 128 sublayers multiplies the stream by 500. Activations that leave the range of the dtype end a run.
Assumes: evaluation without dropout (in training a factor 1/(1 − p) on each branch); gains are fixed; per token, in rms; no bound over weights is
claimed for branches that read the stream through their own weights.
Cannot tell: when the multiplier on the stream is learned or depends on the data, or nothing bounds a branch.
Source: docs/theory.md, growth; Kan et al., theorems 3 to 5; Kim et al. 2025, eq. 4.
"""

from __future__ import annotations

from screen.facts.questions import MODEST, constant_gain, held_by, is_input_bounded, is_output_bounded, is_renormalised, normed_total, unproven
from screen.facts.quotients import divides
from screen.rule import Example, Facts, Outcome, Result, Rule, Stream, Sublayer, Unknown, at, or_not_applicable, scaled
from screen.theorems.in_words import growth, growth_of_kan, growth_of_kan_pre

RULE = Rule("R301", "stream-growth", "forward", "R", "error", ("streams.kinds.sublayers", "analyses"), "docs/theory.md, growth")

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


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream."""
    streams = [s for s in facts.streams if any(k.sublayers for k in s.kinds)]
    return or_not_applicable([_judge(facts, s) for s in streams], "there is no stream.")


def _judge(facts: Facts, stream: Stream) -> Outcome:
    placed = [(facts.passes(stream, kind), s) for kind in stream.kinds for s in kind.sublayers]
    subs = [s for _, s in placed]
    site, depth = at(stream, None, subs[0]), facts.depth(stream)
    if all(is_renormalised(s) for s in subs):
        message = f"`{stream.name}` is normalised after every sum: its size does not depend on depth."
        return Outcome("holds", message, site, theorem="‖x_l‖ = γ per token, in rms")
    free = [(n, s) for n, s in placed if not is_renormalised(s)]
    gate = next((s for _, s in free if s.alpha.kind == "data"), None)
    if gate is None and (held := held_by(facts, stream)):
        return Outcome("holds", f"{held} on `{stream.name}` bounds it in every block: its size does not depend on depth.", site)
    gate = gate or next((s for _, s in free if s.alpha.kind == "learned"), None)
    if gate is not None:
        return scaled(stream, gate, "its growth over depth depends on them")
    growth = constant_gain(facts, stream)
    numbers = (("product_of_alpha", growth), ("depth", depth))
    if growth > MODEST:
        word = "exponential" if growth > EXPONENTIAL else "by that factor"
        message = f"`{stream.name}` is multiplied by {growth:.3g} over its {depth} blocks by the constants on its adds alone: its growth is {word}."
        result: Result = "violated" if growth > EXPONENTIAL else "conditional"
        theorem = "‖x_{l+1}‖ ≤ α·‖x_l‖ + s·b per token"
        return Outcome(result, message, site, theorem=theorem, numbers=numbers, condition="stream-gain", remedy="α = 1 on the stream")
    if all(any(is_renormalised(s) for s in kind.sublayers) for kind in stream.kinds):
        message = f"`{stream.name}` is normalised in every block: its size does not depend on depth, but for what one block adds."
        return Outcome("holds", message, site, theorem="‖x_l‖ = γ per token, in rms, behind the norm of each block", numbers=numbers)
    return _linear(facts, stream, [s for _, s in free], site_numbers=numbers)


def _linear(facts: Facts, stream: Stream, subs: list[Sublayer], site_numbers: tuple[tuple[str, float], ...]) -> Outcome:
    """No multiplier: the branches decide."""
    site = at(stream, None, subs[0])
    outputs = [is_output_bounded(facts, s) for s in subs]
    rests = list(dict.fromkeys(r for s in subs for r in unproven(facts, s)))
    if rests and all(o is True for o in outputs):
        message = f"`{stream.name}` grows at most linearly with depth where {'; and where '.join(rests)}; the graph does not show that."
        return Outcome("conditional", message, site, theorem="‖x_N‖ ≤ ‖x_0‖ + Σ b_l per token", numbers=site_numbers, condition="converged-iteration")
    if all(o is True for o in outputs):
        message = f"`{stream.name}` grows at most linearly with depth, whatever the weights but norm gains: every branch's output is bounded."
        total = normed_total(facts, stream)
        lines = () if total is None else (*growth(total), *(growth_of_kan(total, stream.width) if stream.width else ()))
        theorem = "‖x_N‖ ≤ ‖x_0‖ + Σ b_l per token" if total is None else "‖x_N‖ ≤ ‖x_0‖ + Σ s·(max|γ| + rms β) per token, in rms"
        return Outcome("holds", message, site, theorem=theorem, numbers=(*site_numbers, *lines))
    inputs = [is_input_bounded(facts, s) for s, o in zip(subs, outputs, strict=True) if o is not True]
    for s in subs:
        analysis = facts.analysis(s)
        if "A" in s.positions and not isinstance(analysis, Unknown) and isinstance(analysis.bounds.magnitude, Unknown):
            message = f"`{stream.name}`: `{s.name}` reads a bounded input, and how large it gets is not derived: {analysis.bounds.magnitude.reason}."
            return Outcome("conditional", message, at(stream, None, s), condition="bounded-weights")
    if all(i is True for i in inputs):
        message = f"`{stream.name}` grows at most linearly at fixed weights, with a slope that they set: every branch reads a bounded input."
        theorem = "‖x_N‖ ≤ ‖x_0‖ + Σ b_l per token, b_l by docs/theory.md, slope"
        return Outcome("holds", message, site, theorem=theorem, numbers=(*site_numbers, *growth_of_kan_pre()))
    bare = next((s for s, o in zip(subs, outputs, strict=True) if o is not True and is_input_bounded(facts, s) is not True), subs[0])
    answer = is_input_bounded(facts, bare)
    if isinstance(answer, Unknown):
        message = f"`{stream.name}`: whether `{bare.name}` reads a bounded input is unknown: {answer.reason}."
        return Outcome("conditional", message, at(stream, None, bare), condition="small-gain")
    if divides(facts, stream, bare):
        message = f"`{stream.name}`: `{bare.name}` divides by what it makes from its own input, and whether that bounds it is not known."
        return Outcome("conditional", message, at(stream, None, bare), condition="small-gain")
    message = f"`{stream.name}` may grow by the factor 1 + L at each `{bare.name}`, which reads it without a norm: exponential in depth as a bound."
    return Outcome("conditional", message, at(stream, None, bare), theorem="‖x_N‖ ≤ (1 + L)^N·‖x_0‖", numbers=site_numbers, condition="small-gain")
