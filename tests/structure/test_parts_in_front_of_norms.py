"""Branches that put filtered channels beside bare ones, or add to them, in front of a norm: the norm is none of their input. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH = 24


class Block(nn.Module):
    """x + f(N(g(x))), where g filters a third of the channels and leaves the others, adds a filter of all of them, or weighs them by a gate."""

    def __init__(self, how: str, norm: type[nn.Module]) -> None:
        super().__init__()
        part = WIDTH // 3 if how == "beside" else WIDTH
        self.how, self.part = how, part
        self.filter = nn.Conv2d(part, part, 3, padding=1, groups=part)
        self.gate = nn.Conv2d(WIDTH, 1, 1)
        self.norm = nn.GroupNorm(1, WIDTH) if norm is nn.GroupNorm else norm(WIDTH)
        self.up, self.down = nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.Conv2d(2 * WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "beside":
            bare, read = x.split([WIDTH - self.part, self.part], 1)
            y = torch.cat([bare, self.filter(read)], 1)
        elif self.how == "added":
            y = x + self.filter(x)
        else:
            y = x * (1 + self.gate(x))
        return x + self.down(torch.relu(self.up(self.norm(y))))


class Stack(nn.Module):
    def __init__(self, how: str, norm: type[nn.Module]) -> None:
        super().__init__()
        self.patch, self.blocks = nn.Conv2d(3, WIDTH, 2, stride=2), nn.ModuleList([Block(how, norm) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize("norm", [nn.BatchNorm2d, nn.GroupNorm])
@pytest.mark.parametrize(("how", "placement"), [("beside", "none"), ("added", "none"), ("weighed", "pre")])
def test_what_a_branch_filters_in_front_of_its_norm_is_read_bare(how: str, placement: str, norm: type[nn.Module]) -> None:
    """`cat(x₁, conv(x₂))` in front of a norm was told as a gate of what the norm reads."""
    (stream,) = screen.check(Stack(how, norm).eval(), example_inputs=torch.zeros(2, 3, 16, 16)).streams
    (sub,) = stream.kinds[0].sublayers
    assert sub.placement == placement
    assert sub.norm_type == (None if placement == "none" else "batchnorm" if norm is nn.BatchNorm2d else "groupnorm")


@pytest.mark.parametrize("norm", [nn.BatchNorm2d, nn.GroupNorm])
def test_such_a_norm_stands_between_the_maps_of_the_branch(norm: type[nn.Module]) -> None:
    """It was told as none at all: part of what it normalises has passed no map, and part has."""
    (stream,) = screen.check(Stack("beside", norm).eval(), example_inputs=torch.zeros(2, 3, 16, 16)).streams
    assert stream.kinds[0].sublayers[0].positions == ["S"]
