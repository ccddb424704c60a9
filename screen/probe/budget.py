"""What is measured is cut to the budget before it runs, by counted work at the rates below: the same command gives the same experiments."""

from __future__ import annotations

import math
import os
from typing import Literal

import torch

from screen.graph import Graph, numel
from screen.probe.branch import BranchRun, entries
from screen.probe.material import Missing
from screen.probe.plan import SublayerPlan

RATES = {"cpu": 2e10, "cuda": 2e12}
"""Operations a second in float64 that are counted on, low on purpose: two cores of an ordinary CPU; a data-centre GPU."""
THREADS = 1
COPIES = 6
"""Of the weights of a branch in float64: as they are, scaled, their gradients, what a norm of one needs."""


def threads() -> int:
    """Threads of a measurement: a fixed number, so that sums are taken in one order."""
    return max(1, min(THREADS, os.cpu_count() or 1))


def device_of(wanted: Literal["auto", "cpu", "cuda"]) -> tuple[str, str]:
    """(torch's name, words for the report). Raises `UsageError` where CUDA is asked for and not there."""
    there = wanted != "cpu" and torch.cuda.is_available()
    if there:
        return "cuda", f"cuda: {torch.cuda.get_device_name(0)}"
    if wanted == "cuda":
        from screen.errors import UsageError

        raise UsageError("`--device cuda` needs a GPU that torch can use", "there is none", "Leave it out: everything is measured on the CPU then")
    return "cpu", f"cpu, {threads()} thread{'s' if threads() > 1 else ''}" + ("" if wanted == "cpu" else "; no GPU was found")


class Budget:
    """Counted seconds that are left, and memory."""

    def __init__(self, seconds: float, memory: int, device: str) -> None:
        self.left = seconds
        self.memory = memory
        self.device = device

    def room(self, plan: SublayerPlan, graph: Graph) -> None:
        """Raises `Missing` where the parameters that a branch can read do not fit."""
        self.fits(parameters_below(graph, plan.output, [i for i, _ in plan.cuts]))

    def fits(self, count: int) -> None:
        """Raises `Missing` where so many weights do not fit."""
        need = count * 8 * COPIES
        if self.memory and self.device == "cpu" and need > self.memory // 2:
            raise Missing(f"its {count:,} weights need {need / 2**30:.3g} GiB at true width, and `--memory` leaves {self.memory / 2**31:.3g} GiB")
        if self.device == "cuda" and need > torch.cuda.get_device_properties(0).total_memory // 2:
            raise Missing(f"its {count:,} weights need {need / 2**30:.3g} GiB at true width, more than half of the GPU's memory")

    def passes(self, run: BranchRun, count: float) -> float:
        """Operations of so many forward and backward passes of a branch: 6 for each weight and token."""
        weights = sum(entries(run.leaves[i]) for i in run.names.values())
        shape = run.material.tape.graph.nodes[run.plan.output].shape or (1,)
        return 6.0 * weights * math.prod(shape[:-1]) * count

    def norms(self, run: BranchRun) -> float:
        """Operations of the norms of its weights: a Gram matrix and its eigenvalues, 2·r·c·m + 10·m³ with m the smaller side."""
        total = 0.0
        for q in run.plan.quantities:
            rows, columns = (math.prod(n for n, r in zip(q.sizes, q.roles, strict=True) if r == role) for role in "rc")
            small = min(rows, columns)
            total += math.prod(q.sizes) / max(rows * columns, 1) * (2.0 * rows * columns * small + 10.0 * small**3 if small > 1 else rows * columns)
        return total

    def affords(self, work: float) -> bool:
        """Whether the work fits into what is left; it is taken off when it does."""
        seconds = work / RATES[self.device]
        if seconds > self.left:
            return False
        self.left -= seconds
        return True


def parameters_below(graph: Graph, target: int, cuts: list[int]) -> int:
    """Entries of the parameters that a node depends on, back to the cuts."""
    stop, seen, total = set(cuts), set[int](), 0
    stack = [target]
    while stack:
        index = stack.pop()
        if index in seen or index in stop:
            continue
        seen.add(index)
        node = graph.nodes[index]
        total += numel(node.shape) if node.op == "parameter" else 0
        stack.extend(node.inputs)
    return total


__all__ = ["COPIES", "RATES", "Budget", "device_of", "parameters_below", "threads"]
