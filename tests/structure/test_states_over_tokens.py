"""The states of a recurrent layer are as many as the example has tokens: outside of branches they are no stream either, and no blocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, TOKENS, DEPTH = 16, 7, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return out


class Library(nn.Module):
    """A layer of the library, or two, in one direction or both."""

    def __init__(self, layers: int = 1, both: bool = False) -> None:
        super().__init__()
        self.rnn = nn.GRU(WIDTH, WIDTH, layers, batch_first=True, bidirectional=both)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.rnn(x)[0][..., :WIDTH]
        return out


class ByHand(nn.Module):
    """A minimal gated unit in a loop over tokens, of which the last state alone is given back."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.new = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            both = torch.cat((state, x[:, t]), -1)
            f = torch.sigmoid(self.gate(both))
            state = (1 - f) * state + f * torch.tanh(self.new(both))
        return state


class Rounds(nn.Module):
    """One block in rounds, each of which reads a condition of its own: their number is the author's, and each has all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.block, self.told = nn.Linear(WIDTH, WIDTH), Block(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        conditions, x = self.told(x), self.into(x)
        for n in range(4):
            x = self.block(x + conditions[:, n, None])
        return x


class Model(nn.Module):
    def __init__(self, end: nn.Module, depth: int = DEPTH) -> None:
        super().__init__()
        self.blocks, self.end, self.head = nn.Sequential(*(Block() for _ in range(depth))), end, nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.end(self.blocks(x)))
        return out


def streams(model: nn.Module) -> list[int | None]:
    return [s.depth for s in screen.check(model, example_inputs=torch.randn(2, TOKENS, WIDTH)).streams]


@pytest.mark.parametrize("end", [Library, lambda: Library(2, both=True), ByHand])
def test_states_behind_a_stream_are_none(end: Callable[[], nn.Module]) -> None:
    assert streams(Model(end())) == [DEPTH]


def test_a_recurrent_layer_alone_has_none() -> None:
    report = screen.check(Model(Library(), depth=0), example_inputs=torch.randn(2, TOKENS, WIDTH))
    assert not report.streams and "no residual stream found" in report.summary


def test_rounds_of_one_block_are_a_stream() -> None:
    """The near miss: the same weights in each, and a part of one value for each, which has fewer axes than the state."""
    assert streams(Model(Rounds())) == [DEPTH, 4]
