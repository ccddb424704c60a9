"""What is added to all tokens alike makes them alike, whatever attention does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, STEPS = 32, 12


class Universal(nn.Module):
    """Post-norm blocks, in front of each a vector that all tokens get; one block for all steps, or one for each."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.steps = nn.Embedding(STEPS, WIDTH)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 2, 64, batch_first=True) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        for step in range(STEPS):
            x = self.blocks[step % len(self.blocks)](x + self.steps.weight[step])
        return x


@pytest.mark.by_the_day
@pytest.mark.parametrize(("blocks", "outcome"), [(STEPS, "conditional"), (1, "cannot_tell")])
def test_tokens_that_a_step_makes_alike_are_seen(blocks: int, outcome: str) -> None:
    """1 − cos is halved by each of twelve steps, where the gains of V and O alone would leave a tenth of it."""
    report = screen.check(Universal(blocks), example_inputs=torch.zeros(2, 9, WIDTH))
    [finding] = [f for f in report.findings if f.code == "D201"]
    assert finding.outcome == outcome
    assert finding.numbers["one_minus_cos"] < 2e-3
