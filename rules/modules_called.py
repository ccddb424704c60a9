"""Every module with weights runs in the forward pass.

Why: weights that no forward uses get no gradient, count as parameters, and make distributed training fail or wait
(`find_unused_parameters`). Often it is a block that was built and then left out of the loop, or a norm that was meant to be applied:
the design that trains is not the one that the constructor shows.
Assumes: the traced call; heads for other tasks, caches and inputs that were not given explain many of them, so this is a note.
Cannot tell: when the forward pass failed before its end, or when a value that was guessed may decide what runs (two answers that run the
same ops may still run them in other modules).
Source: torch.nn.parallel.DistributedDataParallel, `find_unused_parameters`.
"""

from __future__ import annotations

from screen.rule import Example, Facts, Outcome, Place, Rule, Site

NEEDS = ("graph.uncalled", "graph.guesses", "graph.failure")
RULE = Rule("G107", "modules-called", "structure", None, "note", NEEDS, "torch, find_unused_parameters")

HOLDS = (
    Example(
        "all modules run",
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
        "the norm is built and never applied",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))
""",
    ),
)
CANNOT_TELL = (
    Example(
        "a value decides which of two modules runs",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.other, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        h = self.up(self.norm(x)) if x.sum() > 0 else self.other(self.norm(x))
        return x + self.down(F.gelu(h))
""",
    ),
)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per outermost module that never ran; one for the whole model where all ran."""
    graph = facts.graph
    if not graph.uncalled:
        return (Outcome("holds", "every module with weights runs."),)
    guessed = "a value that was guessed may decide what runs" if graph.guesses else ""
    doubt = "the forward pass failed before its end" if graph.failure else guessed
    found = []
    for index in graph.uncalled:
        module = graph.modules[index]
        site = Site(place=Place(0, module.path, module.file, module.line))
        if doubt:
            found.append(Outcome("cannot_tell", f"`{module.path}` did not run, but {doubt}.", site))
        else:
            found.append(Outcome("violated", f"`{module.path}` has weights and is never called.", site, remedy="call it, or do not build it"))
    return tuple(found)
