"""One block in a 16-bit type beside its float64 run: what is not finite in it, and whether bounds exclude that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from screen.graph import SOURCES
from screen.probe.bounds.arrays import Arrays
from screen.probe.bounds.weight_norms import evaluate, quantity, symbols
from screen.probe.measure.replay import Env
from screen.probe.measure.stack import Stack
from screen.probe.plan.types import BoundPlan, SublayerPlan
from screen.probe.precision.program import CASTS, SATURATING, Half, name_of
from screen.theorems.precision import format_of, possibly_lost

MASK = 1e30
"""An entry of the float64 run beyond this was masked out."""
PLAIN = CASTS | SATURATING | {
    "add", "sub", "alias", "clone", "contiguous", "detach", "dropout", "expand", "flatten", "getitem", "permute", "reshape", "squeeze", "t",
    "transpose", "unflatten", "unsqueeze", "view",
}  # fmt: skip
"""Calls on the stream between branches whose entries are no larger than what they read, or than its sum."""
FUSED = frozenset({"layer_norm", "rms_norm"})
"""Norms whose squares are summed in float32 inside of one call."""


@dataclass(frozen=True)
class Bad:
    """Entries that are finite in float64 alone."""

    count: int
    first: int | None
    """The first node, of the half program, that has one."""
    largest: float
    """The largest finite entry of any value."""
    values: int
    """Entries that were looked at."""
    underflow: bool
    """What the first one reads holds a 0 that is none in float64."""


@dataclass
class Precision:
    """A block in one type, beside its float64 run."""

    stack: Stack
    half: Half
    dtype: torch.dtype
    """The 16-bit type."""
    x: Tensor
    sublayers: Mapping[str, SublayerPlan]

    def __post_init__(self) -> None:
        plan, of, tape = self.stack.plan, self.half.of, self.half.tape
        self.leaves = self.stack.drawn(0)
        self.true = {**self.exact(self.x), plan.entry: self.x}
        self.exit, self.entry = self.half.end(plan.exit), of[plan.entry]
        wanted = [self.exit, *(of[o] for o in plan.outputs), *(of[a] for a in plan.adds)]
        self.calls, leaves, met = tape.steps(wanted, [self.entry, *(of[c] for c in plan.cuts)])
        tape.watched = frozenset(of[a] for a in plan.adds)
        self.given = self.half.given([j for j in (*leaves, *met) if j != self.entry], self.true, self.calls)
        self.stream = tape.dtype_of(self.entry) or self.dtype
        self.masks = {i: ~(torch.isfinite(v) & (v.abs() < MASK)) for i, v in self.true.items() if is_float(v)}
        self.weights: dict[str, float] = {}

    @property
    def name(self) -> str:
        """Of the type."""
        return name_of(self.dtype)

    def exact(self, x: Tensor) -> Env:
        """The block in float64."""
        return self.stack.run(x, self.leaves)

    def run(self, k: int, x: Tensor | None = None) -> Env:
        """The block in the type, the stream times 2^k."""
        stream = (self.x * 2.0**k).to(self.stream) if x is None else x
        self.half.tape.seen = {}
        env = self.half.tape.run(self.calls, {**self.given, self.entry: stream})
        env[self.entry] = stream
        return env

    def layer(self, x: Tensor, layer: int) -> Env:
        """The block of another layer in the type."""
        values = {**self.true, **self.stack.drawn(layer)}
        read = [j for j in self.given if self.half.tape.graph.nodes[j].op in SOURCES]
        env = self.half.tape.run(self.calls, {**self.given, **self.half.given(read, values, self.calls), self.entry: x})
        env[self.entry] = x
        return env

    def bad(self, env: Env) -> Bad:
        """Non-finite entries of one run."""
        count, first, largest, values = 0, None, 0.0, 0
        for j in (self.entry, *self.calls):
            value, source = env[j], self.half.source(j)
            if not is_float(value) or source not in self.masks:
                continue
            mask = self.masks[source]
            finite = torch.isfinite(value)
            wrong = int((~finite & ~mask).sum()) if mask.shape == value.shape else int((~finite).sum())
            values += value.numel()
            kept = value[finite & ~mask] if mask.shape == value.shape else value[finite]
            largest = max(largest, float(kept.abs().amax()) if kept.numel() else 0.0)
            if wrong:
                count, first = count + wrong, j if first is None else first
        return Bad(count, first, largest, values, first is not None and self._underflow(first, env))

    def _underflow(self, node: int, env: Env) -> bool:
        """Whether a call reads a 0 that is none in float64."""
        for j in self.half.tape.graph.nodes[node].inputs:
            value, source = env.get(j), self.half.source(j)
            true = self.true.get(source) if source is not None else None
            if not isinstance(value, Tensor) or not isinstance(true, Tensor) or value.shape != true.shape:
                continue
            if bool(((value == 0) & (true != 0)).any()):
                return True
        return False

    def where(self, node: int) -> str:
        """A node in words."""
        graph = self.half.tape.graph
        here = graph.nodes[node]
        path = graph.modules[graph.calls[here.call].module].path
        return f"`{here.op}`" + (f" in `{path}`" if path else "")

    def safe(self, env: Env) -> str:
        """Empty where bounds exclude that a value of this run leaves the type, from the sizes that arrive at each branch; else why they do not.

        A size that is not finite arrives only at a branch behind others: if the bounds of those held, they excluded it.
        """
        plan, limit = self.stack.plan, format_of(self.name).largest
        margin = (1 + possibly_lost(self.name)) ** (2 * len(self.calls))
        wide = format_of("float32").largest
        for place, name in enumerate(plan.names):
            sub = self.sublayers.get(name)
            bounds = _bounds(sub)
            if sub is None or isinstance(bounds, str):
                return f"no bound is known of {bounds} of `{name}`"
            at = self._symbols(sub, env)
            if lacking := {s for b in bounds for s in symbols(b.program)} - set(at):
                return f"what `{min(lacking)}` in the bounds of `{name}` stands for is not measured"
            found = {b.name: evaluate(b.program, at) * margin for b in bounds if b.name != "logits"}
            arriving = max(at["B"], at["B_memory"], at["B_earlier"]) * margin
            if place and not all(math.isfinite(at[b]) for b in ("B", "B_memory", "B_earlier")):
                break
            inner = max([*found.values(), *(evaluate(b.program, at) * margin for b in bounds if b.name == "logits")])
            squares = max([arriving + found["magnitude"], *(inner * n.size**0.5 for n in sub.norms if n.fused)]) ** 2
            if not (inner <= limit and arriving + found["magnitude"] <= limit and squares <= wide):
                return "the bounds lie beyond the type's largest number"
        return self._beside_branches()

    def _beside_branches(self) -> str:
        """Why nothing is known of the calls of the block that belong to no branch; empty where they are plain."""
        plan, of, tape = self.stack.plan, self.half.of, self.half.tape
        inside: set[int] = set()
        for name, output in zip(plan.names, plan.outputs, strict=True):
            inside |= set(tape.steps([of[output]], [of[i] for i, _ in self.sublayers[name].cuts if i in of])[0])
        odd = [j for j in self.calls if j not in inside and tape.graph.nodes[j].op not in PLAIN | FUSED]
        return f"no bound is known of {self.where(odd[0])} on the stream" if odd else ""

    def _symbols(self, sub: SublayerPlan, env: Env) -> dict[str, float]:
        """Numbers of what the bounds of a branch are made of: its weights, with their rounding, and what arrives at it in this run."""
        bounds = _bounds(sub)
        wanted = {s for b in bounds if isinstance(b, BoundPlan) for s in symbols(b.program)}
        labels = {self.stack.material.tape.nodes[i].meta.get("label"): v for i, v in self.true.items()}
        found: dict[str, float] = {}
        for q in sub.quantities:
            weights = {p: w for p in q.part.parameters if isinstance(w := labels.get(p), Tensor)}
            if q.symbol in wanted and len(weights) == len(q.part.parameters):
                key = f"{sub.name} {q.symbol}"
                if key not in self.weights:
                    self.weights[key] = quantity(q, Arrays(weights)) * (1 + possibly_lost(self.name))
                found[q.symbol] = self.weights[key]
        sizes = {"own": 0.0, "memory": 0.0, "earlier": 0.0}
        for i, kind in sub.cuts:
            value = env.get(self.half.of[i])
            if isinstance(value, Tensor) and value.is_floating_point():
                size = token(value)
                sizes[kind] = max(sizes[kind], size) if size == size else size
        sigmas = {n.symbol: n.least or 1e-300 for n in sub.norms}
        return {**found, **sigmas, "B": sizes["own"], "B_memory": sizes["memory"], "B_table": sizes["memory"], "B_earlier": sizes["earlier"]}


def _bounds(sub: SublayerPlan | None) -> list[BoundPlan] | str:
    """The bounds of every value of a branch, or what has none."""
    bounds = () if sub is None else sub.plain
    known = {b.node for b in bounds if b.name == "logits"}
    if sub is None or not any(b.name == "internal" for b in bounds):
        return "every value inside"
    if any(node not in known for node in sub.softmaxes):
        return "the logits"
    if not any(b.name == "magnitude" for b in bounds):
        return "the output"
    return [b for b in bounds if b.name in ("internal", "magnitude", "logits")]


def token(value: Tensor) -> float:
    """The largest 2-norm of a token, in float64."""
    return float(torch.linalg.vector_norm(value.double(), dim=-1).amax()) if value.dim() else float(value.abs())


def is_float(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


__all__ = ["Bad", "Precision", "is_float", "token"]
