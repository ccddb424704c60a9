"""A model whose layers hand on two states is no block to be stacked, though the first layer has nothing of the input in the second state yet and the
last one hands none of it on; a block is one, whatever is told beside."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.capture.build.block import looks
from tests.awkward.parts import FFN, Attention, D

LAYERS = 3


class Layer(nn.Module):
    """Both states attend to both, and think for themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.one, self.two = Attention(), FFN(), FFN()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(4))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        both = self.mix(torch.cat((self.norms[0](x), self.norms[1](y)), 1))
        x, y = x + both[:, : x.shape[1]], y + both[:, x.shape[1] :]
        return x + self.one(self.norms[2](x)), y + self.two(self.norms[3](y))


class Denoiser(nn.Module):
    """What comes in has the width of what comes out, and words are a state of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.words, self.outward = nn.Linear(8, D), nn.Embedding(40, D), nn.Linear(D, 8)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        x, y = self.inward(x), self.words(ids)
        for layer in self.layers:
            x, y = layer(x, y)
        out: Tensor = self.outward(x)
        return out


class Parts(nn.Module):
    """One block: a condition shifts what each of its two nets reads, of which the first makes it."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.one, self.two, self.shift = Attention(), FFN(), FFN(), nn.Linear(D, D)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        c = torch.tanh(self.shift(c))
        x = x + self.mix(self.norms[0](x) + c)
        x = x + self.one(self.norms[1](x) + c)
        out: Tensor = x + self.two(self.norms[2](x) + c)
        return out


def test_layers_of_two_states_are_a_model() -> None:
    report = screen.check(Denoiser(), example_inputs=(torch.zeros(2, 9, 8), torch.zeros(2, 5, dtype=torch.long)), spot_check=False)
    assert [(s.depth, s.width, len(s.kinds[0].sublayers)) for s in report.streams] == [(LAYERS, D, 2), (LAYERS - 1, D, 2)]


@pytest.mark.parametrize("model", [Layer, Parts])
def test_one_of_them_is_a_block(model: type[nn.Module]) -> None:
    found = looks(model(), (torch.zeros(2, 9, D), torch.zeros(2, 9, D)), {})
    assert found.block and found.depth == 0
