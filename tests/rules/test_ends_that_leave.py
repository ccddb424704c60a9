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


class Joint(nn.Module):
    """Words beside a picture: behind norms of each, an attention reads them side by side, and a net does."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))
        self.attention, self.net = nn.MultiheadAttention(WIDTH, 2, batch_first=True), nn.Sequential(nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH))

    def forward(self, words: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat((self.norms[0](words), self.norms[1](x)), 1)
        both = self.attention(both, both, both, need_weights=False)[0]
        words, x = words + both[:, : words.shape[1]], x + both[:, words.shape[1] :]
        both = self.net(torch.cat((self.norms[2](words), self.norms[3](x)), 1))
        return words + both[:, : words.shape[1]], x + both[:, words.shape[1] :]


class TwoStreams(nn.Module):
    """`last`: the words of the last block go on, in front of the picture."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self.last, self.blocks, self.final, self.head = last, nn.ModuleList(Joint() for _ in range(4)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        for block in self.blocks:
            words, x = block(words, x)
        return self.head(torch.cat((words, self.final(x)), 1) if self.last else self.final(x))


@pytest.mark.parametrize("last", [False, True])
def test_words_that_a_norm_of_the_last_block_reads_last_reach_no_head(last: bool) -> None:
    report = screen.check(TwoStreams(last), example_inputs=(torch.zeros(2, 9, WIDTH), torch.zeros(2, 5, WIDTH)), spot_check=False)
    assert {f.outcome for f in report.findings if f.code == "G103"} == ({"violated", "holds"} if last else {"not_applicable", "holds"})


class Thrown(Block):
    """Its result is tried, and thrown away where it is small."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + super().forward(x)
        y = self.norm(x)
        return x if bool((y < 99).all()) else x + self.up(y)


@pytest.mark.parametrize("final", [True, False])
def test_a_norm_whose_result_nothing_reads_hides_no_final_norm(final: bool) -> None:
    model = nn.Sequential(nn.Linear(8, WIDTH), *(Thrown() for _ in range(4)), nn.LayerNorm(WIDTH) if final else nn.Identity(), nn.Linear(WIDTH, 4))
    report = screen.check(model, example_inputs=torch.zeros(2, 9, 8), spot_check=False)
    assert {f.outcome for f in report.findings if f.code == "G103"} == {"holds" if final else "violated"}
