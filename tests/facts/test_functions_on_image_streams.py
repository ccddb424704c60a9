"""Blocks of images with a function on the sum (ResNet as it was first written): it makes nothing larger, and what is added is normed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

CHANNELS = 8


class Block(nn.Module):
    """x: [2, 8, 6, 6]."""

    def __init__(self, norm: Callable[[], nn.Module], after: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.map, self.norm, self.after = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False), norm(), after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(x + self.norm(self.map(x)))


NORMS = {
    "group": lambda: nn.GroupNorm(2, CHANNELS),
    "image": lambda: nn.GroupNorm(1, CHANNELS),
    "batch": lambda: nn.BatchNorm2d(CHANNELS),
    "instance": lambda: nn.InstanceNorm2d(CHANNELS),
}


def told(block: nn.Module) -> dict[str, str | None]:
    claims = screen.check(block, example_inputs=torch.randn(2, CHANNELS, 6, 6), depth=24).claims
    return {c.weights: c.value if c.status != "unknown" else None for c in claims if c.claim == "growth"}  # type: ignore[misc]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("after", [F.relu, F.gelu], ids=["relu", "gelu"])
def test_it_grows_at_most_linearly(norm: str, after: Callable[[Tensor], Tensor]) -> None:
    assert told(Block(NORMS[norm], after)) == {"fixed": "linear", "all": "linear"}


def test_a_function_that_enlarges_is_no_such() -> None:
    assert told(Block(NORMS["image"], F.selu))["all"] is None


def test_a_map_without_a_norm_is_no_such() -> None:
    found = told(Block(nn.Identity, F.relu))
    assert found["all"] is None and found["fixed"] in (None, "exponential")
