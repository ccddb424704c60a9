"""Where one of queries and keys is normalised, the other is too.

Why: a logit is the product of a query and a key. With both normalised it is at most √d_h·max|γ_q γ_k|; with one side left bare it
grows with that side's weights like before, so the norm costs and bounds nothing. Usually it is a slip (the same norm written twice, or
a cache that skips it). In a loss curve: the spikes of growing attention logits that QK-norm was meant to prevent, late in training and
at high learning rates.
Assumes: a norm over the axis that the product of queries and keys sums over, then no weighted op before the logits; rotary, per-channel gains and
scales do not count. Where the logits are bounded all the same (keys divided by their deviation over places, a cap behind the product) nothing is
missing: a norm over another axis bounds entries, and the sum of their products.
Cannot tell: when an op without a row lies between a projection and the logits.
Source: Dehghani et al. 2023 (ViT-22B), section 2.
"""

from __future__ import annotations

from screen.facts.queries import are_logits_bounded
from screen.rule import (
    Example, Facts, Kind, Outcome, Rule, Site, Stream, Sublayer, Unknown, at, blame, describe, each_sublayer, or_not_applicable,
)  # fmt: skip

RULE = Rule("L101", "both-sided-qk-norm", "forward", "L", "warning", ("streams.kinds.sublayers",), "Dehghani et al. 2023, section 2")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.q_norm, self.k_norm = nn.LayerNorm(32), nn.RMSNorm(8), nn.RMSNorm(8)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))

    def heads(self, x):
        return x.unflatten(-1, (4, 8)).transpose(1, 2)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.heads(self.q(h)), self.heads(self.k(h)), self.heads(self.v(h))
        y = F.scaled_dot_product_attention(QUERY, KEY, v)
        return x + self.o(y.transpose(1, 2).flatten(-2))
"""
HOLDS = (
    Example("both sides, per head", BLOCK.replace("QUERY", "self.q_norm(q)").replace("KEY", "self.k_norm(k)")),
    Example(
        "keys over their deviation over places",
        BLOCK.replace("QUERY", "self.q_norm(q)").replace("KEY", "(k - k.mean(-2, keepdim=True)) / (k.std(-2, keepdim=True) + 1e-6)"),
    ),
    Example("both over places", BLOCK.replace("QUERY", "F.normalize(q, dim=-2)").replace("KEY", "F.normalize(k, dim=-2)")),
)
VIOLATES = (
    Example("only the queries", BLOCK.replace("QUERY", "self.q_norm(q)").replace("KEY", "k")),
    Example("only the queries, and over places", BLOCK.replace("QUERY", "F.normalize(q, dim=-2)").replace("KEY", "k")),
)
CANNOT_TELL = (
    Example(
        "an op without a row between the keys' projection and the logits",
        BLOCK.replace("QUERY", "self.q_norm(q)").replace("KEY", "torch.special.bessel_j0(k)"),
    ),
)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer with logits of which a side is normalised or unknown."""
    found = []
    for stream, kind, sublayer in each_sublayer(facts):
        if (outcome := _judge(facts, stream, kind, sublayer)) is not None:
            found.append(outcome)
    return or_not_applicable(found, "no query and no key is normalised.")


def _judge(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome | None:
    site, name, q, k = at(stream, kind, sublayer), describe(stream, kind, sublayer), sublayer.q_norm, sublayer.k_norm
    for side, norm in (("queries", q), ("keys", k)):
        if isinstance(norm, Unknown):
            return Outcome("cannot_tell", f"Whether the {side} of {name} are normalised is unknown: {norm.reason}.", blame(facts, site, norm.nodes))
    if q == k == "none":
        return _across(facts, site, name, sublayer) if sublayer.norms_across else None
    if "none" not in (q, k):
        return Outcome("holds", f"{name} normalises queries and keys.", site)
    normed, bare = ("queries", "keys") if k == "none" else ("keys", "queries")
    if are_logits_bounded(facts, sublayer) is True:
        return Outcome("holds", f"{name} normalises its {normed}, and its logits are bounded by what else stands before them.", site)
    return Outcome(
        "violated",
        f"{name} normalises its {normed} and leaves its {bare} bare: the logits still grow with the weights of the {bare}.",
        site,
        theorem="|q·k| ≤ ‖q‖‖k‖: one bounded factor bounds no product",
        remedy=f"normalise the {bare} in the same way",
    )


def _across(facts: Facts, site: Site, name: str, sublayer: Sublayer) -> Outcome:
    """Norms over another axis than the one that is summed over stand before the logits, and no others."""
    where = " and ".join(dict.fromkeys(norm.place.words for norm in sublayer.norms_across))
    message = f"{name}: what is normalised before its logits (at {where}) is so over another axis than the one that is multiplied and summed over"
    bounded = are_logits_bounded(facts, sublayer)
    if isinstance(bounded, Unknown):
        return Outcome("cannot_tell", f"{message}: whether its logits are bounded is unknown: {bounded.reason}.", blame(facts, site, bounded.nodes))
    if bounded:
        return Outcome("holds", f"{message}: each entry is bounded, and so is their product, by as many times as entries are summed.", site)
    return Outcome(
        "violated", f"{message}: the logits still grow with the weights.", site, theorem="|q·k| ≤ ‖q‖‖k‖, both lengths over the axis of the sum",
        remedy="normalise queries and keys over the axis that their product sums over",
    )  # fmt: skip
