"""A multiplier above 1 on the stream comes with branch weights that start small enough.

Why: DeepNorm-like designs multiply the stream by α > 1 and scale the branch weights down by β; the two belong together. The size of
the first updates of the whole model is about 2N(v² + w²)/α², N blocks, v and w the gains of the two maps on the branch's direct path
(V and O, or W1 and W2): DeepNorm's constants α = (2N)^(1/4), β = (8N)^(-1/4) make it 1. With α alone it grows like √N, the scale is
declared and not applied, and training shows the instability of plain post-norm: a jump of the loss in the first hundreds of steps.
Assumes: the sum is normed and carries the stream on (without that norm a multiplier above 1 is growth: R301); g² = σ²·√(rows·columns) for each
recorded matrix; v and w are the two smallest gains of the branch, which is what scaling down makes of them; the initialisers were called on the
parameters while the model was built.
Cannot tell: when no initialiser was recorded for a weight of the branch, or its law is not known.
Source: Wang et al. 2022 (DeepNet), section 4.
"""

from __future__ import annotations

from screen.facts.advice import deepnorm_code
from screen.facts.queries import UPDATE_LIMIT, branches, is_renormalised
from screen.facts.weight_gains import smallest_pair, through_decoder
from screen.rule import Example, Facts, Kind, Outcome, Rule, Stream, Sublayer, Unknown, at, describe, each_sublayer, or_not_applicable

RULE = Rule("D102", "alpha-with-init", "backward", "D", "warning", ("streams.kinds.sublayers", "graph.initialisers"), "Wang et al. 2022, section 4")


BLOCK = """
N = 50
ALPHA, BETA = (2 * N) ** 0.25, (8 * N) ** -0.25


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        nn.init.xavier_normal_(self.up.weight, gain=GAIN)
        nn.init.xavier_normal_(self.down.weight, gain=GAIN)

    def forward(self, x):
        return self.norm(ALPHA * x + self.down(F.relu(self.up(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(N))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""
HOLDS = (Example("DeepNorm: α on the stream, β on the weights", BLOCK.replace("GAIN", "BETA")),)
VIOLATES = (Example("α alone: the weights start at Xavier's scale", BLOCK.replace("GAIN", "1.0")),)
CANNOT_TELL = (
    Example(
        "no initialiser fills the weights",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up, self.down = nn.Parameter(torch.empty(32, 128)), nn.Parameter(torch.empty(128, 32))

    def forward(self, x):
        return self.norm(2.5 * x + F.relu(x @ self.up) @ self.down)
""",
    ),
)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer whose normed sum has a constant multiplier above 1 on the stream."""
    sites = [s for s in each_sublayer(facts) if is_renormalised(s[2]) and s[2].alpha.kind == "constant" and (s[2].alpha.value or 1.0) > 1.0]
    return or_not_applicable([_judge(facts, *site) for site in sites], "no stream whose sums are normed is multiplied by a constant above 1.")


def _judge(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name, alpha = at(stream, kind, sublayer), describe(stream, kind, sublayer), sublayer.alpha.value or 1.0
    pair = smallest_pair(facts, sublayer)
    if isinstance(pair, Unknown):
        message = f"The stream at {name} is multiplied by {alpha:.4g}, and whether the branch's weights start smaller is unknown: {pair.reason}."
        return Outcome("cannot_tell", message, site, basis="declared", numbers=(("alpha", alpha),))
    count = branches(facts, stream)
    onward = through_decoder(facts, stream)
    update = count * sum(pair) / alpha**2 * onward
    what = "2N(v² + w²)/α²" + (f" · {onward:.3g} (Σ v·w/α of the cross-attentions that read it)" if onward != 1.0 else "")
    numbers = (("alpha", alpha), ("v_squared", pair[0]), ("w_squared", pair[1]), ("branches", count), ("update", update))
    common = {
        "site": site,
        "basis": "declared",
        "theorem": "2N(v² + w²)/α² ≤ about 1, with 2N the number of branches",
        "assumptions": ("v and w are the two smallest recorded gains of the branch",),
        "numbers": numbers,
    }
    if update <= UPDATE_LIMIT:
        message = f"{name}: α = {alpha:.4g} and the recorded weights fit together: {what} = {update:.3g}."
        return Outcome("holds", message, **common)  # type: ignore[arg-type]  # one dictionary for three fields' types
    message = f"{name} multiplies the stream by {alpha:.4g} without weights that start smaller: {what} = {update:.3g}, not about 1."
    constants = deepnorm_code(facts, stream)
    remedy = f"scale V and O, or both maps of the FFN, by β = {constants[1] if constants else '(8N)^(-1/4)'} after their usual initialisation"
    plain = (
        f"{name} multiplies the stream by {alpha:.4g}, and its weights do not start smaller: updates count {update:.3g} times as much as this depth "
        "is known to bear (DeepNorm's condition)."
    )
    return Outcome("violated", message, remedy=remedy, condition="warm-up", plain=plain, **common)  # type: ignore[arg-type]  # as above
