"""Some norm stands on every stream: on a branch's input, inside it, on its output, or on the sum.

Why: without any norm each sublayer multiplies the stream by up to 1 + L, so that it grows exponentially with depth (measured rms 6, 79,
9e3, 4e7, 1e15 at 4, 8, 16, 32, 64 blocks of ordinary initialisation). In a loss curve: overflow or a first loss far above
log(vocabulary), or divergence as soon as the weights have grown a little. What saves such designs: branches that are zero at the start
(ReZero, SkipInit, Fixup's last layer), whose condition is then the learned scale; a bounded map at the branch's input (tanh, as in
DyT), which is as good as an input norm, or at its output; or branches scaled down with depth, so that M·g² stays near 1 for M branches of mean-square
gain g².
Assumes: branches of independent weights at the start, whose gains are those of the shortest product of weights (V and O, or W1 and W2), with
constants of order one; QK-norm alone is no norm of the stream, since the path through V and O stays linear in it.
Cannot tell: when a placement is unknown, when the stream is gated by the data, when the start of a learned scale or of the weights was not
recorded, when a guessed branch decides, or when no branch grows with a stream of which no law is known.
Source: Zhang et al. 2019 (Fixup), section 2; Bachlechner et al. 2021 (ReZero); Zhu et al. 2025 (DyT).
"""

from __future__ import annotations

import math

from screen.facts.advice import norm_of
from screen.facts.queries import (
    EXPLOSIVE, FEW, basis_of, branches, growth_of, is_held, is_short, multiplies_large_states, nothing_grows, number_of, start_by_layer,
    starts_asleep,
)  # fmt: skip
from screen.facts.self_division import divides
from screen.facts.weight_gains import start_product
from screen.ops import CLASSES
from screen.rule import Example, Facts, Outcome, Rule, Site, Stream, Sublayer, Unknown, at, blame, first_reason, or_not_applicable
from screen.structure.reach import used

RULE = Rule(
    "R101", "norm-on-stream", "forward", "R", "error", ("streams", "graph", "guessed_nodes", "analyses"), "Zhang et al. 2019 (Fixup), section 2"
)  # fmt: skip

GROWTH_LIMIT = 1.0
"""Largest M·g² (M branches, g² their mean-square gain) for which (1 + g²)^M ≤ e counts as not growing."""
UNEVEN = 4.0
"""How many times the mean of M·g² the largest may be where a stream grows by the same factor in every block (convention)."""
USUAL_GAIN = 1 / 9
"""v²w² of two maps of `nn.Linear`'s default initialisation: branches count as scaled down only below it, however few they are."""

BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))
"""
HOLDS = (
    Example(
        "pre-norm",
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
VIOLATES = (Example("no norm in any block; the final norm hides the growth from the head alone", BLOCK),)
CANNOT_TELL = (
    Example("an op without a row, which may bound the branch's input", BLOCK.replace("self.up(x)", "self.up(torch.special.bessel_j0(x))")),
    Example(
        "no norm, and weights that no initialiser fills",
        BLOCK.replace("nn.Linear(32, 128), nn.Linear(128, 32)", "nn.Parameter(torch.empty(32, 128)), nn.Parameter(torch.empty(128, 32))").replace(
            "self.down(F.gelu(self.up(x)))", "F.gelu(x @ self.up) @ self.down"
        ),
    ),
)


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per stream."""
    return or_not_applicable([_judge(facts, stream) for stream in facts.streams], "there is no stream.")


def _judge(facts: Facts, stream: Stream) -> Outcome:
    subs = [s for kind in stream.kinds for s in kind.sublayers]
    site = at(stream, place=subs[0].place if subs else None)
    if not subs:
        return Outcome("not_applicable", f"`{stream.name}` has no residual sublayer.", site)
    if all(s.ports and not {p.name for p in s.ports} - {"memory"} for s in subs):
        why = f"`{stream.name}` only collects what other streams give: no branch reads it, so that nothing multiplies it."
        return Outcome("not_applicable", why, site)
    own = [(facts.passes(stream, k), s) for k in stream.kinds for s in k.sublayers if not s.ports or {p.name for p in s.ports} - {"memory"}]
    times, others = sum(n for n, _ in own), branches(facts, stream) - sum(n for n, _ in own)
    law = growth_of(facts, stream, "fixed")
    if isinstance(law, str) and law != "exponential":
        how = "its size does not depend on depth" if law == "bounded" else nothing_grows(facts, stream)
        return Outcome("holds", f"norms or bounded maps stand on the way of `{stream.name}`: at fixed weights {how}.", site)
    normed = [s for s in subs if set(s.positions) - {"A2"}]
    if normed:
        return Outcome("holds", f"norms stand on {len(normed)} of {len(subs)} distinct sublayers of `{stream.name}`.", site)
    if times <= FEW < others:
        often = "once" if times == 1 else f"{times} times"
        why = f"No norm stands on `{stream.name}`; it collects what other streams give, and a branch of its own reads it {often}."
        return Outcome("conditional", why, site, condition="small-gain")
    grown = number_of(facts, stream, "rms_ratio")
    if _is_touched(facts, stream, subs) and isinstance(grown, float) and grown <= EXPLOSIVE:
        why = f"A norm acts on part of `{stream.name}`, and nothing that is derived bounds its growth; at the start it grows {grown:.3g} times."
        return Outcome("conditional", why, site, basis_of(facts, stream, "rms_ratio"), condition="small-gain")
    if doubt := _doubt(facts, stream, subs):
        message = f"No norm was found on `{stream.name}`, but {doubt}"
        return _seen(facts, stream, site, message) or Outcome("cannot_tell", f"{message}.", site)
    if excuse := _excuse(facts, stream, subs):
        why, condition = excuse
        numbers = (("depth", facts.depth(stream)),)
        return Outcome("conditional", f"No norm stands on `{stream.name}`; {why}.", site, numbers=numbers, condition=condition)
    if is_short(facts, stream) or (stream.depth == 1 and len(facts.streams) > 1):
        many = "one block" if stream.depth == 1 else f"{stream.depth} blocks"
        message = f"No norm stands on `{stream.name}`, which is {many} deep beside other streams."
        return Outcome("conditional", message, site, condition="small-gain")
    seen = facts.claims.of("growth", "fixed", stream.name)
    if seen.status == "measured" and seen.value == "linear":
        how = "it was seen to gain no more from an input of 1e4 and 1e8 times the size, so that it grows linearly"
        return Outcome("conditional", f"No norm stands on `{stream.name}`; {how}.", site, "measured", condition="small-gain")
    if isinstance(law, Unknown) and all(is_held(facts, stream, s) is True for s in subs):
        message = f"No norm stands on `{stream.name}`, but no branch grows with it, and how it is carried on is not known: {law.reason}."
        return Outcome("cannot_tell", message, blame(facts, site, law.nodes))
    return _grown(facts, stream, site)


def _seen(facts: Facts, stream: Stream, site: Site, untold: str) -> Outcome | None:
    """What a stream that blocks multiply was seen to gain at its start, where that is little; R301 says so of much. `untold`: what is not known."""
    grown = number_of(facts, stream, "rms_ratio")
    if not multiplies_large_states(facts, stream) or not isinstance(grown, float) or grown > EXPLOSIVE:
        return None
    start = f"over its {facts.depth(stream)} blocks at its start it grows {grown:.3g} times, and a large state by the same factor again and again"
    start += ", with draws for weights that start at zero" if starts_asleep(facts, stream) else ""
    message = f"{untold}; {start}."
    return Outcome("conditional", message, site, "measured", condition="small-gain")


def _grown(facts: Facts, stream: Stream, site: Site) -> Outcome:
    """What the recorded initialisation says: branches that start small for this depth, or the exponential."""
    depth = facts.depth(stream)
    found = _square_gains(facts, stream)
    if isinstance(found, Unknown):
        message = f"No norm stands on `{stream.name}`, and how large its branches start is unknown: {found.reason}"
        return _seen(facts, stream, site, message) or Outcome("cannot_tell", f"{message}.", blame(facts, site, found.nodes))
    total, largest = found
    numbers = (("depth", depth), ("branches", branches(facts, stream)), ("square_gains", total))
    grown = number_of(facts, stream, "rms_ratio")
    few = largest * branches(facts, stream) > UNEVEN * total
    small = total <= GROWTH_LIMIT and largest < 0.9 * USUAL_GAIN
    if (small or (few and isinstance(grown, float))) and not (isinstance(grown, float) and grown > EXPLOSIVE):
        how = "the branches start small for this depth" if small else "only few of its branches start large"
        why = f"{how}: the mean-square gains of their maps add up to {total:.3g}"
        return Outcome("conditional", f"No norm stands on `{stream.name}`; {why}.", site, numbers=numbers, condition="initialisation")
    line, norm = norm_of(facts, stream, stream.states[-1], "x")
    count = branches(facts, stream)
    idle = any(_square_gain(facts, s) == 0 for k in stream.kinds for s in k.sublayers)
    many = f"{depth} blocks" if depth > 1 else f"{count} branch{'' if count == 1 else 'es'}"
    return Outcome(
        "violated",
        f"No norm stands on `{stream.name}` and {'not every' if idle else 'no'} branch starts at zero: at its start it grows exponentially with its "
        f"{many}, and nothing that is derived bounds it.",
        site,
        theorem="‖x_N‖ ≤ (1 + L)^N ‖x_0‖, and (1 + g²)^(N/2) in mean square at initialisation",
        assumptions=("the weights of different blocks are independent at the start",),
        numbers=numbers,
        remedy=f"`x = x + f({line})` with `norm = {norm}` in every branch; or a learned scale on each branch that starts at zero",
    )


def _doubt(facts: Facts, stream: Stream, subs: list[Sublayer]) -> str:
    """Why nothing can be said, in words; empty when something can."""
    for s in subs:
        if s.placement == "unknown":
            return f"the placement of `{s.name}` is unknown: {first_reason(s).reason}"
        if s.alpha.kind == "data":
            return f"the stream is gated by the data at `{s.name}`, and what the gate keeps is not derived"
        if any(p.normed == "partly" for p in s.ports):
            return f"`{s.name}` reads it with a norm on some ways and without on others"
        if divides(facts, stream, s):
            return f"`{s.name}` divides by what it makes from its own input, and whether that bounds it is not known"
        if s.branch.kind == "learned" and s.branch.init is None:
            return f"the learned scale of `{s.name}` starts at a value that was not recorded"
        if s.alpha.kind == "constant" and s.alpha.value is not None and abs(s.alpha.value) < 1:
            return f"it is multiplied by {s.alpha.value:.4g} at `{s.name}`, and whether the branches make up for that is not derived"
    if _is_touched(facts, stream, subs):
        return "a norm acts on some of its entries"
    if facts.guessed_nodes & {*stream.states, *(s.output for s in subs)}:
        return "a value that was guessed decides what runs on it"
    return ""


def _is_touched(facts: Facts, stream: Stream, subs: list[Sublayer]) -> bool:
    """A norm that reads part of the stream, and whose values, of no branch, are written back: its end depends on them."""
    known, states = {norm.node for s in subs for _, norm in s.norms}, set(stream.states[:-1])
    back = used(facts.graph, stream.states[-1:])
    for norm in facts.norms:
        node = norm.source
        while node not in states and CLASSES.get(facts.graph.nodes[node].op) in ("view", "part") and facts.graph.nodes[node].inputs:
            node = facts.graph.nodes[node].inputs[0]
        if node in states and norm.node in back and norm.node not in known | states:
            return True
    return False


def _is_trained(facts: Facts, stream: Stream, sublayer: Sublayer) -> bool:
    """Whether a weight of any shape stands in a branch: gains, the diagonal of a matrix."""
    before = [n for n in stream.states if n < sublayer.add][-1:]
    own = used(facts.graph, [sublayer.output]) - used(facts.graph, before)
    return any(facts.graph.nodes[i].op == "parameter" for i in own)


def _excuse(facts: Facts, stream: Stream, subs: list[Sublayer]) -> tuple[str, str] | None:
    """What keeps the stream from growing at the start, in words, and the condition that this rests on; None when nothing does."""
    if all(s.m.maps == 0 for s in subs):
        if any(_is_trained(facts, stream, s) for s in subs):
            return "no branch holds a matrix: what it reads is multiplied entry by entry by weights, which nothing bounds", "learned-scale"
        return "no branch holds a weight: what multiplies the stream does not change in training", "small-gain"
    if all(_square_gain(facts, s) == 0 for s in subs):
        return "every branch is zero at the start: what it becomes is up to the learned scales or output maps, which nothing bounds", "learned-scale"
    return None


def _square_gains(facts: Facts, stream: Stream) -> tuple[float, float] | Unknown:
    """Σ g² over the branches that a value passes, and the largest: of the weights, or of the growth that the recursion finds where these are not
    known, or start otherwise in each block."""
    gains = [(g, facts.passes(stream, k)) for k in stream.kinds for s in k.sublayers for g in (_square_gain(facts, s),)]
    unknown = next((g for g, _ in gains if isinstance(g, Unknown)), None)
    known = [(g, times) for g, times in gains if isinstance(g, float)]
    by_weights = (sum(g * times for g, times in known), max(g for g, _ in known)) if unknown is None else unknown
    found = facts.recursion(stream)
    if isinstance(found, Unknown) or found.depth < 2 or found.rms[0] == 0 or stream.role == "inner":
        return by_weights
    grown = 2 * math.log(max(found.rms[-1] / found.rms[0], 1.0)) * found.depth / (found.depth - 1)
    if isinstance(by_weights, tuple) and not start_by_layer(facts, stream):
        return by_weights
    return grown, grown / sum(times for _, times in gains)


def _square_gain(facts: Facts, sublayer: Sublayer) -> float | Unknown:
    """s²·Π g² at the start."""
    scale = sublayer.branch
    factor = 1.0 if scale.kind == "none" else scale.value if scale.kind == "constant" else scale.init
    if factor == 0:
        return 0.0
    if factor is None:
        return Unknown(f"the scale of `{sublayer.name}` has no recorded start", (sublayer.output,))
    product = start_product(facts, sublayer)
    return product if isinstance(product, Unknown) else factor**2 * product
