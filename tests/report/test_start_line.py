"""The line on the start says of how many tokens it is: no more than the model has places for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 32


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return out


class Model(nn.Module):
    rows = 16

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(100, WIDTH), nn.Parameter(torch.randn(self.rows, WIDTH) * 0.02)
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(4)), nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.places[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.norm(x)
        return out


class Longer(Model):
    rows = 512


@pytest.mark.parametrize(("name", "tokens"), [("Model", 16), ("Longer", 64)])
def test_the_tokens_of_the_recursion_are_told(name: str, tokens: int) -> None:
    report = screen.check(f"{__file__}::{name}", example_inputs="ids=int64[2,12]", isolate=False)
    [stream] = report.streams
    assert stream.initialisation is not None and stream.initialisation.tokens == tokens
    assert f"({tokens} tokens)" in report.to_text()
