"""Values that are added to places, and parts of a stream that are replaced: how it grows at fixed weights, against the sizes of stacks in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH, EXPERTS = 16, 3


class Dealt(nn.Module):
    """Experts take the tokens that chose them. x: [2, 8, 16]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.router = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))

    def shares(self, h: Tensor) -> tuple[Tensor, Tensor]:
        weights, chosen = self.router(h).sigmoid().topk(2, -1)
        return weights / weights.sum(-1, keepdim=True), chosen

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x).flatten(0, 1)
        weights, chosen = self.shares(h)
        out = torch.zeros_like(h)
        for number, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == number)
            out.index_add_(0, token, weights[token, slot, None] * expert(h[token]))
        return x + out.view_as(x)


class BySoftmax(Dealt):
    def shares(self, h: Tensor) -> tuple[Tensor, Tensor]:
        weights, chosen = self.router(h).softmax(-1).topk(2, -1)
        return weights, chosen


class Added(Dealt):
    """Messages along edges."""

    def forward(self, x: Tensor) -> Tensor:
        source, target = torch.tensor([0, 1, 2, 3, 5]), torch.tensor([1, 1, 0, 2, 1])
        h = self.norm(x)
        return x + torch.zeros_like(h).index_add(1, target, self.experts[0](h[:, source]))


class Raw(Added):
    """Messages of what no norm has read."""

    def forward(self, x: Tensor) -> Tensor:
        source, target = torch.tensor([0, 1, 2, 3, 5]), torch.tensor([1, 1, 0, 2, 1])
        return x + torch.zeros_like(x).index_add(1, target, self.experts[0](x[:, source]))


class Late(Dealt):
    """The last tokens are normed, the others go on as they are."""

    def forward(self, x: Tensor) -> Tensor:
        first, rest = x.split((3, 5), 1)
        return torch.cat((first, self.norm(rest)), 1) + self.experts[0](self.norm(x))


class LateTwice(Late):
    """Those that go on count twice."""

    def forward(self, x: Tensor) -> Tensor:
        first, rest = x.split((3, 5), 1)
        return torch.cat((2 * first, self.norm(rest)), 1) + self.experts[0](self.norm(x))


class InTurn(Dealt):
    """Each expert adds to the sum so far, and one gives back what all of them read."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        shares = self.router(h).softmax(-1).split(1, -1)
        for share, out in zip(shares, (self.experts[0](h), torch.zeros_like(h), h), strict=True):
            x = x + share * out
        return x


class TurnByTurn(nn.Module):
    """A mean of copies at first, their sum then: blocks of one class that differ in what they do to the stream alone. x: [2, 8, 4, 16]."""

    def __init__(self, turn: int = 0) -> None:
        super().__init__()
        self.turn, self.norm, self.map = turn, nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        shares = torch.softmax(x.mean(-1, keepdim=True) @ x.mean(-1)[..., None, :], -1 - self.turn)
        return shares @ x + self.map(self.norm(x.mean(-2)))[..., None, :]


class Turns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(TurnByTurn(i % 2) for i in range(8))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Resampled(Dealt):
    """Half as many tokens, and back."""

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.avg_pool1d(x.transpose(1, 2), 2)
        up = nn.functional.interpolate(h, scale_factor=2, mode="linear").transpose(1, 2)
        return 0.5 * x + 0.5 * up + self.experts[0](self.norm(up))


LAWS = {
    Dealt: "linear",
    BySoftmax: "linear",
    Added: "linear",
    Raw: "exponential",
    Late: "linear",
    LateTwice: "exponential",
    InTurn: "linear",
    Resampled: "linear",
}


def _law(report: Report) -> object:
    """The law of growth at fixed weights; linear only where that is proved."""
    claim = next(c for c in report.claims if (c.claim, c.weights) == ("growth", "fixed"))
    return None if (claim.value, claim.status) == ("linear", "measured") else claim.value


def _size(block: type[nn.Module], depth: int) -> float:
    torch.manual_seed(0)
    blocks = [block().double() for _ in range(depth)]
    x = torch.randn(2, 8, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        for one in blocks:
            x = one(x)
    return float(x.square().mean().sqrt())


@pytest.mark.parametrize("block", LAWS)
def test_the_law_of_growth_is_told(block: type[nn.Module]) -> None:
    report = screen.check(block(), depth=24, example_inputs=torch.randn(2, 8, WIDTH))
    assert _law(report) == LAWS[block]
    rise = math.log(_size(block, 192) / _size(block, 96))
    assert rise < math.log(2.2) if LAWS[block] == "linear" else rise > 5


def test_a_kind_of_blocks_is_bounded_as_all_of_its_blocks_are() -> None:
    report = screen.check(Turns(), example_inputs=torch.randn(2, 8, 4, WIDTH))
    assert _law(report) is None  # a mean of copies has slope 1, their sum may have 4
