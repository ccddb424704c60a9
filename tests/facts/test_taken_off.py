"""A stream that its own branches take off again, lanes that a matrix mixes, and shares of trained numbers alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH, LANES = 24, 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(self.norm(x))))  # type: ignore[no-any-return]


class Error(nn.Module):
    """A branch gives the difference from its input, and the sum is what was aimed at."""

    def __init__(self, keeps: float) -> None:
        super().__init__()
        self.aim, self.net, self.keeps = Net(), Net(), keeps

    def forward(self, x: Tensor) -> Tensor:
        error = self.aim(x) - (1 - self.keeps) * x
        x = x + error
        return x + self.net(x)


@pytest.mark.by_the_day
@pytest.mark.parametrize(("keeps", "gain"), [(0.0, 0.0), (0.5, 0.5**8)])
def test_what_takes_the_stream_off_leaves_nothing_of_it(keeps: float, gain: float) -> None:
    report = screen.check(Error(keeps), example_inputs=torch.randn(2, 8, WIDTH), depth=8)
    told = next(c for c in report.claims if c.claim == "identity_gain")
    assert told.status == "proved" and told.value == pytest.approx(gain)
    found = {f.code: f for f in report.findings if f.code in ("D101", "D201")}
    assert found["D201"].outcome != "cannot_tell"
    assert ("breaks at" in found["D101"].message) is (gain == 0)


class Lanes(nn.Module):
    """A branch reads the mean of the lanes and writes to all of them; shares of trained numbers mix the lanes."""

    def __init__(self, twice: bool = True) -> None:
        super().__init__()
        self.net, self.mix, self.twice = Net(), nn.Parameter(torch.eye(LANES)), twice

    def forward(self, lanes: Tensor) -> Tensor:
        weights = self.mix.exp()
        shares = weights / (self.mix.exp() if self.twice else weights).sum(-1, keepdim=True)
        return torch.matmul(lanes.permute(0, 1, 3, 2), shares.T).permute(0, 1, 3, 2) + self.net(lanes.mean(2))[:, :, None]


@pytest.mark.parametrize("twice", (True, False))
def test_lanes_that_a_matrix_mixes_are_a_block_where_one_says_so(twice: bool) -> None:
    report = screen.check(Lanes(twice), example_inputs=torch.randn(2, 8, LANES, WIDTH), depth=6)
    assert report.target.depth == 6 and report.streams[0].depth == 6
    logits = next(c for c in report.channels if c.id == "L")
    assert logits.state == "closed" and "trained numbers alone" in logits.reason
