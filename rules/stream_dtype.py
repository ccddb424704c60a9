"""The stream's number format has room for what the stream and its branches hold.

Why: float16 ends at 65504. A stream that grows with depth, the squares inside a norm written by hand, or logits leave that range, and the loss
becomes NaN; loss scaling does not help the forward pass. bfloat16 has the range of float32 and eight bits: a branch smaller than 2^-9 of the stream
is lost in the sum.
Assumes: entries are at most √d times the rms bound.
Cannot tell: nothing; a stream without a float type is left out.
Source: docs/theory.md, precision; Kim et al. 2025, section 7.2.
"""

from __future__ import annotations

import math

from screen.facts.queries import normed_total
from screen.rule import Example, Facts, Outcome, Rule, Stream, Unknown, at, or_not_applicable
from screen.theorems.precision import FORMATS, always_lost, format_of, safe_depth

RULE = Rule("N101", "stream-dtype", "forward", "N", "warning", ("streams.dtype", "analyses"), "Kim et al. 2025, section 7.2")

MODEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.map = nn.LayerNorm(32, dtype=DTYPE), nn.Linear(32, 32, dtype=DTYPE)

    def forward(self, x):
        return x + self.map(self.norm(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        x = x.to(DTYPE)
        for block in self.blocks:
            x = block(x)
        return x
"""
HOLDS = (Example("a float32 stream", MODEL.replace("DTYPE", "torch.float32")),)
VIOLATES = (Example("a float16 stream", MODEL.replace("DTYPE", "torch.float16")),)
SUM = "x + self.map(self.norm(x))"
EIGHT = MODEL.replace("DTYPE", "torch.float32").replace(SUM, f"({SUM}).to(torch.float8_e4m3fn).to(torch.float32)")
CANNOT_TELL = (Example("an 8-bit float, whose scale is kept elsewhere", EIGHT),)

EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream."""
    return or_not_applicable([_judge(facts, s) for s in facts.streams if s.dtype], "there is no stream of floats.")


def _judge(facts: Facts, stream: Stream) -> Outcome:
    site = at(stream)
    types = {facts.graph.nodes[n].dtype for n in stream.states}
    if types & set(EIGHT_BITS):
        return Outcome("cannot_tell", f"`{stream.name}` passes through 8-bit floats, whose scale is kept elsewhere.", site)
    if stream.dtype != "float16":
        lost = f" (a branch below {always_lost(stream.dtype):.2g} of the stream is lost in the sum)" if stream.dtype == "bfloat16" else ""
        held = f", which holds values up to {FORMATS[stream.dtype].largest:.2g}" if stream.dtype in FORMATS else ""
        return Outcome("holds", f"`{stream.name}` is {stream.dtype}{held}{lost}.", site)
    largest = format_of("float16").largest
    found = facts.recursion(stream)
    numbers: tuple[tuple[str, float], ...] = (("largest", largest),)
    grown = ""
    if not isinstance(found, Unknown) and stream.width:
        entry = found.rms[-1] * stream.width**0.5
        numbers = (*numbers, ("largest_entry_at_start", entry))
        grown = f"; at the recorded initialisation entries reach at most about {entry:.3g}"
    safe = _safe_blocks(facts, stream)
    if safe is not None:
        numbers = (*numbers, ("safe_blocks_at_unit_gains", safe))
        grown += f"; with the gains of its norms at 1 it is safe up to {safe:.0f} blocks"
    message = f"`{stream.name}` is float16, whose largest value is {largest:.0f}{grown}: what training makes of it is not bounded by that."
    return Outcome("violated", message, site, numbers=numbers, condition="float16-range", remedy="bfloat16, or a float32 stream")


def _safe_blocks(facts: Facts, stream: Stream) -> float | None:
    """Blocks up to which no entry can leave float16 when every branch ends in a norm of gain 1; None where that is not the design."""
    if not stream.width or normed_total(facts, stream) is None:
        return None
    per_block = sum(k.count * len(k.sublayers) for k in stream.kinds) / stream.depth
    return math.floor(safe_depth("float16", stream.width, 1.0, 1.0) / per_block)
