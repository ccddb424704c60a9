"""How the weights of a branch should start for the depth of its stream, by three criteria that answer different questions.

Why: the sensitivity of a branch is a sum of products of its weights; m is the number of factors in them. With every factor multiplied by
N^(-1/m) the largest product is 1/N, N the number of branches. As the factor shrinks the smallest product binds, the path through V and O: worst
case over all paths N^(-1/m_min); in mean square over independent random weights N^(-1/(2·m_min)), T-Fixup's scale. Where m_min is 0 (a norm on
the output) no scale of weights bounds the product: the criterion is not applicable, and only a multiplier on the branch helps.
Beside it stands the start that the model really has: the product of the gains σ·(rows·columns)^(1/4) (1 of Xavier on a square matrix) of the
recorded initialisation over the smallest product, which (c) wants below N^(-1/2) and (b) below 1/N; above 1 it is far from both at any depth. Of
branches that do not grow with the stream nothing asks for that, however large they start: what they add counts for less the larger the stream is.
Assumes: the constants of the products are of order one at the usual initialisation; criterion (c) independent weights in different layers, so
that tied layers need (b).
Cannot tell: when an op of the branch has no degree.
Source: Emadi, section 6.2, with multiplicity; docs/theory.md, scale degrees.
"""

from __future__ import annotations

import math

from screen.facts.queries import branches, is_renormalised, is_scale_free, shares_weights, starts_at_zero
from screen.facts.weight_gains import start_product
from screen.rule import Example, Facts, Kind, Number, Outcome, Rule, Stream, Sublayer, Unknown, at, blame, describe, each_sublayer, or_not_applicable
from screen.structure.initial.zeros import Zeros

RULE = Rule("D301", "depth-scale", "backward", "D", "note", ("streams.kinds.sublayers", "analyses"), "Emadi, section 6.2")

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        INIT

    def forward(self, x):
        return x + OUTPUT
"""
PLAIN = BLOCK.replace("OUTPUT", "self.down(F.relu(self.up(self.norm(x))))")
HOLDS = (Example("a feed-forward with a norm on its input: m = 2", PLAIN.replace("INIT", "")),)
LARGE_START = PLAIN.replace("INIT", "nn.init.normal_(self.up.weight), nn.init.normal_(self.down.weight)").replace("self.norm(x)", "x")
VIOLATES = (Example("weights of variance 1 and no norm: the branch gives many times what it reads, and grows with that", LARGE_START),)
CANNOT_TELL = (Example("an op without a degree", PLAIN.replace("F.relu", "torch.special.bessel_j0").replace("INIT", "")),)

PRODUCTS = ("attention", "cross_attention", "ffn", "gated_ffn", "moe")
"""Branches whose smallest product of weights is their gain, up to constants of order one."""
LARGE = 1.0 + 1e-6
"""A product of gains at the start above which no criterion is met at any depth: the branch gives more than it reads."""
OF_ONE = " that are drawn for each branch anew, which some here are not: they ask for (b)"
THEOREM = "Emadi, section 6.2: m products of N^(-1/m) are 1/N; criteria (b) and (c): docs/theory.md"


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer."""
    zeros, shared = Zeros(facts.graph), {s.name: shares_weights(facts, s) for s in facts.streams}
    return or_not_applicable([_judge(facts, zeros, shared, *site) for site in each_sublayer(facts)], "there is no residual sublayer.")


def _judge(facts: Facts, zeros: Zeros, shared: dict[str, bool], stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name = at(stream, kind, sublayer), describe(stream, kind, sublayer)
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return Outcome("cannot_tell", f"{name}: {analysis.reason}.", blame(facts, site, analysis.nodes))
    orders = analysis.degrees.orders
    m, most, least = orders.distinct, orders.degree, orders.min_degree
    for doubt in (m, most, least):
        if isinstance(doubt, Unknown):
            return Outcome("cannot_tell", f"{name}: {doubt.reason}.", blame(facts, site, doubt.nodes))
    assert isinstance(m, int) and isinstance(most, int) and isinstance(least, int)
    count = branches(facts, stream)
    numbers: tuple[tuple[str, Number], ...] = (("m", m), ("degree", most), ("min_degree", least), ("branches", count))
    if least <= 0:
        message = f"{name}: m = {m}, and the smallest degree is {least}: N^(-1/m) is not applicable, as no scale of its weights bounds the product."
        remedy = "a multiplier on the branch after its norm, or on the stream"
        return Outcome("not_applicable", message, site, theorem=THEOREM, numbers=numbers, remedy=remedy)
    scales = {"scale_a": count ** (-1 / m), "scale_b": count ** (-1 / least), "scale_c": count ** (-1 / (2 * least))}
    a, b, c = scales.values()
    start = _product(facts, zeros, sublayer) if sublayer.role in PRODUCTS else None
    message = (
        f"{name}: m = {m}; over N = {count} branches each of its maps by {a:.3g} (a: N^(-1/m)), {b:.3g} (b: worst case over all paths), "
        f"{c:.3g} (c: mean square at random weights{OF_ONE if shared[stream.name] else ''}). {_start(start, count)}"
    ).rstrip()
    numbers = (*numbers, *scales.items(), *((("start", start),) if isinstance(start, float) else ()))
    assumes = ("(c): independent weights in different layers",)
    mean = f"at most {count**-0.5:.3g}"
    if not isinstance(start, float) or start <= count**-0.5:
        return Outcome("holds", message, site, theorem=THEOREM, numbers=numbers, assumptions=assumes)
    if excused := _excused(facts, sublayer):
        message = f"{message} Nothing asks for them here: {excused}."
        return Outcome("not_applicable", message, site, theorem=THEOREM, numbers=numbers, assumptions=assumes)
    if start > LARGE:
        remedy = f"divide the weights of the branch at the start, until their product is {c ** least:.3g} and not {start:.3g}"
        what = f"{name}: {_what(sublayer)}, multiplied, start at {start:.3g}, more than is asked for at any depth"
        plain = f"{what}: {count} branches that add up ask for {mean}."
        return Outcome("violated", message, site, theorem=THEOREM, numbers=numbers, assumptions=assumes, remedy=remedy, plain=plain)
    plain = f"{name}: {_what(sublayer)}, multiplied, start at {start:.3g}, where {count} branches that add up ask for {mean}."
    return Outcome("conditional", message, site, theorem=THEOREM, numbers=numbers, assumptions=assumes, condition="small-gain", plain=plain)


def _what(sublayer: Sublayer) -> str:
    return "its weights and the number before it" if sublayer.branch.kind == "constant" else "its weights"


def _is_normed_behind(sublayer: Sublayer) -> bool:
    """A norm ends the branch: what it adds has one size whatever its weights are."""
    return "B" in sublayer.positions


def _excused(facts: Facts, sublayer: Sublayer) -> str:
    """Why a product above (c) does no harm; empty where nothing is known that excuses it."""
    if _is_normed_behind(sublayer):
        return "the norm behind the branch gives what it adds one size, whatever its weights are"
    if is_renormalised(sublayer):
        return "the norm on the sum takes its size away"
    return "what the branch adds does not grow with the stream, and counts for less the larger that is" if is_scale_free(facts, sublayer) else ""


def _start(start: float | Unknown | None, count: int) -> str:
    """The start that was recorded, beside what (b) and (c) ask of the smallest product: a sentence. Mixers that are no product of maps have none."""
    if start is None:
        return ""
    if isinstance(start, Unknown):
        return f"How large it starts is not known: {start.reason}."
    if start == 0.0:
        return "What it adds starts at zero: both are met."
    mean, worst = count**-0.5, 1 / count
    met = "both are met" if start <= worst else "(c) is met, (b) is not" if start <= mean else "neither is met"
    return f"Its recorded initialisation starts the smallest product at {start:.3g}, where (c) asks for {mean:.3g} and (b) for {worst:.3g}: {met}."


def _product(facts: Facts, zeros: Zeros, sublayer: Sublayer) -> float | Unknown:
    """Π g over the shortest product, with the constant that the branch is multiplied by; a learned one may become anything. 0 where a gate, a scale
    or a map starts at zero."""
    if starts_at_zero(sublayer) or zeros.at_start(sublayer.output):
        return 0.0
    product, scale = start_product(facts, sublayer), sublayer.branch
    if isinstance(product, Unknown):
        return product
    if product == 0.0:  # of `u * (W v + 1)` with W at zero, u goes on
        return Unknown("a map of that product starts at zero, and that what the branch adds does so too is not shown")
    return math.sqrt(product) * (abs(scale.value or 0.0) if scale.kind == "constant" and scale.value is not None else 1.0)
