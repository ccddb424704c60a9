"""One structure under attack: its bounds once, then draws of weights and inputs, ascent, and every claim compared with what was measured."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.facts.bounds import BranchBounds, bounds_of
from screen.facts.nouns import Unknown
from tests.soundness import draws
from tests.soundness.grammar import Design
from tests.soundness.measure import Attack, Values, fibre
from tests.soundness.quantities import value
from tests.soundness.region import Region, regions

TOLERANCE = 1e-9
"""Allowed per op on the path: a violation is measured > bound · (1 + 1e-9 · ops)."""


@dataclass
class Record:
    """What the attacks on one structure found; plain data, so that shards can be added up."""

    trials: int = 0
    overflows: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    """`kind: reason` → structures with a branch like that."""
    known: Counter[str] = field(default_factory=Counter)
    slack: dict[str, tuple[float, str]] = field(default_factory=dict)
    """kind → (smallest bound/measured, design)."""
    violations: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def add(self, other: Record) -> None:
        """Add another record to this one."""
        self.trials += other.trials
        self.overflows += other.overflows
        self.checks.update(other.checks)
        self.unknown.update(other.unknown)
        self.known.update(other.known)
        self.violations += other.violations
        self.errors += other.errors
        for kind, found in other.slack.items():
            self.slack[kind] = min(self.slack.get(kind, found), found)


@dataclass(frozen=True)
class Target:
    """One branch with its claims as functions of the symbols' values."""

    region: Region
    bounds: BranchBounds
    claims: Mapping[str, Callable[[Mapping[str, float]], float]]


def targets(design: Design, record: Record) -> list[Target]:
    """Branches of a design with their bounds; what is unknown is counted."""
    found = []
    for region in regions(design):
        bounds = bounds_of(region.branch)
        claims = {}
        for kind in ("magnitude", "lipschitz", "lipschitz_local", "internal", "bound"):
            claim = getattr(bounds, kind)
            if isinstance(claim, Unknown):
                record.unknown[f"{kind}: {claim.reason}"] += 1
            elif claim is not None:
                record.known[kind] += 1
                claims[kind] = claim.lambdify()
        found.append(Target(region, bounds, claims))
    return found


def attack(design: Design, count: int, steps: int, seed: str) -> Record:
    """All draws of one structure."""
    record = Record()
    with sdpa_kernel(SDPBackend.MATH):
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
    start = attack.output(leaves)
    if not bool(torch.isfinite(start).all()):
        record.overflows += 1
        return
    aim = ("magnitude", "lipschitz")[number % 2]
    best = attack.climb(leaves, _objective(attack, aim), steps)
    symbols = {q.symbol: value(q, weights) for q in target.bounds.quantities}
    for point in (leaves, best):
        compare(design, target, attack, point, symbols, seed, record)


def _objective(attack: Attack, aim: str) -> Callable[[Values], Tensor]:
    """The logarithm of a magnitude, or of a Jacobian's norm at a token and a direction that follow the point."""
    if aim == "magnitude" or not attack.moving({i: torch.zeros(()) for i in attack.region.leaves}):
        return lambda leaves: torch.log(fibre(attack.output(leaves)) + 1e-300)
    shape = attack.region.branch.flow.graph.nodes[attack.region.branch.output].shape or (1, 1)
    token = attack.rng.randrange(math.prod(shape[:-1]))
    u = torch.randn(shape[-1], dtype=torch.float64)
    u = u / u.norm()
    return lambda leaves: torch.log(attack.pulled(leaves, token, u, keep=True)[0] + 1e-300)


def compare(design: Design, target: Target, attack: Attack, point: Values, symbols: Mapping[str, float], seed: str, record: Record) -> None:
    """Everything that is measured at a point, against every claim."""
    measured = measure(target, attack, point)
    if measured is None:
        record.overflows += 1
        return
    values = {**symbols, "B": attack.size(point), "B_memory": attack.size(point, "memory"), "B_earlier": attack.size(point, "earlier")}
    for kind, number, noise in measured:
        claim = target.claims.get(kind)
        if claim is None:
            continue
        bound = claim(values)
        record.checks[kind] += 1
        if not number <= bound * (1 + TOLERANCE * max(target.bounds.ops, 1)) + noise:
            record.violations.append(
                {"design": design.line, "kind": kind, "measured": number, "bound": bound, "seed": seed, "output": target.region.branch.output}
            )
        if number > 0 and math.isfinite(bound):
            found = (bound / number, design.line)
            record.slack[kind] = min(record.slack.get(kind, found), found)


def measure(target: Target, attack: Attack, point: Values) -> list[tuple[str, float, float]] | None:
    """(kind, measured, rounding error to allow for); None when something overflows."""
    region = target.region
    with torch.no_grad():
        values = region.run(point, attack.weights)
    out = values[region.branch.output]
    if not bool(torch.isfinite(out).all()):
        return None
    size = float(fibre(out))
    found = [("magnitude", size, 0.0), ("bound", size, 0.0)]
    found.append(("internal", max(_entry(values[i]) for i in region.steps if i in region.branch.members), 0.0))
    if "lipschitz" in target.claims and attack.moving(point):
        tokens = out.numel() // out.shape[-1]
        slope = attack.jacobian(point, attack.rng.randrange(tokens))[0]
        if not math.isfinite(slope):
            return None
        found.append(("lipschitz", slope, 0.0))
        secant, scale = attack.secant(point)
        if math.isfinite(secant):
            found.append(("lipschitz", secant, 1e-11 * scale))
    return found


def _entry(value: Any) -> float:
    """Largest finite |entry| of a float value."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or not value.numel():
        return 0.0
    return float(value.abs().nan_to_num(posinf=0.0).amax())
