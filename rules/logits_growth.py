"""Attention logits do not explode with the depth of the stream that they are made of.

Why: a logit is a product of two maps of what the branch reads. Where that is the stream itself and no norm stands on it, the stream grows
exponentially at an ordinary initialisation, and the logits with its square: attention is one-hot after a few blocks, whatever the learning rate.
Assumes: independent random weights at the recorded initialisation.
Cannot tell: when attention reads a stream without norms whose initialisation was not recorded and that was not measured.
Source: docs/theory.md, what each branch sees; Emadi, section 5.2.
"""

from __future__ import annotations

from screen.facts.advice import NORM_BESIDE, condition_on_logits
from screen.facts.handed_logits import add_up
from screen.facts.queries import (
    EXPLOSIVE, are_logits_bounded, basis_of, do_logits_stay, growth_of, has_softmax, number_of, only_beside_grows, so_many_times,
)  # fmt: skip
from screen.facts.self_division import divides_before_logits
from screen.rule import Example, Facts, Kind, Outcome, Rule, Stream, Sublayer, Unknown, at, blame, describe, each_sublayer, or_not_applicable

RULE = Rule("L202", "logits-growth", "forward", "L", "error", ("streams.kinds.sublayers", "recursions"), "Emadi, section 5.2")


BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32, bias=False) for _ in range(4))
        for linear in (self.q, self.k, self.v, self.o):
            INIT

    def forward(self, x):
        y = INPUT
        return x + self.o(F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(32))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""
LARGE = "nn.init.normal_(linear.weight, std=0.4)"


def _block(entry: str, init: str) -> str:
    return BLOCK.replace("INPUT", entry).replace("INIT", init)


HOLDS = (Example("a norm on the input of every branch", _block("self.norm(x)", LARGE)),)
VIOLATES = (Example("no norm, and large weights", _block("x", LARGE)),)
CANNOT_TELL = (Example("no norm, and weights that nothing fills", _block("x", "linear.weight = nn.Parameter(torch.empty(linear.weight.shape))")),)

REMEDY = "a norm on the branch's input, or on queries and keys"
THEOREM = "|logit| grows as ‖x_l‖²·‖W_Q‖·‖W_K‖/√d_h where the branch reads the stream itself"


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer with softmax attention."""
    sites = [s for s in each_sublayer(facts) if has_softmax(facts, s[2]) is True]
    return or_not_applicable([_judge(facts, *site) for site in sites], "no branch weighs values by a softmax over logits.")


def _judge(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name = at(stream, kind, sublayer), describe(stream, kind, sublayer)
    stay = do_logits_stay(facts, sublayer)
    if stay is True or are_logits_bounded(facts, sublayer) is True:
        return Outcome("holds", f"{name}: a norm or a bound stands between the stream's growth and its logits.", site, theorem=THEOREM)
    if growth_of(facts, stream, "fixed") == "bounded":
        return Outcome("holds", f"{name}: the stream that its logits are made of does not grow with depth.", site, theorem=THEOREM)
    compared = all(isinstance(n, str) and n != "none" for n in (sublayer.q_norm, sublayer.k_norm))
    if isinstance(stay, Unknown) and ("A" in sublayer.positions or compared):
        read = "what it reads of the stream is normed" if "A" in sublayer.positions else "its queries and keys are normed"
        message = f"{name}: {read}, and what becomes of that up to its logits has no known bound: {stay.reason}."
        return Outcome("conditional", message, blame(facts, site, stay.nodes), theorem=THEOREM, condition=condition_on_logits(facts, sublayer))
    if add_up(facts, sublayer):
        message = f"{name}: its logits hold those that come from before, and grow with depth as these add up."
        return Outcome("conditional", message, site, theorem=THEOREM, condition=condition_on_logits(facts, sublayer))
    grown = number_of(facts, stream, "rms_ratio")
    if isinstance(grown, Unknown):
        message = f"{name}: its logits are made of a stream that nothing bounds for them, and how that grows is unknown: {grown.reason}."
        return Outcome("cannot_tell", message, blame(facts, site, grown.nodes), "declared", THEOREM)
    numbers = (("rms_last_over_first", grown), ("depth", facts.depth(stream)))
    basis = basis_of(facts, stream, "rms_ratio")
    what = f"{name}: its logits are made of a stream that nothing bounds for them, which grows {so_many_times(grown)} at the recorded initialisation."
    if divides_before_logits(facts, stream, sublayer):
        what = f"{name}: what the stream is divided by before its logits is not shown to bound them; it grows {so_many_times(grown)} at the start."
        return Outcome("conditional", what, site, basis, THEOREM, numbers=numbers, condition=condition_on_logits(facts, sublayer))
    if grown > EXPLOSIVE:
        beside = only_beside_grows(facts, sublayer)
        remedy, tries = (NORM_BESIDE, ("norms-before",)) if beside else (REMEDY, ("norms-before", "qk-norm"))
        return Outcome("violated", what, site, basis, THEOREM, numbers=numbers, remedy=remedy, tries=tries)
    condition = condition_on_logits(facts, sublayer, grow=stay is False)
    return Outcome("conditional", what, site, basis, THEOREM, numbers=numbers, condition=condition)
