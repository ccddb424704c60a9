"""Residual vector quantization: what a codebook gives depends on the residual through an index alone."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen


class Codebook(nn.Module):
    """The nearest row of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        distance = x.pow(2).sum(-1, keepdim=True) - 2 * x @ self.rows.t() + self.rows.t().pow(2).sum(0, keepdim=True)
        return F.embedding(distance.min(-1).indices, self.rows)


class Quantizer(nn.Module):
    """Each codebook takes from what the ones before left, and their rows add up."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.books = nn.Linear(16, 32), nn.ModuleList(Codebook() for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        left, out = self.map(x), torch.zeros(())
        for book in self.books:
            row = book(left)
            left, out = left - row, out + row
        return out


def test_rows_of_codebooks_depend_on_what_is_left() -> None:
    report = screen.check(Quantizer(), example_inputs=torch.randn(2, 8, 16))
    assert all(s.depends_on_stream == "yes" for stream in report.streams for kind in stream.kinds for s in kind.sublayers)
    assert not [f for f in report.findings if f.code == "G106" and f.outcome == "violated"]
