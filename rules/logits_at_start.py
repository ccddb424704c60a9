"""Attention logits start small enough that a softmax over them is no choice of one key.

Why: over n keys a softmax of Gaussian logits of deviation s puts its weight on a few keys from s = √(2·ln n) on. Its Jacobian is near zero there, so
that queries and keys get no gradient and attention stays as random as it began; with training the logits grow further and the loss jumps. A missing
1/√d_h does it at ordinary weights (√d_h for entries of variance 1/fan_in), so do weights that start too large, or a stream without a norm on the
way to queries and keys.
Assumes: independent random weights at the recorded initialisation; the number is √(E u²) over weights, before any
mask or bias of positions and behind any cap. Where it is measured alone, and large, the weights of the softmax have to be as uneven as those of
independent logits of that size: what is taken off all keys, or off a few, makes logits large and no choice of one key.
Cannot tell: when the stream's moments at the start are unknown, and nothing was measured either.
Source: Vaswani et al. 2017, section 3.2.1; Derrida 1981; Zhai et al. 2023 (attention entropy collapse); docs/theory/covariance.md, section 4.
"""

from __future__ import annotations

import math

from screen.facts.advice import added_to_logits, head_width, is_divided_by_root, logit_start, qk_norm_code
from screen.facts.queries import are_logits_bounded, claim_of, has_softmax
from screen.rule import (
    Basis, Example, Facts, Kind, Number, Outcome, Rule, Stream, Sublayer, Unknown, at, blame, describe, each_sublayer, or_not_applicable,
)  # fmt: skip

RULE = Rule("I202", "logits-at-start", "forward", "I", "warning", ("streams.kinds.sublayers", "recursions"), "Vaswani et al. 2017, section 3.2.1")

KEYS = 2048
"""Keys of one query for which the softmax is judged (a common length of training; 512 would give 3.5, 10^6 5.3 in place of 3.9). Our own choice."""
FROZEN = math.sqrt(2 * math.log(KEYS))
"""Deviation of the logits from which a softmax over that many keys is held by a few of them (random energy model)."""
THEOREM = "√(E u²) = τ·√(d_h·E q²·E k²); over n keys a few hold the softmax from √(2·ln n) on"

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32, bias=False) for _ in range(4))
        for linear in (self.q, self.k, self.v, self.o):
            INIT

    def forward(self, x):
        y = self.norm(x)
        return x + self.o(F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y), scale=SCALE))
"""
FAN_IN = "nn.init.normal_(linear.weight, std=linear.in_features**-0.5)"


def _example(title: str, init: str, scale: str) -> Example:
    return Example(title, BLOCK.replace("INIT", init).replace("SCALE", scale))


HOLDS = (_example("a scale of 1/√d_h", FAN_IN, "32**-0.5"),)
VIOLATES = (_example("no scale", FAN_IN, "1.0"),)
CANNOT_TELL = (_example("weights that nothing fills", "linear.weight = nn.Parameter(torch.empty(32, 32))", "1.0"),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer with softmax attention."""
    sites = [s for s in each_sublayer(facts) if has_softmax(facts, s[2]) is True]
    return or_not_applicable([_judge(facts, *site) for site in sites], "no branch weighs values by a softmax over logits.")


def _judge(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name, found = at(stream, kind, sublayer), describe(stream, kind, sublayer), facts.recursion(stream)
    sizes = None if isinstance(found, Unknown) else found.logits_in(sublayer.name, kind.layers)
    start, beside = logit_start(facts, sublayer), added_to_logits(facts, sublayer)
    basis: Basis = "declared"
    numbers: tuple[tuple[str, Number], ...]
    if start is not None and start[1]:  # the number that L201 tells
        large, basis = start[0], "measured"
        numbers = (("logit_rms", large),)
        beside = f" (measured, one draw of the weights, in the block where they are largest){beside}"
    elif sizes is not None:
        large, numbers = max(sizes), tuple(zip(("logit_rms_first_block", "logit_rms_last_block"), sizes, strict=True))
        beside = f"{', in the block where they are largest' if sizes[0] != sizes[1] else ''}{beside}"
    elif isinstance(found, Unknown):
        message = f"{name}: how large its logits start is not known: {found.reason}."
        return Outcome("cannot_tell", message, blame(facts, site, found.nodes), "declared", THEOREM)
    else:
        return Outcome("cannot_tell", f"{name}: how large its logits start was not derived.", site, "declared", THEOREM)
    felt = claim_of(facts, sublayer, "logit_rms", "start").low if basis == "measured" and sizes is None else None
    if felt is not None and felt <= FROZEN < large:
        message = (
            f"{name}: its logits start with a root mean square of {large:.3g}{beside}, and a softmax over them rests on as many keys as one over "
            f"independent logits of {felt:.3g} at most."
        )
        return Outcome("holds", message, site, basis, THEOREM, numbers=(*numbers, ("logits_felt", felt)))
    if min(large, large if sizes is None else max(sizes)) <= FROZEN:  # one draw alone says little of others
        message = f"{name}: its logits start with a root mean square of {large:.3g}{beside}."
        return Outcome("holds", message, site, basis, THEOREM, numbers=numbers)
    held = f"where even of {KEYS} keys a few hold the softmax from {FROZEN:.3g} on"
    message = f"{name}: its logits start with a root mean square of {large:.3g}{beside}, {held}."
    head = head_width(facts, sublayer)
    done = sublayer.qk_norm in ("cosine", "l2") or is_divided_by_root(facts, stream, sublayer, head)
    root = [] if done else [f"logits divided by √d_h{f' = {math.sqrt(head):.3g}' if head else ''}"]
    *others, last = [*root, *_smaller(facts, sublayer)]
    remedy = f"{', '.join(others)}, or {last}"
    few = f"from {FROZEN:.3g} on, even a softmax over {KEYS} keys rests on a few of them and hands on next to no gradient"
    plain = f"{name}: its logits start at {large:.3g} (root mean square){beside}; {few}."
    return Outcome("violated", message, site, basis, THEOREM, numbers=numbers, remedy=remedy, plain=plain)


def _smaller(facts: Facts, sublayer: Sublayer) -> list[str]:
    """What makes logits smaller at the start, beside a division."""
    cap = "a cap that divides by itself, `c * tanh(logits / c)`"
    if not any(side == "none" or isinstance(side, Unknown) for side in (sublayer.q_norm, sublayer.k_norm)):  # maps before norms do not matter
        return ["smaller initial gains and scales between the norms on queries and keys and the softmax", cap]
    if sublayer.qk_norm == "none" and are_logits_bounded(facts, sublayer) is True:  # norms before the cap leave logits as they are
        return ["smaller initial Q and K", cap]
    return ["smaller initial Q and K", qk_norm_code(facts, sublayer)]
