"""L202 of logits that are divided by the root of a number that is written as a tensor, and of one that data make."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

D = 16


class Block(nn.Module):
    """One head, whose logits are divided by a root."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm, self.maps, self.out = how, nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.maps(self.norm(x)).chunk(3, -1)
        if self.how == "number":
            root = torch.sqrt(torch.tensor(q.shape[-1]))
        elif self.how == "inverse":
            root = 1 / torch.rsqrt(torch.tensor(float(q.shape[-1])))
        else:
            root = torch.sqrt(x.abs().mean(-1, keepdim=True))
        out: Tensor = x + self.out((q @ k.mT / root).softmax(-1) @ v)
        return out


@pytest.mark.parametrize(("how", "outcomes"), [("number", {"holds"}), ("inverse", {"holds"}), ("data", {"conditional", "violated", "cannot_tell"})])
def test_a_root_of_a_number_divides_by_a_number(how: str, outcomes: set[str]) -> None:
    report = screen.check(nn.Sequential(nn.Linear(8, D), *(Block(how) for _ in range(3)), nn.LayerNorm(D)), example_inputs=torch.randn(2, 9, 8))
    assert {f.outcome for f in report.findings if f.code == "L202"} <= outcomes
