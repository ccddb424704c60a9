"""Every residual sublayer has a norm placement that can be told.

Why: where the norms stand around a branch decides what follows from structure: pre (A) bounds the branch's input, output-only (B) its
output, peri (A and B) both, post (C) the stream, none nothing. The letters are read off data flow, never off names: a
`post_attention_layernorm` is an input norm of the next branch in one model and an output norm in another. This rule states the
placement of each sublayer; it has no symptom of its own.
Assumes: dropout and stochastic depth are off, and the traced call is the one that matters (evaluation mode, no cache).
Cannot tell: when an op without a row lies on a path that decides, when the forward pass fails, or when nothing is added to anything.
Source: Xiong et al. 2020 (pre, post); Kim et al. 2025 (Peri-LN: peri, output-only).
"""

from __future__ import annotations

from screen.rule import Example, Facts, Kind, Outcome, Rule, Stream, Sublayer, at, blame, describe, each_sublayer, first_reason

RULE = Rule("G102", "placement", "structure", None, "note", ("streams.kinds.sublayers",), "Xiong et al. 2020; Kim et al. 2025")

MEANING = {
    "pre": "pre: the branch's input is normalised",
    "post": "post: the sum is normalised and carried on",
    "peri": "peri: the branch's input and output are normalised",
    "output_only": "output-only: the branch's output is normalised, its input is not",
    "pre_post": "pre and post: the branch's input and the sum are normalised",
    "none": "without a norm on its input, its output or the sum",
}

HOLDS = (
    Example(
        "peri: norms on both ends of the branch",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.RMSNorm(32), nn.RMSNorm(32)
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.after(self.down(F.gelu(self.up(self.before(x)))))
""",
    ),
)
VIOLATES = (
    Example(
        "nothing is added to anything: there is no residual stream",
        """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))
""",
    ),
)
CANNOT_TELL = (
    Example(
        "whether the branch's input is normalised depends on an op without a row",
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
    """One outcome per distinct sublayer, or one for the whole model where it has none."""
    if not facts.streams:
        return (_no_stream(facts),)
    return tuple(_place(facts, *site) for site in each_sublayer(facts))


def _no_stream(facts: Facts) -> Outcome:
    if facts.graph.failure or facts.coverage.unmodelled:
        why = "the forward pass failed" if facts.graph.failure else f"`{facts.coverage.unmodelled[0].op}` has no row in the op table"
        return Outcome("cannot_tell", f"No residual stream was found, and {why}.")
    return Outcome("violated", "No residual stream: nothing is added to an earlier value of itself.")


def _place(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name = at(stream, kind, sublayer), describe(stream, kind, sublayer)
    if sublayer.placement == "unknown":
        why = first_reason(sublayer)
        return Outcome("cannot_tell", f"The placement of {name} is unknown: {why.reason}.", blame(facts, site, why.nodes))
    letters = ", ".join("A²" if p == "A2" else p for p in sublayer.positions) or "none"
    meaning = MEANING.get(sublayer.placement, f"placed {sublayer.placement}")
    return Outcome("holds", f"{name} is {meaning}.", site, numbers=(("positions", letters),))
