"""No map of a branch starts many times as large as one that keeps the size of what it maps.

Why: a matrix whose entries have the variance σ² multiplies the mean square of what it maps by σ²·fan_in. Around 1 is Xavier's and He's; `torch.randn`
as a weight gives the width itself. One such map swamps the stream that its branch is added to, or makes logits one-hot; behind a norm it only makes
training slow, as its relative step is that much smaller. A codebook that is searched for the nearest row and looked up, or read by a softmax,
multiplies no value: its entries are as large as what it stands for.
Assumes: calls on parameters were recorded while the model was built.
Cannot tell: when no initialiser of any weight of the blocks was recorded.
Source: Glorot and Bengio 2010, eq. 12; He et al. 2015, eq. 10; docs/theory.md, scale degrees.
"""

from __future__ import annotations

from screen.rule import Example, Facts, Outcome, Rule, Stream, Unknown, at, or_not_applicable, place_of
from screen.structure.initial.laws import square_gains
from screen.structure.initial.passed import passed

NEEDS = ("streams.kinds.sublayers", "graph.initialisers")
RULE = Rule("I203", "weights-at-start", "forward", "I", "warning", NEEDS, "Glorot and Bengio 2010; He et al. 2015")

LARGE = 25.0
"""σ²·√(fan_in·fan_out) from which on a map is called too large (no unit): 1 for Xavier, 12 for the largest published map (0.02 at 16384 × 53248), 64
for `torch.randn` at width 64. Our own choice."""
THEOREM = "E‖W x‖²/fan_out = σ²·fan_in·E‖x‖²/fan_in for independent entries of variance σ²"

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        for linear in (self.up, self.down):
            INIT

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))
"""
HOLDS = (Example("weights of variance 1/fan_in", BLOCK.replace("INIT", "nn.init.normal_(linear.weight, std=linear.in_features**-0.5)")),)
VIOLATES = (Example("weights of variance one", BLOCK.replace("INIT", "nn.init.normal_(linear.weight)")),)
CANNOT_TELL = (Example("weights that nothing fills", BLOCK.replace("INIT", "linear.weight = nn.Parameter(torch.empty(linear.weight.shape))")),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream."""
    streams = [s for s in facts.streams if s.role != "inner" and any(k.sublayers for k in s.kinds)]
    return or_not_applicable([_judge(facts, s) for s in streams], "there is no stream.")


def _judge(facts: Facts, stream: Stream) -> Outcome:
    """The largest map that is read between the first state of a stream and its last add."""
    graph, site = facts.graph, at(stream)
    last = max(s.add for k in stream.kinds for s in k.sublayers)
    inside = graph.nodes[stream.states[0] + 1 : last + 1]
    read = sorted({i for n in inside for i in n.inputs} | {n.index for n in inside})  # what two streams share was met before the second one
    names = tuple(n.name for n in map(graph.nodes.__getitem__, read) if n.op == "parameter" and len(n.shape or ()) > 1)
    gains = square_gains(graph, names)
    known = {name: g for name, g in gains.items() if not isinstance(g, Unknown)}
    if not known:
        why = next((g.reason for g in gains.values() if isinstance(g, Unknown)), "they have no matrix")
        return Outcome("cannot_tell", f"`{stream.name}`: how large the weights of its blocks start is not known: {why}.", site, "declared", THEOREM)
    multiply = passed(graph, known, (*graph.outputs, last))
    if not multiply:
        message = f"`{stream.name}`: no weight of its blocks multiplies a value that they hand on: they are compared with or looked up."
        return Outcome("holds", message, site, "declared", THEOREM)
    name, gain = max(((name, known[name]) for name in known if name in multiply), key=lambda pair: pair[1])
    numbers = (("largest_square_gain", gain), ("weight", name))
    if gain <= LARGE:
        return Outcome("holds", f"`{stream.name}`: no map of its blocks starts with a gain σ²·√(in·out) above {gain:.3g}.", site, "declared", THEOREM,
                       numbers=numbers)  # fmt: skip
    message = f"`{name}` starts with a gain σ²·√(in·out) of {gain:.3g}, where 1 keeps values and gradients of their size."
    shape = graph.parameters[name].shape or ()
    linear = len(shape) == 2 and all(graph.nodes[user].op == "linear" for user in graph.users[graph.parameters[name].index])
    remedy = f"entries of deviation 1/√{shape[1]} = {shape[1] ** -0.5:.3g}" if linear else "entries of deviation 1/√fan_in"
    blamed = at(stream, place=place_of(facts, graph.parameters[name].index))
    plain = f"`{name}` starts so large that values through it and gradients back through it grow about {gain**0.5:.3g} times (mean of both)."
    return Outcome("violated", message, blamed, "declared", THEOREM, numbers=numbers, remedy=remedy, plain=plain)
