"""The sublayers of one block agree on whether the norm stands on the branch's input or on the sum.

Why: a block with a pre-norm sublayer and a post-norm sublayer has the costs of both and the benefit of neither: the norm on the sum breaks the
identity path of the whole stream, and the norm on the next branch's input normalises what has just been normalised. Designs that mix the two do so
between blocks (Mix-LN) or put both on each sublayer. Usually `x + f(norm(x))` and `norm(x + f(x))` were merged from two codes. In a loss curve:
post-norm's, a plateau or divergence when warm-up is short, from code that looks like pre-norm.
Assumes: blocks are found by data flow; sublayers of different streams are not compared.
Cannot tell: when the placement of one of them is unknown.
Source: Xiong et al. 2020, theorem 1; Li et al. 2024 (Mix-LN), whose blocks are of one kind each.
"""

from __future__ import annotations

from screen.rule import Example, Facts, Kind, Outcome, Rule, Stream, at, blame, first_reason, layers_text, or_not_applicable

NEEDS = ("streams.kinds.sublayers",)
RULE = Rule("G124", "one-placement-per-block", "structure", None, "warning", NEEDS, "Xiong et al. 2020, theorem 1")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.mix, self.up, self.down = nn.Linear(32, 32), nn.Linear(32, 128), nn.Linear(128, 32)

    def feed(self, x):
        return self.down(F.gelu(self.up(x)))

    def forward(self, x):
        x = x + self.mix(self.n1(x))
        return SECOND
"""
HOLDS = (Example("two pre-norm sublayers", BLOCK.replace("SECOND", "x + self.feed(self.n2(x))")),)
VIOLATES = (Example("a pre-norm sublayer and a post-norm one", BLOCK.replace("SECOND", "self.n2(x + self.feed(x))")),)
CANNOT_TELL = (Example("an op without a row in front of one branch", BLOCK.replace("SECOND", "x + self.feed(torch.special.bessel_j0(x))")),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per kind of block with several sublayers."""
    sites = [(stream, kind) for stream in facts.streams for kind in stream.kinds if len(kind.sublayers) > 1]
    return or_not_applicable([_judge(facts, *site) for site in sites], "no block has several sublayers.")


def _judge(facts: Facts, stream: Stream, kind: Kind) -> Outcome:
    unknown = next((s for s in kind.sublayers if s.placement == "unknown"), None)
    if unknown is not None:
        why = first_reason(unknown)
        site = blame(facts, at(stream, kind, unknown), why.nodes)
        return Outcome("cannot_tell", f"The placement of `{unknown.name}` is unknown: {why.reason}.", site)
    before = [s for s in kind.sublayers if "A" in s.positions and "C" not in s.positions and not s.normed_skip]
    after = [s for s in kind.sublayers if "C" in s.positions and "A" not in s.positions and not s.normed_skip]
    if before and after:
        message = (
            f"In {layers_text(kind)} of `{stream.name}`, `{before[0].name}` has its norm on the branch's input and `{after[0].name}` on the sum: "
            "the stream passes a norm in every block, as in post-norm."
        )
        remedy = "put the norm of both on the same side, `x = x + f(norm(x))` for pre-norm"
        return Outcome("violated", message, at(stream, kind, after[0]), remedy=remedy)
    return Outcome("holds", f"The sublayers of {layers_text(kind)} of `{stream.name}` agree on the side of their norms.", at(stream, kind))
