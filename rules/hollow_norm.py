"""What stands where a norm would normalises.

Why: a module that is called a norm and only multiplies (MobileBERT's `NoNorm`), a norm over an axis of one entry, or a partial
statistic bounds nothing: the branch or the stream behind it is as if no norm were there, while a reader of the code counts one. The
symptom is that of the missing norm: activations that grow from block to block, and a lower learning rate at which training diverges.
Assumes: a norm is y = l(x)/r(l(x)) with l identity or centring and r a statistic of degree 1 over exactly the features of y; names
count for nothing.
Cannot tell: when an op without a row lies on a stream, since it may normalise or not; and of a norm over the places of each channel, when steps
of convolutions and pools leave one place of the input that was traced, which may be smaller than those of training.
Source: Zhang and Sennrich 2019 (RMSNorm, and partial RMSNorm, whose output is unbounded: rms 6e5 with a statistic of 25 % of the
features); Sun et al. 2020 (MobileBERT, NoNorm).
"""

from __future__ import annotations

from screen.rule import Example, Facts, Outcome, Rule, Site
from screen.structure.types import HollowNorm

RULE = Rule("G105", "hollow-norm", "structure", "R", "warning", ("hollow", "coverage.unmodelled"), "Zhang and Sennrich 2019; Sun et al. 2020")

HOLDS = (
    Example(
        "a norm written by hand",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(32))
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain
        return x + self.down(F.gelu(self.up(y)))
""",
    ),
)
VIOLATES = (
    Example(
        "a norm over an axis of one entry",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(1), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        y = self.norm(x.unsqueeze(-1)).squeeze(-1)
        return x + self.down(F.gelu(self.up(y)))
""",
    ),
)
CANNOT_TELL = (
    Example(
        "an op without a row where a norm would stand",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(torch.special.bessel_j0(x))))
""",
    ),
)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per hollow norm, then one per op without a row on a stream; one for the whole model where all is well."""
    found = [_of_norm(hollow) for hollow in sorted(facts.hollow, key=lambda h: h.for_input)]
    found += [
        Outcome("cannot_tell", f"`{op.op}` has no row in the op table: whether it normalises is not known.", Site(place=op.place))
        for op in facts.coverage.unmodelled
        if op.on_stream
    ]
    return tuple(found) or (Outcome("holds", f"{len(facts.norms)} norms were found by what they compute, and nothing hollow in the place of one."),)


def _of_norm(hollow: HollowNorm) -> Outcome:
    what = hollow.place.words
    if hollow.for_input:
        message = f"{what} normalises nothing for the input that was traced: {hollow.reason}; whether it has more in training is not known."
        return Outcome("cannot_tell", message, Site(place=hollow.place), remedy="give a larger input, with `--input`")
    message = f"{what} stands where a norm would and normalises nothing: {hollow.reason}."
    return Outcome("violated", message, Site(place=hollow.place), remedy="use a norm over the features, or drop it")
