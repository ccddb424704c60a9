"""One training of the atlas: what is trained, on what, by which recipe. A cell determines its run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from screen.designs import Spec, resolve, row

VERSION = 1
"""Of the generator: a change that gives any cell another run raises it."""
STEPS, BATCH, TOKENS, VOCAB, HEADS = 100, 8, 16, 16, 4
"""Optimiser steps; sequences of a batch; tokens of a sequence; tokens of the vocabulary; attention heads."""
BETA1, CLIP, LAST = 0.9, 1.0, 0.1
"""Adam's first β; largest norm of a gradient; what the cosine ends at, as a share of the peak rate."""

Task = Literal["repeat", "chain"]
Precision = Literal["fp32", "bf16", "fp16"]
INITS: Mapping[str, Mapping[str, Any]] = {
    "fan_in": {"kind": "normal", "std_rule": "1/sqrt(fan_in)"},
    "normal": {"kind": "normal", "std": 0.02, "std_rule": None},
    "gpt2": {"kind": "normal", "std": 0.02, "std_rule": None, "depth_scaled": True},
    "xavier": {"kind": "xavier", "std_rule": None},
    "large": {"kind": "normal", "std_rule": "sqrt(10/d)"},
    "small": {"kind": "normal", "std_rule": "sqrt(1/(10d))"},
}
"""The initialisations that cells name, in the words of `screen.designs`: N(0, 1/fan_in), N(0, 0.02²), the same with output maps over √(2N), Xavier's,
and N(0, 10/d), N(0, 1/(10d)) for all matrices of width d. The embedding has 1/√d, and 0.02 under the second and third."""


@dataclass(frozen=True)
class Cell:
    """`lr` is the peak rate, `warmup` a share of the steps, `decay` decoupled and times the rate, `z_loss` the weight of log²Z of the head."""

    design: str
    depth: int
    width: int
    task: Task
    lr: float
    seed: int
    warmup: float = 0.1
    init: str = "fan_in"
    decay: float = 0.1
    eps: float = 1e-8
    beta2: float = 0.95
    z_loss: float = 0.0
    precision: Precision = "fp32"

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits, the same for equal cells of one version."""
        text = json.dumps([VERSION, *asdict(self).values()])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def stack(self) -> tuple[str, int, int, str, str]:
        """Cells that agree on this are trained at once."""
        return self.design, self.depth, self.width, self.task, self.precision

    @property
    def recipe(self) -> tuple[Any, ...]:
        """Everything but design, sizes, rate and seed."""
        return self.task, self.warmup, self.init, self.decay, self.eps, self.beta2, self.z_loss, self.precision

    @property
    def parameters(self) -> int:
        """About how many weights the blocks have: 12·d² each."""
        return 12 * self.width**2 * self.depth

    @property
    def work(self) -> int:
        """Counted work of its run: 6 multiply-adds for each weight of the blocks, token and step, in floating-point operations."""
        return 6 * self.parameters * BATCH * TOKENS * STEPS


def spec_of(cell: Cell) -> Spec:
    """The complete spec of a cell's model."""
    init = dict(INITS[cell.init])
    return resolve(row(cell.design, depth=cell.depth, width=cell.width, heads=HEADS, vocab=VOCAB, context=TOKENS, init=init))


def cell_of(data: Mapping[str, Any]) -> Cell:
    """The cell that a line of JSON holds, whatever else stands there."""
    return Cell(**{f.name: data[f.name] for f in fields(Cell) if f.name in data})


__all__ = [
    "BATCH", "BETA1", "CLIP", "Cell", "HEADS", "INITS", "LAST", "Precision", "STEPS", "TOKENS", "Task", "VERSION", "VOCAB", "cell_of", "spec_of",
]  # fmt: skip
