"""How much a block stretches a change of its input is told from the scales of its skips only where these are all that carries the stream."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 32


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(torch.relu(self.up(self.norm(x))))
        return out


class Pre(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Net(), Net()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.one(x)
        return x + self.two(x)


class Halves(Pre):
    """The stream times a half, twice: 0.5·x + f(x)."""

    def forward(self, x: Tensor) -> Tensor:
        x = 0.5 * x + self.one(x)
        return 0.5 * x + self.two(x)


class Turned(Pre):
    """Sums and differences of tokens, and back: the stream is carried as it is."""

    def forward(self, x: Tensor) -> Tensor:
        sums, rest = x[:, ::2] + x[:, 1::2], x[:, ::2] - x[:, 1::2]
        sums, rest = sums + self.one(sums), rest + self.two(rest)
        return torch.stack((0.5 * (sums + rest), 0.5 * (sums - rest)), 2).flatten(1, 2)


class Mean(Pre):
    """The mean of three sums, each of which has all of the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.three = Net()

    def forward(self, x: Tensor) -> Tensor:
        total = None
        for net in (self.one, self.two, self.three):
            one = x + net(x)
            total = one if total is None else total + one
        assert total is not None
        return total / 3


BLOCKS = {Pre: 1.0, Halves: 0.25, Turned: 1.0, Mean: 1.0}
"""What a block carries of its stream."""


def told(block: type[nn.Module]) -> str:
    """The line of theorems 5.2 and 5.3; empty where there is none."""
    torch.manual_seed(0)
    report = screen.check(block(), example_inputs=torch.randn(2, 8, WIDTH), depth=12)
    found = next(f for f in report.findings if f.code == "D101")
    return next((str(value) for name, value in found.numbers.items() if name.startswith("Emadi")), "")


@pytest.mark.by_the_day
@pytest.mark.parametrize("block", BLOCKS)
def test_without_branches_a_block_stretches_by_no_more_than_is_told(block: type[nn.Module]) -> None:
    made, x = block().double(), torch.randn(1, 8, WIDTH, dtype=torch.float64)
    for net in made.children():
        for parameter in net.down.parameters():  # type: ignore[union-attr]
            nn.init.zeros_(parameter)
    delta = torch.randn_like(x)
    stretched = float((made(x + delta) - made(x)).detach().norm() / delta.norm())
    assert stretched == pytest.approx(BLOCKS[block])
    said = told(block)
    if block in (Pre, Halves):
        alpha = "1" if block is Pre else "0.5"
        assert f"at most by ({alpha} + L_ffn) · ({alpha} + L_ffn2)" in said
    else:
        assert said == ""


class Joined(nn.Module):
    """What comes in is joined to the state in front of every step, and a map makes one of both: no skip leads past it."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.step, self.norm = nn.Linear(2 * WIDTH, WIDTH), Pre(), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x)
        for _ in range(6):
            state = self.norm(self.step(self.mix(torch.cat((state, x), -1))))
        return state


def test_a_map_between_blocks_is_in_no_product_of_theirs() -> None:
    report = screen.check(nn.Sequential(nn.Linear(8, WIDTH), Joined(), nn.Linear(WIDTH, 5)), example_inputs=torch.randn(2, 8, 8))
    found = next(f for f in report.findings if f.code == "D101")
    assert found.outcome == "violated" and not [name for name, _ in found.numbers.items() if name.startswith("Emadi")]
