"""What weights compute reaches an output of the model.

Why: a branch or block whose result is overwritten or not handed on (`h = x + attention(x)` and then `x` again, `y = block(x)` in a loop) costs time
and memory and changes nothing: its weights get no gradient, and distributed training fails or waits for them. No shape tells of it. In a loss
curve: that of a model without the part; without attention, that of a model that sees each token alone.
The same slip without weights is a call whose result is not assigned: `qkv.clamp(-8, 8)` on a line of its own, for `clamp_`, cuts nothing.
Assumes: the tensors that forward returned are all that counts; a value that is stored on the side (a cache, a list for hooks) is no output. A head
behind the last block that another task would use (a pooler) is not judged. Of ops without weights those are judged that stand for their operand
(functions entry by entry, norms) where it goes on without them: shares, statistics and copies of a value are kept for what they say; dropout is none
in evaluation.
Cannot tell: when the forward pass failed before its end, or returned no tensor, or when a value that was guessed decides what runs (experts that are
run for those tokens alone that chose them).
Source: ∂L/∂W = 0 for weights that no path leads from to the loss.
"""

from __future__ import annotations

from dataclasses import replace

from screen.graph import Node
from screen.ops import CLASSES
from screen.rule import Example, Facts, Outcome, Rule, Site, place_of
from screen.structure.dataflow import FLOATS
from screen.structure.reach import used

RULE = Rule("G123", "results-used", "structure", None, "warning", ("graph.nodes", "graph.outputs", "streams.states"), "∂L/∂W = 0")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.mix, self.up, self.down = nn.Linear(32, 32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        h = x + self.mix(self.n1(x))
        return CARRIED + self.down(F.gelu(self.up(self.n2(CARRIED))))
"""
HOLDS = (Example("each sublayer reads the one before it", BLOCK.replace("CARRIED", "h")),)
THROWN = BLOCK.replace("h = x + self.mix(self.n1(x))", "h = x + self.mix(self.n1(x))\n        self.n2(h)").replace("self.n2(CARRIED)", "self.n1(h)")
LOST = BLOCK.replace("h = x + self.mix(self.n1(x))", "h = self.mix(self.n1(x))\n        h.clamp(-8, 8)\n        h = x + h").replace("CARRIED", "h")
VIOLATES = (
    Example("the second sublayer goes on with the block's input", BLOCK.replace("CARRIED", "x")),
    Example("the result of a norm is thrown away", THROWN.replace("CARRIED", "h")),
    Example("the result of a clamp is thrown away", LOST),
)
FAILS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))
"""
STOPS = "h = x + self.mix(self.n1(x))\n        y = self.n2(h)\n        if not (y > 3).any():\n            return h"
GUESSED = BLOCK.replace("h = x + self.mix(self.n1(x))", STOPS)
CANNOT_TELL = (
    Example("the forward pass fails before its end", FAILS),
    Example("a value that is not known decides whether a result is used", GUESSED.replace("self.n2(CARRIED)", "y").replace("CARRIED", "h")),
)

WEIGHTED = ("weighted", "product")
SAME_SHAPE = ("activation", "linear", "norm")
"""Ops whose result stands for their operand, entry by entry."""
REMEDY = "hand its result on, or remove it"


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per module call in which something with weights ran in vain; one for the whole model where nothing did."""
    graph = facts.graph
    if graph.failure or not graph.outputs:
        why = "the forward pass failed before its end" if graph.failure else "forward returned no tensor"
        return (Outcome("cannot_tell", f"Whether every result is used is unknown: {why}."),)
    alive, end = used(graph), max((stream.states[-1] for stream in facts.streams), default=len(graph.nodes))
    lost: dict[str, list[int]] = {}
    norms = {norm.node for norm in facts.norms}
    busy = _busy(facts, alive)
    for node in graph.nodes[:end]:
        maps = CLASSES.get(node.op) in WEIGHTED or not norms.isdisjoint((node.index, *node.inputs))
        if node.index not in alive and maps and any(graph.nodes[i].op == "parameter" for i in node.inputs):
            lost.setdefault(_whole(facts, node.index, busy), []).append(node.index)
    found = []
    if lost and any(guess.decides for guess in graph.guesses):
        named = ", ".join(f"`{path}`" for path in [*lost][:3])
        return (Outcome("cannot_tell", f"No output depends on what {named} computes, but a value that was guessed decides what runs."),)
    for path, idle in lost.items():
        message = f"`{path}` runs, and no output of the model depends on what it computes{_of_weights(facts, idle, alive)}"
        found.append(Outcome("violated", message, Site(place=replace(place_of(facts, idle[0]), module=path)), remedy=REMEDY))
    found += [_thrown(facts, facts.graph.nodes[n]) for n in _results_thrown(facts, alive, end)]
    return tuple(found) or (Outcome("holds", "what every map and norm with weights makes reaches an output."),)


def _of_weights(facts: Facts, idle: list[int], alive: frozenset[int]) -> str:
    """What becomes of the weights of what ran in vain: another call of the module may hand on what it computes."""
    weights = {i for n in idle for i in facts.graph.nodes[n].inputs if facts.graph.nodes[i].op == "parameter"}
    if weights.isdisjoint(alive):
        return ": its weights get no gradient."
    kept = "its weights get" if weights <= alive else "those of its weights that are used elsewhere get"
    return f" in this call: {kept} gradients from other calls alone."


def _results_thrown(facts: Facts, alive: frozenset[int], end: int) -> list[int]:
    """Results that nothing reads, one for each line, of ops that stand for their operand, which is made with weights and goes on without them.

    A line whose result is read at another pass, as that of a state whose last update comes behind the last reading, is assigned.
    """
    nodes, made, lines = facts.graph.nodes, set[int](), dict[tuple[str, int, str], int]()
    read = {(nodes[n].file, nodes[n].line, nodes[n].op) for n in alive}
    for node in nodes[:end]:
        if any(i in made or nodes[i].op == "parameter" for i in node.inputs):
            made.add(node.index)
        if node.index in alive or facts.graph.users[node.index] or CLASSES.get(node.op) not in SAME_SHAPE:
            continue
        if node.inputs and node.inputs[0] in made & alive and nodes[node.inputs[0]].shape == node.shape and node.dtype in FLOATS:
            lines.setdefault((node.file, node.line, node.op), node.index)
    return [node for line, node in lines.items() if line not in read]


def _thrown(facts: Facts, node: Node) -> Outcome:
    place = place_of(facts, node.index)
    message = f"Nothing reads the result of `{node.op}` at line {node.line}: what it is made of goes on without it."
    return Outcome("violated", message, Site(place=place), remedy=f"assign what `{node.op}` gives (`x = …`), or remove it")


def _busy(facts: Facts, alive: frozenset[int]) -> set[int]:
    """The calls in which something is used, with those around them."""
    graph, busy = facts.graph, set[int]()
    for call in {graph.nodes[n].call for n in alive if graph.nodes[n].inputs}:
        around: int | None = call
        while around is not None and around not in busy:
            busy.add(around)
            around = graph.calls[around].parent
    return busy


def _whole(facts: Facts, node: int, busy: set[int]) -> str:
    """The path of the outermost call around a node in which nothing is used."""
    graph = facts.graph
    idle = next((c for c in graph.call_path(graph.nodes[node].call) if c not in busy), graph.nodes[node].call)
    return graph.modules[graph.calls[idle].module].path
