"""The identity term of a residual add is taken before the block's first norm, not after it.

Why: in `y = N(x); x' = y + F(y)` the norm stands on the stream itself, so that every path from the loss to the first block crosses
one norm per sublayer. It reads like pre-norm and is post-norm with an embedding norm and without the last norm: a well-known bug of
pre-norm code (`x = norm(x); x = x + attention(x)`). The symptom is that of post-norm: without warm-up the loss stays near its start
or diverges in the first hundreds of steps, and deep stacks learn late or not at all.
Assumes: nothing; the chain of identity edges is read off the graph. With a norm after the last block the same code is post-norm, and is
reported as that; so it is where each block ends in a norm of its own, and the one on the skip changes nothing.
Cannot tell: when an op without a row, or a guessed branch, hides where the identity term comes from.
Source: Xiong et al. 2020, theorem 1 (what post-norm costs).
"""

from __future__ import annotations

from screen.facts.queries import has_identity_path
from screen.rule import Example, Facts, Kind, Outcome, Rule, Sublayer, at, blame, describe, each_sublayer, first_reason, or_not_applicable

RULE = Rule("G101", "normed-skip", "structure", "D", "warning", ("streams.kinds.sublayers", "doubled"), "Xiong et al. 2020, theorem 1")

REMEDY = "add to the value before the norm: `x = x + f(norm(x))`, and not `x = norm(x); x = x + f(x)`"

HOLDS = (
    Example(
        "pre-norm: the stream goes around the norm",
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
        "the normalised value is carried on, and the last sum is bare",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        x = self.norm(x)
        return x + self.down(F.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
""",
    ),
)
CANNOT_TELL = (
    Example(
        "an op without a row stands on the stream",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        x = torch.special.bessel_j0(x)
        return x + self.down(F.gelu(self.up(x)))
""",
    ),
)


def _unscaled(sublayer: Sublayer) -> str:
    """What becomes of a factor on the skip: the norm takes it away as the code stands, and nothing does where no norm stands on the skip."""
    factor = sublayer.alpha.value
    return "" if factor is None or abs(factor) == 1.0 else f", and without the factor {factor:.4g} on `x`, which no norm would take away any more"


def _is_normed_before(facts: Facts, kind: Kind, sublayer: Sublayer) -> bool:
    """Whether the sum before it (of the block before, where it is the first one) ends in a norm, and another norm repeats one."""
    place = next(i for i, s in enumerate(kind.sublayers) if s is sublayer)
    return kind.count > 1 and "C" in kind.sublayers[place - 1].positions and bool(facts.doubled)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer."""
    found = []
    for stream, kind, sublayer in each_sublayer(facts):
        site, name = at(stream, kind, sublayer), describe(stream, kind, sublayer)
        if sublayer.normed_skip and _is_normed_before(facts, kind, sublayer):
            found.append(Outcome("holds", f"{name}: the norm on its skip repeats the one that ends what comes before: post-norm, no slip.", site))
        elif sublayer.normed_skip and has_identity_path(facts, stream) is True:
            found.append(Outcome("holds", f"{name}: its branch is added to a fresh norm of the stream, and a skip leads past both.", site))
        elif sublayer.normed_skip:
            found.append(
                Outcome(
                    "violated",
                    f"{name} adds its branch to a normalised value, so the norm stands on the stream: this is post-norm in disguise.",
                    site,
                    theorem="x' = N(x) + F(N(x)) has the Jacobian (I + J_F)·J_N: no path goes around N",
                    condition="warm-up",
                    remedy=REMEDY + _unscaled(sublayer),
                    plain=f"{name} is added to a value that was just normalised: no skip leads past that norm, as in post-norm.",
                )
            )
        elif sublayer.placement == "unknown":
            why = first_reason(sublayer)
            found.append(Outcome("cannot_tell", f"{name}: {why.reason}.", blame(facts, site, why.nodes)))
        else:
            found.append(Outcome("holds", f"{name}: the identity term is no fresh norm of the stream.", site))
    return or_not_applicable(found, "there is no residual sublayer.")
