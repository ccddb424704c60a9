"""A norm of queries or keys stands behind their projection, not before it.

Why: `wq(q_norm(x))` normalises what the block's own norm has just normalised, and then multiplies by W_Q: the norm does nothing, and the logits
grow with W_Q and W_K as if it were not there. Behind the projection it bounds them by √d_h·max|γ_q γ_k|. Usually two calls were nested the wrong
way round; shapes fit where the norm runs over the whole width. In a loss curve: the spikes of growing attention logits that QK-norm was meant to
prevent.
Assumes: a norm that only queries or keys are made from, and that reads what a norm gave, was meant as QK-norm.
Cannot tell: when an op without a row stands between such a norm and the logits.
Source: Dehghani et al. 2023 (ViT-22B), section 2; N(N(x)) = N(x).
"""

from __future__ import annotations

from screen.rule import Example, Facts, Outcome, Rule, Site, place_of
from screen.structure.logits import uses_of

NEEDS = ("norms", "doubled", "graph", "readers")
RULE = Rule("G128", "qk-norm-behind-projection", "structure", None, "warning", NEEDS, "Dehghani et al. 2023, section 2")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.q_norm, self.k_norm = nn.RMSNorm(32), nn.RMSNorm(32), nn.RMSNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in (QUERY, KEY, self.v(h)))
        return x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))
"""


def _example(title: str, query: str, key: str) -> Example:
    return Example(title, BLOCK.replace("QUERY", query).replace("KEY", key))


HOLDS = (_example("behind the projections", "self.q_norm(self.q(h))", "self.k_norm(self.k(h))"),)
VIOLATES = (_example("before the projections", "self.q(self.q_norm(h))", "self.k(self.k_norm(h))"),)
UNREAD = "torch.special.bessel_j0(self.q(self.q_norm(h)))"
CANNOT_TELL = (_example("an op without a row between the norm and the logits", UNREAD, "self.k_norm(self.k(h))"),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per norm that queries or keys alone are made from; one for the whole model where there is none."""
    states = {n for stream in facts.streams for n in stream.states}
    second = {pair.second.node for pair in facts.doubled}
    across = {norm.node for reader in facts.readers for sublayer in reader.sublayers for norm in sublayer.norms_across}
    found: list[Outcome] = []
    for norm in facts.norms:
        uses = uses_of(facts.graph, norm.node, states)
        site = Site(place=norm.place)
        if uses.unread is not None and norm.node in second:
            op = facts.graph.nodes[uses.unread].op
            message = f"What the norm at {norm.place.words} serves is unknown: `{op}`, an op without a row, reads it."
            found.append(Outcome("cannot_tell", message, Site(place=place_of(facts, uses.unread))))
        elif not uses.logits or uses.others or uses.unread is not None:
            continue
        elif not uses.weights:
            aside = ", and runs over another axis than the one that is multiplied and summed over" if norm.node in across else ""
            found.append(Outcome("holds", f"The norm at {norm.place.words} stands behind the projection, right before the logits{aside}.", site))
        elif norm.node in second:
            message = (
                f"The norm at {norm.place.words} stands before a projection of queries or keys and reads what a norm gave: it changes nothing, "
                "and the logits still grow with that projection."
            )
            remedy = "normalise what the projection gives"
            found.append(Outcome("violated", message, site, theorem="|q·k| ≤ ‖q‖‖k‖, q = W_Q N(x)", remedy=remedy))
    return tuple(found) or (Outcome("not_applicable", "no norm serves queries or keys alone."),)
