"""A learned table that every block adds to the stream once more before its branches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH = 24


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.one, self.two = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        x = x + table
        return x + self.two(F.gelu(self.one(self.norm(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows, self.columns = nn.Parameter(torch.randn(8, WIDTH)), nn.Parameter(torch.randn(8, WIDTH))
        self.first, self.blocks, self.last = nn.Linear(6, WIDTH), nn.ModuleList(Block() for _ in range(4)), nn.LayerNorm(WIDTH)

    def table(self, x: Tensor) -> Tensor:
        table = self.rows[: x.shape[1]][None, :, None].repeat(x.shape[0], 1, x.shape[2], 1)
        table = table + self.columns[: x.shape[2]][None, None].repeat(x.shape[0], x.shape[1], 1, 1)
        table = table.flatten(1, 2)
        length = torch.linalg.vector_norm(table, dim=-1, keepdim=True, dtype=torch.float32)
        length = torch.add(1e-6, length, alpha=(length.numel() / table.numel()) ** 0.5)
        out: Tensor = table / length
        return out

    def forward(self, x: Tensor) -> Tensor:
        table, x = self.table(x), self.first(x).flatten(1, 2)
        for block in self.blocks:
            x = block(x, table)
        out: Tensor = self.last(x)
        return out


def test_the_gain_is_that_of_what_comes_in() -> None:
    (stream,) = screen.check(Net(), example_inputs=torch.zeros(2, 4, 5, 6)).streams
    assert stream.depth == 4 and stream.identity_path.gain == "1"
