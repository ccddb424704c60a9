"""Live modules that are another program from the second run on: what the first one says is told, and that no spot check was made."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen


class Rescaled(nn.Module):
    """Weights are halved by the first forward outside of training, and doubled by the first one in it, as in RWKV."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.scaled = nn.Embedding(20, 16), False
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(3))

    def forward(self, ids: Tensor) -> Tensor:
        if self.training == self.scaled:
            with torch.no_grad():
                for block in self.blocks:
                    block[3].weight.mul_(2) if self.training else block[3].weight.div_(2)
            self.scaled = not self.training
        x = self.words(ids)
        for block in self.blocks:
            x = x + block(x)
        return x


def test_a_live_module_that_changes_at_its_first_run_has_a_report() -> None:
    stream, = screen.check(Rescaled().eval(), example_inputs=torch.zeros(2, 6, dtype=torch.long)).streams
    assert stream.depth == 3 and {s.placement for k in stream.kinds for s in k.sublayers} == {"pre"}
