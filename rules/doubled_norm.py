"""No norm is applied to what a norm has just normalised.

Why: the second norm of two in a row changes nothing but a gain: a normalised value is a fixed point of the norm up to ε and the affine
map between. It costs time, and it makes the gain of the first one idle (a weight whose gradient is nearly radial), so that a reader
who counts norms counts one too many. Typical causes: a block that ends in a norm followed by one that begins with one, or a final norm
after post-norm blocks. No symptom in a loss curve but slightly slower steps.
Assumes: both norms run over the same features, with at most an elementwise affine map between them.
Cannot tell: when an op without a row feeds a norm.
Source: a norm is idempotent, N(N(x)) = N(x) up to ε.
"""

from __future__ import annotations

from screen.rule import Example, Facts, Outcome, Rule, Site
from screen.structure.reach import is_state
from screen.structure.types import DoubledNorm, Norm

RULE = Rule("G104", "doubled-norm", "structure", None, "note", ("norms", "doubled", "streams.states", "graph"), "N(N(x)) = N(x)")

HOLDS = (
    Example(
        "one norm per place",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))
""",
    ),
)
VIOLATES = (
    Example(
        "a post-norm block that also begins with a norm",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.LayerNorm(32), nn.LayerNorm(32)
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return self.last(x + self.down(F.gelu(self.up(self.first(x)))))
""",
    ),
)
CANNOT_TELL = (
    Example(
        "the norm reads an op without a row",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(torch.special.bessel_j0(x)))))
""",
    ),
)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per pair, then one per norm whose input was not read; one for the whole model where all is well."""
    unread = {u.op for u in facts.coverage.unmodelled}
    found = [
        Outcome(
            "violated",
            f"The norm at {pair.second.place.words} normalises what the norm at {pair.first.place.words} has just normalised.",
            Site(place=pair.second.place),
            theorem="N(N(x)) = N(x) up to ε where no gain stands between",
            remedy=_remedy(facts, pair),
        )
        for pair in facts.doubled
    ]
    found += [
        Outcome(
            "cannot_tell",
            f"The norm at {norm.place.words} reads `{facts.graph.nodes[norm.source].op}`, an op without a row, which may be a norm itself.",
            Site(place=norm.place),
        )
        for norm in facts.norms
        if facts.graph.nodes[norm.source].op in unread
    ]
    if found:
        return tuple(found)
    if not facts.norms:
        return (Outcome("not_applicable", "there is no norm."),)
    return (Outcome("holds", f"none of {len(facts.norms)} norms follows another one."),)


def _remedy(facts: Facts, pair: DoubledNorm) -> str:
    if _is_needed(facts, pair.second):
        return "leave out the second, and norm before the loop what its first call reads: no norm has made that"
    return "remove the second: the stream carries on what the first makes" if _is_carried(facts, pair.second) else "remove one of the two"


def _is_needed(facts: Facts, second: Norm) -> bool:
    """Whether the same norm of the same module runs again on what no norm has just made, as in the first round of a loop that ends in a norm."""
    graph, again = facts.graph, {pair.second.place.node for pair in facts.doubled}

    def written(norm: Norm) -> tuple[object, ...]:
        return graph.calls[graph.nodes[norm.place.node].call].module, norm.place.file, norm.place.line

    return any(written(n) == written(second) and n.place.node not in again for n in facts.norms)


def _is_carried(facts: Facts, second: Norm) -> bool:
    """Whether what the second norm reads is a state of a stream: an embedding norm before a branch with a norm of its own (BLOOM)."""
    return is_state(facts.graph, second.source, {n for stream in facts.streams for n in stream.states})
