"""A stream that no norm renews is normalised once more before its head.

Why: with norms only inside the branches the stream grows with depth, about as the root of the number of sublayers at initialisation
and faster in training. Without a final norm the head sees that growth: the size of its logits, and the gradient of the last block,
depend on depth (fitted exponent of the gradient +0.43 without the norm and -0.45 with it, depths 4 to 64). In a loss curve: a first
loss well above log(vocabulary), and a learning rate that has to fall when layers are added. Stacks built from
`nn.TransformerEncoderLayer(norm_first=True)` have this unless `norm=` is given.
Where the stream itself is the model's output the head is elsewhere, and the norm is a condition on it.
Assumes: what follows the stream is a head; an encoder whose states other modules normalise again is no fault. A stream that another one
begins with (a stage of a pyramid, a vision tower before a language model) is not judged, and neither is one inside a branch of another stream. A
norm behind the mean over tokens hides the growth as well as one before it, norm(mean(c·x)) = norm(mean(x)) up to ε, and so does one behind a map that
alone reads the end (up to its bias).
Cannot tell: when an op without a row follows the last add.
Source: Xiong et al. 2020, section 3 (the final norm of Pre-LN).
"""

from __future__ import annotations

from screen.facts.advice import norm_of
from screen.facts.queries import is_short, reader_of
from screen.ops import CLASSES
from screen.rule import Example, Facts, Outcome, Rule, Stream, Unknown, at, blame

RULE = Rule("G103", "final-norm-after-pre", "forward", "O", "warning", ("streams.final_norm",), "Xiong et al. 2020, section 3")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))
"""
HOLDS = (
    Example("pre-norm blocks and a norm after the last", BLOCK),
    Example(
        "the mean over tokens is normalised",
        BLOCK
        + """

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 100)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.mean(1)))
""",
    ),
)
VIOLATES = (
    Example(
        "the head reads the bare stream",
        BLOCK
        + """

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(32, 100)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)
""",
    ),
)
CANNOT_TELL = (
    Example(
        "an op without a row stands between the last add and the head",
        BLOCK
        + """

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(32, 100)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(torch.special.bessel_j0(x))
""",
    ),
)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream."""
    return tuple(_judge(facts, stream) for stream in facts.streams) or (Outcome("not_applicable", "there is no stream."),)


def _judge(facts: Facts, stream: Stream) -> Outcome:
    site = at(stream)
    if facts.is_loop:
        return Outcome("not_applicable", f"`{stream.name}` is that of a block, whose head is not in the trace.", site)
    if stream.role == "inner":
        return Outcome("not_applicable", f"`{stream.name}` ends inside a branch of another stream, where no head reads it.", site)
    last = next((s for kind in reversed(stream.kinds) for s in reversed(kind.sublayers)), None)
    if last is not None and last.norm_on_skip:
        return Outcome("not_applicable", f"`{stream.name}` ends in a sum of what norms give: nothing in it has grown.", site)
    if last is None or "C" in last.positions:
        return Outcome("not_applicable", f"`{stream.name}` ends in the norm of its last sum.", site)
    if stream.cuts and not stream.joins and facts.readers and _ends_in_norm(facts, stream):
        return Outcome("not_applicable", f"`{stream.name}` ends in the norm behind the matrix that it passes in its last block.", site)
    if stream.depth == 1:
        return Outcome("not_applicable", f"`{stream.name}` is one block, whose head is not in the trace.", site)
    if not any("A" in s.positions or "B" in s.positions for k in stream.kinds for s in k.sublayers):
        return Outcome("not_applicable", f"`{stream.name}` has no norm on the ends of its branches.", site)
    if is_short(facts, stream):
        return Outcome("not_applicable", f"`{stream.name}` has next to no depth to grow over, beside other streams.", site)
    if heir := _heir(facts, stream):
        return Outcome("not_applicable", f"`{stream.name}` ends where `{heir}` begins; its head is not at its end.", site)
    if isinstance(stream.final_norm, Unknown):
        reason = f"Whether a norm follows the last add of `{stream.name}` is unknown: {stream.final_norm.reason}."
        return Outcome("cannot_tell", reason, blame(facts, site, stream.final_norm.nodes))
    if stream.final_norm:
        return Outcome("holds", f"`{stream.name}` is normalised after its last add.", site)
    if stream.pooled_norm:
        return Outcome("holds", f"`{stream.name}` is averaged after its last add, and normalised then.", site)
    reader = reader_of(facts, stream)
    if reader is not None and reader.segments[-1].norms and not reader.stream_norms.goes_on_bare:
        return Outcome("not_applicable", f"`{stream.name}` ends in its last block, where a norm alone reads its last sum.", site)
    if not stream.cuts and facts.readers and _is_normed_behind_map(facts, stream):
        return Outcome("holds", f"`{stream.name}` is normalised behind the map that reads its end, which nothing else does.", site)
    if _leaves(facts, stream):
        message = f"`{stream.name}` leaves the model without a final norm: whatever reads it has to normalise it."
        numbers = (("depth", stream.depth),)
        return Outcome("conditional", message, at(stream, place=last.place), numbers=numbers, remedy=_remedy(facts, stream), condition="final-norm")
    return Outcome(
        "violated",
        f"`{stream.name}` reaches what follows it without a final norm: its growth over {stream.depth} blocks is not hidden from the head.",
        at(stream, place=last.place),
        assumptions=("what follows the stream is a head",),
        numbers=(("depth", stream.depth),),
        remedy=_remedy(facts, stream),
        condition="final-norm",
    )


def _ends_in_norm(facts: Facts, stream: Stream) -> bool:
    """Whether behind the last sum come the matrices that stand on the stream in each block, and a norm behind them."""
    graph, flow, norms = facts.graph, facts.readers[0].flow, {norm.node for norm in facts.norms}
    here, left = stream.states[-1], len(stream.cuts)
    while here not in graph.outputs and len(users := [u for u in graph.users[here] if flow.data[u]]) == 1:
        here = users[0]
        left -= flow.weighted[here] and here not in norms
        if here in norms:
            return left == 0
        if left < 0 or flow.mixing[here]:
            return False
    return False


def _is_normed_behind_map(facts: Facts, stream: Stream) -> bool:
    """Whether a map, and nothing else, reads the end of a stream, and a norm what it makes, with no function in between: norm(W c x) = norm(W x)."""
    graph, flow, norms = facts.graph, facts.readers[0].flow, {norm.node for norm in facts.norms}
    here, mapped = stream.states[-1], False
    while here not in graph.outputs and len(users := [u for u in graph.users[here] if flow.data[u]]) == 1:
        here = users[0]
        if here in norms:
            return mapped
        is_linear = flow.weighted[here] or _averages(facts, here) or CLASSES.get(graph.nodes[here].op) == "view"
        mapped = mapped or flow.weighted[here]
        if not is_linear:
            return False
    return False


def _averages(facts: Facts, index: int) -> bool:
    node = facts.graph.nodes[index]
    return (node.op in ("mean", "sum") or "avg_pool" in node.op) and len(node.inputs) == 1


def _leaves(facts: Facts, stream: Stream) -> bool:
    """Whether the end of a stream is what the model gives: itself, sums and means of its lanes, of its places, behind a function entry by entry, or
    with other values beside it, or written into them."""
    graph, behind, exchanged = facts.graph, {stream.states[-1]}, _exchanged(facts, stream)
    for node in graph.nodes[stream.states[-1] + 1 :]:
        if behind.isdisjoint(node.inputs) or node.index in exchanged:
            continue
        if not (_averages(facts, node.index) or CLASSES.get(node.op) in ("view", "part", "join", "write", "activation")):
            return False
        behind.add(node.index)
    return not behind.isdisjoint(graph.outputs)


def _exchanged(facts: Facts, stream: Stream) -> set[int]:
    """Branches of other streams that read states of this one from block to block: what they read of the last one is no head."""
    found, between = set[int](), set(stream.states[1:-1])
    for regions in ([b.region for _, b in r.branches] for r in facts.readers if r.chain.nodes != stream.states):
        nodes = {n for region in regions for n in region}
        if any(not between.isdisjoint(facts.graph.nodes[n].inputs) for n in nodes):
            found |= nodes
    return found


def _remedy(facts: Facts, stream: Stream) -> str:
    line, norm = norm_of(facts, stream, stream.states[-1], "x")
    return f"`x = {line}` once behind the last block, `norm = {norm}`"


def _heir(facts: Facts, stream: Stream) -> str | None:
    """Another stream that begins with what this one ends in: the next stage of a pyramid, a language model behind a vision tower."""
    end = stream.states[-1]
    for other in facts.streams:
        seen, todo = {other.states[0]}, [other.states[0]]
        while todo and other is not stream:
            here = todo.pop()
            if here == end:
                return other.name
            fresh = [i for i in facts.graph.nodes[here].inputs if i not in seen and i >= end]
            seen.update(fresh)
            todo.extend(fresh)
    return None
