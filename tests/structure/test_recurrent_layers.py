"""The hidden state of a recurrent layer over tokens is inside of its branch, in one direction or two, in a block and in a whole model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH, TOKENS, DEPTH = 16, 12, 4


class Layer(nn.Module):
    """x + GRU(x), or of both directions, whose sum is added."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=both)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + sum(self.rnn(x)[0].split(WIDTH, -1))
        return out


class ByHand(nn.Module):
    """A minimal gated unit in a loop over tokens, whose states are stacked; behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.gate, self.new = nn.LayerNorm(WIDTH), nn.Linear(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        u, states = self.norm(x), [torch.zeros_like(x[:, 0])]
        for t in range(x.shape[1]):
            h = torch.cat((states[-1], u[:, t]), -1)
            f = torch.sigmoid(self.gate(h))
            states.append((1 - f) * states[-1] + f * torch.tanh(self.new(h)))
        return x + torch.stack(states[1:], 1)


class Rounds(nn.Module):
    """A net with one set of weights, four times over, with a skip each, in a branch: a stream of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.own, self.up, self.down, self.out = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), *(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        for _ in range(4):
            h = h + self.down(torch.relu(self.up(self.own(h))))
        out: Tensor = x + self.out(h)
        return out


class Model(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.layers(x))
        return out


def read(model: nn.Module, depth: int | None = None) -> Report:
    return screen.check(model, example_inputs=torch.randn(2, TOKENS, WIDTH), depth=depth)


def streams(report: Report) -> list[tuple[str, int, list[str]]]:
    return [(s.name, s.depth, [x.role for k in s.kinds for x in k.sublayers]) for s in report.streams]


@pytest.mark.by_the_day
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_layer_of_the_library_is_one_branch(both: bool, whole: bool) -> None:
    report = read(Model([Layer(both) for _ in range(DEPTH)])) if whole else read(Layer(both), DEPTH)
    assert streams(report) == [("stream", DEPTH, ["rnn"])]
    assert next(f.outcome for f in report.findings if f.code == "D101") == "holds"


def test_so_is_a_loop_over_tokens() -> None:
    assert streams(read(Model([ByHand() for _ in range(DEPTH)]))) == [("stream", DEPTH, ["rnn"])]


def test_rounds_of_one_net_in_a_branch_are_a_stream() -> None:
    report = read(Model([Rounds() for _ in range(DEPTH)]))
    assert {name: depth for name, depth, _ in streams(report)} == {"stream1": 4, "stream2": DEPTH, "inner": 4 * (DEPTH - 1)}
