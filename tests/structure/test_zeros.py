"""Weights that no gradient ever reaches: what is predicted from zeros at the start, against steps of gradient descent in float64."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.graph import Graph
from screen.graph.target import parse
from screen.rule import PRELUDE, STACK
from screen.structure.initial.zeros import Zeros

pytestmark = pytest.mark.by_the_day

PARTS = ("gate", "down.weight", "down.bias", "up.weight", "up.bias", "norm.weight")
BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.gate = nn.Parameter(torch.ones(1))
        for name, p in self.named_parameters():
            if name in ZERO:
                nn.init.zeros_(p)

    def forward(self, x):
        return x + BRANCH
"""
BRANCHES = {
    "gated": "self.gate * self.down(F.gelu(self.up(self.norm(x))))",
    "gated with a skip inside": "self.gate * (x + self.down(torch.tanh(self.up(self.norm(x)))))",
    "gated by 1 + w": "(1 + self.gate) * self.down(F.relu(self.up(self.norm(x)) + 0.1))",
    "gated by a sigmoid": "torch.sigmoid(self.gate) * self.down(F.silu(self.up(self.norm(x))))",
    "softplus inside": "self.gate * self.down(F.softplus(self.up(self.norm(x))))",
}


def _graph(path: Path) -> Graph:
    [built] = build(parse(f"{path}::Model"), set={}, inputs=("x=float32[2,16,32]",), depth=None)
    return trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)


def _idle(source: str) -> set[str]:
    """Names of the parameters that start at 0 and are 0 after eight steps."""
    namespace: dict[str, type[torch.nn.Module]] = {}
    exec(source, namespace)
    torch.manual_seed(0)
    model = namespace["Model"]().double()
    x, wanted = torch.randn(4, 8, 32, dtype=torch.float64), torch.randn(4, 8, 32, dtype=torch.float64)
    zero = {name for name, p in model.named_parameters() if not p.any()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        optimizer.zero_grad()
        (model(x) - wanted).square().mean().backward()
        optimizer.step()
    return {name for name, p in model.named_parameters() if name in zero and not p.any()}


@pytest.mark.parametrize("branch", list(BRANCHES))
def test_what_is_called_dead_never_moves_and_what_never_moves_is_found(branch: str, tmp_path: Path) -> None:
    for number, zero in enumerate(z for n in range(len(PARTS) + 1) for z in itertools.combinations(PARTS, n)):
        source = PRELUDE + BLOCK.replace("ZERO", repr(zero)).replace("BRANCH", BRANCHES[branch]) + STACK.replace("range(4)", "range(2)")
        path = tmp_path / f"zeros{number}.py"
        path.write_text(source, encoding="utf-8")
        graph = _graph(path)
        zeros, idle = Zeros(graph), _idle(source)
        dead = {graph.nodes[p].name for n in zeros.dead for i in graph.nodes[n].inputs[:2] for p in zeros.culprits(i)}
        assert dead <= idle, (zero, dead - idle)
        assert bool(dead) == bool(idle), (zero, idle)
