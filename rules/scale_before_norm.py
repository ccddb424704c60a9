"""A scale on a branch, constant or learned, stands after the branch's output norm, not before it.

Why: a norm divides by the size of its input, so that a factor before it changes nothing but the weight ε gets: Δt = 0.1 before a norm changes the
stream by two parts in a thousand, after it by the factor that was meant. The same holds for a depth-scaled initialisation of the last map before an
output norm: it is a no-op forward, and multiplies that weight's gradient by its inverse. A LayerScale of 0.1 before the norm starts the branch at
its full size, and what was to calm the start of a deep model does nothing. A no-op is a slip of the
code and feeds no channel: what is left trains like the same model without the scale.
Assumes: ε is small beside the variance of what is normalised; of a learned scale, that all its entries start at one number other than 0 and 1.
Cannot tell: when the way from the norm back to a weight passes an op without a row.
Source: docs/theory.md, scale degrees; Kim et al. 2025, proposition 3.1.
"""

from __future__ import annotations

from screen.graph import Node
from screen.rule import Example, Facts, Kind, Outcome, Rule, Site, Stream, Sublayer, at, blame, describe, each_sublayer, or_not_applicable
from screen.structure.dataflow import number
from screen.structure.initial.values import start_of

RULE = Rule("I101", "scale-before-norm", "backward", None, "warning", ("streams.kinds.sublayers", "graph"), "docs/theory.md, scale degrees")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.after = nn.Linear(32, 128), nn.Linear(128, 32), nn.RMSNorm(32)

    def forward(self, x):
        return x + OUTPUT
"""
HOLDS = (Example("the factor stands after the norm", BLOCK.replace("OUTPUT", "0.1 * self.after(self.down(F.relu(self.up(x))))")),)
VIOLATES = (
    Example("the factor stands before the norm", BLOCK.replace("OUTPUT", "self.after(0.1 * self.down(F.relu(self.up(x))))")),
    Example(
        "LayerScale stands before the norm",
        BLOCK.replace("OUTPUT", "self.after(self.gamma * self.down(F.relu(self.up(x))))").replace(
            "nn.RMSNorm(32)\n", "nn.RMSNorm(32)\n        self.gamma = nn.Parameter(0.1 * torch.ones(32))\n"
        ),
    ),
)
UNREAD = BLOCK.replace("OUTPUT", "self.after(torch.special.bessel_j0(self.down(F.relu(self.up(x)))))")
CANNOT_TELL = (Example("an op without a row before the norm", UNREAD),)

THEOREM = "N(c·v) = N(v) for c > 0, up to ε/(σ² + ε)"
BEHIND = "move the factor behind the norm, or into its gain"
CARRIERS = frozenset({"to", "view", "reshape", "contiguous", "float", "transpose", "permute", "dropout", "clone", "type_as", "flatten", "unflatten"})
"""Ops that a factor passes unchanged."""


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer with an output norm."""
    sites = [s for s in each_sublayer(facts) if "B" in s[2].positions]
    return or_not_applicable([_judge(facts, *site) for site in sites], "no branch ends in a norm.")


def _judge(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name = at(stream, kind, sublayer), describe(stream, kind, sublayer)
    norm = next(n for p, n in sublayer.norms if p == "B")
    node = facts.graph.nodes[norm.source]
    for _ in range(32):
        factor = _factor(node.args) if node.op in ("mul", "div") else None
        learned = _learned(facts, node) if factor is None else None
        if learned is not None:
            scale, value, onward = learned
            if value not in (0.0, 1.0, -1.0):
                return _divided_out(name, scale, value, blame(facts, site, (node.index,)))
            node = facts.graph.nodes[onward]
            continue
        if factor is not None and factor not in (1.0, -1.0):
            message = f"{name} is multiplied by {factor:g} right before its output norm, which divides it out again: a no-op forward."
            here = blame(facts, site, (node.index,))
            return Outcome("violated", message, here, theorem=THEOREM, numbers=(("factor", factor),), remedy=BEHIND, condition="declared-structure")
        if facts.analyses and any(u.op == node.op and u.place.node == node.index for u in facts.coverage.unmodelled):
            return Outcome("cannot_tell", f"{name}: `{node.op}` before its output norm has no row.", blame(facts, site, (node.index,)))
        if not (node.op in CARRIERS or factor is not None) or not node.inputs:
            break
        node = facts.graph.nodes[node.inputs[0]]
    return Outcome("holds", f"{name}: no constant is divided out by the output norm.", site)


def _divided_out(name: str, scale: str, value: float, site: Site) -> Outcome:
    message = f"{name} is multiplied by {scale}, which starts at {value:g}, before its output norm, which divides that out: it starts at full size."
    return Outcome("violated", message, site, "declared", THEOREM, numbers=(("start", value),), remedy=BEHIND, condition="declared-structure")


def _learned(facts: Facts, node: Node) -> tuple[str, float, int] | None:
    """A product with parameters that all start at one number: their names, the number, and the other operand."""
    if node.op != "mul" or len(node.inputs) != 2:
        return None
    for scale, other in (node.inputs, node.inputs[::-1]):
        names = _parameters(facts, scale)
        value = start_of(facts.graph, scale) if names else None
        if value is not None:
            return ", ".join(f"`{n}`" for n in names), value, other
    return None


def _parameters(facts: Facts, node: int) -> tuple[str, ...]:
    """The parameters that a value is made of; none where it is made of anything else but numbers, or of much."""
    seen, todo = {node}, [node]
    while todo:
        here = facts.graph.nodes[todo.pop()]
        if here.op in ("input", "buffer", "constant") or len(seen) > 8:
            return ()
        fresh = set(here.inputs) - seen
        seen |= fresh
        todo.extend(fresh)
    return tuple(facts.graph.nodes[i].name for i in sorted(seen) if facts.graph.nodes[i].op == "parameter")


def _factor(args: tuple[object, ...]) -> float | None:
    return next((v for v in (number(a) for a in args[:2]) if v is not None), None)
