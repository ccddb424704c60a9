"""A pre-norm stream ends in one norm, not in two.

Why: the second of two norms finds nothing left to normalise. The gain of the first one is nearly idle: the loss hardly depends on its size, so that
weight decay and noise move it where they like, and what looks like a tuned final norm is none. Usually a trunk with a norm of its own was combined
with a head that brings another. In a loss curve: slightly slower steps, and a checkpoint of the trunk that cannot be told from one without its norm.
Assumes: both norms run over the same features, with at most an elementwise affine map between them (G104), and the last sum itself has none.
Cannot tell: when an op without a row stands between the last add and the end.
Source: a norm is idempotent, N(N(x)) = N(x) up to ε.
"""

from __future__ import annotations

from screen.rule import Example, Facts, Outcome, Rule, Stream, Unknown, at, blame, or_not_applicable

RULE = Rule("G121", "final-norm-once", "structure", None, "warning", ("streams", "doubled"), "N(N(x)) = N(x)")

MODEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(4)), nn.LayerNorm(32)
        self.head = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 100))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(END)
"""
HOLDS = (Example("only the head has a norm", MODEL.replace("END", "x")),)
VIOLATES = (Example("the trunk ends in a norm and the head begins with one", MODEL.replace("END", "self.norm(x)")),)
CANNOT_TELL = (Example("an op without a row behind the last add", MODEL.replace("END", "torch.special.bessel_j0(x)")),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream whose last sum is not normalised itself."""
    streams = [s for s in facts.streams if s.kinds and s.kinds[-1].sublayers and "C" not in s.kinds[-1].sublayers[-1].positions]
    return or_not_applicable([_judge(facts, s) for s in streams], "no stream ends in a bare sum.")


def _judge(facts: Facts, stream: Stream) -> Outcome:
    site = at(stream)
    if isinstance(stream.final_norm, Unknown):
        return Outcome("cannot_tell", f"`{stream.name}`: {stream.final_norm.reason}.", blame(facts, site, stream.final_norm.nodes))
    if not stream.final_norm or stream.end_norm is None:
        return Outcome("holds", f"`{stream.name}` ends in no norm, let alone two.", site)
    before = facts.graph.nodes[stream.end_norm.source]
    if before.op in {u.op for u in facts.coverage.unmodelled}:
        message = f"The last norm of `{stream.name}` reads `{before.op}`, an op without a row, which may be a norm itself."
        return Outcome("cannot_tell", message, blame(facts, site, (before.index,)))
    for pair in facts.doubled:
        if stream.end_norm.node in (pair.first.node, pair.second.node) and min(pair.first.node, pair.second.node) > stream.states[-1]:
            if _is_read_by_another(facts, stream, pair.second.node):
                continue
            first, second = pair.first.place.module, pair.second.place.module
            message = f"`{stream.name}` ends in two norms: that at `{second}` normalises what that at `{first}` has just normalised."
            return Outcome("violated", message, at(stream, place=pair.second.place), theorem="N(N(x)) = N(x) up to ε", remedy="remove one of the two")
    return Outcome("holds", f"`{stream.name}` ends in one norm.", site)


def _is_read_by_another(facts: Facts, stream: Stream, norm: int) -> bool:
    """Whether the second norm stands in a branch of another stream, which reads this one's end."""
    others = [s for s in facts.streams if s is not stream]
    branches = [sub for s in others for k in s.kinds for sub in k.sublayers]
    return any(n.node == norm for sub in branches for _, n in sub.norms) or any(norm < s.states[0] for s in others)
