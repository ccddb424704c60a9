"""An initialisation that was scaled for depth is applied, once, to the maps that it acts on.

Why: GPT-2 and its kin start the last map of each branch smaller by 1/√(2N). Code that does so in a loop over names, before or after another loop
that initialises everything, loses the scale (a later call overwrites it), applies it twice (the loop runs again for a parent module), or puts it on
maps that it does not act on: on queries and keys alone, which the value path does not pass, or before an output norm, which divides it out. The
model then starts at another scale than its authors think, and the loss of a deep stack begins too high. Where the value path has its scale, one on
queries and keys beside it does no harm (CLIP scales all three maps on the input).
Assumes: calls on parameters were recorded while the model was built; a factor counts as a scale for depth when it is (k·N)^(-1/2) or (k·N)^(-1/4)
within two percent, k = 1, 2, 8, N the number of blocks, and differs from 1 by more than a tenth.
A factor on weights beside the value path that is the scale of the logits as well, d_h^(-1/2) or d_h^(-1/4), is taken for that (T5).
Cannot tell: when no initialiser of any weight of the branch was recorded.
Source: Radford et al. 2019, section 2.3; Emadi, section 6.2; docs/theory.md, scale degrees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from screen.facts.advice import depth_scaled, head_width
from screen.rule import Example, Facts, Kind, Outcome, Rule, Stream, Sublayer, Unknown, at, describe, each_sublayer, or_not_applicable
from screen.structure.initial.laws import deviations

NEEDS = ("streams.kinds.sublayers", "graph.initialisers")
RULE = Rule("I102", "depth-scaled-init", "backward", "I", "warning", NEEDS, "Radford et al. 2019, section 2.3")

TOLERANCE = 0.02
"""Relative distance at which a factor counts as a scale for depth."""
CLEAR = 0.1
"""A factor closer to 1 than this is no scale (shallow models)."""

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
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(12)), nn.LayerNorm(32)
        for block in self.blocks:
            for name, map in (("up", block.up), ("down", block.down)):
                CALLS

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
"""
PLAIN = "nn.init.normal_(map.weight, std=0.02)"
SCALED = "nn.init.normal_(map.weight, std=0.02 / 24**0.5 if name == 'down' else 0.02)"

AGAIN = "if name == 'down': map.weight.data.div_(24**0.5)"


def _example(title: str, *calls: str) -> Example:
    return Example(title, MODEL.replace("CALLS", ("\n" + " " * 16).join(calls)))


CLIP = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        for map, scale in zip((self.q, self.k, self.v, self.o), SCALES):
            nn.init.normal_(map.weight, std=0.02 * scale)

    def forward(self, x):
        y = self.norm(x)
        return x + self.o(F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y)))
"""
HOLDS = (
    _example("the last map is scaled once", PLAIN, SCALED),
    Example("queries, keys and values are scaled alike (CLIP)", CLIP.replace("SCALES", "(8**-0.5, 8**-0.5, 8**-0.5, 1.0)")),
    Example("queries start with the scale of the logits (T5)", CLIP.replace("SCALES", "(32**-0.5, 1.0, 1.0, 1.0)")),
)
VIOLATES = (
    _example("a later call overwrites the scale", SCALED, PLAIN),
    _example("the scale is applied twice", PLAIN, AGAIN, AGAIN),
    Example("queries and keys alone are scaled", CLIP.replace("SCALES", "(8**-0.5, 8**-0.5, 1.0, 1.0)")),
)
CANNOT_TELL = (_example("nothing fills the weights", "map.weight = nn.Parameter(torch.empty(map.weight.shape))"),)


DIVIDED_OUT = "before an output norm, which divides it out"
"""What makes a scale a no-op: worth a note, and no reason to expect that training fails."""


def check(facts: Facts) -> tuple[Outcome, ...]:
    """One outcome per distinct sublayer with weights."""
    sites = [s for s in each_sublayer(facts) if s[2].m.path]
    return or_not_applicable([_judge(facts, *site) for site in sites], "no branch holds a matrix of weights.")


def _judge(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Outcome:
    site, name, depth = at(stream, kind, sublayer), describe(stream, kind, sublayer), facts.depth(stream)
    names = tuple(dict.fromkeys(p.partition("[")[0] for p in sublayer.m.path))
    laws = {p: deviations(facts.graph, p) for p in names}
    known = {p: law for p, law in laws.items() if law}
    if not known and not facts.graph.histories.keys() & set(names):
        return Outcome("cannot_tell", f"{name}: no initialiser of its weights was recorded.", site, basis="declared")
    last, fans = _last_maps(facts, sublayer), _fans(facts, known)
    ends = {(fans[p], law[-1]) for p, law in known.items()}
    bases = {p: max((other[-1] for q, other in known.items() if q != p), default=0.0) for p in known}
    carried = any(p in last and bases[p] > 0 and _scale(law[-1] / bases[p], depth) for p, law in known.items())
    noted, head = "", head_width(facts, sublayer)
    for parameter, law in known.items():
        base = bases[parameter]
        if any(other and fan != fans[parameter] and abs(law[-1] / other * math.sqrt(fans[parameter] / fan) - 1) < CLEAR for fan, other in ends):
            continue  # its width follows from its fan-in, as that of another weight does
        acts = carried or parameter in last or _is_scale_of_logits(law[-1], base, head)
        message = _fault(parameter, law, base, depth, acts, "B" in sublayer.positions)
        if DIVIDED_OUT in message:
            noted = noted or message
        elif message:
            numbers = (("depth", depth), ("last", law[-1]), ("others", base))
            scaled = depth_scaled(facts, stream, base)
            remedy = "scale the last map of each branch once, after every other initialisation" + (f": {scaled}" if scaled else "")
            remedy = "leave the scale out, as the norm behind it divides it out" if "B" in sublayer.positions else remedy
            return Outcome("violated", f"{name}: {message}.", site, "declared", numbers=numbers, remedy=remedy, condition="initialisation")
    if noted:
        return Outcome("holds", f"{name}: {noted}.", site, "declared", numbers=(("depth", depth),))
    return Outcome("holds", f"{name}: no scale for depth is lost, doubled or misplaced in the recorded initialisation.", site, "declared")


def _fans(facts: Facts, names: Iterable[str]) -> dict[str, int]:
    """Fan-in of each parameter, as `nn.init` counts it."""
    nodes = facts.graph.parameters
    return {name: math.prod((nodes[name].shape or (1,))[1:]) for name in names}


def _fault(parameter: str, law: tuple[float, ...], base: float, depth: int, acts: bool, normed: bool) -> str:
    """What is wrong with the history of one weight; empty when nothing is. `acts`: it, or another one, has the scale where that acts."""
    if base <= 0 or depth < 2:
        return ""
    now = _scale(law[-1] / base, depth)
    before = [(value, _step(law, k, depth) or s) for k, value in enumerate(law[:-1]) if (s := _scale(value / base, depth))]
    if before and not now and abs(law[-1] / base - 1) < TOLERANCE:
        size, factor = before[-1]
        back = f"a later call took that back (deviation {size:.3g}, then {law[-1]:.3g})"
        return f"`{parameter}` was scaled for depth by {factor:.3g}, and {back}: the scale is declared and not applied"
    twice = _scale(math.sqrt(law[-1] / base), depth) if law[-1] > 0 else None
    if twice and not now and len(law) > 1 and any(_scale(value / base, depth) for value in law[:-1]):
        return f"`{parameter}` was scaled for depth by {twice:.3g} twice"
    if now and normed:
        return f"`{parameter}` is scaled by {now:.3g} {DIVIDED_OUT}: its gradient is {1 / now:.3g} times as large"
    if now and not acts:
        return f"`{parameter}` is scaled for depth by {now:.3g}, and the branch's smallest product of weights does not end in it"
    return ""


def _step(law: tuple[float, ...], place: int, depth: int) -> float | None:
    """The factor of one call on what the call before it had left, where it is a scale for depth."""
    return _scale(law[place] / law[place - 1], depth) if place and law[place - 1] > 0 else None


def _scale(factor: float, depth: int) -> float | None:
    """The factor, where it is a scale for depth."""
    if abs(factor - 1) < CLEAR:
        return None
    wanted = [(k * depth) ** power for k in (1, 2, 8) for power in (-0.5, -0.25)]
    return factor if any(abs(factor / w - 1) < TOLERANCE for w in wanted) else None


def _is_scale_of_logits(now: float, base: float, head: int | None) -> bool:
    """Whether a weight starts smaller by the scale of the logits, d_h^(-1/2) on queries or d_h^(-1/4) on queries and keys, as T5's queries do."""
    return bool(head and base) and any(abs(now / base * float(head or 1) ** power - 1) < TOLERANCE for power in (0.5, 0.25))


def _last_maps(facts: Facts, sublayer: Sublayer) -> frozenset[str]:
    """Weights on the branch's smallest product: the value path of attention, both maps of a feed-forward; all where degrees are not known."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown) or not analysis.degrees.orders.smallest_path:
        return frozenset(p.partition("[")[0] for p in sublayer.m.path)
    return frozenset(p.partition("[")[0] for p in analysis.degrees.orders.smallest_path)
