"""Tensors that are made empty and written slice by slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.capture.trace.tracer import trace

COUNTED = "G108"
"""The rule that counts ops."""
HALVES = Callable[[Tensor, Tensor], Tensor]


def cat(a: Tensor, b: Tensor) -> Tensor:
    return torch.cat([a, b], -1)


def sliced(a: Tensor, b: Tensor) -> Tensor:
    out = a.new_empty(*a.shape[:-1], a.shape[-1] + b.shape[-1])
    out[..., : a.shape[-1]] = a
    out[..., a.shape[-1] :] = b
    return out


def copied(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty(*a.shape[:-1], a.shape[-1] + b.shape[-1])
    out[..., a.shape[-1] :].copy_(b)
    out[:, :, : a.shape[-1]].copy_(a)
    return out


def narrow_first(a: Tensor, b: Tensor) -> Tensor:
    """The first half only."""
    out = torch.zeros(*a.shape[:-1], a.shape[-1] + b.shape[-1])
    out[..., : a.shape[-1]] = a
    return out


def overlapping(a: Tensor, b: Tensor) -> Tensor:
    out = a.new_empty(*a.shape[:-1], a.shape[-1] + b.shape[-1])
    out[..., : a.shape[-1] + 1] = F.pad(a, (0, 1))
    out[..., a.shape[-1] :] = b
    return out


def by_steps(a: Tensor, b: Tensor) -> Tensor:
    out = a.new_empty(*a.shape[:-1], a.shape[-1] + b.shape[-1])
    out[..., ::2] = a
    out[..., 1::2] = b
    return out


class Block(nn.Module):
    def __init__(self, join: HALVES, width: int = 24) -> None:
        super().__init__()
        self.norm, self.left, self.right = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        self.out, self.join = nn.Linear(2 * width, width), join

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.out(self.join(self.left(y).relu(), self.right(y).tanh()))


class Model(nn.Module):
    def __init__(self, join: HALVES) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block(join) for _ in range(3)), nn.LayerNorm(24)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def said(join: HALVES) -> Any:
    torch.manual_seed(0)
    report = screen.check(Model(join), example_inputs=torch.zeros(2, 8, 24))
    return [(f.code, f.outcome, f.message) for f in report.findings if f.code != COUNTED], [(c.id, c.state, c.reason) for c in report.channels]


@pytest.mark.by_the_day
@pytest.mark.parametrize("join", [sliced, copied])
def test_as_a_concatenation(join: HALVES) -> None:
    assert said(join) == said(cat)


def test_another_name_of_an_empty_tensor_to_which_nothing_is_written() -> None:
    graph = trace(Padded(), (torch.zeros(2, 8, 24),), {})
    assert graph.failure is None and graph.nodes[graph.outputs[0]].op == "linear"


@pytest.mark.parametrize("join", [narrow_first, overlapping, by_steps])
def test_what_does_not_cover_its_axis_once_stays_what_it_is(join: HALVES) -> None:
    nodes = trace(Model(join), (torch.zeros(2, 8, 24),), {}).nodes
    ends = [nodes[n.inputs[0]].op for n in nodes if n.op == "linear" and n.shape == (2, 8, 24) and nodes[n.inputs[0]].shape == (2, 8, 48)]
    assert ends and set(ends) <= {"alias", "setitem"}


class Padded(nn.Module):
    """A tensor of zeros under another name of it, in front of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        before = torch.Tensor(torch.zeros(x.shape[0], 3, x.shape[2])).type(x.dtype).to(x.device)
        out: Tensor = self.map(torch.cat([before, x], 1))
        return out


class Written(nn.Module):
    """What is returned is read again behind writes through another name of it. x: [2, 24, 24]."""

    def __init__(self, write: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.map, self.write = nn.Linear(24, 24), write

    def forward(self, x: Tensor) -> Tensor:
        y = self.map(x)
        self.write(y)
        out: Tensor = y + 1.0
        return out


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (lambda y: y.view(2, 24, 24).mul_(2.0), "mul"),
        (lambda y: y[:].unsqueeze(0).squeeze(0).sub_(3.0).div_(2.0), "div"),
        (lambda y: y.detach().mul_(2.0), "alias"),  # of which gradients know nothing
        (lambda y: y.data.mul_(2.0), "alias"),
        (lambda y: y.mT.mul_(2.0), "alias"),  # the same shape, other places
        (lambda y: y[:, 1:].mul_(2.0), "alias"),
        (lambda y: (y.view(2, 24, 24).mul_(2.0), y[:, 1:].mul_(2.0)), "alias"),
        (lambda y: (y[:, 1:].mul_(2.0), y.view(2, 24, 24).mul_(2.0)), "mul"),
    ],
)
def test_a_write_to_all_of_a_tensor_is_its_value(write: Callable[[Tensor], object], read: str) -> None:
    nodes = trace(Written(write), (torch.zeros(2, 24, 24),), {}).nodes
    assert nodes[nodes[-1].inputs[0]].op == read


class Recurrent(nn.Module):
    """Its states are stacked by time and turned in place."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(4, 4, nonlinearity="relu", batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.rnn(x)[0]
        return out


def test_what_is_turned_in_place_later_has_the_sizes_that_it_was_made_with() -> None:
    graph = trace(Recurrent().to("meta"), (torch.zeros(2, 3, 4, device="meta"),), {})
    turned = next(n for n in graph.nodes if n.op == "transpose" and graph.nodes[n.inputs[0]].op == "stack")
    assert (graph.nodes[turned.inputs[0]].shape, turned.shape) == ((3, 2, 4), (2, 3, 4))
