"""Parts that hold nothing for these inputs: no test rows behind the training rows, no prompt in front of the words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH = 24


class Rows(nn.Module):
    """Rows behind the `first` ones read the first ones; all rows read them by the same attention (TabPFN)."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first
        self.words, self.norm = nn.Linear(5, WIDTH), nn.LayerNorm(WIDTH)
        self.attentions = nn.ModuleList(nn.MultiheadAttention(WIDTH, 2, batch_first=True) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.words(x)
        for attention in self.attentions:
            known, rest = x[:, : self.first], x[:, self.first :]
            read = torch.cat([attention(known, known, known)[0], attention(rest, known, known)[0]], 1)
            x = self.norm(x + read)
        return x


def report(first: int) -> Report:
    return screen.check(Rows(first), example_inputs=torch.randn(2, 8, 5))


def test_an_empty_part_is_no_fault() -> None:
    """With no row left a view of none was divided by none: a fault of `screen`, told as such."""
    said = report(8)
    assert "a fault of `screen`" not in said.model_dump_json()
    [found] = [f for f in said.findings if f.code == "D201"]
    assert found.outcome == next(f for f in report(5).findings if f.code == "D201").outcome == "conditional", found.message


