"""What is measured is cut to the budget before it runs, by counted work at the rates below: the same command gives the same experiments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from screen.graph import SOURCES, Graph, Node, numel
from screen.ops import CLASSES
from screen.probe.bounds.weight_norms import STARTS, is_exact, steps, symbols
from screen.probe.budget.allocation import Key, Want, allotted
from screen.probe.budget.narrower import TOO_LARGE
from screen.probe.measure.leaves import Missing
from screen.probe.plan.types import BoundPlan, ProbePlan, QuantityPlan, SublayerPlan

RATES = {"cpu": 2e10, "cuda": 2e12}
"""Operations a second in float64 that are counted on, low on purpose: two cores of an ordinary CPU; a data-centre GPU."""
FASTER = {torch.float64: 1.0, torch.float32: 2.0}
"""Times these rates."""
THREADS = 1
"""One, on every machine: sums are taken in one order."""
COPIES, ATTACK = 4, 12
"""Of the weights of a branch, at the peak: as they are, moved, and on the way there (measured: 3.6); with their gradients, steps and the best so far,
where weights are climbed (measured: 10.1)."""
VALUES = 2
"""Of the values of a pass: as they are, and their gradients."""
FUSED = "scaled_dot_product_attention"
_VIEWS = frozenset({"view", "part", "alias"})
RESERVE = 2 << 30
"""Bytes of `--memory` that Python, torch and the user's libraries take before anything is measured."""
PART = 0.9
"""Of a GPU's memory that is counted on."""
SWEEP = 84.0
"""Operations for each weight and token of the experiment that a type must leave time for: 14 passes, one weight group."""
CALL = 4e-5
"""Seconds of a recorded call forward and backward, whatever its size."""
ENTRY = 30.0
"""Operations of an entry of a value forward and backward, which wait for memory: 1.5 ns on a CPU."""
GIVEN = 0.87
"""Of the budget that experiments get; the rest is for imports, and for building and tracing the model twice."""
BUILT = 1e-3
"""Seconds for each node of a program that is built and traced on meta."""
TYPES = {"float64": torch.float64, "float32": torch.float32}


def device_of(wanted: Literal["auto", "cpu", "cuda"]) -> tuple[str, str]:
    """(torch's name, words for the report). Raises `UsageError` where CUDA is asked for and not there."""
    there = wanted != "cpu" and torch.cuda.is_available()
    if there:
        return "cuda", f"cuda: {torch.cuda.get_device_name(0)}"
    if wanted == "cuda":
        from screen.errors import UsageError

        raise UsageError("`--device cuda` needs a GPU that torch can use", "there is none", "Leave it out: everything is measured on the CPU then")
    return "cpu", f"cpu, {THREADS} thread" + ("" if wanted == "cpu" else "; no GPU was found")


def room_of(memory: int, device: str) -> float:
    """Bytes for weights and what is made of them."""
    if device == "cuda":
        return PART * torch.cuda.get_device_properties(0).total_memory
    return float(max(memory - RESERVE, memory // 4)) if memory else math.inf


def dtype_of(wanted: str, plan: ProbePlan, graph: Graph, room: float, operations: float) -> torch.dtype:
    """The type of the measurement. `auto`: float64 where the largest branch fits into `room` in it, and the exponents of all weight groups into half
    of the `operations` of the budget; else float32."""
    if wanted in TYPES:
        return TYPES[wanted]
    weights = {s.output: below(graph, s) for s in plan.sublayers}
    largest = max(weights.values(), default=0)
    work = sum(SWEEP * weights[s.output] * tokens(graph, s.output) * len(s.degrees) for s in plan.sublayers)
    return torch.float64 if largest * 8 * ATTACK <= room and work <= operations / 2 else torch.float32


@dataclass(frozen=True)
class Load:
    """What a value depends on, back to some cuts."""

    weights: int
    """Entries of parameters."""
    calls: int
    tokens: int
    made: int = 0
    """Entries of the values that are made on the way, views left out."""
    values: float = 0.0
    """Operations of a forward and backward pass that belong to no weight: `ENTRY` for an entry of a value, 6 for each term of a product of values."""


class Budget:
    """Counted seconds, what they are given to, memory, and the type of the numbers."""

    def __init__(self, seconds: float, memory: int, device: str, dtype: torch.dtype = torch.float64) -> None:
        self.seconds = seconds
        self.device = device
        self.dtype = dtype
        self.space = room_of(memory, device)
        self.chosen: dict[Key, tuple[int, float]] | None = None
        """What is made, in which form, and its seconds; None before it is decided, when everything is."""
        self.spent = 0.0

    @property
    def rate(self) -> float:
        """Operations a second."""
        return RATES[self.device] * FASTER[self.dtype]

    def decide(self, wants: Iterable[Want]) -> None:
        """What is made."""
        self.chosen = allotted(wants, GIVEN * self.seconds)

    def form(self, key: Key) -> int | None:
        """In which form something is made; None where it is not."""
        return 0 if self.chosen is None else self.chosen[key][0] if key in self.chosen else None

    def begin(self, key: Key) -> float:
        """Count something as spent; the share of the budget that was before."""
        before = self.spent / self.seconds
        self.spent += self.chosen[key][1] if self.chosen is not None and key in self.chosen else 0.0
        return min(before, 1.0)

    def room(self, plan: SublayerPlan, graph: Graph, copies: int = COPIES) -> None:
        """Raises `Missing` where the parameters that a branch can read, or its values, do not fit."""
        self.fits(load_of(graph, [plan.output], [i for i, _ in plan.cuts]), copies)

    def fits(self, load: Load, copies: int = COPIES) -> None:
        """Raises `Missing` where what is read and made does not fit."""
        weights, values = f"{load.weights:,} weights", f"{load.made:,} values"
        need = {weights: bytes_of(load.weights, self.dtype, copies), values: bytes_of(load.made, self.dtype, VALUES)}
        if sum(need.values()) > self.space:
            what = max(need, key=lambda w: need[w])
            where = "`--memory` leaves" if self.device == "cpu" else "the GPU leaves"
            raise Missing(f"{TOO_LARGE}: {what} need {need[what] / 2**30:.3g} GiB at true width, and {where} {self.space / 2**30:.3g} GiB")

    def passes(self, load: Load, count: float) -> float:
        """Seconds of so many forward and backward passes: 6 operations for each weight and token, those of values, and `CALL` for each call."""
        return count * ((6.0 * load.weights * load.tokens + load.values) / self.rate + CALL * load.calls)


def bytes_of(count: int, dtype: torch.dtype, copies: int = COPIES) -> int:
    """Memory of an experiment on so many weights."""
    return count * dtype.itemsize * copies


def norms_work(quantities: Iterable[QuantityPlan], bounds: Iterable[BoundPlan]) -> float:
    """Operations of the norms that some bounds hold."""
    wanted = {s for b in bounds for s in symbols(b.program)}
    return sum(norm_work(q) for q in quantities if q.symbol in wanted)


def norm_work(q: QuantityPlan) -> float:
    """Operations of one norm of weights: with m the smaller side a Gram matrix and its eigenvalues, 2·r·c·m + 10·m³; beyond the size up to which
    that is done two products of `STARTS` vectors a step, whose operations wait for memory and are counted thrice."""
    rows, columns = (math.prod(n for n, r in zip(q.sizes, q.roles, strict=True) if r == role) for role in "rc")
    small, matrices = min(rows, columns), math.prod(q.sizes) / max(rows * columns, 1)
    if small <= 1:
        return matrices * rows * columns
    if is_exact(q):
        return matrices * (2.0 * rows * columns * small + 10.0 * small**3)
    return matrices * steps(small) * 4.0 * STARTS * 3.0 * rows * columns


def tokens(graph: Graph, node: int) -> int:
    """Tokens of a value."""
    return math.prod((graph.nodes[node].shape or (1,))[:-1])


def below(graph: Graph, plan: SublayerPlan) -> int:
    """Entries of the parameters of a branch."""
    return load_of(graph, [plan.output], [i for i, _ in plan.cuts]).weights


def load_of(graph: Graph, targets: list[int], cuts: Iterable[int]) -> Load:
    """What some nodes depend on, back to the cuts, with the tokens of the first of them."""
    stop, seen, weights, calls, made, values = set(cuts), set[int](), 0, 0, 0, 0.0
    stack = list(targets)
    while stack:
        index = stack.pop()
        if index in seen or index in stop:
            continue
        seen.add(index)
        node = graph.nodes[index]
        weights += numel(node.shape) if node.op == "parameter" else 0
        if node.op not in SOURCES:
            calls, values = calls + 1, values + _values(graph, node)
            made += _made(graph, node)
        stack.extend(node.inputs)
    return Load(weights, calls, tokens(graph, targets[0]), made, values)


def seconds_of(load: Load) -> float:
    """Of one forward pass in float64 on the CPU."""
    return (2.0 * load.weights * load.tokens + load.values) / RATES["cpu"] + CALL * load.calls


def _made(graph: Graph, node: Node) -> int:
    """Entries that one call makes; of a fused attention its logits, their softmax, and the gradient of both besides."""
    if CLASSES.get(node.op) in _VIEWS:
        return 0
    query, key = (graph.nodes[i].shape or () for i in (node.inputs * 2)[:2]) if node.op == FUSED else ((), ())
    return numel(node.shape or ()) + (4 * numel(query[:-1]) * key[-2] if len(query) > 1 and len(key) > 1 else 0)


def _values(graph: Graph, node: Node) -> float:
    """Operations of one call, forward and backward, beside those of its weights."""
    shapes = [s for i in node.inputs if len(s := graph.nodes[i].shape or ()) > 2]
    if node.op == FUSED and len(shapes) > 1:
        return 12.0 * numel(shapes[0]) * shapes[1][-2]
    products = 6.0 * shapes[0][-1] if node.op in ("matmul", "bmm", "baddbmm") and len(shapes) > 1 else 0.0
    return (ENTRY + products) * numel(node.shape or ())


__all__ = [
    "ATTACK", "BUILT", "CALL", "COPIES", "RATES", "THREADS", "Budget", "Load", "bytes_of", "device_of", "dtype_of", "load_of", "norm_work",
    "room_of", "seconds_of",
]  # fmt: skip
