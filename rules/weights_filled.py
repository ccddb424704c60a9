"""Every weight is filled before training, with numbers that float32 can multiply.

Why: `nn.Parameter(torch.empty(...))` without an initialiser holds whatever the memory held: zeros on one machine, NaN or 1e30 on the next, so
that runs differ for no reason that a seed explains. A weight that starts as NaN or infinite makes every loss NaN; one of 1e30, or a factor of 1e30
on what the stream carries, leaves float32 no room for a product. Typical causes: a bare parameter whose `reset_parameters` is missing or never
called, a division by a size that is 0, a fill value that was meant for a mask. In a loss curve: NaN from the first step, or another curve on
another machine.
Assumes: calls on parameters were recorded while the model was built, or the spot check saw its weights.
Cannot tell: when parameters were made in a way that is not recorded and the spot check did not run.
Source: IEEE 754: a product of two numbers above 1.8e19 is no float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from screen.graph import Node, Ref
from screen.rule import Example, Facts, Outcome, Rule, Site, Unknown, or_not_applicable, place_of
from screen.structure.initial.laws import starting_value_of

RULE = Rule("I205", "weights-filled", "forward", "I", "warning", ("graph.initialisers", "claims"), "IEEE 754")
HUGE = 1e15
"""Size of a weight or of a factor from which products with it leave float32 soon."""
BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        self.bias = nn.Parameter(torch.empty(32))
        FILL

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x) + self.bias)))
"""
HOLDS = (Example("a parameter that is filled", BLOCK.replace("FILL", "nn.init.normal_(self.bias, std=0.02)")),)
VIOLATES = (
    Example("a parameter that nothing fills", BLOCK.replace("FILL", "")),
    Example("a parameter of 1e30", BLOCK.replace("FILL", "nn.init.constant_(self.bias, 1e30)")),
    Example(
        "a factor of 1e30", BLOCK.replace("FILL", "nn.init.zeros_(self.bias)").replace("self.norm(x) + self.bias", "self.norm(x) * 1e30 + self.bias")
    ),
)
CANNOT_TELL = (Example("a parameter on no device", BLOCK.replace("torch.empty(32)", "torch.linspace(0, 1, 32, device='meta')").replace("FILL", "")),)
THEOREM = "a product of two numbers above 1.8e19 leaves float32; what memory held before is no law"


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per weight or factor that is none to start with, else one for the model."""
    used = {n.name: n for n in facts.graph.nodes if n.op == "parameter" and n.name and facts.graph.users[n.index]}
    found = [*_strange(facts, used), *_factors(facts)]
    if found or not used:
        return or_not_applicable(found, "the model has no weights.")
    replay = next((c for c in facts.claims if c.claim == "replay" and c.group is None), None)
    if replay is not None and not isinstance(replay.known, Unknown):
        return (Outcome("holds", "The spot check saw every weight start as a number that float32 can multiply.", basis="measured", theorem=THEOREM),)
    lost = next((node for name, node in used.items() if not facts.graph.histories.get(name)), None)
    if lost is None:
        return (Outcome("holds", f"All {len(used)} weights are recorded as filled.", basis="declared", theorem=THEOREM),)
    return (
        Outcome(
            "cannot_tell", f"What `{lost.name}` starts as was neither recorded nor seen.", Site(place=place_of(facts, lost.index)), theorem=THEOREM
        ),
    )


def _strange(facts: Facts, used: dict[str, Node]) -> Iterator[Outcome]:
    """Weights that nothing fills, or that start as no number or a huge one: by the record, then by what the spot check saw."""
    seen = {c.group: str(c.value) for c in facts.claims if c.claim == "replay" and c.group}
    words = {"nan": "starts as NaN", "inf": "starts infinite", "huge": f"starts beyond {HUGE:.0e}"}
    for name, node in used.items():
        value = starting_value_of(facts.graph.histories.get(name, ()))
        if name in facts.graph.unfilled:
            message, basis, remedy = (
                f"Nothing fills `{name}`: it starts as whatever its memory held.",
                "declared",
                "an initialiser: `nn.init.normal_`, `zeros_`, ...",
            )
        elif value is not None and not abs(value) <= HUGE:
            message, basis, remedy = (
                f"`{name}` starts at {value:.3g}, which leaves float32 no room for a product.",
                "declared",
                "a start of the size of one",
            )
        elif name in seen:
            message, basis, remedy = f"`{name}` {words.get(seen[name], seen[name])}.", "measured", "look at what fills it"
        else:
            continue
        yield Outcome("violated", message, Site(place=place_of(facts, node.index)), basis, THEOREM, remedy=remedy)  # type: ignore[arg-type]


def _factors(facts: Facts) -> Iterator[Outcome]:
    """Numbers beyond HUGE that what a branch has read of its stream is multiplied by."""
    for reader in facts.readers:
        for _, branch in reader.branches:
            for index in branch.region:
                node = branch.flow.graph.nodes[index]
                if node.op in ("mul", "div") and branch.flow.depends(index, branch.state) and (factor := _factor(facts, node)) > HUGE:
                    message = f"What the branch carries is multiplied by {factor:.3g}, which leaves float32 no room for a product."
                    yield Outcome("violated", message, Site(place=place_of(facts, index)), theorem=THEOREM, remedy="a factor of the size of one")


def _factor(facts: Facts, node: Node) -> float:
    """The largest number that one operand is known to be multiplied by; 0 where none is known."""

    def size(value: object) -> float:
        if isinstance(value, Ref):
            low, high = facts.graph.range_of.get(value.node, (0.0, 0.0))
            return max(abs(low), abs(high))
        return abs(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0

    if node.op == "div":
        divisor = size(node.args[1]) if len(node.args) > 1 else 0.0
        return 1.0 / divisor if divisor and math.isfinite(divisor) and not isinstance(node.args[1], Ref) else 0.0
    return max((size(a) for a in node.args), default=0.0)
