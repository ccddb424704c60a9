"""Where some members of a list of modules run, all of them do.

Why: blocks that a loop leaves out (`self.h[:-1]`, a range of another length) count as parameters and in the config, and never run: the model is
shallower than it says, its last weights stay at their start, and distributed training fails or waits for gradients that never come
(`find_unused_parameters`). In a loss curve: that of a shallower model.
Assumes: the traced call is the one that matters; weights of a member that are used by another module count as running.
Cannot tell: when the forward pass failed before its end, or when a value that was guessed may decide which members run.
Source: torch.nn.parallel.DistributedDataParallel, `find_unused_parameters`.
"""

from __future__ import annotations

from screen.rule import Example, Facts, Outcome, Place, Rule, Site

NEEDS = ("graph.uncalled", "graph.modules", "graph.guesses", "graph.failure")
RULE = Rule("G122", "members-called", "structure", None, "warning", NEEDS, "torch, find_unused_parameters")

MODEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(6)), nn.LayerNorm(32)

    def forward(self, x):
        for block in BLOCKS:
            x = block(x)
        return self.norm(x)
"""
HOLDS = (Example("every block runs", MODEL.replace("BLOCKS", "self.blocks")),)
VIOLATES = (Example("the loop ends two blocks early", MODEL.replace("BLOCKS", "self.blocks[:-2]")),)
CANNOT_TELL = (
    Example("a value decides whether the last block runs", MODEL.replace("BLOCKS", "self.blocks if x.sum() > 0 else self.blocks[:-1]")),
    Example("a value decides whether the first block runs", MODEL.replace("BLOCKS", "self.blocks[1:] if x.sum() < 0 else self.blocks[2:]")),
)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per list of modules of which some run and others do not; one for the whole model where there is none."""
    graph = facts.graph
    called = {call.module for call in graph.calls}
    stamped = {member for repeat in graph.repeats for member, _ in repeat.members}
    idle: dict[int, list[int]] = {}
    for index in graph.uncalled:
        parent = graph.modules[index].parent
        if parent is not None and graph.modules[parent].container and any(m.parent == parent and m.index in called | stamped for m in graph.modules):
            idle.setdefault(parent, []).append(index)
    doubt = "the forward pass failed before its end" if graph.failure else "a value that was guessed may decide what runs" if graph.guesses else ""
    if doubt:
        return (Outcome("cannot_tell", f"Whether all members of each list run is unknown: {doubt}."),)
    found = []
    for parent, members in idle.items():
        first, total = graph.modules[members[0]], sum(m.parent == parent for m in graph.modules)
        message = f"{len(members)} of the {total} members of `{graph.modules[parent].path}` never run, `{first.path}` first, and the others do."
        site = Site(place=Place(0, first.path, first.file, first.line))
        numbers = (("idle", len(members)), ("members", total))
        found.append(Outcome("violated", message, site, numbers=numbers, remedy="call them, or do not build them"))
    return tuple(found) or (Outcome("holds", "no list of modules runs in part."),)
