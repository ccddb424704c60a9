"""A branch whose value is added in two pieces, each with a factor that is made of that value: one branch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH, BLOCKS = 32, 4


class Pieces(nn.Module):
    """What changes along the tokens, and their mean, are added one after the other, each times a map of the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.fine, self.coarse = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        made = self.down(torch.relu(self.up(self.norm(x))))
        level = made.mean(1, keepdim=True)
        x = x + torch.sigmoid(self.fine(level)) * (made - level)
        out: Tensor = x + (level - x.mean(1, keepdim=True)) * self.coarse(level)
        return out


class ReadAgain(nn.Module):
    """The factor of the second sum is made of the stream: a branch of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.other = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        made = self.down(torch.relu(self.up(self.norm(x))))
        x = x + made
        out: Tensor = x + torch.tanh(self.other(self.norm(x))) * made
        return out


def report_of(block: type[nn.Module]) -> Report:
    torch.manual_seed(0)
    return screen.check(nn.Sequential(*(block() for _ in range(BLOCKS)), nn.LayerNorm(WIDTH)), example_inputs=torch.randn(2, 9, WIDTH))


def test_pieces_of_one_value_are_one_branch() -> None:
    (stream,) = report_of(Pieces).streams
    assert (stream.depth, stream.branches, stream.final_norm) == (BLOCKS, BLOCKS, True)


def test_a_factor_that_reads_the_stream_is_another_branch() -> None:
    (stream,) = report_of(ReadAgain).streams
    assert (stream.depth, stream.branches) == (BLOCKS, 2 * BLOCKS)
