"""The sublayers of one block agree on whether the norm stands on the branch's input or on the sum.

Why: a block with a pre-norm sublayer and a post-norm sublayer has the costs of both and the benefit of neither: the norm on the sum breaks the
identity path of the whole stream, and the norm on the next branch's input normalises what has just been normalised. Designs that mix the two do so
between blocks (Mix-LN) or put both on each sublayer. Usually `x + f(norm(x))` and `norm(x + f(x))` were merged from two codes, or one skip of a
pre-norm block starts behind its norm (`h = norm(x); h + f(h)`), which puts that norm on the sum of the sublayer before. In a loss curve:
post-norm's, a plateau or divergence when warm-up is short, from code that looks like pre-norm.
Assumes: blocks are found by data flow; sublayers of different streams are not compared.
Cannot tell: when the placement of one of them is unknown.
Source: Xiong et al. 2020, theorem 1; Li et al. 2024 (Mix-LN), whose blocks are of one kind each.
"""

from __future__ import annotations

from itertools import pairwise

from screen.rule import Example, Facts, Kind, Outcome, Rule, Stream, Sublayer, at, blame, first_reason, layers_text, or_not_applicable

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
HOLDS = (
    Example("two pre-norm sublayers", BLOCK.replace("SECOND", "x + self.feed(self.n2(x))")),
    Example("a norm on one branch's input and on the other's output", BLOCK.replace("SECOND", "x + self.n2(self.feed(x))")),
)
VIOLATES = (
    Example("a pre-norm sublayer and a post-norm one", BLOCK.replace("SECOND", "self.n2(x + self.feed(x))")),
    Example("the second skip starts behind its norm", BLOCK.replace("SECOND", "(h := self.n2(x)) + self.feed(h)")),
)
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
    after = [s for s in kind.sublayers if "C" in s.positions and "A" not in s.positions and not (s.normed_skip or s.norm_on_skip)]
    if before and after:
        message = (
            f"In {layers_text(kind)} of `{stream.name}`, `{before[0].name}` has its norm on the branch's input and `{after[0].name}` on the sum: "
            f"the stream passes a norm {_where(stream, kind)}, as in post-norm."
        )
        remedy = "put the norm of both on the same side, `x = x + f(norm(x))` for pre-norm"
        return Outcome("violated", message, at(stream, kind, after[0]), remedy=remedy)
    behind = next((pair for pair in pairwise(kind.sublayers) if _starts_behind(*pair)), None)
    if behind is not None:
        message = (
            f"In {layers_text(kind)} of `{stream.name}`, `{behind[0].name}` has its norm on the branch's input, and the only one in front of "
            f"`{behind[1].name}` stands on the stream: its skip starts behind that norm, and the stream passes it "
            f"{_where(stream, kind)}, as in post-norm."
        )
        plain = f"the skip of `{behind[1].name}` in {layers_text(kind)} starts behind its norm: no skip leads past that norm, as in post-norm."
        remedy = "add to the value before the norm: `x = x + f(norm(x))`, and not `x = norm(x); x = x + f(x)`"
        return Outcome("violated", message, at(stream, kind, behind[1]), remedy=remedy, plain=plain)
    if len({frozenset(s.positions) for s in kind.sublayers}) > 1:
        message = f"No sublayer of {layers_text(kind)} of `{stream.name}` has its norm on the sum beside one that has it on the branch's input."
        return Outcome("holds", message, at(stream, kind))
    return Outcome("holds", f"The sublayers of {layers_text(kind)} of `{stream.name}` agree on the side of their norms.", at(stream, kind))


def _where(stream: Stream, kind: Kind) -> str:
    """The blocks of a kind, told from all."""
    return "in every block" if len(stream.kinds) == 1 else "in each of these blocks" if kind.count > 1 else "there"


def _starts_behind(one: Sublayer, following: Sublayer) -> bool:
    """Whether a norm on the sum of a sublayer, which has one on its input besides, is all that the branch behind it has."""
    apart = following.parallel_group is None or following.parallel_group != one.parallel_group
    return {"A", "C"} <= set(one.positions) and not following.positions and not following.normed_skip and apart
