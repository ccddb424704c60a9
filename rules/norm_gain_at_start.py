"""No norm that all of a stream passes starts with a gain of zero.

Why: behind a norm with the gain zero everything is zero. On a branch that is a sound start (the block is the identity, and the gain has a gradient).
On the sum it is not: the state that the next block reads is zero, its own norm makes zero of that, and no gradient passes a factor of zero, so
that of all blocks but the last nothing is ever trained. On the final norm the model's output is zero: at the first step nothing but that gain has a
gradient, and nothing at all where the head starts at zero as well.
Assumes: calls on parameters were recorded while the model was built.
Cannot tell: when the gain's initialiser was not recorded.
Source: Goyal et al. 2017, section 5.1 (zero gain on the last norm of a branch); Zhang et al. 2019 (Fixup); the chain rule.
"""

from __future__ import annotations

from collections.abc import Iterator

from screen.graph import Ref
from screen.rule import Example, Facts, Outcome, Rule, Stream, at, or_not_applicable
from screen.structure.initial.values import start_of
from screen.structure.types import Norm

NEEDS = ("streams.kinds.sublayers", "graph.initialisers")
RULE = Rule("I204", "norm-gain-at-start", "backward", "I", "warning", NEEDS, "Goyal et al. 2017, section 5.1")

THEOREM = "∂L/∂x = γ ⊙ J(x)·∂L/∂y of a norm y = γ ⊙ x̂ is zero where γ is"

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        INIT

    def forward(self, x):
        return self.norm(x + self.down(F.gelu(self.up(x))))
"""
HOLDS = (
    Example("gains of one on the sum", BLOCK.replace("INIT", "nn.init.ones_(self.norm.weight)")),
    Example(
        "a gain of zero at the end of a branch",
        BLOCK.replace("INIT", "nn.init.zeros_(self.norm.weight)").replace(
            "self.norm(x + self.down(F.gelu(self.up(x))))", "x + self.norm(self.down(F.gelu(self.up(x))))"
        ),
    ),
)
VIOLATES = (Example("a gain of zero on the sum", BLOCK.replace("INIT", "nn.init.zeros_(self.norm.weight)")),)
CANNOT_TELL = (Example("a gain that nothing fills", BLOCK.replace("INIT", "self.norm.weight = nn.Parameter(torch.empty(32))")),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per norm on a stream's sum or at its end."""
    found = [_judge(facts, stream, norm, final) for stream in facts.streams if stream.role != "inner" for norm, final in _on_stream(stream)]
    return or_not_applicable(found, "no norm stands on a stream.")


def _on_stream(stream: Stream) -> Iterator[tuple[Norm, bool]]:
    """Norms on a stream's sums, and its final norm."""
    inside = {n.node: n for kind in stream.kinds for sub in kind.sublayers for position, n in sub.norms if position == "C" and not sub.norm_on_skip}
    yield from ((n, False) for n in inside.values())
    if stream.final_norm is True and stream.end_norm is not None and stream.end_norm.node not in inside:
        yield stream.end_norm, True


def _judge(facts: Facts, stream: Stream, norm: Norm, final: bool) -> Outcome:
    site, where = at(stream, place=norm.place), "the final norm" if final else "the norm on the sum"
    weight = facts.graph.nodes[norm.node].kwarg("weight")
    if not isinstance(weight, Ref):
        return Outcome("holds", f"`{stream.name}`: {where} has no gain of its own that starts at zero.", site, "declared", THEOREM)
    start, name = start_of(facts.graph, weight.node), f"`{_parameter(facts, weight.node) or norm.place.module}`"
    if start is None and not facts.graph.histories.get(facts.graph.nodes[weight.node].name):
        return Outcome("cannot_tell", f"`{stream.name}`: what the gain {name} of {where} starts at was not recorded.", site, "declared", THEOREM)
    if start != 0.0:
        return Outcome("holds", f"`{stream.name}`: the gain {name} of {where} does not start at zero.", site, "declared", THEOREM)
    tail = (
        "the output is zero, and at the first step nothing but this gain has a gradient" if final
        else "the next block reads zeros, and no gradient passes to what stands before"
    )  # fmt: skip
    message = f"`{stream.name}`: the gain {name} of {where} starts at zero: {tail}."
    return Outcome("violated", message, site, "declared", THEOREM, remedy="a gain of one; zeros belong on the last norm or map of a branch")


def _parameter(facts: Facts, node: int) -> str:
    """The name of the parameter that a gain is, or is a part of."""
    nodes = facts.graph.nodes
    while nodes[node].op != "parameter" and len(set(nodes[node].inputs)) == 1:
        node = nodes[node].inputs[0]
    return nodes[node].name
