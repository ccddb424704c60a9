"""What sums the states of a stream, as downstream models do with what all layers give, adds no branches to it: each goes on without the sum."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.record import Facts

WIDTH, DEPTH = 32, 6


class Pre(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.silu(self.up(self.norm(x))))


class Post(Pre):
    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.down(F.silu(self.up(x))))


class Mixed(nn.Module):
    """States summed one by one, in the words of one design."""

    def __init__(self, block: type[nn.Module], how: str) -> None:
        super().__init__()
        self.blocks, self.how = nn.ModuleList(block() for _ in range(DEPTH)), how
        self.shares, self.end = nn.Parameter(torch.randn(DEPTH)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor | None = None
        for block, share in zip(self.blocks, self.shares.sigmoid(), strict=True):
            x = block(x)
            told = F.layer_norm(x, (WIDTH,)) if self.how == "normed" else x
            told = told * share if self.how != "plain" else told
            mixed = told if mixed is None else mixed + told
        assert mixed is not None
        return self.end(mixed)


def _facts(model: nn.Module) -> Facts:
    return derive(trace(model, (torch.randn(2, 8, WIDTH),), {}))


@pytest.mark.parametrize("how", ["shared", "plain", "normed"])
@pytest.mark.parametrize("block", [Pre, Post])
def test_read_as_without(block: type[nn.Module], how: str) -> None:
    facts = _facts(Mixed(block, how))
    [stream] = facts.streams
    [kind] = stream.kinds
    [sublayer] = kind.sublayers
    assert stream.depth == DEPTH
    assert sublayer.alpha.kind == sublayer.branch.kind == "none"
    assert sublayer.positions == (("A",) if block is Pre else ("C",))


class Lerp(Pre):
    """The sum of a state and a later one that goes nowhere else is the block's own end."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.25 * x + 0.75 * super().forward(x)


def test_means_of_both_ends() -> None:
    class Stack(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return F.layer_norm(super().forward(x), (WIDTH,))

    [stream] = _facts(Stack(*(Lerp() for _ in range(DEPTH)))).streams
    [kind] = stream.kinds
    [sublayer] = kind.sublayers
    assert stream.depth == DEPTH and not stream.long_skips and sublayer.branch.kind != "none"


class Twice(nn.Module):
    """The norm on what is added stands on a sum with the state: x + N(x + F(x))."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.outer(x + self.down(F.silu(self.up(self.inner(x)))))


class Placed(nn.Module):
    """Such blocks behind a sum of what comes in with positions, or without one."""

    def __init__(self, positions: bool) -> None:
        super().__init__()
        self.first, self.blocks, self.end = nn.Linear(WIDTH, WIDTH), nn.ModuleList(Twice() for _ in range(DEPTH)), nn.LayerNorm(WIDTH)
        self.places = nn.Parameter(torch.randn(8, WIDTH)) if positions else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = x if self.places is None else x + self.places
        for block in self.blocks:
            x = block(x)
        return self.end(x)


@pytest.mark.parametrize("positions", [False, True])
def test_positions_make_no_sum_of_states_of_the_first_one(positions: bool) -> None:
    [stream] = _facts(Placed(positions)).streams
    assert stream.depth == DEPTH
    assert [(s.positions, s.alpha.kind) for k in stream.kinds for s in k.sublayers] == [(("A", "B"), "none")]
