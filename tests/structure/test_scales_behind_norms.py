"""A trained factor behind a norm: the gain of a norm that has none, else a scale of the branch. Truths by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen
from tests.structure.mixed_blocks import Stack

pytestmark = pytest.mark.by_the_day

WIDTH = 16


class Block(nn.Module):
    """x + γ ⊙ N(f(x)), f of two filters."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.up, self.down = nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.Conv2d(2 * WIDTH, WIDTH, 3, padding=1)
        self.norm, self.gamma = norm, nn.Parameter(torch.full((WIDTH, 1, 1), 1e-5))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gamma * self.norm(self.down(torch.relu(self.up(x))))


@pytest.mark.parametrize(
    ("norm", "said"),
    [
        (lambda: nn.BatchNorm2d(WIDTH), "learned"),
        (lambda: nn.GroupNorm(1, WIDTH), "learned"),
        (lambda: nn.InstanceNorm2d(WIDTH, affine=True), "learned"),
        (lambda: nn.BatchNorm2d(WIDTH, affine=False), "none"),
        (lambda: nn.GroupNorm(1, WIDTH, affine=False), "none"),
    ],
    ids=["batch", "group", "instance", "batch without a gain", "group without a gain"],
)
def test_a_factor_behind_a_norm_with_a_gain_is_a_scale(norm: Callable[[], nn.Module], said: str) -> None:
    """A layer scale behind a batch or a group norm was told as its gain."""
    model = Stack(nn.Conv2d(3, WIDTH, 2, stride=2), [Block(norm()) for _ in range(3)])
    (stream,) = screen.check(model.eval(), example_inputs=torch.zeros(2, 3, 16, 16)).streams
    (sub,) = stream.kinds[0].sublayers
    assert (sub.placement, sub.residual.branch_kind) == ("output_only", said)
