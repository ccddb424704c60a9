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


class Cast(nn.Module):
    """RMSNorm by torch, its gain in the type of what it multiplies."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.gain, self.how = nn.Parameter(torch.ones(16)), how

    def forward(self, x: Tensor) -> Tensor:
        gain = self.gain.type_as(x) if self.how == "type_as" else self.gain.to(x.dtype)
        return nn.functional.rms_norm(x, (16,), weight=torch.sigmoid(gain) if self.how == "squashed" else gain)


class Halved(nn.Module):
    """A stream of half the precision that the gains of its norms have."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.words, self.first, self.last = nn.Embedding(30, 16).bfloat16(), Cast(how), Cast(how)
        self.norms = nn.ModuleList(Cast(how) for _ in range(3))
        self.ups, self.downs = (nn.ModuleList(nn.Linear(*sizes).bfloat16() for _ in range(3)) for sizes in ((16, 48), (48, 16)))
        self.head = nn.Linear(16, 30).bfloat16()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.first(self.words(ids))
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            x = x + down(torch.relu(up(norm(x))))
        return self.head(self.last(x))


@pytest.mark.parametrize(("how", "scaled"), [("type_as", False), ("to", False), ("squashed", True)])
def test_a_gain_in_another_type_is_one_of_its_norm_and_no_scale_of_the_embedding(how: str, scaled: bool) -> None:
    (stream,) = screen.check(Halved(how), example_inputs=(torch.zeros(2, 7, dtype=torch.long),)).streams
    assert (stream.embed_norm, stream.embed_scale) == (True, scaled)
