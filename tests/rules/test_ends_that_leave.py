"""Streams that leave the model behind a function entry by entry, an average, or a write of their last sum: no head is there to see their growth."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, end: str) -> None:
        super().__init__()
        self.end, self.embed, self.blocks, self.head = end, nn.Embedding(20, WIDTH), nn.ModuleList(Block() for _ in range(4)), nn.Linear(WIDTH, 4)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        if self.end == "written":
            chosen = torch.tensor([[True, True, False, True, False]] * 2)
            for block in self.blocks:
                x[chosen] += block(x[chosen])
            return x
        for block in self.blocks:
            x = x + block(x)
        if self.end == "relu":
            return torch.relu(x)
        if self.end == "average":
            return torch.nn.functional.adaptive_avg_pool1d(x.mT, 1)
        return self.head(torch.relu(x))


@pytest.mark.parametrize(("end", "outcome"), [("relu", "conditional"), ("average", "conditional"), ("written", "conditional"), ("head", "violated")])
def test_a_stream_that_leaves_the_model_has_no_head_there(end: str, outcome: str) -> None:
    report = screen.check(Model(end), example_inputs=torch.zeros(2, 5, dtype=torch.long), spot_check=False)
    assert {f.outcome for f in report.findings if f.code == "G103"} == {outcome}
