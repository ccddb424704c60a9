"""One structure under attack: its bounds once, then draws of weights and inputs, ascent, and every claim compared with what was measured."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.calculi.bounds import BranchBounds, bounds_of
from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.interpreter import Walk
from screen.structure.types import Unknown
from tests.soundness import draws
from tests.soundness.grammar import Design
from tests.soundness.measure import Attack, Values, fibre
from tests.soundness.nodewise import broken, tangents
from tests.soundness.points import cancelled, divisors, entries, half_diameters, largest_logit, rounding
from tests.soundness.quantities import value
from tests.soundness.record import Record, Sample
from tests.soundness.region import Region, regions
from tests.soundness.rowwise import broken_rules
from tests.soundness.sentences import attack_sentences

TOLERANCE = 1e-9
"""Allowed per op on the path: a violation is measured > bound · (1 + 1e-9 · ops)."""
CLAIMS = ("magnitude", "lipschitz", "lipschitz_local", "internal")


@dataclass(frozen=True)
class Target:
    """One branch with its claims."""

    region: Region
    bounds: BranchBounds
    walk: Walk
    claims: Mapping[str, Expr]
    given: frozenset[str]
    """Parameters that "over all weights" holds fixed."""


def targets(design: Design, record: Record) -> list[Target]:
    """Branches of a design with their bounds; what is unknown is counted."""
    found = []
    for region in regions(design):
        bounds, walk = bounds_of(region.branch), Walk(region.branch)
        claims: dict[str, Expr] = {}
        nodes = bounds.logit_nodes
        named = [(k, getattr(bounds, k)) for k in CLAIMS] + [(f"logits:{i}", u) for i, u in zip(nodes, bounds.logits, strict=True)]
        if bounds.bounded is True:
            named.append(("bounded", bounds.bound))
        if bounds.logits_bounded is True:
            named += [(f"bounded logits:{i}", u) for i, u in zip(nodes, bounds.logits, strict=True)]
        for kind, claim in named:
            if isinstance(claim, Unknown):
                record.unknown[f"{kind.partition(':')[0]}: {claim.reason}"] += 1
            else:
                record.known[kind.partition(":")[0]] += 1
                claims[kind] = claim
        record.known[f"bounded is {bounds.bounded if isinstance(bounds.bounded, bool) else 'unknown'}"] += 1
        found.append(Target(region, bounds, walk, claims, frozenset(g.partition("(")[2].rstrip(")") for g in bounds.given)))
    return found


def attack(design: Design, count: int, steps: int, seed: str) -> Record:
    """All draws of one structure."""
    record = Record()
    with sdpa_kernel(SDPBackend.MATH):
        attack_sentences(design, seed, record)
        aims = targets(design, record)
        for draw in range(count):
            if aims:
                _draw(design, aims[draw % len(aims)], steps, f"{seed}:{draw}", draw // len(aims), record)
    return record


def _draw(design: Design, target: Target, steps: int, seed: str, number: int, record: Record) -> None:
    rng = random.Random(seed)
    torch.manual_seed(rng.getrandbits(40))
    region = target.region
    weights = draws.weights(region.shapes(), rng)
    attack = Attack(region, weights, rng)
    shapes = region.branch.flow.graph.nodes
    leaves: Values = {i: draws.inputs(shapes[i].shape or (), rng) for i in region.leaves}
    record.trials += 1
    if not bool(torch.isfinite(attack.output(leaves)).all()):
        record.overflows += 1
        return
    aims = [a for a in ("magnitude", "lipschitz") if a in target.claims] or ["magnitude"]
    best = attack.climb(leaves, _objective(attack, aims[number % len(aims)]), steps)
    symbols = {q.symbol: value(q, {**weights, **region.named_buffers()}) for q in target.walk.names.quantities.values()}
    sample = Sample(design.line, seed, target.region.branch.output)
    for point in (leaves, best):
        if compare(target, attack, point, symbols, sample, record) and point is best:
            compare_nodes(target, attack, best, symbols, sample, record, rules=number % 5 == 0)


def _objective(attack: Attack, aim: str) -> Callable[[Values], Tensor]:
    """The logarithm of a magnitude, or of a Jacobian's norm at a token and a direction that follow the point."""
    if aim == "magnitude" or not attack.moving({i: torch.zeros(()) for i in attack.region.leaves}):
        return lambda leaves: torch.log(fibre(attack.output(leaves)) + 1e-300)
    shape = attack.region.branch.flow.graph.nodes[attack.region.branch.output].shape or (1, 1)
    token = attack.rng.randrange(math.prod(shape[:-1]))
    u = torch.randn(shape[-1], dtype=torch.float64)
    u = u / u.norm()
    return lambda leaves: torch.log(attack.pulled(leaves, token, u, keep=True)[0] + 1e-300)


def compare(target: Target, attack: Attack, point: Values, symbols: Mapping[str, float], sample: Sample, record: Record) -> bool:
    """Everything that is measured at a point, against every claim; False when the point is no sample."""
    with torch.no_grad():
        nodes = target.region.run(point, attack.weights, copies=True)
    out = nodes[target.region.branch.output]
    if not bool(torch.isfinite(out).all()):
        record.overflows += 1
        return False
    if max(rounding(target.region, nodes, point), cancelled(target.walk.spreads, nodes, point)) > TOLERANCE:
        record.rounded += 1
        return False
    values = _values(target, attack, point, symbols)
    tolerance = TOLERANCE * max(target.bounds.ops, 1)
    local = {**values, **divisors(target.region, target.bounds.norms, nodes, point), **half_diameters(target.bounds.spreads, nodes, point)}
    for kind, number, noise in measure(target, attack, point, nodes, out):
        claim = target.claims.get(kind)
        if claim is not None and math.isfinite(number):
            everywhere = kind.startswith("bounded")
            given = target.given.union(*(s.held for s in target.bounds.softmaxes)) if "logits" in kind else target.given
            bound = evaluate(claim, _all_weights(target, values, given) if everywhere else local if kind == "lipschitz_local" else values)
            if everywhere and bound == math.inf:  # a proof of boundedness without a finite bound
                record.violation(sample, kind.partition(":")[0], number, bound)
            record.compare(sample, kind.partition(":")[0], number, bound, tolerance, noise)
    return True


def evaluate(claim: Expr, values: Mapping[str, float]) -> float:
    """The number of a bound; infinite when it is larger than a float."""
    log = claim.log(values)
    return math.exp(log) * (1 + 1e-13) if log < 709 else math.inf


def _values(target: Target, attack: Attack, point: Values, symbols: Mapping[str, float]) -> dict[str, float]:
    """Numbers for all symbols; softmax sensitivities at their largest, divisors at their smallest."""
    found = {**symbols, **dict.fromkeys(target.walk.thetas, 1.0)}
    found.update({floor.symbol: floor.least or 1e-300 for floor in target.walk.floors})
    found |= {"B": attack.size(point), "B_memory": attack.size(point, "memory"), "B_earlier": attack.size(point, "earlier")}
    for spread in target.walk.spreads:
        found[spread.symbol] = evaluate(spread.coarse, found)
    return found


def _all_weights(target: Target, values: Mapping[str, float], given: frozenset[str]) -> dict[str, float]:
    """Free weights and inputs at infinity, the given ones as they are."""
    quantities = target.walk.names.quantities
    free = {s for s, q in quantities.items() if q.parameter not in given} | {"B", "B_memory", "B_earlier"}
    return {s: math.inf if s in free else v for s, v in values.items()}


def measure(target: Target, attack: Attack, point: Values, nodes: Mapping[int, Any], out: Tensor) -> list[tuple[str, float, float]]:
    """(kind, measured, rounding error to allow for)."""
    region = target.region
    size = float(fibre(out))
    found = [("magnitude", size, 0.0), ("bounded", size, 0.0), ("internal", entries(region, nodes), 0.0)]
    for kind in target.claims:
        if "logits:" in kind:
            found.append((kind, largest_logit(region, int(kind.partition(":")[2]), nodes, point), 0.0))
    if attack.moving(point) and "lipschitz_local" in target.claims:
        slope = attack.jacobian(point, attack.rng.randrange(out.numel() // out.shape[-1]))[0]
        found += [("lipschitz", slope, 0.0), ("lipschitz_local", slope, 0.0)]
        if "lipschitz" in target.claims and "B" not in target.claims["lipschitz"].symbols():
            secant, scale = attack.secant(point)
            found.append(("lipschitz", secant, 1e-11 * scale))
    return found


def compare_nodes(
    target: Target, attack: Attack, point: Values, symbols: Mapping[str, float], sample: Sample, record: Record, *, rules: bool
) -> None:
    """The facts of every node at one point, and of its derivative in one direction; with `rules` also every rule on measured inputs."""
    moving = attack.moving(point)
    step = {i: torch.randn_like(point[i]) for i in moving}
    step = {i: t / t.norm(dim=-1, keepdim=True).clamp(min=1e-300) for i, t in step.items()}
    found = tangents(target.region, point, attack.weights, step)
    if not all(bool(torch.isfinite(t).all()) for t in found[target.region.branch.output]):
        record.overflows += 1
        return
    values = _values(target, attack, point, symbols)
    tolerance = TOLERANCE * max(target.bounds.ops, 1)
    graph = target.region.branch.flow.graph
    record.checks["every node"] += len(found)
    for node, what, number, bound in broken(target.walk.table, found, values, tolerance):
        record.violation(sample, f"node {node} {graph.nodes[node].op}: {what}", number, bound)
        return
    if rules:
        found.update({i: (t, step.get(i, torch.zeros_like(t))) for i, t in point.items()})
        weights = {**attack.weights, **target.region.named_buffers()}
        record.checks["every rule"] += len(found)
        for node, what, number, bound in broken_rules(target.walk, found, values, weights, attack.rng, tolerance):
            record.violation(sample, f"rule of node {node} {graph.nodes[node].op}: {what}", number, bound)
            return
