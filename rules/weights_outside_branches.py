"""No matrix stands on the stream itself: all weights of a block are in its residual branches.

Why: `x = x + attention(N(x)); x = mlp(N(x))` has lost a skip, and a linear map between blocks does the same: nothing of the stream is carried past
it, so that the stream behind N blocks is a product of N random maps. Forward it keeps what a norm gives it and forgets the input; backward the
gradient of the first block passes all these maps, and shrinks or grows like gᴺ with the mean-square gain g² of one of them. In a loss curve: the loss
stays near its start, or early layers learn nothing while late ones do; depth makes it worse.
Assumes: the blocks are calls of one program, one after the other. An embedding, a head, and the maps between the stages of a pyramid are on no stream
in this sense, and are not judged.
One linear map in a block with norms behind all of its sums and the skip behind the map, `q = W(x); N(q + attention(q, x))` of set attention, is a
choice: the norm takes the map's size away, and gradients pass as those of post-norm blocks with a plain skip do (measured: the same factor per block
at widths of 16 to 128); how uneven the map is counts. A net of several maps, or one behind the last norm, is a slip there too.
A map that joins the stream with an earlier state of it, `Linear(cat(skip, x))` of a U-Net, is a choice and no slip: conditional.
Cannot tell: when an op without a row, which may hold weights, stands on the stream.
Source: He et al. 2016 (Identity Mappings), section 3: a map h on the skip gives the product of all h, exponential in depth.
"""

from __future__ import annotations

from screen.facts.queries import is_sum_normed, measured_gain
from screen.rule import Example, Facts, Outcome, Rule, Stream, at, blame, or_not_applicable

SOURCE = "He et al. 2016 (Identity Mappings), section 3"
RULE = Rule("G110", "weights-outside-branches", "structure", "D", "warning", ("streams.cuts", "streams.identity"), SOURCE)

REMEDY = "add the block's input to what the map gives, `x = x + mlp(norm(x))`, or move the map into a branch"
BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.second, self.wide, self.narrow = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        x = x + self.down(F.gelu(self.up(self.first(x))))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))
"""
LINEAR = "return self.narrow(self.wide(x))"
HOLDS = (Example("both maps stand in branches", BLOCK),)
VIOLATES = (
    Example("the second skip is lost", BLOCK.replace("return x + self.narrow", "return self.narrow")),
    Example("a linear map on the stream in every block", BLOCK.replace("return x + self.narrow(F.gelu(self.wide(self.second(x))))", LINEAR)),
)
CANNOT_TELL = (
    Example(
        "an op without a row stands on the stream",
        BLOCK.replace("return x + self.narrow", "x = torch.special.bessel_j0(x)\n        return x + self.narrow"),
    ),
)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream."""
    return or_not_applicable([_judge(facts, stream) for stream in facts.streams], "there is no stream.")


def _judge(facts: Facts, stream: Stream) -> Outcome:
    site, names = at(stream), ", ".join(dict.fromkeys(place.words for place in stream.cuts))
    if stream.joins:
        beside = "an earlier state of it, or what comes in, too"
        message = f"`{stream.name}` itself passes the matrices of {names}, each of which reads {beside}: no skip leads past them."
        return Outcome("conditional", message, at(stream, place=stream.joins[0]), numbers=(("matrices", len(stream.joins)),))
    if stream.cuts and _is_normed_map(facts, stream):
        depth = facts.depth(stream)
        message = (
            f"`{stream.name}` itself passes the matrix of {names} in each of its {depth} blocks, and the skip begins behind it; norms on the sums "
            "take its size away, so that gradients pass as past a norm on each sum, and how uneven it gets in training is what counts."
        )
        return Outcome("conditional", message, at(stream, place=stream.cuts[0]), numbers=(("matrices", 1),), condition="warm-up")
    if stream.cuts:
        depth = facts.depth(stream)
        message = f"`{stream.name}` itself passes the matrices of {names} in each of its {depth} blocks: no skip leads past them."
        numbers = (("depth", depth), ("matrices", len(stream.cuts)))
        return Outcome("violated", message, at(stream, place=stream.cuts[0]), numbers=numbers, remedy=REMEDY)
    if isinstance(stream.identity.exists, bool):
        return Outcome("holds", f"all matrices between the first and the last add of `{stream.name}` stand in residual branches.", site)
    why, gain = stream.identity.exists, measured_gain(facts, stream)
    if gain is not None and facts.readers and all(facts.readers[0].flow.fixed[n] for n in why.nodes) and why.nodes:
        message = f"`{stream.name}` itself passes matrices that nobody trains; what it carries on has the gain {gain:.3g}, as measured at the start."
        return Outcome("conditional", message, blame(facts, site, why.nodes), "measured", condition="stream-gain")
    return Outcome("cannot_tell", f"Whether `{stream.name}` itself passes a matrix is unknown: {why.reason}.", blame(facts, site, why.nodes))


def _is_normed_map(facts: Facts, stream: Stream) -> bool:
    """Whether a block has one matrix on the stream, whose result is what its first sublayer is added to, and norms behind all of its sums."""
    subs = [s for k in stream.kinds for s in k.sublayers]
    return len(stream.cuts) == 1 and stream.cuts[0].node in stream.states and all(is_sum_normed(facts, s) for s in subs)
