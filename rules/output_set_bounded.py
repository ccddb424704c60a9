"""What a branch can add to the stream is bounded, whatever its weights are.

Why: the Hamiltonian H(P) = sup over the branch's outputs f of −⟨P, f⟩ is finite iff the set of outputs over all weights is bounded. A norm on
the branch's output bounds it; so does a norm on the sum, or on the sum that ends its block, for the discrete increment. Where a trainable
map follows the last norm, nothing but the training keeps the weights from growing: activations grow late in the run, and the loss spikes or
diverges. What each block sums up in a value beside its stream is asked for, too: no norm on the stream bounds that. A step of descent on a squared
error, `x − s·(x·W − y)·Wᵀ`, grows with the stream and is no slip where s is shown to be at most 2/‖W‖².
Assumes: gains and biases of norms, and learned scales after them, are fixed (they are reported as given); the statement is about real arithmetic
and all weights of the branch at once.
Cannot tell: when an op of the branch has no bound, and no weight is seen to scale the output.
Source: Kan et al., theorem 2 with appendices E, F, H and J, corrected: a norm that centres has a smaller Hamiltonian than printed there, and a
quadratic penalty makes it finite only for branches of degree 1, or 2 below a threshold.
"""

from __future__ import annotations

import math

from screen.facts.advice import norm_of
from screen.facts.claims.claim import Claim
from screen.facts.claims.derive import USEFUL, is_held
from screen.facts.descent import descent
from screen.facts.operator import StreamOperator
from screen.facts.queries import (
    branches, free_weight, grows_with_stream, growth_of, has_no_scale, is_output_bounded, is_short, is_sum_normed, is_totalled, norms_behind,
    reads_grown_state, starts_at_zero, unproven,
)  # fmt: skip
from screen.rule import (
    DECAY, Example, Facts, Kind, Outcome, Rule, Site, Stream, Sublayer, Unknown, at, blame, describe, each_sublayer, or_not_applicable,
)  # fmt: skip
from screen.structure.types import Norm

NEEDS = ("streams.kinds.sublayers", "analyses", "claims", "state_bounds")
RULE = Rule("R201", "output-set-bounded", "well_posedness", "R", "warning", NEEDS, "Kan et al., theorem 2")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down, self.after = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32), nn.RMSNorm(32)

    def forward(self, x):
        return x + OUTPUT
"""
HOLDS = (Example("a norm on the branch's output", BLOCK.replace("OUTPUT", "self.after(self.down(F.relu(self.up(self.norm(x)))))")),)
VIOLATES = (Example("no norm at all: the set is unbounded even at bounded weights", BLOCK.replace("OUTPUT", "self.down(F.relu(self.up(x)))")),)
CANNOT_TELL = (Example("an op without a bound ends the branch", BLOCK.replace("OUTPUT", "torch.special.bessel_j0(self.up(self.norm(x)))[..., :32]")),)

THEOREM = "Kan et al., theorem 2: H is finite iff the set of the branch's outputs over all weights is bounded"


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer."""
    found = [_judge(facts, *site) for site in each_sublayer(facts)]
    beside = {c.stream: c for c in facts.claims if c.claim == "output_bounded" and c.sublayer is None}
    found += [_summed(facts, stream, beside[stream.name]) for stream in facts.streams if stream.name in beside]
    return or_not_applicable(found, "there is no residual sublayer.")


def _judge(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name = at(stream, kind, sublayer), describe(stream, kind, sublayer)
    bounded = is_output_bounded(facts, sublayer)
    alone = bounded is True or not is_totalled(facts, stream, kind, sublayer)
    if alone and is_sum_normed(facts, sublayer):
        message = f"{name}: the sum is normalised, so that one step moves a normalised stream by at most twice the norm's size."
        assumes = ("the gains of norms are fixed", "the state before is normalised too: of the first block, by what stands before it")
        return Outcome("holds", message, site, theorem="‖x' − x‖ ≤ 2γ per token, in rms", assumptions=assumes)
    if alone and bounded is not True and growth_of(facts, stream, "all") == "bounded" and _is_narrow(facts, stream):
        message = f"{name}: what its block hands on is bounded whatever the weights, so that a block moves the stream by at most twice that."
        return Outcome("holds", message, site, theorem="‖x' − x‖ ≤ 2b per token, in rms", assumptions=("the gains of norms are fixed",))
    if isinstance(bounded, Unknown):
        return Outcome("cannot_tell", f"{name}: {bounded.reason}.", blame(facts, site, bounded.nodes), theorem=THEOREM)
    if bounded:
        return _bounded(facts, sublayer, name, site)
    grows = grows_with_stream(facts, sublayer) and not _carries(facts, stream, sublayer)
    if grows and not starts_at_zero(sublayer) and not _is_held(facts, stream):
        if behind := norms_behind(facts, stream, sublayer):
            return _normed_in_block(name, site, behind)
        if (step := descent(facts, sublayer)) is not False:
            return _descends(name, site, step)
        weighted = not has_no_scale(facts, sublayer)
        fixed = "is of one size whatever its weights are" if sublayer.m.path else "has no weights"
        if _is_scale_unknown(facts, sublayer):
            weighted, fixed = False, ""
        if reads_grown_state(facts, stream, kind, sublayer):
            if is_short(facts, stream):
                many = "one branch" if (count := branches(facts, stream)) == 1 else f"{count} branches"
                message = f"{name}: nothing bounds what the branch reads or adds; `{stream.name}` has {many} over its whole depth."
                return Outcome("conditional", message, site, theorem=THEOREM, condition="small-gain")
            size = "is unbounded in its weights" if weighted else fixed
            message = f"{name}: nothing bounds what the branch reads or adds; it {f'{size} and ' if size else ''}grows with the stream."
            line, norm = norm_of(facts, stream, sublayer.add, "x")
            remedy = f"`x = x + f({line})` with `norm = {norm}`, or that norm on the branch's output"
            condition = "bounded-weights" if weighted else "declared-structure"
            return Outcome("violated", message, site, theorem=THEOREM, remedy=remedy, tries=("norms-before", "norms-behind"), condition=condition)
        if not weighted:
            size = f"; it {fixed}" if fixed else ""
            message = f"{name}: nothing bounds what the branch adds but the first state of the stream, which it reads{size}."
            return Outcome("conditional", message, site, theorem=THEOREM, condition="small-gain")
    return _unbounded(facts, stream, kind, sublayer, name, site)


def _is_scale_unknown(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether no group of weights was found whose size the branch has, as its weights are made by an op without a row (filters that are normed)."""
    analysis = facts.analysis(sublayer)
    return isinstance(analysis, Unknown) or (not analysis.degrees.groups and isinstance(analysis.degrees.orders.degree, Unknown))


def _summed(facts: Facts, stream: Stream, claim: Claim) -> Outcome:
    """Of what each block adds to a value that it hands on beside the stream."""
    site = blame(facts, at(stream), claim.nodes)
    what = f"what each block adds to the value that it hands on beside `{stream.name}`"
    if not isinstance(claim.known, bool):
        return Outcome("cannot_tell", f"Whether {what} is bounded is not known: {claim.reason}.", site, theorem=THEOREM)
    if claim.known:
        assumptions = ("the gains of norms, and factors behind them, are fixed",)
        return Outcome("holds", f"{what[0].upper()}{what[1:]} is bounded whatever the weights.", site, theorem=THEOREM, assumptions=assumptions)
    message = f"{what[0].upper()}{what[1:]} is unbounded over its weights: the sum stays bounded only where training keeps these so."
    remedy = f"a norm on it before it is added; or {DECAY}"
    return Outcome("conditional", message, site, theorem=THEOREM, remedy=remedy, condition="bounded-weights")


def _normed_in_block(name: str, site: Site, behind: tuple[Norm, ...]) -> Outcome:
    """Of a branch whose block hands on a norm of the sum that it is part of, and a share of what came in."""
    shifted = next((norm for norm in behind if norm.shifted), None)
    if shifted is None:
        message = f"{name}: what it adds leaves its block through a norm alone, at {behind[0].place.words}, however large it is."
        assumptions = ("the gains of norms, and factors behind them, are fixed",)
        return Outcome("holds", message, site, theorem="‖x' − x‖ ≤ 2b per token, in rms", assumptions=assumptions)
    message = (
        f"{name}: what it adds leaves its block through the norm at {shifted.place.words} alone, which takes any large size away and has no bound "
        "where the value comes near to what its statistic takes off."
    )
    return Outcome("conditional", message, site, theorem=THEOREM, condition="bounded-weights")


def _descends(name: str, site: Site, step: bool | Unknown) -> Outcome:
    """Of a branch that takes a map of the stream and back off it: a step of descent on a squared error."""
    theorem = "‖I − s·WWᵀ‖ ≤ 1 iff 0 ≤ s ≤ 2/‖W‖²"
    if isinstance(step, Unknown):
        message = f"{name}: it takes a map of the stream and back off it, a step of descent, and {step.reason}."
        return Outcome("cannot_tell", message, site, theorem=theorem)
    message = (
        f"{name}: it takes a map of the stream and back off it, with a step of at most two over the square of the map's norm: what it reads off the "
        "stream grows with that, and branch and skip together are no expansion of it, whatever the weights."
    )
    return Outcome("conditional", message, site, theorem=theorem, condition="declared-structure")


def _carries(facts: Facts, stream: Stream, sublayer: Sublayer) -> bool:
    """Whether it adds a part of the stream itself beside what it computes, of which the law of the stream tells."""
    operator = facts.operator(stream)
    return isinstance(operator, StreamOperator) and sublayer.output in operator.through


def _is_narrow(facts: Facts, stream: Stream) -> bool:
    """Whether what bounds its states over all weights, as the norm that ends each block does, is a bound to rely on: a clamp at 1e4 is none."""
    kept = [b for k in stream.kinds for s in k.sublayers if (b := facts.state_bounds.get((s.add, s.output))) is not None and b.always is True]
    return bool(kept) and all(b.size is not None and b.size <= USEFUL * math.sqrt(stream.width or 1) for b in kept)


def _is_held(facts: Facts, stream: Stream) -> bool:
    """Whether the stream itself is bounded whatever the depth, at fixed weights."""
    return growth_of(facts, stream, "fixed") == "bounded"


def _bounded(facts: Facts, sublayer: Sublayer, name: str, site: Site) -> Outcome:
    analysis = facts.analysis(sublayer)
    form = None if isinstance(analysis, Unknown) else analysis.bounds.hamiltonian
    numbers = (("hamiltonian", form.text), ("maximiser", form.maximiser)) if form is not None else ()
    given = () if isinstance(analysis, Unknown) else analysis.bounds.given
    rests = unproven(facts, sublayer)
    if rests:
        message = f"{name}: the branch's output is bounded over all its weights where {'; and where '.join(rests)}; the graph does not show that."
        return Outcome("conditional", message, site, theorem=THEOREM, assumptions=given, condition="converged-iteration")
    fixed = "norm gains and its learned scale" if sublayer.branch.kind == "learned" else "norm gains"
    message = f"{name}: the branch's output is bounded over all its weights, {fixed} held fixed, and the Hamiltonian is finite."
    return Outcome("holds", message, site, theorem=THEOREM, assumptions=given, numbers=numbers)


def _at_fixed_weights(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> str:
    """Why bounded weights do not keep what the branch adds bounded; empty where they do."""
    held = is_held(facts, stream, sublayer)
    if held is True or not reads_grown_state(facts, stream, kind, sublayer):
        return ""
    return "at fixed weights it grows with the stream" if held is False else "that it stays bounded at fixed weights as the stream grows is not shown"


def _unbounded(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer, name: str, site: Site) -> Outcome:
    analysis = facts.analysis(sublayer)
    breaker = None if isinstance(analysis, Unknown) else analysis.bounds.breaker
    weight = free_weight(facts, sublayer)
    by = f"`{weight}` scales it" if weight else f"{breaker.words} breaks it" if breaker else "a trainable map stands after the last norm"
    message = f"{name}: the branch's output is unbounded over its weights ({by}), so that the Hamiltonian is infinite unless training bounds them."
    degree = None if isinstance(analysis, Unknown) else analysis.degrees.orders.degree
    numbers = (("degree", degree),) if isinstance(degree, int) else ()
    line, norm = norm_of(facts, stream, sublayer.output, "f(x)")
    loose = _at_fixed_weights(facts, stream, kind, sublayer)
    remedy = f"a norm on what the branch adds, `x = x + {line}` with `norm = {norm}`"
    return Outcome(
        "conditional",
        message,
        site,
        theorem=THEOREM,
        assumptions=(
            "decoupled decay bounds weights, |W| ≤ max(|W₀|, U*/λ) under AdamW; a quadratic penalty is not enough from degree 3 on, at degree 2 only "
            "above a threshold",
        ),
        numbers=numbers,
        remedy=remedy if loose else f"{remedy}; or {DECAY}",
        plain=f"{name}: nothing in the code limits what it adds ({by}); {loose or 'it stays bounded only where training keeps the weights so'}.",
        condition="learned-scale" if starts_at_zero(sublayer) else "bounded-weights",
    )
