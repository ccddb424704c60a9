"""Each norm on the stream has a gain of its own.

Why: one norm object that serves several branches (made outside of the loop over blocks, or passed to each) ties their gains and biases: no branch
can choose its scale, and the gradients of all of them pull at one vector, whose learning rate is in effect that many times as large. Where whole
blocks share their weights that is the design; where only the norm is shared it is a slip. In a loss curve: a somewhat worse model, and noise in one
parameter. A norm of the sum (post-norm) belongs to the branch before it: where that is shared as well, whole blocks are.
Assumes: two norms share a gain when the same parameter multiplies their outputs; a norm that several branches read once (parallel branches) is one
norm, and so is one that is computed twice of the same value. A final norm that reads the states of several blocks, for heads of their own, is in no
branch of them.
Cannot tell: when an op without a row stands between a norm and the weights that read it.
Source: Lan et al. 2020 (ALBERT) for sharing by design, maps and norms together.
"""

from __future__ import annotations

from screen.graph import COPIES, Ref
from screen.ops import CLASSES
from screen.rule import Example, Facts, Outcome, Rule, Site, Stream
from screen.structure.reach import is_state, onward, used
from screen.structure.types import Norm

RULE = Rule("G125", "norm-of-its-own", "structure", None, "warning", ("norms", "streams.states", "graph"), "Lan et al. 2020")

MOST = 4
"""Ops between a parameter and the product that it is a factor of."""
CHOICES = ("gather", "take_along_dim", "index_select")
"""Ops that choose some of the tokens."""

MODEL = """
class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm, self.up, self.gate, self.down = norm, nn.Linear(32, 128), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(READ)) * self.gate(READ))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        norm = nn.LayerNorm(32)
        self.blocks, self.last = nn.ModuleList(Block(NORM) for _ in range(4)), nn.LayerNorm(32)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.last(x)
"""
OWN = MODEL.replace("NORM", "nn.LayerNorm(32)").replace("READ", "self.norm(x)")
TAPPED = OWN.replace("nn.LayerNorm(32)\n\n    def forward", "nn.LayerNorm(32)\n        self.heads = HEADS\n\n    def forward").replace(
    "HEADS", "nn.ModuleList(nn.Linear(32, 8) for _ in range(4))"
).replace("for block in", "read = []\n        for block in").replace("x = block(x)", "x = block(x)\n            read.append(self.last(x))").replace(
    "return self.last(x)", "return torch.cat([head(y) for head, y in zip(self.heads, read)], -1)"
)  # fmt: skip
HOLDS = (Example("a norm for each block", OWN), Example("a final norm reads the states of several blocks", TAPPED))
VIOLATES = (Example("one norm is handed to all blocks", MODEL.replace("NORM", "norm").replace("READ", "self.norm(x)")),)
UNREAD = MODEL.replace("NORM", "norm").replace("READ", "torch.special.bessel_j0(self.norm(x))")
CANNOT_TELL = (Example("an op without a row between the norm and the maps", UNREAD),)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per gain that serves several norms on streams (of a stacked block its own); one for the whole model where there is none."""
    states = {n for stream in facts.streams for n in stream.states}
    shared: dict[str, dict[int, list[Norm]]] = {}
    for norm in facts.norms:
        gain = _gain(facts, norm)
        if gain and not gain.startswith(COPIES) and is_state(facts.graph, norm.source, states):
            shared.setdefault(gain, {}).setdefault(_before_choice(facts, norm), []).append(norm)
    if not shared:
        return (Outcome("not_applicable", "no norm with a gain stands on a stream."),)
    inside = frozenset[int]().union(*(_inside(facts, stream) for stream in facts.streams))
    several = {gain: list(norms.values()) for gain, norms in shared.items() if len(norms) > 1}
    of_branches = {gain: norms for gain, norms in several.items() if any(norm.node in inside for same in norms for norm in same)}
    found = [o for gain, norms in of_branches.items() if (o := _judge(facts, gain, norms)) is not None]
    return tuple(found) or (Outcome("holds", f"{len(shared)} gains of norms serve in one place each, or with the maps behind them."),)


def _inside(facts: Facts, stream: Stream) -> frozenset[int]:
    """The norms of its states that its own end depends on. Others only read it: a final norm that serves several states of one stream is one."""
    back, states = used(facts.graph, stream.states[-1:]), set(stream.states)
    return frozenset(n.node for n in facts.norms if n.node in back and is_state(facts.graph, n.source, states))


def _before_choice(facts: Facts, norm: Norm) -> int:
    """The value that is normed, or that of all tokens where some of them are chosen: the norm of a token is one, whoever reads it."""
    nodes, index = facts.graph.nodes, norm.source
    while norm.of_tokens and nodes[index].op in CHOICES:
        above, shape = nodes[index].inputs[0], nodes[index].shape or ()
        if (nodes[above].shape or ())[-1:] != shape[-1:]:  # features are chosen
            break
        index = above
    return index


def _judge(facts: Facts, gain: str, norms: list[list[Norm]]) -> Outcome | None:
    """`norms`: those of one value together."""
    readers = [[_readers(facts, norm) for norm in same] for same in norms]
    site = Site(place=norms[1][0].place)
    if any(None in same for same in readers):
        return Outcome("cannot_tell", f"`{gain}` serves {len(norms)} norms, and an op without a row stands before the maps of one of them.", site)
    maps = [read for same in readers if (read := frozenset[str]().union(*(r for r in same if r)))]
    if len(maps) < 2 or len(frozenset[str]().union(*maps)) < sum(map(len, maps)):
        return None  # maps are shared as well: whole blocks serve at several depths
    if all(_closes(facts, norm) for same in norms for norm in same) and _is_any_shared([_writers(facts, same[0]) for same in norms]):
        return None  # so are the branches whose sums they norm; what comes behind the last of them is another block
    message = f"`{gain}` is the gain of {len(norms)} norms on streams, and the maps behind them are different ones."
    return Outcome("violated", message, site, numbers=(("norms", len(norms)),), remedy="make a norm for each place")


def _closes(facts: Facts, norm: Norm) -> bool:
    """Whether a norm stands on the sum of a branch and a stream, each of whose sums has one."""
    on = (stream for stream in facts.streams if is_state(facts.graph, norm.source, set(stream.states)))
    return any(all("C" in sub.positions for kind in stream.kinds for sub in kind.sublayers) for stream in on)


def _is_any_shared(maps: list[frozenset[str]]) -> bool:
    return len(frozenset[str]().union(*maps)) < sum(map(len, maps))


def _writers(facts: Facts, norm: Norm) -> frozenset[str]:
    """Names of the last weights before a norm."""
    nodes, found, todo, seen = facts.graph.nodes, set[str](), [norm.source], set[int]()
    carries = ("view", "part", "linear", "join")
    while todo:
        here = nodes[todo.pop()]
        if CLASSES.get(here.op) in ("weighted", "product"):
            found |= {nodes[i].name for i in here.inputs if nodes[i].op == "parameter" and len(nodes[i].shape or ()) > 1}
        elif here.index == norm.source or CLASSES.get(here.op) in carries:
            todo.extend(i for i in here.inputs if i not in seen)
            seen.update(here.inputs)
    return frozenset(found)


def _gain(facts: Facts, norm: Norm) -> str:
    """The parameter that multiplies the output of a norm: its operand, that of a product right behind it, or of one within, `g * (x − μ) / σ`."""
    nodes = facts.graph.nodes
    call = nodes[norm.node] if nodes[norm.node].op != "getitem" else nodes[nodes[norm.node].inputs[0]]
    weight = call.kwarg("weight") or next((a for a in call.args[2:3] if isinstance(a, Ref)), None)
    if call.op in ("layer_norm", "rms_norm") and isinstance(weight, Ref):
        return nodes[weight.node].name
    behind = [nodes[u] for u, _ in onward(facts.graph, norm.node, lambda n: CLASSES.get(nodes[n].op) != "view")]
    within = [nodes[i] for i in call.inputs[:1] if i > norm.source] if call.op in ("mul", "div") else []
    return next((name for node in (*behind, *within) if node.op == "mul" for i in node.inputs if (name := _parameter(facts, i))), "")


def _parameter(facts: Facts, index: int) -> str:
    """The parameter that a factor is: as it is, in another shape or type, or with a number added (`1 + w`)."""
    nodes = facts.graph.nodes
    for _ in range(MOST):
        node = nodes[index]
        if node.op == "parameter":
            return node.name
        if CLASSES.get(node.op) != "view" and not (node.op in ("add", "radd") and len(node.inputs) == 1):
            return ""
        index = node.inputs[0]
    return ""


def _readers(facts: Facts, norm: Norm) -> frozenset[str] | None:
    """Names of the weights that read the norm first; None where an op without a row stands before one."""
    nodes, found = facts.graph.nodes, set[str]()
    unread = {u.op for u in facts.coverage.unmodelled}
    carries = ("view", "part", "linear", "join")

    def stops(node: int) -> bool:
        return CLASSES.get(nodes[node].op) not in carries or any(node in s.states for s in facts.streams)

    for node, _ in onward(facts.graph, norm.node, stops):
        if nodes[node].op in unread:
            return None
        if CLASSES.get(nodes[node].op) in ("weighted", "product"):
            found |= {nodes[i].name for i in nodes[node].inputs if nodes[i].op == "parameter" and len(nodes[i].shape or ()) > 1}
    return frozenset(found)
