"""Linear parts that no calculus derives: gains measured at two draws of all weights, and growth by how far what is added is carried; each beside its
near miss."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.pipeline.spot import _even, _law_of_reach
from screen.report.schema import ClaimPart

pytestmark = pytest.mark.by_the_day

N, D = 16, 8


def example_inputs() -> tuple[Tensor, ...]:
    return (torch.randn(1, 4, D),)


class Lanes(nn.Module):
    """Three copies that trained matrices mix, from the identity on; their mean is returned."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(D, D) for _ in range(N))
        self.mix = nn.ParameterList(nn.Parameter(self.first()) for _ in range(N))

    def first(self) -> Tensor:
        return torch.eye(3)

    def branch(self, i: int, x: Tensor) -> Tensor:
        out: Tensor = self.maps[i](F.layer_norm(x, (D,)))
        return out

    def forward(self, x: Tensor) -> Tensor:
        s = x.unsqueeze(2).expand(-1, -1, 3, -1)
        for i, mix in enumerate(self.mix):
            s = torch.einsum("os,btsd->btod", mix, s) + self.branch(i, s[:, :, 0]).unsqueeze(2)
        return s.mean(2)


class NormedLanes(Lanes):
    """Their mean is normed before it is returned: the gain is up to the mean."""

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(super().forward(x), (D,))


class RandomLanes(Lanes):
    """From a random matrix: another draw has another gain."""

    def first(self) -> Tensor:
        return torch.randn(3, 3)


class BentLanes(Lanes):
    """A ReLU stands on all of them: twice as much gives twice as much, and yet they are not linear."""

    def forward(self, x: Tensor) -> Tensor:
        s = x.unsqueeze(2).expand(-1, -1, 3, -1)
        for i, mix in enumerate(self.mix):
            s = F.relu(torch.einsum("os,btsd->btod", mix, s)) + self.branch(i, s[:, :, 0]).unsqueeze(2)
        return s.mean(2)


class Momentum(Lanes):
    """v = 0.9 v + F(x), x + v."""

    keep = 0.9

    def forward(self, x: Tensor) -> Tensor:
        v = torch.zeros_like(x)
        for i in range(N):
            v = self.keep * v + self.branch(i, x)
            x = x + v
        return x


class FastMomentum(Momentum):
    """1.3 v."""

    keep = 1.3


class SlowMomentum(Momentum):
    """1.15 v: no more than 100 times over this depth."""

    keep = 1.15


class RawMomentum(Momentum):
    """Branches grow with the stream."""

    def branch(self, i: int, x: Tensor) -> Tensor:
        out: Tensor = 0.1 * self.maps[i](x)
        return out


def _claims(block: str) -> dict[tuple[str, str], ClaimPart]:
    report = screen.check(f"{__file__}::{block}", isolate=False)
    return {(c.claim, c.weights): c for c in reversed(report.claims) if c.sublayer is None and c.group is None}


@pytest.mark.parametrize(
    ("block", "gain", "growth"), [("Lanes", 1.0, "linear"), ("NormedLanes", 1.0, "linear"), ("RandomLanes", None, None), ("BentLanes", None, None)]
)
def test_copies_that_weights_mix(block: str, gain: float | None, growth: str | None) -> None:
    found = _claims(block)
    assert found["identity_gain", "start"].value == (gain if gain is None else pytest.approx(gain))
    assert growth is None or found["growth", "fixed"].value == growth


@pytest.mark.parametrize(("block", "growth"), [("Momentum", "linear"), ("FastMomentum", "exponential"), ("RawMomentum", None)])
def test_a_velocity_carries_what_branches_add(block: str, growth: str | None) -> None:
    claim = _claims(block)["growth", "fixed"]
    assert claim.value == growth or (growth is None and claim.value != "linear")


@pytest.mark.parametrize("block", ["FastMomentum", "SlowMomentum"])
def test_branches_of_norms_are_not_said_to_grow_with_what_a_velocity_carries(block: str) -> None:
    report = screen.check(f"{__file__}::{block}", isolate=False)
    assert next(c for c in report.claims if (c.claim, c.weights) == ("growth", "fixed")).value == "exponential"
    told = next(f for f in report.findings if f.code == "R301")
    assert told.outcome == "violated" and "its branches grow with it" not in told.message


ONES = [1.0] * 17
REACH = {
    "kept": ([1.0] * 9 + [0.0] * 8, ONES, ONES, "linear"),
    "halved": ([0.5 ** (8 - k) for k in range(9)] + [0.0] * 8, *2 * ([0.5 ** (16 - k) for k in range(17)],), "bounded"),
    "grown": ([1.5 ** (8 - k) for k in range(9)] + [0.0] * 8, *2 * ([1.5 ** (16 - k) for k in range(17)],), "exponential"),
    "by numbers of the block": ([1.0] + [1.4**k for k in range(8)] + [0.0] * 8, *2 * ([1.0] + [1.4**k for k in range(16)],), None),
    "an end of another size": ([1.0] * 9 + [0.0] * 8, ONES, [5.0] * 17, None),
    "the first one added again and again": ([5.0, 5.0] + [1.0] * 7 + [0.0] * 8, [9.0, 9.0] + [1.0] * 15, [9.0, 9.0] + [1.0] * 15, "linear"),
    "the first one multiplied again and again": ([2.0, 2.0] + [1.0] * 7 + [0.0] * 8, *2 * ([8.0, 8.0] + [1.0] * 15,), None),
}  # fmt: skip


@pytest.mark.parametrize("case", REACH)
def test_a_law_of_how_far_things_are_carried(case: str) -> None:
    middle, late, end, law = REACH[case]
    assert _law_of_reach(middle, late, end, 16) == law


def test_two_draws_have_to_agree() -> None:
    assert _even((1.0, 1.0 + 1e-6)) == 1.0
    assert _even((1.0, 1.01)) is None and _even(()) is None


class Shares(nn.Module):
    """x + y over the sum of what is no smaller than y."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(D, D)

    def over(self, y: Tensor) -> Tensor:
        return 2.5 * F.relu(y) / (y.abs().sum(-1, keepdim=True) + 1e-8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.over(self.map(x))


class SquareShares(Shares):
    """Squares with the signs of what is squared."""

    def over(self, y: Tensor) -> Tensor:
        return y.sign() * y.square() / (y.square().sum(-1, keepdim=True) + 1e-8)


class SignedShares(Shares):
    """Positive and negative entries cancel below."""

    def over(self, y: Tensor) -> Tensor:
        return 2.5 * F.relu(y) / (y.sum(-1, keepdim=True) + 1e-8)


class CubeShares(Shares):
    """A cube over a sum of squares: of degree one."""

    def over(self, y: Tensor) -> Tensor:
        return y.square() * y / (y.square().sum(-1, keepdim=True) + 1e-8)


class OtherShares(Shares):
    """Of a square over the sum of what is smaller."""

    def over(self, y: Tensor) -> Tensor:
        return y.square() / (y.abs().sum(-1, keepdim=True) + 1e-8)


@pytest.mark.parametrize(
    ("block", "bounded"), [("Shares", True), ("SquareShares", True), ("SignedShares", False), ("CubeShares", False), ("OtherShares", False)]
)
def test_shares_of_what_is_no_smaller(block: str, bounded: bool) -> None:
    report = screen.check(f"{__file__}::{block}", depth=4, isolate=False, spot_check=False)
    claim = next(c for c in report.claims if c.claim == "output_bounded")
    assert (claim.value is True) == bounded
