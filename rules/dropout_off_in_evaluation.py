"""Dropout is off in evaluation.

Why: `F.dropout(x, 0.1)` drops in evaluation too, as its default is `training=True`, other than that of the module; so does `dropout_p` of
`scaled_dot_product_attention`, which knows no mode at all. Evaluation and generation are then noisy, and the validation loss is too high. In a loss
curve: validation above training by more than it should be, and another value at each evaluation.
Assumes: the model was traced in evaluation; a draw of zeros and ones with a fixed probability that multiplies a value is dropout.
Cannot tell: when an op without a row lies on a stream, since it may draw as well, or when the model was traced as in training, where it does
something else.
Source: torch.nn.functional.dropout, scaled_dot_product_attention: "dropout is applied according to the value of dropout_p".
"""

from __future__ import annotations

from screen.graph import Node
from screen.rule import Example, Facts, Outcome, Rule, Site, place_of
from screen.structure.dataflow import number

NEEDS = ("graph.nodes", "graph.training", "coverage.unmodelled")
RULE = Rule("G127", "dropout-off-in-evaluation", "structure", None, "warning", NEEDS, "torch.nn.functional.dropout")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + DROPPED
"""
BRANCH = "self.down(F.gelu(self.up(self.norm(x))))"
HOLDS = (Example("the mode of the module decides", BLOCK.replace("DROPPED", f"F.dropout({BRANCH}, 0.1, training=self.training)")),)
VIOLATES = (
    Example("the mode is left out", BLOCK.replace("DROPPED", f"F.dropout({BRANCH}, 0.1)")),
    Example(
        "attention that always drops",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        y = self.norm(x)
        return x + F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y), dropout_p=0.1)
""",
    ),
)
CANNOT_TELL = (Example("an op without a row", BLOCK.replace("DROPPED", "torch.special.bessel_j0(self.down(self.up(x)))")),)

DROPOUTS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout"})
ATTENTION = "scaled_dot_product_attention"


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per place in the code that drops, then one per op without a row on a stream; one for the whole model where nothing drops."""
    if facts.graph.training:
        return (Outcome("cannot_tell", "it does something else in training, and was looked at as in training, with its dropouts off."),)
    found: dict[tuple[str, int], Outcome] = {}
    for node in facts.graph.nodes:
        rate = _rate(facts, node)
        if rate:
            message = f"`{facts.graph.scope(node.index).path}` drops with a probability of {rate:g} in evaluation."
            remedy = "pass `training=self.training`" if node.op != ATTENTION else "pass `dropout_p=self.p if self.training else 0.0`"
            found.setdefault((node.file, node.line), Outcome("violated", message, Site(place=place_of(facts, node.index)), remedy=remedy))
    outcomes = list(found.values())
    outcomes += [
        Outcome("cannot_tell", f"`{op.op}` has no row in the op table: whether it drops is not known.", Site(place=op.place))
        for op in facts.coverage.unmodelled
        if op.on_stream
    ]
    return tuple(outcomes) or (Outcome("holds", "nothing is dropped in evaluation."),)


def _rate(facts: Facts, node: Node) -> float:
    """The probability with which a node drops; 0 where it does not."""
    if node.op == ATTENTION:
        return number(node.args[4] if len(node.args) > 4 else node.kwarg("dropout_p")) or 0.0
    if node.op in DROPOUTS:
        on = node.args[2] if len(node.args) > 2 else node.kwarg("training")
        return (number(node.args[1] if len(node.args) > 1 else node.kwarg("p")) or 0.0) if on is True else 0.0
    if node.op != "bernoulli" or not any(facts.graph.nodes[u].op in ("mul", "div") for u in facts.graph.users[node.index]):
        return 0.0
    kept = number(node.args[1] if len(node.args) > 1 else node.kwarg("p"))
    return 0.0 if kept is None else 1.0 - kept
