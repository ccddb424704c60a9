"""A constant that scales a branch stands after the branch's output norm, not before it.

Why: a norm divides by the size of its input, so that a factor before it changes nothing but the weight ε gets: Δt = 0.1 before a norm changes the
stream by two parts in a thousand, after it by the factor that was meant. The same holds for a depth-scaled initialisation of the last map
before an output norm: it is a no-op forward, and multiplies that weight's gradient by its inverse.
Assumes: ε is small beside the variance of what is normalised.
Cannot tell: when the way from the norm back to a weight passes an op without a row.
Source: docs/theory.md, scale degrees; Kim et al. 2025, proposition 3.1.
"""

from __future__ import annotations

from screen.facts.flow import number
from screen.rule import Example, Facts, Kind, Outcome, Rule, Stream, Sublayer, at, blame, describe, each_sublayer, or_not_applicable

RULE = Rule("I101", "scale-before-norm", "backward", "I", "warning", ("streams.kinds.sublayers", "graph"), "docs/theory.md, scale degrees")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.after = nn.Linear(32, 128), nn.Linear(128, 32), nn.RMSNorm(32)

    def forward(self, x):
        return x + OUTPUT
"""
HOLDS = (Example("the factor stands after the norm", BLOCK.replace("OUTPUT", "0.1 * self.after(self.down(F.relu(self.up(x))))")),)
VIOLATES = (Example("the factor stands before the norm", BLOCK.replace("OUTPUT", "self.after(0.1 * self.down(F.relu(self.up(x))))")),)
UNREAD = BLOCK.replace("OUTPUT", "self.after(torch.special.bessel_j0(self.down(F.relu(self.up(x)))))")
CANNOT_TELL = (Example("an op without a row before the norm", UNREAD),)

THEOREM = "N(c·v) = N(v) for c > 0, up to ε/(σ² + ε)"
CARRIERS = frozenset({"to", "view", "reshape", "contiguous", "float", "transpose", "permute", "dropout", "clone", "type_as", "flatten", "unflatten"})
"""Ops that a factor passes unchanged."""


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer with an output norm."""
    sites = [s for s in each_sublayer(facts) if "B" in s[2].positions]
    return or_not_applicable([_judge(facts, *site) for site in sites], "no branch ends in a norm.")


def _judge(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name = at(stream, kind, sublayer), describe(stream, kind, sublayer)
    norm = next(n for p, n in sublayer.norms if p == "B")
    node = facts.graph.nodes[norm.source]
    for _ in range(32):
        factor = _factor(node.args) if node.op in ("mul", "div") else None
        if factor is not None and factor not in (1.0, -1.0):
            message = f"{name} is multiplied by {factor:g} right before its output norm, which divides it out again: a no-op forward."
            remedy = "move the factor behind the norm, or into its gain"
            here = blame(facts, site, (node.index,))
            return Outcome("violated", message, here, theorem=THEOREM, numbers=(("factor", factor),), remedy=remedy, condition="declared-structure")
        if facts.analyses and any(u.op == node.op and u.place.node == node.index for u in facts.coverage.unmodelled):
            return Outcome("cannot_tell", f"{name}: `{node.op}` before its output norm has no row.", blame(facts, site, (node.index,)))
        if not (node.op in CARRIERS or factor is not None) or not node.inputs:
            break
        node = facts.graph.nodes[node.inputs[0]]
    return Outcome("holds", f"{name}: no constant is divided out by the output norm.", site)


def _factor(args: tuple[object, ...]) -> float | None:
    return next((v for v in (number(a) for a in args[:2]) if v is not None), None)
