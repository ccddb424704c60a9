"""Which streams the loss at the start is judged of."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from screen.capture.build.build import build_object
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.verdict.discover import run_rules


class Block(nn.Module):
    """Feed-forward blocks; of a decoder with attention to a memory."""

    def __init__(self, cross: bool) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)
        self.cross = nn.MultiheadAttention(32, 4, batch_first=True) if cross else None

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        if self.cross is not None:
            x = x + self.cross(self.norm(x), memory, memory)[0]
        return x + self.down(self.up(self.norm(x)).relu())


class Pair(nn.Module):
    """An encoder and a decoder, or two towers side by side, on the words of one table."""

    def __init__(self, cross: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 32)
        self.encoder = nn.ModuleList(Block(False) for _ in range(3))
        self.decoder = nn.ModuleList(Block(cross) for _ in range(3))
        self.head = nn.Linear(32, 100, bias=False)

    def forward(self, source: Tensor, ids: Tensor) -> Tensor:
        memory, x = self.words(source), self.words(ids)
        for block in self.encoder:
            memory = block(memory)
        for block in self.decoder:
            x = block(x, memory)
        return self.head(x if self.decoder[0].cross is not None else x + memory)


def streams(cross: bool) -> list[str]:
    (built,) = build_object(Pair(cross), example_inputs=(torch.zeros(2, 7, dtype=torch.int64), torch.zeros(2, 7, dtype=torch.int64)))
    facts = derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))
    return [f.outcome.site.stream or "" for f in run_rules(facts).of("I201")]


def test_an_encoder_comes_to_the_words_through_its_decoder_alone() -> None:
    assert streams(cross=True) == ["decoder"]


def test_two_towers_that_are_summed_both_come_to_the_words() -> None:
    assert len(streams(cross=False)) == 2
