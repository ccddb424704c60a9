"""A norm on a stream runs over the features of each token, not over tokens or samples.

Why: a statistic over tokens (`x.mean(1)` on `[batch, tokens, features]`) ties every token to all others, later ones included, and to the length of
the sequence; it bounds no token, so that the branch behind it is as if no norm were there. Usually `dim=1` was carried over from code on `[batch,
features]`. In a loss curve: a causal model that is too good to be true, results that change with padding and length, and the instability of a
missing norm.
Assumes: batch, group and instance norms are meant, and not judged; so is a norm over tokens and features together (`LayerNorm((time, features))`),
which bounds each value by the root of their number, though a token sees later ones through it. A mean and deviation of each series that are put
back behind the stack are no norm of a token; norms inside a branch (over the tokens of queries, say) are not on a stream.
Cannot tell: when an op without a row stands on a stream, since it may normalise or not.
Source: Ba et al. 2016 (layer normalization), section 3: statistics over the hidden units of one case.
"""

from __future__ import annotations

from screen.rule import Example, Facts, Outcome, Rule, Site
from screen.structure.reach import is_state

NEEDS = ("norms", "streams.states", "coverage.unmodelled")
MEANT = ("batchnorm", "groupnorm")
"""Norms whose statistics run over samples or places on purpose; so do those of an instance norm."""
BY_NAME = "batch, group and instance norms"
JOINT = "norms over tokens and features together"
RULE = Rule("G126", "norm-over-features", "structure", None, "warning", NEEDS, "Ba et al. 2016, section 3")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def norm(self, x):
        mean, var = x.mean(AXIS, keepdim=True), x.var(AXIS, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-5)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(READ)))
"""
HOLDS = (Example("over the last axis", BLOCK.replace("AXIS", "-1").replace("READ", "self.norm(x)")),)
VIOLATES = (Example("over tokens", BLOCK.replace("AXIS", "1").replace("READ", "self.norm(x)")),)
CANNOT_TELL = (Example("an op without a row in place of a norm", BLOCK.replace("AXIS", "-1").replace("READ", "torch.special.bessel_j0(x)")),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per norm over tokens or samples that reads a stream, then one per op without a row on one; one for the model where all is well."""
    states = {n for stream in facts.streams for n in stream.states}
    on_streams = [norm for norm in facts.norms if is_state(facts.graph, norm.source, states)]
    found = [
        Outcome(
            "violated",
            f"The norm at {norm.place.words} runs over tokens or samples (axes {', '.join(map(str, norm.axes))}), not over features.",
            Site(place=norm.place),
            theorem="‖N(x)_t‖ of one token t has no bound where the statistic runs over t",
            remedy="take mean and deviation over the last axis",
        )
        for norm in on_streams
        if norm.across and not norm.with_features
    ]
    found += [
        Outcome("cannot_tell", f"`{op.op}` has no row in the op table: whether it normalises, and over what, is not known.", Site(place=op.place))
        for op in facts.coverage.unmodelled
        if op.on_stream
    ]
    if found:
        return tuple(found)
    if not on_streams:
        return (Outcome("not_applicable", "no norm stands on a stream."),)
    joint = [norm for norm in on_streams if norm.with_features]
    judged = [norm for norm in on_streams if norm.type not in MEANT and facts.graph.nodes[norm.node].op != "instance_norm" and norm not in joint]
    kinds = [kind for kind, some in ((BY_NAME, len(on_streams) > len(judged) + len(joint)), (JOINT, joint)) if some]
    if not judged:
        return (Outcome("not_applicable", f"{' and '.join(kinds)} alone stand on streams: what they run over is meant."),)
    aside = f" ({len(on_streams) - len(judged)} {' and '.join(kinds)} aside)" if kinds else ""
    return (Outcome("holds", f"none of {len(judged)} norms on streams runs over tokens or samples{aside}."),)
