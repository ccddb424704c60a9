"""Values that a constructor computes from numbers alone, on meta: what is kept of them, and that nothing is kept of what is not known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from screen.capture.initial.buffers import Known, buffers
from screen.capture.initial.recorder import Recorder
from screen.graph import Initialiser

Make = Callable[[], Tensor]


class Net(nn.Module):
    """A module with one buffer."""

    def __init__(self, make: Make) -> None:
        super().__init__()
        self.register_buffer("b", make())


def kept(make: Make) -> tuple[Initialiser, ...]:
    """What is kept of a buffer that is made on meta."""
    with torch.device("meta"), Recorder() as recorder:
        net = Net(make)
    return dict(recorder.of(net)).get("b", ())


def sines(rows: int = 64, width: int = 32) -> Tensor:
    angles = torch.arange(rows)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
    table = torch.zeros(rows, width)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table


def padded() -> Tensor:
    table = sines(80)
    table[1] = 0
    return table


def through_parameter() -> Tensor:
    table = torch.ones(4, 4)
    nn.Parameter(table, requires_grad=False).mul_(3.0)
    return table


def drawn(fill: Callable[[Tensor], Any]) -> Make:
    def make() -> Tensor:
        table = torch.zeros(8, 4)
        fill(table)
        return table

    return make


def broken() -> Tensor:
    """A constructor that meets a tensor which the record cannot follow."""
    table = torch.ones(4)
    with patch.object(Known, "follow", side_effect=RuntimeError("no form")):
        table.mul_(2.0)
    return table


CONSTANTS: dict[str, tuple[Make, float]] = {
    "a number": (lambda: torch.tensor(48.0), 48.0),
    "arithmetic": (lambda: torch.full((3,), 2.0) * 4 + 1, 9.0),
    "filled": (drawn(lambda t: t.fill_(3.0)), 3.0),
    "filled by a function of init": (drawn(lambda t: nn.init.constant_(t, 0.5)), 0.5),
    "through a parameter of the same storage": (through_parameter, 3.0),
    "integers": (lambda: torch.zeros(1, 16, dtype=torch.long), 0.0),
}
UNKNOWN: dict[str, Make] = {
    "what was not followed": broken,
    "random": lambda: torch.randn(8, 4),
    "random in place": drawn(lambda t: t.normal_()),
    "random in place, through `data`": drawn(lambda t: t.data.uniform_()),
    "random by a function that does nothing on meta": drawn(nn.init.trunc_normal_),
    "random by a function": drawn(nn.init.normal_),
    "made of a weight": lambda: nn.Linear(4, 8).weight.detach() * 0.5 + 1,
    "rows that are not alike": lambda: torch.ones(64, 64).tril(),
    "too large": lambda: torch.zeros(3000, 3000),
    "integers": lambda: torch.arange(70) * 1,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_one_number_is_kept(name: str) -> None:
    make, value = CONSTANTS[name]
    assert kept(make) == (Initialiser("fill_", (value,)),)


@pytest.mark.parametrize("name", UNKNOWN)
def test_nothing_is_kept_of_what_is_not_known(name: str) -> None:
    assert kept(UNKNOWN[name]) == ()


@pytest.mark.parametrize("make", [sines, padded])
def test_moments_of_rows_are_kept(make: Make) -> None:
    """The same on meta as of the real table, and what they say: E x², E x_i x_j over pairs, the rms of the rows' means."""
    found, real = kept(make), sines().double()
    net = Net(make)
    assert [c.args[0] for c in found] == [8, 16, 32, 64]
    assert found == dict(buffers(net))["b"]
    if make is sines:
        both = (real @ real.T)[~torch.eye(64, dtype=torch.bool)].mean() / 32
        assert found[-1].args[1:] == pytest.approx((0.5, float(both), float(real.mean(1).square().mean().sqrt())), rel=1e-6)


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_buffers_without_a_shape_or_without_dense_entries_are_left_out(device: str) -> None:
    """Lazy and sparse ones, which have no form to be read."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lazy = nn.LazyBatchNorm1d()
            if device == "cpu":  # torch makes none on meta
                self.register_buffer("sparse", torch.eye(3).to_sparse())
            self.register_buffer("times", torch.tensor(2.0))

    with torch.device(device), Recorder() as recorder:
        net = Odd()
    found = recorder.of(net) if device == "meta" else buffers(net)
    assert [name for name, _ in found if name not in dict(net.named_parameters())] == ["times"]
