"""The width of every stream is a multiple of 16.

Why: matrix units of accelerators work on tiles, and a width that is none of their multiples is padded up to the next one: the padding is computed and
thrown away. In a loss curve: nothing; the steps take longer than they must.
Assumes: tiles of 16, as half precision has them on the house's machines.
Cannot tell: when an op without a row stands on a stream, which may have another width behind it.
Source: a rule of the house.
"""

from __future__ import annotations

from screen.rule import Example, Facts, Outcome, Rule, at, or_not_applicable

RULE = Rule("G901", "width-of-tiles", "structure", None, "warning", ("streams", "coverage"), "a rule of the house")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x):
        return self.blocks(x)
"""
HOLDS = (Example("a width of 32", BLOCK.replace("WIDTH", "32")),)
VIOLATES = (Example("a width of 36", BLOCK.replace("WIDTH", "36"), ("x=float32[2,16,36]",)),)
STRANGE = BLOCK.replace("WIDTH", "32").replace("return x +", "return torch.special.bessel_j0(x) +")
CANNOT_TELL = (Example("an op without a row on the stream", STRANGE),)

TILE = 16
"""Features; the side of a tile in half precision."""


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream."""
    strange = next((op.op for op in facts.coverage.unmodelled if op.on_stream), None)
    outcomes = []
    for stream in facts.streams:
        if strange is not None or stream.width is None:
            reason = f"`{strange}` is an op without a row" if strange else "it has no axes"
            outcomes.append(Outcome("cannot_tell", f"The width of `{stream.name}` is not known: {reason}.", at(stream)))
        elif stream.width % TILE:
            message = f"`{stream.name}` is {stream.width} wide, which is no multiple of {TILE}."
            outcomes.append(Outcome("violated", message, at(stream), remedy=f"a width of {-(-stream.width // TILE) * TILE}"))
        else:
            outcomes.append(Outcome("holds", f"`{stream.name}` is {stream.width} wide.", at(stream)))
    return or_not_applicable(outcomes, "there is no stream.")
