"""Skips that lead around a norm and the sums behind it, one block after the other: they carry a stream that no norm stands on, and what they lead
around is one branch. One or two of them around many layers are long skips. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH, BLOCKS = 16, 6


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 24), nn.Tanh(), nn.Linear(24, WIDTH))


class Shared(nn.Module):
    """Shares of two nets by a softmax of what they read."""

    def __init__(self) -> None:
        super().__init__()
        self.choose, self.nets = nn.Linear(WIDTH, 2, bias=False), nn.ModuleList((net(), net()))

    def forward(self, h: Tensor) -> Tensor:
        shares = self.choose(h).softmax(-1)
        return shares[..., :1] * self.nets[0](h) + shares[..., 1:] * self.nets[1](h)


class Refined(nn.Module):
    """x + h₃, h₀ = N(x): three sums on what the norm gave; `half`: the skip has a factor."""

    def __init__(self, half: bool = False) -> None:
        super().__init__()
        self.norm, self.steps, self.skip = nn.LayerNorm(WIDTH), nn.ModuleList((Shared(), net(), Shared())), 0.5 if half else 1.0

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        for step in self.steps:
            h = step(h) + h
        return self.skip * x + h


class Between(Refined):
    """A pre-norm branch stands between two such skips."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.own = nn.LayerNorm(WIDTH), net()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + self.own(self.before(x)))


class Behind(nn.Module):
    """A post-norm layer of two branches, and a skip around it."""

    def __init__(self, around: bool = True) -> None:
        super().__init__()
        self.norms, self.nets, self.around = nn.ModuleList((nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH))), nn.ModuleList((net(), net())), around

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for norm, one in zip(self.norms, self.nets, strict=True):
            y = norm(y + one(y))
        return x + y if self.around else y


class Groups(nn.Module):
    """Post-norm layers in groups, a skip around each group."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        each = BLOCKS // groups
        self.groups = nn.ModuleList(nn.Sequential(*(Behind(around=False) for _ in range(each))) for _ in range(groups))

    def forward(self, x: Tensor) -> Tensor:
        for group in self.groups:
            x = x + group(x)
        return x


def told(block: nn.Module) -> Report:
    torch.manual_seed(0)
    return screen.check(block, example_inputs=torch.randn(2, 5, WIDTH), depth=None if isinstance(block, Groups) else BLOCKS)


@pytest.mark.parametrize(("make", "placements"), [
    (Refined, ["pre"]), (lambda: Refined(half=True), ["pre"]), (Between, ["pre", "pre"]),
])  # fmt: skip
def test_what_the_skips_lead_around_is_one_branch(make, placements):
    block = make()
    report = told(block)
    (stream,) = report.streams
    (kind,) = stream.kinds
    assert [s.placement for s in kind.sublayers] == placements and kind.count == BLOCKS and not stream.long_skips
    growth = next(c for c in report.claims if c.claim == "growth" and c.weights == "fixed")
    gain = next(c for c in report.claims if c.claim == "identity_gain")
    assert gain.value == pytest.approx(0.5**BLOCKS if block.skip != 1.0 else 1.0)
    assert growth.value == ("bounded" if block.skip != 1.0 else "linear")
    routed = [f for f in report.findings if f.code == "L201"]
    assert routed and all(f.outcome == "conditional" for f in routed)  # they read functions of a norm, and no stream that grows


def test_a_post_norm_layer_is_one_branch_too():
    (stream,) = told(Behind()).streams
    (kind,) = stream.kinds
    assert len(kind.sublayers) == 1 and kind.count == BLOCKS and not stream.long_skips


@pytest.mark.parametrize("groups", [1, 2])
def test_skips_around_many_layers_are_long_ones(groups):
    report = told(Groups(groups))
    (stream,) = [s for s in report.streams if s.role != "inner"]
    assert sum(k.count * len(k.sublayers) for k in stream.kinds) == 2 * BLOCKS
    assert len(stream.long_skips) == groups - 1  # the last one stands behind the last sum
