"""A last sum that a norm reads, and that goes on beside it without one: the norm is that of the branch which reads it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema_streams import StreamPart

WIDTH = 32


class Block(nn.Module):
    """A pre-norm feed-forward and a mixer of tokens, then a filter with a stride behind a norm, added to the mean of two tokens; or in front of the
    norm alone."""

    def __init__(self, skip: bool) -> None:
        super().__init__()
        self.skip, self.norms = skip, nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.up, self.down, self.mix = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.filter = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.down(torch.relu(self.up(self.norms[0](x))))
        x = x + self.mix(self.norms[1](x).mT).mT
        filtered = self.filter(self.norms[2](x).mT).mT
        return x.unfold(1, 2, 2).mean(-1) + filtered if self.skip else filtered


class Model(nn.Module):
    def __init__(self, skip: bool) -> None:
        super().__init__()
        self.embed, self.blocks, self.head = nn.Linear(8, WIDTH), nn.ModuleList([Block(skip), Block(skip)]), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(x)
        return out


def first(skip: bool) -> StreamPart:
    return screen.check(Model(skip), example_inputs=torch.randn(2, 16, 8), spot_check=False).streams[0]


@pytest.mark.parametrize("skip", [True, False])
def test_the_norm_of_a_branch_beside_a_skip_of_means_is_none_of_the_stream(skip: bool) -> None:
    stream = first(skip)
    placements = [s.placement for k in stream.kinds for s in k.sublayers for _ in range(k.count)]
    assert placements[0] == "pre"
    if skip:
        assert set(placements) == {"pre"} and stream.final_norm is False
    else:
        assert "pre_post" in placements or stream.final_norm is True


class Looked(nn.Module):
    """Two streams in turns: the second one reads the first as it is, or behind a norm of its own, also behind the last block; the first leaves by its
    norm, and perhaps bare."""

    def __init__(self, bare: bool, normed: bool) -> None:
        super().__init__()
        self.read = nn.ModuleList(nn.LayerNorm(WIDTH) if normed else nn.Identity() for _ in range(3))
        self.bare, self.embed, self.norms = bare, nn.Linear(8, WIDTH), nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(8))
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)) for _ in range(6))
        self.maps, self.head = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        y = x.mT.repeat_interleave(2, -1).mT * 1.5
        for place, read in enumerate(self.maps):
            x = x + self.nets[place](self.norms[place](x))
            y = y + self.nets[3 + place](self.norms[3 + place](y) + read(self.read[place](x)).mean(1, keepdim=True))
        first, second = self.norms[6](x), self.norms[7](y)
        out: Tensor = self.head((x if self.bare else first).mean(1) + first.mean(1) + second.mean(1))
        return out


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("bare", [False, True])
def test_a_branch_of_a_stream_beside_it_carries_a_last_sum_nowhere(bare: bool, normed: bool) -> None:
    report = screen.check(Looked(bare, normed), example_inputs=torch.randn(2, 16, 8), spot_check=False)
    assert [s.depth for s in report.streams] == [3, 3]
    assert [s.final_norm for s in report.streams] == [not bare, True]
