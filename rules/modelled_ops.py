"""Every op of the graph has a row in the op table.

Why: an op without a row is unknown: never taken for the identity, never for zero. On a path of a stream it can be a norm, a mixer or a
break of the identity, so whatever depends on it is not told, and the verdict is `unknown`. Elsewhere it is listed and changes nothing.
It says something about this tool, not about the model.
Assumes: nothing.
Cannot tell: what the op does; the finding names it and where it stands.
Source: the op table, `screen/ops/__init__.py`.
"""

from __future__ import annotations

from screen.rule import Example, Facts, Outcome, Rule, Site

RULE = Rule("G108", "modelled-ops", "structure", None, "note", ("coverage",), "the op table, screen/ops/__init__.py")

HOLDS = (
    Example(
        "all ops are known",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))
""",
    ),
)
VIOLATES = (
    Example(
        "an op without a row, beside the stream",
        """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        self.table = nn.Parameter(torch.ones(32))

    def forward(self, x):
        for _ in range(2):
            x = x + self.down(F.gelu(self.up(self.norm(x))))
        return self.norm(x), torch.special.bessel_j0(self.table)
""",
    ),
)
CANNOT_TELL = (
    Example(
        "an op without a row in a branch",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(torch.special.bessel_j0(x))))
""",
    ),
)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per op name without a row; one for the whole model where there is none."""
    found = []
    for op in facts.coverage.unmodelled:
        times = "once" if op.count == 1 else f"{op.count} times"
        if op.on_stream:
            message = f"`{op.op}` ({times}) has no row in the op table and lies on a stream: what depends on it is not told."
            plain = f"`screen` does not know the operation `{op.op}` ({times}), which the residual stream passes: what depends on it is not told."
            found.append(Outcome("cannot_tell", message, Site(place=op.place), plain=plain))
        else:
            message = f"`{op.op}` ({times}) has no row in the op table; it lies on no stream, so nothing that is said depends on it."
            plain = f"`screen` does not know the operation `{op.op}` ({times}); no residual stream passes it, so nothing that is said depends on it."
            found.append(Outcome("violated", message, Site(place=op.place), plain=plain))
    return tuple(found) or (Outcome("holds", f"all {facts.coverage.ops} ops have a row."),)
