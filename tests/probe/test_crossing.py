"""A stack without norms leaves float16 where the recursion says, and a stack that stays inside is not stacked for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from screen.capture.build.build import build
from screen.capture.trace.tracer import run
from screen.facts import derive
from screen.graph.target import parse
from screen.probe.measure.leaves import Material, Watch
from screen.probe.measure.replay import Tape
from screen.probe.measure.stack import Stack
from screen.probe.plan.from_facts import plan_of
from screen.probe.plan.types import Experiment
from screen.probe.precision.against_float64 import Precision
from screen.probe.precision.crossing import crossing, window
from screen.probe.precision.program import halved

MODEL = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        for map in (self.up, self.down):
            nn.init.normal_(map.weight, std=GAIN / map.weight.shape[1] ** 0.5)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""


def made(path: Path, gain: float, depth: int, dtype: torch.dtype = torch.float16) -> Precision:
    file = path / "model.py"
    file.write_text(MODEL.replace("GAIN", str(gain)).replace("DEPTH", str(depth)))
    with Watch() as watch:
        built = build(parse(f"{file}::Model"), set={}, inputs=(), depth=None)[0]
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    plan = plan_of(derive(trace.graph))
    stack = Stack(plan.blocks[0], Material(Tape(trace, torch.float64, "cpu"), built, watch, 0))
    with torch.no_grad():
        x, _ = stack.start(True)
        return Precision(stack, halved(trace, built, dtype, "cpu"), dtype, x, {s.name: s for s in plan.sublayers})


EMPTY = Experiment("precision", "", "observed")


def test_the_crossing_is_where_the_recursion_says(tmp_path: Path) -> None:
    stack = made(tmp_path, 2.0, 20)
    with torch.no_grad():
        (found,) = crossing(stack, EMPTY)
    assert found.outcome == "confirmed", found
    first, last = window(stack.stack.plan, "float16", 64) or (0, 0)
    assert 3 < first <= float(found.measured or 0) <= last <= 20
    # by hand: twice the weights of the same layers, in float16, block by block
    with torch.no_grad():
        state, layer = stack.x.half(), 0
        while bool(torch.isfinite(state).all()):
            layer += 1
            up, down = (v.half() for i, v in sorted(stack.stack.drawn(layer).items()) if stack.stack.material.tape.graph.nodes[i].op == "parameter")
            state = state + torch.relu(state @ up.T) @ down.T
    assert layer == found.measured


def test_what_stays_inside_is_not_stacked(tmp_path: Path) -> None:
    assert crossing(made(tmp_path, 2.0, 20, torch.bfloat16), EMPTY) == []
    assert crossing(made(tmp_path, 0.1, 20), EMPTY) == []


def test_a_crossing_elsewhere_is_not_confirmed(tmp_path: Path) -> None:
    stack = made(tmp_path, 2.0, 20)
    rms = stack.stack.plan.rms
    stack.stack.plan = replace(stack.stack.plan, rms=tuple(r * 20 for r in rms))
    with torch.no_grad():
        assert crossing(stack, EMPTY)[0].outcome == "observed"
        small = made(tmp_path, 0.1, 20)
        small.stack.plan = replace(small.stack.plan, rms=rms)
        assert crossing(small, EMPTY)[0].outcome == "refuted"
