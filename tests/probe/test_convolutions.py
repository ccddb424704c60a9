"""Branches of convolutions over tokens: features stand before the tokens there."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from screen.probe.run import experiments
from tests.probe.common import CPU, living

WIDTH = 16


class Block(nn.Module):
    """The convolution module of Conformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inward, self.deep = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.batch, self.outward = nn.BatchNorm1d(WIDTH), nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.glu(self.inward(self.norm(x).transpose(1, 2)), 1)
        return x + self.outward(nn.functional.silu(self.batch(self.deep(y)))).transpose(1, 2)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(3)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def test_halves_of_a_convolution_and_a_batch_norm() -> None:
    torch.manual_seed(0)
    built, plan, watch = living(Model(), torch.zeros(2, 11, WIDTH))
    [branch] = plan.sublayers
    assert [d.rows for d in branch.degrees if "inward" in d.group] == [f"0:{WIDTH}", f"{WIDTH}:{2 * WIDTH}"]
    found = [e for e in experiments(plan, built, watch, CPU) if e.get("name") == "invariance" and e["status"] == "exact"]
    assert [e["outcome"] for e in found] == ["confirmed"] * len(found) and {e["predicted"] for e in found} == {0.0, 1.0}
