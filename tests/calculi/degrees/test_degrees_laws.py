"""Degrees of functions with thresholds, limits and signs, and of quotients by another value, against measured slopes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from screen.calculi.degrees import Degree, degrees_of
from tests.calculi.degrees.branches import Replay, replayed
from tests.calculi.degrees.test_degrees import disagreements

WIDTH, TOKENS = 12, 5


class Block(nn.Module):
    """W2 φ(W1 N(x)) without biases; `foreign`: W2 φ(W1 x / rms(x))."""

    def __init__(self, act: Callable[[Tensor, Tensor], Tensor], foreign: bool = False) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, 24, bias=False), nn.Linear(24, WIDTH, bias=False)
        self.slope, self.act, self.foreign = nn.Parameter(torch.full((1,), 0.3)), act, foreign

    def forward(self, x: Tensor) -> Tensor:
        size = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-9)
        h = self.one(x) * size if self.foreign else self.one(x * size)
        return x + self.two(self.act(h, self.slope))


class Net(nn.Module):
    def __init__(self, act: Callable[[Tensor, Tensor], Tensor], foreign: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block(act, foreign) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x


ACTS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str]] = {
    "threshold at 0": (lambda h, s: F.threshold(h, 0.0, 0.0), "exact"),
    "threshold": (lambda h, s: F.threshold(h, 0.5, 0.0), "asymptotic"),
    "threshold, value": (lambda h, s: F.threshold(h, 0.0, 0.3), "asymptotic"),
    "where above 0": (lambda h, s: torch.where(h > 0, h, 0.0), "exact"),
    "where above a number": (lambda h, s: torch.where(h > 0.5, h, 0.0), "bound"),
    "larger than a number": (lambda h, s: torch.maximum(h, torch.tensor(0.5)), "bound"),
    "leaky": (lambda h, s: F.leaky_relu(h, 0.2), "exact"),
    "prelu": (F.prelu, "exact"),
    "hardtanh": (lambda h, s: F.hardtanh(h), "bound"),
    "relu6": (lambda h, s: F.relu6(h), "bound"),
    "softshrink": (lambda h, s: F.softshrink(h, 0.5), "asymptotic"),
    "elu": (lambda h, s: F.elu(h), "asymptotic"),
    "one limit": (lambda h, s: h.clamp(min=-1.0), "asymptotic"),
    "rounded": (lambda h, s: h.round(), "asymptotic"),
    "rounded down": (lambda h, s: h.floor(), "asymptotic"),
    "taken away again": (lambda h, s: h + (F.relu(h) - h), "exact"),
}


def degrees(act: Callable[[Tensor, Tensor], Tensor], foreign: bool = False) -> tuple[Replay, dict[str, Degree]]:
    x = torch.randn(2, TOKENS, WIDTH)
    replay = replayed(Net(act, foreign).to("meta").eval(), Net(act, foreign).eval(), (x,), {})
    branch = next(b for reader in replay.readers() for _, b in reader.branches)
    return replay, {d.group: d for d in degrees_of(branch).groups}


@pytest.mark.parametrize("name", ACTS)
def test_the_law_of_a_function(name: str) -> None:
    act, status = ACTS[name]
    replay, found = degrees(act)
    assert found["blocks.0.one.weight"].status == status and found["blocks.0.two.weight"].status == "exact"
    assert not disagreements(replay)[0]


def test_a_quotient_by_the_size_of_another_value_cancels_nothing() -> None:
    """W1 x / rms(x) is W1 N(x): of degree 1 in W1, and 0 in the stream."""
    replay, found = degrees(lambda h, s: F.relu(h), foreign=True)
    wrong, count = disagreements(replay)
    assert not wrong and count == 4
    assert [d.predicted for d in found.values()] == [1.0, 1.0]


def test_one_over_a_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(self: Block, x: Tensor) -> Tensor:
        size = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-9)
        return x + self.two(F.linear(x * size, 1.0 / self.one.weight))

    monkeypatch.setattr(Block, "forward", forward)
    replay, found = degrees(lambda h, s: h)
    assert found["blocks.0.one.weight"].predicted == -1.0 and not disagreements(replay)[0]


@pytest.mark.parametrize("dim", [-1, 0])
def test_a_weight_of_vectors_of_length_one_has_no_degree(monkeypatch: pytest.MonkeyPatch, dim: int) -> None:
    def forward(self: Block, x: Tensor) -> Tensor:
        size = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-9)
        return x + F.linear(F.relu(self.one(x * size)), F.normalize(self.two.weight, dim=dim))

    monkeypatch.setattr(Block, "forward", forward)
    replay, found = degrees(lambda h, s: h)
    assert found["blocks.0.two.weight"].predicted == 0.0 and found["blocks.0.two.weight"].status == "exact"
    assert found["blocks.0.one.weight"].predicted == 1.0 and not disagreements(replay)[0]


@pytest.mark.parametrize(("dim", "eps"), [(-1, 1e-12), (0, 1e-12), (-1, 10.0)])
def test_parts_of_a_fused_weight_are_of_length_one_by_themselves(monkeypatch: pytest.MonkeyPatch, dim: int, eps: float) -> None:
    def forward(self: Block, x: Tensor) -> Tensor:
        size = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-9)
        gate, up = F.linear(x * size, F.normalize(self.one.weight, dim=dim, eps=eps)).chunk(2, dim=-1)
        return x + F.linear(gate * up, self.two.weight[:, :12])

    monkeypatch.setattr(Block, "forward", forward)
    replay, found = degrees(lambda h, s: h)
    parts = {name: degree for name, degree in found.items() if ".one." in name}
    assert not disagreements(replay)[0]
    if dim == -1 and eps < 1.0:
        assert [d.predicted for d in parts.values()] == [0.0, 0.0]
    else:  # along the other axis one part has a say in the length of the other; a floor that is larger than they are makes none shorter
        assert not parts
