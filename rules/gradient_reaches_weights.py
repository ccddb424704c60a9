"""No two factors of a product both start at zero: some gradient reaches every weight, at once or after the first steps.

Why: the gradient of one factor carries the other one. A gate at zero on a branch whose last map is zero, two zeroed maps in a row: neither moves,
and nothing before them does, at any learning rate and for ever. One zero alone is fine (ReZero, zero-initialised last maps): the other factor moves
it. In a loss curve: a model that trains as if it had no such branch.
Assumes: the recorded initialisation; weights that start at exactly 0; steps along the gradient, without noise or weight decay that would move a
zero.
Cannot tell: when an op without a row stands between a weight that starts at zero and another factor that does.
Source: ∂(a·b)/∂a = b; Bachlechner et al. 2021 (ReZero) and Zhang et al. 2019 (Fixup) zero one factor each.
"""

from __future__ import annotations

from screen.graph import Graph
from screen.rule import Example, Facts, Outcome, Rule, Site, place_of
from screen.structure.initial.zeros import Zeros

NEEDS = ("graph.nodes", "graph.initialisers", "graph.outputs")
RULE = Rule("I121", "gradient-reaches-weights", "backward", "I", "warning", NEEDS, "∂(a·b)/∂a = b")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        self.gate = nn.Parameter(torch.zeros(1))
        nn.init.zeros_(self.down.bias)
        nn.init.START(self.down.weight)

    def forward(self, x):
        return x + self.gate * BRANCH
"""
BRANCH = "self.down(F.gelu(self.up(self.norm(x))))"
HOLDS = (Example("a gate at zero on a branch that is not", BLOCK.replace("START", "xavier_normal_").replace("BRANCH", BRANCH)),)
VIOLATES = (Example("a gate at zero on a last map at zero", BLOCK.replace("START", "zeros_").replace("BRANCH", BRANCH)),)
UNREAD = BLOCK.replace("START", "zeros_").replace("BRANCH", f"torch.special.bessel_j1({BRANCH})")
CANNOT_TELL = (Example("an op without a row between the two zeros", UNREAD),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per module in which a product of two zeros stands; one for the whole model where none does."""
    graph = facts.graph
    if graph.failure:
        return (Outcome("cannot_tell", "Which weights a gradient reaches is unknown: the forward pass failed before its end."),)
    if not graph.initialisers:
        return (Outcome("not_applicable", "no initialiser was recorded."),)
    zeros = Zeros(graph)
    found: dict[str, Outcome] = {}
    for node in zeros.dead:
        names = _named(graph, zeros, node)
        place = place_of(facts, node)
        if len(names) > 1:
            why, them = f"{' and '.join(names)} start at 0 and multiply each other at {place.words}", "them"
        else:
            why, them = f"{names[0]} starts at 0, and so do both factors at {place.words} for it", "it"
        message = f"{why}: no gradient reaches {them} or the weights before {them}, in any step."
        remedy = f"start {'one of the two' if len(names) > 1 else names[0]} at another value than 0"
        outcome = Outcome("violated", message, Site(place=place), "declared", "∂(a·b)/∂a = b", remedy=remedy, condition="other-start")
        found.setdefault(place.module, outcome)
    for node in zeros.unread:
        place = place_of(facts, node)
        message = f"Whether both factors at {place.words} start at 0 is unknown: one does, and the other passes an op without a row."
        found.setdefault(place.module, Outcome("cannot_tell", message, Site(place=place)))
    return tuple(found.values()) or (Outcome("holds", "no product has two factors that start at 0 and stay there.", basis="declared"),)


def _named(graph: Graph, zeros: Zeros, node: int) -> list[str]:
    """The weights at zero that make each factor zero, one where both are for the same: of each the nearest, a matrix before a bias."""
    found = [max(zeros.culprits(i), key=lambda p: (len(graph.nodes[p].shape or ()) > 1, p)) for i in graph.nodes[node].inputs[:2]]
    return list(dict.fromkeys(f"`{graph.nodes[i].name}`" for i in found))
